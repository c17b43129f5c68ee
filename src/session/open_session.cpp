// Session::open and its end.
#include <string>
#include <utility>

#include "preconditions/read_facts.hpp"
#include "preconditions/read_peer_facts.hpp"
#include "session/remotes.hpp"
#include "session/session_state.hpp"
#include "topology/read_machine.hpp"

namespace nobounce {

using session::SessionState;

namespace {

constexpr std::uint64_t slot_granularity_bytes = 4096;

Status check_options(const SessionOptions& options) {
  if (options.slot_bytes == 0 || options.slot_bytes % slot_granularity_bytes != 0) {
    return Error{
        .origin = ErrorOrigin::input,
        .attempted = "open a session with slot_bytes " + std::to_string(options.slot_bytes),
        .detail = "a slot must be a positive multiple of 4096 bytes"};
  }
  // Direct pairs need it too: the owner of the memory reads a probe back through it.
  if (options.pinned_bytes_max < options.slot_bytes) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "open a session with pinned_bytes_max " +
                              std::to_string(options.pinned_bytes_max) + " and slot_bytes " +
                              std::to_string(options.slot_bytes),
                 .cause = Cause::session_pinned_limit,
                 .detail = "bounce memory must hold one slot: to stage, and to probe direct pairs"};
  }
  return {};
}

/// Transfers count however they ended: one that was cancelled may have staged, too.
std::string closing_line(const LedgerSnapshot& ledger) {
  const std::uint64_t ended = ledger.transfers_done + ledger.transfers_refused +
                              ledger.transfers_failed + ledger.transfers_cancelled;
  std::string line = "nobounce: " + std::to_string(ledger.staged_under_preferred) + " of " +
                     std::to_string(ended) + " transfers went through host memory (" +
                     std::to_string(ledger.bytes[Carriage::staged]) + " bytes staged)";
  if (ledger.staged_cause != Cause::none) {
    line += std::string(ledger.staged_under_preferred > 1 ? "; the last because of " : ": ") +
            std::string(to_string(ledger.staged_cause));
  }
  return line + "; the receipts say why (SessionOptions::warn_on_close silences this line)";
}

}  // namespace

Result<Session> Session::open(system::Host& host, const SessionOptions& options) {
  if (Status checked = check_options(options); !checked.ok()) return checked.error();
  if (host.kind() == HostKind::recorded) {
    return Error{.origin = ErrorOrigin::session,
                 .attempted = "open a session on a recording",
                 .detail = "a recording can be judged and reported, not asked to move bytes"};
  }
  auto state = std::make_unique<SessionState>(host, options);
  state->process_id = host.process().id();
  // First of all: it sets an environment variable, which is safe only before CUDA starts threads.
  state->cufile_configuration =
      provider::CufileConfiguration::install(host, options.configure_cufile);
  Result<Machine> machine = topology::read_machine(host);
  if (!machine.ok()) return std::move(machine).error();
  state->machine = std::move(*machine);
  Result<std::unique_ptr<system::CudaContexts>> contexts =
      system::CudaContexts::open(host, state->machine);
  if (contexts.ok()) {
    state->contexts = std::move(*contexts);
    state->given_up.add(state->contexts->strays());
  } else {
    state->cuda_error = std::move(contexts).error();
    if (state->cuda_error->cause == Cause::none) state->cuda_error->cause = Cause::machine_no_gpu;
  }
  state->facts = preconditions::read_host_facts(host, state->machine, state->contexts != nullptr);
  state->facts.peers =
      preconditions::read_peer_facts(host, state->machine, state->contexts != nullptr);
  state->facts.storage.cufile_config_ours = state->cufile_configuration->ours();
  state->providers = session::make_providers(*state);
  state->dispatcher =
      std::make_unique<session::Dispatcher>(state->host.clock(), state->providers.all());
  state->ledger = std::make_unique<session::SessionLedger>(host, options.publish_ledger);
  return Session(std::move(state));
}

Session::Session(std::unique_ptr<SessionState> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;

Session& Session::operator=(Session&& other) noexcept {
  if (this != &other) {
    Session ended(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}

Session::~Session() {
  if (state_ == nullptr) return;
  if (state_->forked()) {
    // The driver's threads and contexts do not exist in a child: touch nothing, and leave the
    // memory to its exit.
    state_->ledger->abandon();
    (void)state_.release();
    return;
  }
  const LedgerSnapshot ledger = state_->ledger->snapshot();
  if (!session::end_given_up(*state_)) {
    session::keep_for_good(std::move(state_));
    return;
  }
  session::close_session(*state_);
  if (state_->options.warn_on_close && ledger.staged_under_preferred > 0) {
    state_->host.process().warn(closing_line(ledger));
  }
}

const Machine& Session::machine() const {
  return state_->machine;
}
HostKind Session::host_kind() const {
  return state_->host.kind();
}
LedgerSnapshot Session::ledger() const {
  return state_->ledger->snapshot();
}

ReceiptNames Session::names_of(const Receipt& receipt) const {
  return {.source = name_of(receipt.source),
          .target = name_of(receipt.target),
          .machine_kind = std::string(to_string(state_->host.kind())),
          .machine_name = std::string(state_->host.name())};
}

std::string Session::name_of(DeviceRef device) const {
  switch (device.kind) {
    case DeviceRef::Kind::none:
      return "none";
    case DeviceRef::Kind::host:
      return "host";
    case DeviceRef::Kind::file: {
      const system::OpenFile* file = state_->files.find(device.index);
      return file == nullptr ? "file" : "file:" + file->path;
    }
    case DeviceRef::Kind::remote:
      return state_->remotes->name_of(device);
    default:
      return device_name(state_->machine, device);
  }
}

}  // namespace nobounce
