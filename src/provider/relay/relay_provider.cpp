// The relay's operations: cut into pieces, asked for or sent, counted when they have landed.
#include "provider/relay/relay_provider.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/remote_segment.hpp"
#include "provider/relay/piece_mover.hpp"

namespace nobounce::provider {
namespace {

/// A copy that runs when the deadline passes gets this long to end, so that its bytes are counted.
constexpr std::uint64_t landing_grace_ns = 100'000'000;
/// How long copies get where nobody said how long: of an operation that has failed or was
/// cancelled.
constexpr std::uint64_t ending_patience_ns = 30'000'000'000;

Error ended_early(Cause why) {
  return Error{.origin = ErrorOrigin::session,
               .attempted = "stage bytes over the network",
               .cause = why,
               .detail = std::string(cause_row(why).sentence)};
}

struct Job {
  core::Operation operation;
  bool reads = false;  ///< from the peer
  std::uint64_t asked_bytes = 0;
  std::uint64_t arrived_bytes = 0;
  std::size_t open = 0;          ///< pieces that were begun and have not ended
  std::size_t local = 0;         ///< of them those that touch memory of this process
  std::uint64_t give_up_ns = 0;  ///< on those, where it has failed; 0: it has not
  std::optional<Error> error;
};

struct Piece {
  /// What is waited for: a copy out of memory, StageDone, StageData, a copy into memory.
  enum class State : std::uint8_t { loading, sent, asked, storing };

  core::OperationId operation = 0;
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
  State state = State::asked;
};

struct Peer {
  Peer(system::Host& host, system::CudaContexts* contexts, wire::Link& to,
       std::function<void()> waker)
      : link(to),
        wake(std::move(waker)),
        mover(std::make_unique<relay::PieceMover>(host, contexts)) {}
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() {
    mover->give_up(UINT64_MAX);
    relay::PieceMover::part_with(std::move(mover));
  }

  wire::Link& link;
  std::function<void()> wake;
  std::unique_ptr<relay::PieceMover> mover;
  std::vector<Job> jobs;
  std::map<std::uint64_t, Piece> pieces;  ///< by number
  /// Whose memory the mover touches, by piece; whatever becomes of the piece meanwhile.
  std::map<std::uint64_t, core::OperationId> copies;
  std::optional<Error> lost;
};

class LiveRelay final : public RelayProvider {
 public:
  LiveRelay(system::Host& host, system::CudaContexts* contexts)
      : host_(host), contexts_(contexts) {}

  ProviderKind kind() const override { return ProviderKind::staged; }
  Assessment assess(const Segment& segment) override;
  Status attach(const core::RegionView&) override { return {}; }
  void detach(const core::RegionView&) override {}
  void submit(std::span<const core::Operation> operations) override;
  std::size_t poll(std::uint64_t, std::span<core::Completion> completions) override;
  void cancel(core::OperationId operation) override;
  bool close(std::uint64_t deadline_ns) override;

  void add(std::uint32_t peer, wire::Link& link, std::function<void()> wake) override;
  void lose(std::uint32_t peer, const Error& why) override;
  void remove(std::uint32_t peer, const Error& why) override;
  [[nodiscard]] Status take(std::uint32_t peer, wire::Link::Incoming answer) override;
  std::uint64_t step(std::uint32_t peer) override;

 private:
  void begin_pieces(Peer& peer);
  void begin_piece(Peer& peer, Job& job);
  void look_at_copies(Peer& peer);
  void end_piece(Peer& peer, std::uint64_t number, const std::optional<Error>& error);
  void note_ends(Peer& peer, std::uint64_t now_ns);
  static void give_up_on(Peer& peer, Job& job);
  void settle(Peer& peer, std::uint64_t now_ns);
  void remove_by(std::uint32_t peer, const Error& why, std::uint64_t deadline_ns);
  void refuse(core::OperationId id, Error error);
  [[nodiscard]] Job* job_of(Peer& peer, core::OperationId id);
  [[nodiscard]] static Place local_part(const Job& job, const Piece& piece);

