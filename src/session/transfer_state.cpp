// The life of one transfer: submit, gather, re-route if the policy allows, finish with a receipt.
#include "session/transfer_state.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "session/check.hpp"
#include "session/file_names.hpp"
#include "session/file_state.hpp"
#include "session/pairs.hpp"
#include "session/peer_connection.hpp"
#include "session/region_state.hpp"
#include "session/remotes.hpp"
#include "session/server_state.hpp"

namespace nobounce::session {
namespace {

/// Progress and cancellation grain; a multiple of any alignment. Between GPUs pieces are longer,
/// because each costs as much as a fast link needs for a MiB. Nobody can stop a transfer that a
/// thread attends without a deadline: it needs pieces only to show how far it is.
constexpr std::uint64_t piece_bytes = 64u << 20;
constexpr std::uint64_t peer_piece_bytes = 256u << 20;
constexpr std::uint64_t under_way_bytes_most = 1u << 30;
/// At least two are under way, which together are no more than that.
constexpr std::uint64_t attended_piece_bytes = under_way_bytes_most / 2;
/// Up to so many bytes a thread waits in the driver, which looks without a pause. Beyond it looks
/// by itself, for so long without a pause, because a whole core is too much for what takes long.
constexpr std::uint64_t rest_bytes_most = 1u << 30;
constexpr std::uint64_t closely_ns = 4'000'000;
constexpr std::uint64_t after_deadline_ns = 10'000'000;

bool carried_directly(const CarriageBytes& bytes) {
  return bytes[Carriage::direct] + bytes[Carriage::device_bounced] > 0;
}

const RemoteMemory* remote_end(const TransferState_& transfer) {
  const auto* source = std::get_if<RemoteMemory>(&transfer.source);
  return source != nullptr ? source : std::get_if<RemoteMemory>(&transfer.target);
}

}  // namespace

bool overlaps(const Place& first, const Place& second) {
  if (const auto* a = std::get_if<GpuMemory>(&first)) {
    const auto* b = std::get_if<GpuMemory>(&second);
    return b != nullptr && a->gpu == b->gpu &&
           a->address.value < b->address.value + b->length_bytes &&
           b->address.value < a->address.value + a->length_bytes;
  }
  if (const auto* a = std::get_if<HostMemory>(&first)) {
    const auto* b = std::get_if<HostMemory>(&second);
    return b != nullptr && a->address < b->address + b->length_bytes &&
           b->address < a->address + a->length_bytes;
  }
  if (const auto* a = std::get_if<FileRange>(&first)) {
    const auto* b = std::get_if<FileRange>(&second);
    return b != nullptr && a->file == b->file;
  }
  if (const auto* a = std::get_if<BlockRange>(&first)) {
    const auto* b = std::get_if<BlockRange>(&second);
    return b != nullptr && a->drive == b->drive;
  }
  return false;
}

TransferState_::TransferState_(SessionState& on, TransferPlan planned, Place from, Place to,
                               Policy chosen, std::uint64_t deadline, TransferOwner* told)
    : session(on),
      plan(std::move(planned)),
      source(from),
      target(to),
      policy(chosen),
      deadline_ns_(deadline),
      owner_(told) {
  receipt_.transfer_id = session.next_transfer++;
  receipt_.requested_bytes = length_bytes(source);
  receipt_.member = plan.common->route.member;
  receipt_.policy = policy;
  receipt_.source = plan.common->source;
  receipt_.target = plan.common->target;
  receipt_.software_machine = session.host.kind() == HostKind::soft;
  receipt_.segments = static_cast<std::uint16_t>(plan.cut.segments.size());
  for (const Cause cause : plan.common->route.causes) receipt_.add_cause(cause);
  if (plan.cut.unaligned) receipt_.add_cause(Cause::storage_unaligned);
  ++session.handles;
  const std::scoped_lock lock(session.dispatcher->mutex());
  session.ledger->start();
  running_index = session.running.size();
  session.running.push_back(this);
}

TransferState_::~TransferState_() {
  if (session.forked()) return;
  check(done, "a transfer was dropped before its end");
  // Another thread may have seen it done a moment ago and still be on its way out of finish(),
  // which it leaves under this lock.
  if (!ended_here_) {
    const std::scoped_lock leaving(session.dispatcher->mutex());
  }
  --session.handles;
}

void TransferState_::ordered_by(Issuer issuer, Poster poster, Cause why) {
  receipt_.issuer = issuer;
  receipt_.poster = poster;
  receipt_.add_cause(why);
}

void TransferState_::begin(const std::optional<core::Confirmed>& confirmed) {
  const std::scoped_lock lock(session.dispatcher->mutex());
  receipt_.started_ns = session.host.clock().now_ns();
  if (deadline_ns_ != 0 && receipt_.started_ns >= deadline_ns_ && !cancelled_because_.has_value())
    cancelled_because_ = Cause::session_deadline_passed;
  if (plan.common->route.refused || receipt_.requested_bytes == 0 ||
      cancelled_because_.has_value()) {
    finish();
    return;
  }
  announce();
  beginning_ = true;
  confirmed_ = confirmed;
  refill();
  beginning_ = false;
  if (attended_) first_rest_ = next_rest();
  confirmed_.reset();
}

std::uint64_t TransferState_::piece_bytes_of(ProviderKind provider) const {
  if (attended_ && deadline_ns_ == 0) return attended_piece_bytes;
  return provider == ProviderKind::peer ? peer_piece_bytes : piece_bytes;
}

std::optional<Segment> TransferState_::next_piece() {
  while (segment_index_ < plan.cut.segments.size()) {
    const Segment& segment = plan.cut.segments[segment_index_];
    if (segment_done_bytes_ >= segment.length_bytes) {
      ++segment_index_;
      segment_done_bytes_ = 0;
      continue;
    }
    const std::uint64_t most = piece_bytes_of(segment.provider);
    const std::uint64_t length = std::min(most, segment.length_bytes - segment_done_bytes_);
    if (length == segment.length_bytes && !direct_given_up_) {
      ++segment_index_;
      return segment;
    }
    Segment piece = segment;
    piece.offset_bytes = segment.offset_bytes + segment_done_bytes_;
    piece.length_bytes = length;
    piece.source = part_of(segment.source, segment_done_bytes_, length);
    piece.target = part_of(segment.target, segment_done_bytes_, length);
    segment_done_bytes_ += length;
    if (direct_given_up_) {
      piece.provider = ProviderKind::staged;
      piece.expected = Carriage::staged;
    }
    return piece;
  }
  return std::nullopt;
}

void TransferState_::refill() {
  if (submitting_) return;  // a provider completed inside submit: the outer call goes on
  submitting_ = true;
  const std::uint64_t longest =
      plan.cut.segments.empty() ? piece_bytes : piece_bytes_of(plan.cut.segments[0].provider);
  const std::size_t pieces_most =
      std::clamp<std::size_t>(under_way_bytes_most / longest, 2, pending_most);
  while (!first_error_.has_value() && !cancelled_because_.has_value() &&
         pending_.size() < pieces_most) {
    const std::optional<Segment> piece = next_piece();
    if (!piece.has_value()) break;
    submit(*piece);
  }
  submitting_ = false;
  if (pending_.empty()) finish();
}

void TransferState_::submit(const Segment& segment) {
  core::Provider* provider = session.providers.of(segment);
  check(provider != nullptr, "a route names a provider that this session does not have");
  const core::OperationId id = session.dispatcher->expect(*this);
  pending_.push_back(Pending{id, segment});
  core::Operation operation{.id = id, .segment = segment, .deadline_ns = deadline_ns_};
  operation.attended = attended_;
  if (beginning_) {
    operation.submitted_ns = receipt_.started_ns;
    operation.confirmed = confirmed_;
  }
  provider->submit(std::span(&operation, 1));
}

bool TransferState_::may_stage_instead(const core::Completion& completion,
                                       const Segment& segment) const {
  // A drive of ours cannot be read by way of a file: there is nothing to go back to.
  if (segment.provider == ProviderKind::nvme) return false;
  if (segment.provider == ProviderKind::staged || policy != Policy::direct_preferred) return false;
  switch (completion.error->cause) {
    case Cause::file_shorter_than_expected:
    case Cause::file_changed:
    case Cause::session_cancelled:
    case Cause::session_deadline_passed:
    case Cause::remote_peer_lost:
    case Cause::remote_revoked:
    case Cause::rdma_retry_exceeded:
      return false;
    default:
      return completion.error->origin == ErrorOrigin::cufile ||
             completion.error->origin == ErrorOrigin::os ||
             completion.error->origin == ErrorOrigin::verbs ||
             segment.provider == ProviderKind::peer;
  }
}

void TransferState_::note_failure(const Pending& pending, const core::Completion& completion) {
  if (may_stage_instead(completion, pending.segment) && !cancelled_because_.has_value()) {
    // The whole piece is moved again, so what had arrived of it directly does not count: it is
    // overwritten.
    direct_given_up_ = true;
    if (const auto pair = pair_of(session, source, target)) {
      receipt_.add_cause(
          disbelieve(session, *pair, *completion.error, "an earlier transfer of this session"));
    } else {
      const Cause why = completion.error->cause;
      receipt_.add_cause(why == Cause::none ? Cause::rdma_completion_error : why);
    }
    Segment again = pending.segment;
    again.provider = ProviderKind::staged;
    again.expected = Carriage::staged;
    submit(again);
    return;
  }
  take(completion);
  if (!first_error_.has_value()) {
    first_error_ = completion.error;
    stop_pending();
  }
}

void TransferState_::enforce_policy(const core::Completion& completion) {
  const CarriageBytes& bytes = completion.bytes;
  const std::uint64_t admitted = bytes[Carriage::direct] + bytes[Carriage::device_bounced];
  if (policy != Policy::direct_required || admitted == bytes.total()) return;
  if (first_error_.has_value()) return;
  // Too late to refuse: the bytes have moved, and the receipt counts them as what they are.
  first_error_ =
      Error{.origin = ErrorOrigin::policy,
            .attempted = describe_transfer(session, source, target) + " under direct_required",
            .cause = completion.cause};
  stop_pending();
}

void TransferState_::take(const core::Completion& completion) {
  receipt_.bytes += completion.bytes;
  arrived_bytes += completion.bytes.total();
  session.ledger->arrived(receipt_.member, completion.bytes, completion.pinned_bytes);
}

void TransferState_::on_completion(const core::Completion& completion) {
  const auto found = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& pending) {
    return pending.id == completion.id;
  });
  check(found != pending_.end(), "a completion came for an operation of another transfer");
  const Pending pending = *found;
  pending_.erase(found);
  receipt_.pinned_bytes = std::max(receipt_.pinned_bytes, completion.pinned_bytes);
  ended_ns_ = completion.ended_ns;
  if (completion.error.has_value()) {
    note_failure(pending, completion);
  } else {
    const bool first = receipt_.bytes.total() == 0;
    take(completion);
    if (completion.bytes.total() > 0) {
      receipt_.known = first ? completion.known : std::min(receipt_.known, completion.known);
    }
    receipt_.add_cause(completion.cause);
    enforce_policy(completion);
  }
  refill();
}

