// `nobounce serve`: offers memory to other processes, and prints what they do with it.
#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include <nobounce/peer.hpp>
#include <nobounce/session.hpp>
#include "cli/bus_account.hpp"
#include "cli/commands.hpp"
#include "cli/peer_arguments.hpp"
#include "cli/place_argument.hpp"
#include "cli/problem_from.hpp"
#include "report/bus_report.hpp"
#include "report/server_report.hpp"
#include "system/terminal.hpp"

namespace nobounce::cli {

namespace {

constexpr std::uint64_t served_length_bytes = 256ULL << 20;
constexpr std::uint64_t serve_look_interval_ns = 100ULL * 1000 * 1000;

report::ServerEventView view_of(const ServerEvent& event, const report::MachineLabel& machine) {
  report::ServerEventView view{.event = std::string(to_string(event.kind)),
                               .connection = event.connection,
                               .address = event.address,
                               .peer = event.peer,
                               .name = event.name,
                               .source = event.source,
                               .target = event.target,
                               .requested_bytes = event.requested_bytes,
                               .receipt = std::nullopt,
                               .error = event.error};
  if (event.receipt.has_value()) {
    view.receipt = report::NamedReceipt{.receipt = *event.receipt,
                                        .source = event.source,
                                        .target = event.target,
                                        .machine = machine,
                                        .verified = std::nullopt};
  }
  return view;
}

/// How a run with --once ends: as the worst of its client's transfers did.
int exit_code_of(const ServerEvent& event) {
  if (event.kind == ServerEvent::Kind::lost) return exit_error;
  if (event.kind != ServerEvent::Kind::ended) return exit_done;
  switch (event.receipt->state) {
    case TransferState::done:
      return exit_done;
    case TransferState::refused:
      return exit_refused;
    case TransferState::failed:
    case TransferState::cancelled:
      break;
  }
  return exit_error;
}

int worse(int first, int second) {
  if (first == exit_error || second == exit_error) return exit_error;
  return std::max(first, second);
}

/// Memory that is served, and the events of its server.
class ServeRun {
 public:
  ServeRun(CommandContext& context, const ServeArguments& arguments)
      : context_(context), arguments_(arguments) {}

  int run();

 private:
  [[nodiscard]] std::optional<Problem> prepare();
  [[nodiscard]] std::optional<Problem> listen();
  [[nodiscard]] std::optional<ServerEvent> next_event(std::uint64_t timeout_ns);
  void print(const ServerEvent& event);
  void watch_bus();
  void print_bus(const ServerEvent& ended);
  /// Whether it was the end of the only client that was waited for.
  [[nodiscard]] bool is_last(const ServerEvent& event) const;