  system::Host& host_;
  system::CudaContexts* contexts_;
  std::mutex mutex_;
  std::map<std::uint32_t, std::unique_ptr<Peer>> peers_;
  std::vector<core::Completion> completions_;
  std::uint64_t next_piece_ = 1;
};

Assessment LiveRelay::assess(const Segment& segment) {
  Assessment assessment;
  const RemoteMemory* remote = core::peer_memory_of(segment);
  if (remote == nullptr) return assessment;
  const std::lock_guard lock(mutex_);
  const auto peer = peers_.find(remote->peer);
  assessment.usable = peer != peers_.end() && !peer->second->lost.has_value();
  if (assessment.usable) return assessment;
  assessment.findings.push_back(Finding{.cause = Cause::remote_peer_lost,
                                        .subject = "the connection",
                                        .state = FindingState::unmet,
                                        .observed = "it has ended",
                                        .needed = "a connection that stands",
                                        .remedy = "connect again",
                                        .source = "the session's list of connections"});
  return assessment;
}

void LiveRelay::refuse(core::OperationId id, Error error) {
  completions_.push_back(core::Completion{.id = id, .error = std::move(error)});
}

void LiveRelay::submit(std::span<const core::Operation> operations) {
  {
    const std::lock_guard lock(mutex_);
    for (const core::Operation& operation : operations) {
      const RemoteMemory* remote = core::peer_memory_of(operation.segment);
      const auto peer = remote == nullptr ? peers_.end() : peers_.find(remote->peer);
      if (peer == peers_.end() || peer->second->lost.has_value()) {
        refuse(operation.id,
               peer == peers_.end() ? ended_early(Cause::remote_peer_lost) : *peer->second->lost);
        continue;
      }
      peer->second->jobs.push_back(
          Job{.operation = operation,
              .reads = std::holds_alternative<RemoteMemory>(operation.segment.source)});
      peer->second->wake();
    }
  }
  host_.workers().notify();
}

Job* LiveRelay::job_of(Peer& peer, core::OperationId id) {
  const auto found = std::find_if(peer.jobs.begin(), peer.jobs.end(),
                                  [&](const Job& job) { return job.operation.id == id; });
  return found == peer.jobs.end() ? nullptr : &*found;
}

Place LiveRelay::local_part(const Job& job, const Piece& piece) {
  const Segment& segment = job.operation.segment;
  return part_of(job.reads ? segment.target : segment.source, piece.offset_bytes,
                 piece.length_bytes);
}

void LiveRelay::begin_piece(Peer& peer, Job& job) {
  const Segment& segment = job.operation.segment;
  const std::uint64_t number = next_piece_++;
  const Piece piece{job.operation.id, job.asked_bytes,
                    std::min(wire::piece_bytes_max, segment.length_bytes - job.asked_bytes),
                    job.reads ? Piece::State::asked : Piece::State::loading};
  peer.pieces[number] = piece;
  job.asked_bytes += piece.length_bytes;
  ++job.open;
  if (!job.reads) {
    ++job.local;
    peer.copies[number] = job.operation.id;
    peer.mover->load(number, local_part(job, piece));
    return;
  }
  const auto& source = std::get<RemoteMemory>(segment.source);
  const Status sent =
      peer.link.send(wire::StageRead{number, source.key, source.address + piece.offset_bytes,
                                     static_cast<std::uint32_t>(piece.length_bytes)});
  if (!sent.ok()) end_piece(peer, number, sent.error());
}

void LiveRelay::begin_pieces(Peer& peer) {
  for (Job& job : peer.jobs) {
    while (!job.error.has_value() && job.asked_bytes < job.operation.segment.length_bytes) {
      // As many as can land at once: what was asked for must find a slot.
      if (peer.pieces.size() >= relay::slots_max || !peer.mover->room()) return;
      begin_piece(peer, job);
    }
  }
}

void LiveRelay::end_piece(Peer& peer, std::uint64_t number, const std::optional<Error>& error) {
  const auto found = peer.pieces.find(number);
  if (found == peer.pieces.end()) return;
  const Piece piece = found->second;
  peer.pieces.erase(found);
  Job* const job = job_of(peer, piece.operation);
  if (job == nullptr) return;
  --job->open;
  if (error.has_value()) {
    if (!job->error.has_value()) job->error = error;
  } else {
    job->arrived_bytes += piece.length_bytes;
  }
}

void LiveRelay::look_at_copies(Peer& peer) {
  while (std::optional<relay::PieceMover::Ended> ended = peer.mover->look()) {
    const auto copy = peer.copies.find(ended->piece);
    if (copy == peer.copies.end()) continue;
    Job* const job = job_of(peer, copy->second);
    peer.copies.erase(copy);
    if (job == nullptr) continue;
    --job->local;
    const auto found = peer.pieces.find(ended->piece);
    if (found == peer.pieces.end()) continue;
    const Piece piece = found->second;
    if (ended->error.has_value() || job->reads || job->error.has_value()) {
      end_piece(peer, ended->piece, ended->error.has_value() ? ended->error : job->error);
      continue;
    }
    found->second.state = Piece::State::sent;
    const auto& target = std::get<RemoteMemory>(job->operation.segment.target);
    const Status sent = peer.link.send(
        wire::StageWrite{ended->piece, target.key, target.address + piece.offset_bytes,
                         static_cast<std::uint32_t>(piece.length_bytes)},
        std::move(ended->payload));
    if (!sent.ok()) end_piece(peer, ended->piece, sent.error());
  }
}

Status LiveRelay::take(std::uint32_t number, wire::Link::Incoming answer) {
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(number);
  if (found == peers_.end()) return {};
  Peer& peer = *found->second;
  const auto* done = std::get_if<wire::StageDone>(&answer.message);
  const auto* failed = std::get_if<wire::StageFailed>(&answer.message);
  const auto* data = std::get_if<wire::StageData>(&answer.message);
  const std::uint64_t named = done != nullptr     ? done->piece
                              : failed != nullptr ? failed->piece
                              : data != nullptr   ? data->piece
                                                  : 0;
  const auto piece = peer.pieces.find(named);
  if (piece == peer.pieces.end()) return {};  // of an operation that has been given up
  const Piece::State state = piece->second.state;
  Job* const job = job_of(peer, piece->second.operation);
  const bool expected =
      done != nullptr ? state == Piece::State::sent
      : data != nullptr
          ? state == Piece::State::asked && answer.payload.size() == piece->second.length_bytes
          : state == Piece::State::sent || state == Piece::State::asked;
  if (!expected || job == nullptr) {
    Error error = ended_early(Cause::remote_handshake_invalid);
    error.origin = ErrorOrigin::remote;
    error.detail = "the far side answered something else than was asked";
    return error;
  }
  if (done != nullptr) {
    end_piece(peer, named, std::nullopt);
  } else if (failed != nullptr) {
    const wire::Refusal why{0, failed->cause, failed->cause_id, failed->detail};
    end_piece(peer, named, wire::error_of(why, "stage bytes over the network"));
  } else if (job->error.has_value()) {
    end_piece(peer, named, job->error);
  } else {
    piece->second.state = Piece::State::storing;
    ++job->local;
    peer.copies[named] = piece->second.operation;
    peer.mover->store(named, local_part(*job, piece->second), std::move(answer.payload));
  }
  return {};
}

/// Jobs that fail now, and until when they are waited for.
void LiveRelay::note_ends(Peer& peer, std::uint64_t now_ns) {
  for (Job& job : peer.jobs) {
    const std::uint64_t deadline_ns = job.operation.deadline_ns;
    const bool late = deadline_ns != 0 && now_ns >= deadline_ns;
    if (!job.error.has_value()) {
      if (peer.lost.has_value()) job.error = peer.lost;
      if (late) job.error = ended_early(Cause::session_deadline_passed);
      if (!job.error.has_value() && peer.mover->clogged()) {
        job.error = ended_early(Cause::session_deadline_passed);
        job.error->detail = "the GPU's copies for this connection hang, and none can be begun";
      }
    }
    if (!job.error.has_value()) continue;
    if (job.give_up_ns == 0) job.give_up_ns = now_ns + ending_patience_ns;
    if (late) job.give_up_ns = std::min(job.give_up_ns, now_ns + landing_grace_ns);
    if (now_ns >= job.give_up_ns && job.local > 0) give_up_on(peer, job);
  }
  look_at_copies(peer);
}

void LiveRelay::give_up_on(Peer& peer, Job& job) {
  if (job.local > 0 && job.error.has_value())
    job.error->detail += "; a copy hangs, and may still reach its target later";
  for (const auto& [piece, operation] : peer.copies) {
    if (operation == job.operation.id) peer.mover->give_up_on(piece);
  }
}

void LiveRelay::settle(Peer& peer, std::uint64_t now_ns) {
  note_ends(peer, now_ns);
  const auto has_ended = [](const Job& job) {
    if (job.error.has_value()) return job.local == 0;
    return job.arrived_bytes == job.operation.segment.length_bytes;
  };
  for (const Job& job : peer.jobs) {
    if (!has_ended(job)) continue;
    core::Completion completion{.id = job.operation.id, .error = job.error};
    completion.bytes[Carriage::staged] = job.arrived_bytes;
    completion.pinned_bytes = peer.mover->pinned_bytes();
    if (job.error.has_value()) completion.cause = job.error->cause;
    completions_.push_back(std::move(completion));
    std::erase_if(peer.pieces,
                  [&](const auto& piece) { return piece.second.operation == job.operation.id; });
  }
  if (std::erase_if(peer.jobs, has_ended) > 0) host_.workers().notify();
}

std::uint64_t LiveRelay::step(std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(number);
  if (found == peers_.end()) return 0;
  Peer& peer = *found->second;
  const std::uint64_t now_ns = host_.clock().now_ns();
  look_at_copies(peer);
  begin_pieces(peer);
  settle(peer, now_ns);
  if (!peer.mover->idle()) return peer.mover->look_again_ns(now_ns);
  std::uint64_t next_ns = 0;
  for (const Job& job : peer.jobs) {
    const std::uint64_t deadline_ns = job.operation.deadline_ns;
    if (deadline_ns != 0) next_ns = next_ns == 0 ? deadline_ns : std::min(next_ns, deadline_ns);
  }
  return next_ns;
}

std::size_t LiveRelay::poll(std::uint64_t, std::span<core::Completion> completions) {
  const std::lock_guard lock(mutex_);
  const std::size_t count = std::min(completions.size(), completions_.size());
  std::move(completions_.begin(), completions_.begin() + static_cast<std::ptrdiff_t>(count),
            completions.begin());
  completions_.erase(completions_.begin(),
                     completions_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void LiveRelay::cancel(core::OperationId operation) {
  const std::lock_guard lock(mutex_);
  for (const auto& [number, peer] : peers_) {
    Job* const job = job_of(*peer, operation);
    if (job == nullptr || job->error.has_value()) continue;
    job->error = ended_early(Cause::session_cancelled);
    peer->wake();
  }
}

void LiveRelay::add(std::uint32_t peer, wire::Link& link, std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  peers_[peer] = std::make_unique<Peer>(host_, contexts_, link, std::move(wake));
}

void LiveRelay::lose(std::uint32_t number, const Error& why) {
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(number);
  if (found != peers_.end() && !found->second->lost.has_value()) found->second->lost = why;
}

void LiveRelay::remove(std::uint32_t number, const Error& why) {
  remove_by(number, why, host_.clock().now_ns() + ending_patience_ns);
}

void LiveRelay::remove_by(std::uint32_t number, const Error& why, std::uint64_t deadline_ns) {
  lose(number, why);
  {
    const std::lock_guard lock(mutex_);
    if (!peers_.contains(number)) return;
  }
  (void)host_.workers().wait(
      [&] {
        (void)step(number);
        const std::lock_guard lock(mutex_);
        return peers_.at(number)->jobs.empty();
      },
      deadline_ns);
  const std::lock_guard lock(mutex_);
  Peer& peer = *peers_.at(number);
  for (Job& job : peer.jobs) give_up_on(peer, job);
  settle(peer, host_.clock().now_ns());
  peers_.erase(number);
}

bool LiveRelay::close(std::uint64_t deadline_ns) {
  std::vector<std::uint32_t> numbers;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, peer] : peers_) numbers.push_back(number);
  }
  for (const std::uint32_t number : numbers)
    remove_by(number, ended_early(Cause::session_cancelled), deadline_ns);
  return host_.clock().now_ns() < deadline_ns;
}

}  // namespace

std::unique_ptr<RelayProvider> make_relay_provider(system::Host& host,
                                                   system::CudaContexts* contexts) {
  return std::make_unique<LiveRelay>(host, contexts);
}

}  // namespace nobounce::provider