void TransferState_::stop_pending() {
  for (const Pending& pending : pending_) session.providers.of(pending.segment)->cancel(pending.id);
}

void TransferState_::cancel(Cause why) {
  const std::scoped_lock lock(session.dispatcher->mutex());
  if (done || cancelled_because_.has_value()) return;
  cancelled_because_ = why;
  stop_pending();
}

bool TransferState_::give_up() {
  const std::scoped_lock lock(session.dispatcher->mutex());
  given_up = !done;
  return given_up;
}

/// How what has arrived went: also of a transfer that nobody waits for any more.
void TransferState_::note_arrival(Receipt& receipt) const {
  const Route& route = plan.common->route;
  const CarriageBytes& arrived = receipt.bytes;
  receipt.degraded = route.degraded && carried_directly(arrived);
  // Bytes that were staged in the end, planned or not, went the worse way: the receipt names that.
  const bool staged = arrived[Carriage::staged] + arrived[Carriage::unattributed] > 0;
  if (arrived.total() > 0) receipt.link = staged ? plan.common->staged_link : route.link;
  const DeviceRef target_device = plan.common->target;
  if (target_device.kind != DeviceRef::Kind::file) return;
  const FileEntry* file = session.files.entry(target_device.index);
  if (file != nullptr && file->written_in_place) receipt.add_cause(Cause::file_written_in_place);
}