  CommandContext& context_;
  const ServeArguments& arguments_;
  system::InterruptWatch interrupts_;
  std::optional<Session> session_;
  std::optional<Region> region_;
  std::optional<Server> server_;
  std::optional<Export> export_;
  std::deque<ServerEvent> ahead_;  ///< taken from the server, not printed yet
  std::optional<BusWatch> bus_;
  int under_way_ = 0;     ///< transfers that have begun and not ended, as far as was printed
  bool crowded_ = false;  ///< the ledger has more in it than one transfer
};

std::optional<Problem> ServeRun::prepare() {
  if (arguments_.ledger && context_.machine.soft == nullptr) {
    return usage_problem("read --ledger", "only a software machine keeps a bus ledger",
                         "--ledger together with --machine soft:workstation");
  }
  if (arguments_.ledger && context_.console.json()) {
    return usage_problem("read --ledger with --json", "the bus ledger is printed as text only",
                         "leave out one of them");
  }
  Result<PlaceArgument> place = parse_place(arguments_.place);
  if (!place.ok()) return Problem{std::move(place).error(), exit_usage};
  if (place->kind != PlaceArgument::Kind::gpu && place->kind != PlaceArgument::Kind::host) {
    return usage_problem("serve " + arguments_.place, "only memory can be served",
                         "--place gpu:0 or --place host");
  }
  if (auto problem = unknown_adapter(arguments_.peer, *context_.machine.host)) return problem;
  SessionOptions options;
  options.warn_on_close = false;
  Result<Session> session = Session::open(*context_.machine.host, options);
  if (!session.ok()) return problem_from(std::move(session).error());
  session_.emplace(std::move(*session));
  const std::uint64_t length = arguments_.length_bytes.value_or(served_length_bytes);
  std::optional<Result<Region>> region;
  if (place->kind == PlaceArgument::Kind::gpu) {
    Attempt<std::uint32_t> gpu = resolve_gpu(session_->machine(), place->text);
    if (auto* problem = std::get_if<Problem>(&gpu)) return std::move(*problem);
    region.emplace(session_->allocate(std::get<std::uint32_t>(gpu), length));
  } else {
    region.emplace(session_->allocate_host(length));
  }
  if (!region->ok()) return problem_from(region->error());
  region_.emplace(std::move(**region));
  const Status filled = session_->fill_pattern(region_->place(), context_.seed);
  if (!filled.ok()) return problem_from(filled.error());
  return std::nullopt;
}

std::optional<Problem> ServeRun::listen() {
  Attempt<std::string> token = token_of(arguments_.peer, context_.live);
  if (auto* problem = std::get_if<Problem>(&token)) return std::move(*problem);
  ListenOptions options;
  options.address = arguments_.listen;
  options.token = std::get<std::string>(token);
  options.connections_max = arguments_.connections_max;
  options.policy = arguments_.policy;
  options.adapters = arguments_.peer.adapters;
  Result<Server> server = session_->listen(options);
  if (!server.ok()) {
    const bool usage = server.error().origin == ErrorOrigin::input;
    return Problem{server.error(), usage ? exit_usage : exit_error};
  }
  server_.emplace(std::move(*server));
  Result<Export> offered = server_->serve(*region_, arguments_.name, arguments_.access);
  if (!offered.ok()) {
    Error error = std::move(offered).error();
    if (error.origin == ErrorOrigin::input && error.remedy.empty()) error.remedy = "--name weights";
    return Problem{std::move(error), exit_usage};
  }
  export_.emplace(std::move(*offered));
  if (arguments_.ledger) watch_bus();  // before anybody knows the address
  const report::ServerView view{.address = server_->address(),
                                .name = arguments_.name,
                                .place = arguments_.place,
                                .access = std::string(to_string(arguments_.access)),
                                .length_bytes = region_->length_bytes(),
                                .token_given = !options.token.empty(),
                                .machine = context_.machine.label};
  if (context_.console.json()) {
    context_.console.line(report::server_json(view));
  } else {
    context_.console.text(report::server_text(view, context_.console.style()));
    context_.console.flush();
  }
  return std::nullopt;
}

void ServeRun::print(const ServerEvent& event) {
  const report::ServerEventView view = view_of(event, context_.machine.label);
  if (context_.console.json()) {
    context_.console.line(report::server_event_json(view));
    return;
  }
  const bool over = event.kind == ServerEvent::Kind::ended || event.kind == ServerEvent::Kind::lost;
  if (event.kind == ServerEvent::Kind::began) crowded_ = ++under_way_ > 1 || crowded_;
  if (over && under_way_ > 0) --under_way_;
  context_.console.text(report::server_event_text(view, context_.console.style()));
  if (over && bus_.has_value()) {
    if (event.kind == ServerEvent::Kind::ended) print_bus(event);
    watch_bus();
  }
  context_.console.flush();
}

/// From the end of one transfer on: when its client begins the next one is known only afterwards.
void ServeRun::watch_bus() {
  bus_.emplace(*context_.machine.soft);
  while (std::optional<ServerEvent> event = server_->next_event())
    ahead_.push_back(std::move(*event));
  crowded_ = under_way_ > 0 || std::any_of(ahead_.begin(), ahead_.end(), [](const auto& event) {
               return event.kind == ServerEvent::Kind::began;
             });
}

void ServeRun::print_bus(const ServerEvent& ended) {
  const Receipt receipt = ended.receipt.value_or(Receipt{});
  report::BusAccount account = bus_->account();
  while (std::optional<ServerEvent> event = server_->next_event())
    ahead_.push_back(std::move(*event));
  crowded_ = crowded_ || std::any_of(ahead_.begin(), ahead_.end(), [](const auto& event) {
               return event.kind == ServerEvent::Kind::began;
             });
  if (receipt.target.kind == DeviceRef::Kind::remote) {
    account.not_compared = arrived_elsewhere;
  } else if (crowded_) {
    account.not_compared = "another transfer was under way too";
  } else {
    account.arrived = bus_->arrived(region_->place(), "", Place{HostMemory{}});
  }
  context_.console.text(report::bus_text(account, receipt, context_.console.style()));
}

std::optional<ServerEvent> ServeRun::next_event(std::uint64_t timeout_ns) {
  if (ahead_.empty()) return server_->next_event(timeout_ns);
  std::optional<ServerEvent> event = std::move(ahead_.front());
  ahead_.pop_front();
  return event;
}

bool ServeRun::is_last(const ServerEvent& event) const {
  return arguments_.once && event.kind == ServerEvent::Kind::disconnected;
}

int ServeRun::run() {
  if (auto problem = prepare()) return context_.console.problem(*problem);
  if (auto problem = listen()) return context_.console.problem(*problem);
  int exit_code = exit_done;
  while (interrupts_.signal() == 0) {
    const std::optional<ServerEvent> event = next_event(serve_look_interval_ns);
    if (!event.has_value()) continue;
    print(*event);
    if (arguments_.once) exit_code = worse(exit_code, exit_code_of(*event));
    if (is_last(*event)) break;
  }
  export_.reset();
  while (const std::optional<ServerEvent> event = next_event(0)) print(*event);
  return exit_code;
}

}  // namespace

int run_serve(CommandContext& context, const ServeArguments& arguments) {
  return ServeRun(context, arguments).run();
}

}  // namespace nobounce::cli
