// Moves hop by hop: transfer, account of the bus, comparison, commit, receipt. In that order, so
// that a wrong file never replaces a good one and nothing is called durable before it is.
#include "cli/copy_run.hpp"

#include <algorithm>
#include <utility>

#include "cli/peer_arguments.hpp"
#include "cli/problem_from.hpp"
#include "cli/progress.hpp"
#include "report/bus_report.hpp"

namespace nobounce::cli {

namespace {

constexpr std::uint64_t default_length_bytes = 256ULL << 20;
constexpr std::uint64_t look_interval_ns = 100ULL * 1000 * 1000;

bool has_cause(const Receipt& receipt, Cause cause) {
  const auto end = receipt.causes.begin() + receipt.cause_count;
  return std::find(receipt.causes.begin(), end, cause) != end;
}

/// What became of the file that a hop writes; empty where it writes none.
std::string left_behind(const std::string& path, bool in_place, const Receipt& receipt) {
  if (path.empty()) return {};
  if (!in_place || receipt.state == TransferState::refused) return path + " is as it was";
  const bool whole = receipt.state == TransferState::done;
  return path + (whole ? " was written in place, and all bytes are in it"
                       : " was written in place and may be half written: do not use it as it is");
}

}  // namespace

CopyRun::CopyRun(CommandContext& context, const CopyArguments& arguments, Session& session)
    : context_(context), arguments_(arguments), session_(session) {}

std::string CopyRun::label_of(std::size_t index) const {
  return stops_[index].argument.text + " -> " + stops_[index + 1].argument.text;
}

std::optional<Problem> CopyRun::interrupted(const Hop* hop, const Receipt* receipt) const {
  const int number = interrupts_.signal();
  if (number == 0) return std::nullopt;
  std::string left;
  if (hop != nullptr && hop->target_file.has_value()) {
    left = "; " + left_behind(hop->target_path, hop->target_file->written_in_place(),
                              receipt == nullptr ? Receipt{} : *receipt);
  }
  return Problem{Error{.origin = ErrorOrigin::session,
                       .attempted = "copy",
                       .cause = Cause::session_cancelled,
                       .detail = "interrupted by signal " + std::to_string(number),
                       .remedy = "run it again" + left},
                 exit_signal_base + number};
}

std::optional<Problem> CopyRun::allocate(Stop& stop) {
  // Memory of no bytes cannot be had; the place handed to the transfer is still empty.
  const std::uint64_t length = std::max<std::uint64_t>(length_bytes_, 1);
  Result<Region> region = stop.argument.kind == PlaceArgument::Kind::gpu
                              ? session_.allocate(stop.gpu, length)
                              : session_.allocate_host(length);
  if (!region.ok()) return problem_from(std::move(region).error());
  stop.region.emplace(std::move(region).value());
  return std::nullopt;
}

std::optional<Problem> CopyRun::connect(std::size_t index) {
  Stop& stop = stops_[index];
  Attempt<std::string> token = token_of(arguments_.peer, context_.live);
  if (auto* problem = std::get_if<Problem>(&token)) return std::move(*problem);
  ConnectOptions options;
  options.token = std::get<std::string>(token);
  options.adapters = arguments_.peer.adapters;
  if (arguments_.deadline_ns != 0)
    options.deadline_ns = std::min(options.deadline_ns, arguments_.deadline_ns);
  Result<Peer> peer = session_.connect(stop.argument.address, options);
  if (!peer.ok()) return problem_from(std::move(peer).error());
  stop.peer.emplace(std::move(*peer));
  // What is written to may be read from, too.
  const RemoteAccess access = index > 0 ? RemoteAccess::write : RemoteAccess::read;
  Result<RemoteRegion> region = stop.peer->open(stop.argument.name, access);
  if (!region.ok()) return problem_from(std::move(region).error());
  stop.remote.emplace(std::move(*region));
  return std::nullopt;
}

std::optional<Problem> CopyRun::take(Stop& stop) {
  Result<OwnedDrive> drive =
      session_.take_drive(stop.argument.address, DriveOptions{.take = arguments_.take});
  if (!drive.ok()) return problem_from(std::move(drive).error());
  const bool whole = length_bytes_ % drive->block_bytes() == 0;
  if (!whole || length_bytes_ > drive->length_bytes()) {
    return Problem{Error{
        .origin = ErrorOrigin::input,
        .attempted =
            "copy " + std::to_string(length_bytes_) + " bytes by way of " + stop.argument.text,
        .cause = whole ? Cause::none : Cause::nvme_unaligned,
        .detail = whole ? "the drive holds " + std::to_string(drive->length_bytes()) + " bytes"
                        : "the drive moves whole blocks of " +
                              std::to_string(drive->block_bytes()) + " bytes",
        .remedy = "--length, or a file of another length"}};
  }
  stop.drive.emplace(std::move(drive).value());
  return std::nullopt;
}

Place CopyRun::place_of(const Stop& stop, std::uint64_t length_bytes) {
  if (stop.drive.has_value()) return stop.drive->place(0, length_bytes);
  return stop.remote.has_value() ? stop.remote->place(0, length_bytes)
                                 : stop.region->place(0, length_bytes);
}

std::optional<Problem> CopyRun::prepare() {
  for (const std::string& text : arguments_.places) {
    Result<PlaceArgument> place = parse_place(text);
    if (!place.ok()) return Problem{std::move(place).error(), exit_usage};
    stops_.push_back({std::move(place).value(), 0, std::nullopt, std::nullopt});
  }
  for (Stop& stop : stops_) {
    if (stop.argument.kind != PlaceArgument::Kind::gpu) continue;
    Attempt<std::uint32_t> gpu = resolve_gpu(session_.machine(), stop.argument.text);
    if (auto* problem = std::get_if<Problem>(&gpu)) return std::move(*problem);
    stop.gpu = std::get<std::uint32_t>(gpu);
  }
  if (auto problem = unknown_adapter(arguments_.peer, *context_.machine.host)) return problem;
  for (std::size_t index = 0; index < stops_.size(); ++index) {
    if (stops_[index].argument.kind != PlaceArgument::Kind::remote) continue;
    if (auto problem = connect(index)) return problem;
  }
  const Stop& first = stops_.front();
  if (first.argument.kind == PlaceArgument::Kind::file) {
    if (arguments_.length_bytes.has_value()) {
      return usage_problem("copy " + first.argument.text,
                           "--length is for patterns; a file has a length of its own",
                           "leave out --length");
    }
    Result<File> file = session_.open_file(first.argument.text);
    if (!file.ok()) return problem_from(std::move(file).error());
    length_bytes_ = file->length_bytes();
    first_file_.emplace(std::move(file).value());
  } else if (first.remote.has_value()) {
    length_bytes_ = arguments_.length_bytes.value_or(first.remote->length_bytes());
  } else {
    length_bytes_ = arguments_.length_bytes.value_or(default_length_bytes);
  }
  for (const Stop& stop : stops_) {
    if (!stop.remote.has_value() || length_bytes_ <= stop.remote->length_bytes()) continue;
    return Problem{Error{
        .origin = ErrorOrigin::input,
        .attempted =
            "copy " + std::to_string(length_bytes_) + " bytes by way of " + stop.argument.text,
        .cause = Cause::remote_out_of_bounds,
        .detail = "it holds " + std::to_string(stop.remote->length_bytes()) + " bytes"}};
  }
  if (auto problem = try_later_targets()) return problem;
  for (Stop& stop : stops_) {
    if (stop.argument.kind == PlaceArgument::Kind::file || stop.remote.has_value()) continue;
    const bool drive = stop.argument.kind == PlaceArgument::Kind::drive;
    if (auto problem = drive ? take(stop) : allocate(stop)) return problem;
  }
  if (stops_.front().region.has_value() && length_bytes_ > 0) {
    const Status filled =
        session_.fill_pattern(stops_.front().region->place(0, length_bytes_), context_.seed);
    if (!filled.ok()) return problem_from(filled.error());
  }
  return interrupted();
}

std::optional<Problem> CopyRun::try_later_targets() {
  for (std::size_t index = 2; index < stops_.size(); ++index) {  // the first hop opens its own
    const PlaceArgument& place = stops_[index].argument;
    if (place.kind != PlaceArgument::Kind::file) continue;
    // In place, a file that is not there yet would stay behind: the directory is tried instead.
    const bool there = context_.machine.host->storage().status_of(place.text).ok();
    const FileMode mode = arguments_.in_place && there ? FileMode::in_place : FileMode::replace;
    const Result<File> file = session_.open_file(place.text, {.mode = mode, .length_bytes = 0});
    if (!file.ok()) return problem_from(file.error());
  }
  return std::nullopt;
}

std::optional<Problem> CopyRun::open_ends(std::size_t index, Hop& hop) {
  Stop& source = stops_[index];
  Stop& target = stops_[index + 1];
  if (source.argument.kind == PlaceArgument::Kind::file) {
    if (index == 0) {
      hop.source_file = std::move(first_file_);
      first_file_.reset();
    } else {
      Result<File> file = session_.open_file(source.argument.text);
      if (!file.ok()) return problem_from(std::move(file).error());
      hop.source_file.emplace(std::move(file).value());
    }
    hop.source = hop.source_file->place(0, length_bytes_);
  } else {
    hop.source = place_of(source, length_bytes_);
  }
  if (target.argument.kind == PlaceArgument::Kind::file) {
    Result<File> file = session_.open_file(
        target.argument.text, {.mode = arguments_.in_place ? FileMode::in_place : FileMode::replace,
                               .length_bytes = length_bytes_});
    if (!file.ok()) return problem_from(std::move(file).error());
    hop.target_file.emplace(std::move(file).value());
    hop.target = hop.target_file->place(0, length_bytes_);
    hop.target_path = target.argument.text;
  } else {
    hop.target = place_of(target, length_bytes_);
  }
  return std::nullopt;
}

Outcome CopyRun::wait_for(Transfer& transfer, const std::string& label) {
  Progress progress(context_.console, label, length_bytes_);
  bool cancelled = false;
  while (true) {
    std::optional<Outcome> outcome = transfer.wait(look_interval_ns);
    if (outcome.has_value()) return *std::move(outcome);
    progress.show(transfer.progress_bytes());
    if (!cancelled && interrupts_.signal() != 0) {
      transfer.cancel();
      cancelled = true;
    }
  }
}

std::optional<Problem> CopyRun::verify(const Hop& hop, report::NamedReceipt& receipt) {
  Progress progress(context_.console, receipt.source + " -> " + receipt.target, length_bytes_);
  progress.show_phase("comparing");
  const Result<std::string> source = session_.checksum(hop.source);
  if (!source.ok()) return problem_from(source.error());
  const Result<std::string> target = session_.checksum(hop.target);
  if (!target.ok()) return problem_from(target.error());
  receipt.verified = *source == *target;
  if (*receipt.verified) return std::nullopt;
  return Problem{difference(hop, receipt, *source, *target)};
}

Error CopyRun::difference(const Hop& hop, const report::NamedReceipt& receipt,
                          const std::string& source, const std::string& target) {
  const bool changed = has_cause(receipt.receipt, Cause::file_changed);
  const bool kept = hop.target_file.has_value() && !hop.target_file->written_in_place();
  return Error{
      .origin = ErrorOrigin::session,
      .attempted = "compare " + receipt.source + " with " + receipt.target,
      .cause = changed ? Cause::file_changed : Cause::none,
      .detail =
          std::string(changed ? "the source changed while it was being read" : "THE BYTES DIFFER") +
          ": checksum " + source + " at the source, " + target + " at the target",
      .remedy = std::string(kept ? "the target file is as it was" : "do not use the target") +
                (changed ? "; run it again when nobody writes to the source"
                         : "; run it again with --policy staged_only to see whether the direct "
                           "path is at fault")};
}

std::optional<Problem> CopyRun::commit(Hop& hop, report::NamedReceipt& receipt) {
  if (!hop.target_file.has_value()) return std::nullopt;
  const Status committed = hop.target_file->commit(arguments_.durable);
  if (!committed.ok()) return problem_from(committed.error());
  receipt.receipt.durable = arguments_.durable;
  return std::nullopt;
}

Problem CopyRun::problem_of(const Hop& hop, const Outcome& outcome) const {
  if (auto problem = interrupted(&hop, &outcome.receipt)) return *std::move(problem);
  // The policy admits staging, only there is no memory to stage through: a limit, not a refusal.
  if (outcome.error->origin == ErrorOrigin::policy &&
      arguments_.policy != Policy::direct_required &&
      has_cause(outcome.receipt, Cause::session_pinned_limit)) {
    return Problem{Error{.origin = ErrorOrigin::session,
                         .attempted = outcome.error->attempted,
                         .cause = Cause::session_pinned_limit,
                         .detail = std::string(cause_row(Cause::session_pinned_limit).sentence),
                         .remedy = "ulimit -l shows the limit of locked memory; a smaller "
                                   "--slot-bytes needs less"}};
  }
  Error error = *outcome.error;
  if (hop.target_file.has_value() && hop.target_file->written_in_place() &&
      outcome.receipt.state != TransferState::refused) {
    if (error.detail.empty() && error.cause != Cause::none)
      error.detail = std::string(cause_row(error.cause).sentence);
    error.detail +=
        (error.detail.empty() ? "" : "; ") + left_behind(hop.target_path, true, outcome.receipt);
  }
  return problem_from(std::move(error));
}

std::optional<Problem> CopyRun::move(std::size_t index) {
  Hop hop;
  if (auto problem = open_ends(index, hop)) return problem;
  std::optional<BusWatch> bus;
  if (arguments_.ledger) bus.emplace(*context_.machine.soft);
  Result<Transfer> transfer = session_.start(
      hop.source, hop.target, {.policy = arguments_.policy, .deadline_ns = arguments_.deadline_ns});
  if (!transfer.ok()) return problem_from(std::move(transfer).error());
  const Outcome outcome = wait_for(*transfer, label_of(index));
  std::optional<report::BusAccount> account;
  if (bus.has_value()) account = bus->account();

  report::NamedReceipt receipt{.receipt = outcome.receipt,
                               .source = session_.name_of(outcome.receipt.source),
                               .target = session_.name_of(outcome.receipt.target),
                               .machine = context_.machine.label,
                               .verified = std::nullopt};
  std::optional<Problem> problem;
  if (!outcome.ok()) problem = problem_of(hop, outcome);
  if (!problem && arguments_.verify) problem = verify(hop, receipt);
  if (!problem) problem = interrupted(&hop, &outcome.receipt);
  if (!problem) problem = commit(hop, receipt);
  receipts_.push_back(receipt);
  if (account.has_value()) account->arrived = bus->arrived(hop.target, hop.target_path, hop.source);
  if (account.has_value() && std::holds_alternative<RemoteMemory>(hop.target))
    account->not_compared = arrived_elsewhere;
  print(receipt, account);
  return problem;
}

void CopyRun::print(const report::NamedReceipt& receipt,
                    const std::optional<report::BusAccount>& account) {
  Console& console = context_.console;
  if (console.json()) return;
  console.text(receipts_.size() == 1 ? report::banner(context_.machine.label, console.style())
                                     : "\n");
  console.text(report::receipt_text(receipt, console.style()));
  if (account.has_value()) {
    console.text(report::bus_text(*account, receipt.receipt, console.style()));
  }
}

std::optional<Problem> CopyRun::run() {
  for (std::size_t index = 0; index + 1 < stops_.size(); ++index) {
    if (auto problem = move(index)) return problem;
  }
  return std::nullopt;
}

}  // namespace nobounce::cli