std::optional<Outcome> TransferState_::give_up_because(Cause why) {
  const std::scoped_lock lock(session.dispatcher->mutex());
  if (done) return std::nullopt;
  given_up = true;
  Outcome left{receipt_, std::nullopt};
  left.receipt.state = TransferState::cancelled;
  left.receipt.add_cause(why);
  left.receipt.elapsed_ns = session.host.clock().now_ns() - receipt_.started_ns;
  note_arrival(left.receipt);
  left.error = Error{.origin = ErrorOrigin::session,
                     .attempted = describe_transfer(session, source, target),
                     .cause = why,
                     .detail = std::to_string(receipt_.bytes.total()) +
                               " bytes had arrived; what moves the rest does not answer, and it "
                               "may still arrive"};
  return left;
}

void TransferState_::fail(const Error& why) {
  if (done || first_error_.has_value()) return;
  first_error_ = why;
  stop_pending();
}

bool TransferState_::uses_peer(std::uint32_t number) const {
  const RemoteMemory* const remote = remote_end(*this);
  return remote != nullptr && remote->peer == number;
}

void TransferState_::announce() {
  const RemoteMemory* const remote = remote_end(*this);
  PeerConnection* const peer = remote == nullptr ? nullptr : session.remotes->find(remote->peer);
  if (peer == nullptr) return;
  announced_ = true;
  peer->announce({.transfer = receipt_.transfer_id,
                  .key = remote->key,
                  .direction = std::holds_alternative<RemoteMemory>(target) ? wire::Direction::write
                                                                            : wire::Direction::read,
                  .offset_bytes = remote->address,
                  .length_bytes = receipt_.requested_bytes,
                  .expected = plan.cut.segments[0].expected,
                  .causes = plan.common->route.causes});
}

void TransferState_::report() {
  const RemoteMemory* const remote = remote_end(*this);
  PeerConnection* const peer = remote == nullptr ? nullptr : session.remotes->find(remote->peer);
  if (peer == nullptr) return;
  peer->report(
      {.transfer = receipt_.transfer_id,
       .key = remote->key,
       .direction = std::holds_alternative<RemoteMemory>(target) ? wire::Direction::write
                                                                 : wire::Direction::read,
       .state = receipt_.state,
       .policy = receipt_.policy,
       .link = receipt_.link,
       .requested_bytes = receipt_.requested_bytes,
       .elapsed_ns = receipt_.elapsed_ns,
       .bytes = receipt_.bytes,
       .causes = {receipt_.causes.begin(), receipt_.causes.begin() + receipt_.cause_count}});
}

/// Of what was under way to or from a peer when it ended badly, more may have arrived than anybody
/// counted.
void TransferState_::note_partial_arrival() {
  const bool badly =
      receipt_.state == TransferState::failed || receipt_.state == TransferState::cancelled;
  if (announced_ && badly) receipt_.add_cause(Cause::remote_partial_arrival);
}

void TransferState_::note_changed_source() {
  const auto* range = std::get_if<FileRange>(&source);
  if (range == nullptr || receipt_.bytes.total() == 0) return;
  if (changed_since_opening(session, range->file)) receipt_.add_cause(Cause::file_changed);
}

void TransferState_::finish() {
  if (done) return;
  const Route& route = plan.common->route;
  // Providers read the clock anyway whenever they look.
  if (ended_ns_ == 0) ended_ns_ = session.host.clock().now_ns();
  receipt_.elapsed_ns = std::max(ended_ns_, receipt_.started_ns) - receipt_.started_ns;
  note_changed_source();
  note_arrival(receipt_);
  if (route.refused) {
    receipt_.state = TransferState::refused;
    const Cause cause =
        receipt_.cause_count > 0 ? receipt_.causes[0] : Cause::policy_direct_required;
    first_error_ = Error{.origin = ErrorOrigin::policy,
                         .attempted = describe_transfer(session, source, target) + " under " +
                                      std::string(to_string(policy)),
                         .cause = cause,
                         .detail = std::string(cause_row(cause).sentence)};
  } else if (receipt_.bytes.total() == receipt_.requested_bytes && !first_error_.has_value()) {
    receipt_.state = TransferState::done;
    cancelled_because_.reset();  // it came too late
  } else if (cancelled_because_.has_value() ||
             (first_error_.has_value() &&
              (first_error_->cause == Cause::session_cancelled ||
               first_error_->cause == Cause::session_deadline_passed))) {
    receipt_.state = TransferState::cancelled;
    const Cause why = cancelled_because_.has_value() ? *cancelled_because_ : first_error_->cause;
    receipt_.add_cause(why);
    std::string detail = std::to_string(receipt_.bytes.total()) + " bytes had arrived";
    if (first_error_.has_value() && !first_error_->detail.empty())
      detail += "; " + first_error_->detail;
    first_error_ = Error{.origin = ErrorOrigin::session,
                         .attempted = describe_transfer(session, source, target),
                         .cause = why,
                         .detail = std::move(detail)};
  } else {
    receipt_.state = TransferState::failed;
    check(first_error_.has_value(), "a transfer ended short of its length without an error");
    if (first_error_->origin == ErrorOrigin::policy) {
      const std::uint64_t admitted =
          receipt_.bytes[Carriage::direct] + receipt_.bytes[Carriage::device_bounced];
      first_error_->detail = std::to_string(receipt_.bytes.total() - admitted) + " of " +
                             std::to_string(receipt_.bytes.total()) +
                             " bytes arrived on a path that is not known to be direct";
    }
    receipt_.add_cause(first_error_->cause);
  }
  note_written_file();
  name_written_file();
  note_partial_arrival();
  report();
  staged_unasked_ = policy == Policy::direct_preferred && receipt_.bytes[Carriage::staged] > 0;
  session.ledger->enter(receipt_, staged_unasked_);
  leave_running();
  outcome = Outcome{receipt_, first_error_};
  done = true;
  session.host.workers().notify();
  if (owner_ != nullptr) owner_->on_end();
}

void TransferState_::note_written_file() {
  const auto* range = std::get_if<FileRange>(&target);
  if (range == nullptr || (segment_index_ == 0 && segment_done_bytes_ == 0)) return;
  const FileEntry* file = session.files.entry(range->file);
  if (file == nullptr || file->writes == nullptr) return;
  const Cause why = first_error_.has_value() ? first_error_->cause : Cause::none;
  file->writes->note({range->offset.value, range->offset.value + range->length_bytes},
                     receipt_.state, why);
}

void TransferState_::name_written_file() {
  const DeviceRef target_device = plan.common->target;
  if (!first_error_.has_value() || target_device.kind != DeviceRef::Kind::file) return;
  const FileEntry* file = session.files.entry(target_device.index);
  if (file == nullptr) return;
  first_error_ = shown_as(*std::move(first_error_), file->temporary_path, file->open.path);
}

void TransferState_::leave_running() {
  std::vector<TransferState_*>& running = session.running;
  running[running_index] = running.back();
  running[running_index]->running_index = running_index;
  running.pop_back();
}

bool TransferState_::wait(std::uint64_t deadline_ns) {
  return session.host.workers().wait(
      [this] {
        if (!done) session.dispatcher->dispatch();
        return done.load();
      },
      deadline_ns);
}

void TransferState_::attend() {
  attended_ = std::all_of(plan.cut.segments.begin(), plan.cut.segments.end(), [](const auto& part) {
    return part.provider == ProviderKind::peer || part.provider == ProviderKind::host;
  });
}

TransferState_::Resting TransferState_::next_rest() {
  if (done || pending_.empty()) return {};
  return {session.providers.of(pending_[0].segment), pending_[0].id};
}

TransferState_::Resting TransferState_::next_rest_locked() {
  const std::scoped_lock lock(session.dispatcher->mutex());
  return next_rest();
}

void TransferState_::look() {
  const std::scoped_lock lock(session.dispatcher->mutex());
  if (done || pending_.empty()) return;
  // Once these have ended it is the others' turn.
  (void)session.dispatcher->dispatch(*session.providers.of(pending_[0].segment));
  ended_here_ = done;
}

void TransferState_::look_first() {
  const std::scoped_lock lock(session.dispatcher->mutex());
  if (done || pending_.empty()) return;
  core::Provider& provider = *session.providers.of(pending_[0].segment);
  session.dispatcher->dispatch(provider, receipt_.started_ns);
}

void TransferState_::wait_attended() {
  if (!attended_) {
    bool first = true;
    (void)session.host.workers().wait(
        [&] {
          if (done) return true;
          if (std::exchange(first, false)) {
            look_first();
          } else {
            session.dispatcher->dispatch();
          }
          return done.load();
        },
        0);
    return;
  }
  if (deadline_ns_ == 0 && receipt_.requested_bytes <= rest_bytes_most) {
    Resting resting = first_rest_;
    for (std::uint64_t rested = 0; rested < receipt_.requested_bytes && !done;
         rested += attended_piece_bytes) {
      if (rested > 0) resting = next_rest_locked();
      if (resting.provider != nullptr) resting.provider->rest(resting.id);
      look();
    }
    if (done) return;
  }
  system::Workers& workers = session.host.workers();
  const auto ended = [this] {
    if (!done) look();
    return done.load();
  };
  if (workers.wait_closely(ended, deadline_ns_, closely_ns)) return;
  // What is under way gets a while to land, and is given up on when it does not.
  while (!workers.wait(ended, session.host.clock().now_ns() + after_deadline_ns)) {
  }
}

const Route& TransferState_::route() {
  std::call_once(route_made_, [this] { route_ = whole_route(plan); });
  return *route_;
}

bool TransferState_::touches(const Place& place) const {
  return overlaps(source, place) || overlaps(target, place);
}

Use use_of(SessionState& state, const Place& place) {
  const std::scoped_lock lock(state.dispatcher->mutex());
  for (const auto& [queue, places] : state.used_by_kernels) {
    if (std::any_of(places.begin(), places.end(),
                    [&](const Place& used) { return overlaps(used, place); })) {
      return Use::live;
    }
  }
  Use use = state.given_up.uses(place) ? Use::given_up : Use::none;
  for (const TransferState_* transfer : state.running) {
    if (!transfer->touches(place)) continue;
    if (!transfer->given_up) return Use::live;
    use = Use::given_up;
  }
  return use;
}

bool RegionState::exported() const {
  if (session.forked()) return false;
  const std::scoped_lock lock(session.regions_mutex);
  return std::any_of(session.servers.begin(), session.servers.end(),
                     [this](ServerState* server) { return server->exports_any_of(place); });
}

void attach_for_storage(SessionState& state, const GpuMemory& memory) {
  const std::scoped_lock attaching(
      state.attach_mutex);  // a second thread must not submit before it is registered
  core::RegionView view;
  {
    const std::scoped_lock lock(state.regions_mutex);
    RegionEntry* region = find_region(state, memory);
    if (region == nullptr || region->attached) return;
    region->attached = true;
    view = core::RegionView{region->memory, region->kind};
  }
  // The provider remembers a refusal and moves such memory unregistered, which its completions say.
  (void)state.providers.storage->attach(view);
}

}  // namespace nobounce::session
