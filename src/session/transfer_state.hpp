// A transfer in flight: which parts are under way, what has arrived, what went wrong.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include <nobounce/transfer.hpp>
#include "core/inline_list.hpp"
#include "session/completion_sink.hpp"
#include "session/planner.hpp"
#include "session/session_state.hpp"

namespace nobounce::session {

struct TransferState_;

/// Who else wants to know that a transfer has ended.
class TransferOwner {
 public:
  /// Called once, under the dispatcher's lock: must not wait, may begin other transfers.
  virtual void on_end() = 0;

 protected:
  ~TransferOwner() = default;
};

/// Cuts the route's segments into operations of bounded size, keeps a bounded number of them under
/// way and gathers their completions into a receipt. All members but `done` and `arrived_bytes` are
/// guarded by the dispatcher's lock.
struct TransferState_ : CompletionSink {
  /// Counts as running from here on, so that nobody frees what it will use.
  TransferState_(SessionState& on, TransferPlan planned, Place from, Place to, Policy chosen,
                 std::uint64_t deadline, TransferOwner* told = nullptr);
  ~TransferState_() override;

  /// Who gave the order, and who carried it to the devices, if not the host. Before `begin`.
  void ordered_by(Issuer issuer, Poster poster, Cause why);
  /// Submits the first operations, or finishes at once (refused, nothing to move, cancelled or
  /// late). `confirmed`: what the direct provider confirmed for it a moment ago, if it was asked.
  void begin(const std::optional<core::Confirmed>& confirmed = std::nullopt);
  void on_completion(const core::Completion& completion) override;
  void cancel(Cause why);
  /// Nobody waits for it any more, and its bytes may still arrive. False: it has just ended.
  [[nodiscard]] bool give_up();
  /// The same, with what is known of it so far as its outcome; none where it has just ended.
  [[nodiscard]] std::optional<Outcome> give_up_because(Cause why);
  /// Something outside of it makes it fail: its peer is gone. Under the dispatcher's lock.
  void fail(const Error& why);
  /// For the thread that began it and stays until its end: submits and looks by itself, where
  /// nobody else has to. To be called before begin; then `wait_attended` instead of `wait`.
  void attend();
  void wait_attended();
  /// Dispatches completions until this transfer is done, at most until the deadline (0: none).
  bool wait(std::uint64_t deadline_ns);
  [[nodiscard]] bool touches(const Place& place) const;
  [[nodiscard]] bool uses_peer(std::uint32_t number) const;
  /// The route with all that it was chosen from; put together when it is first asked for.
  [[nodiscard]] const Route& route();

  SessionState& session;
  TransferPlan plan;
  Place source;
  Place target;
  Policy policy;
  std::size_t running_index = 0;  ///< in the session's list of running transfers
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> arrived_bytes{0};
  std::optional<Outcome> outcome;
  bool given_up = false;

 private:
  struct Pending {
    core::OperationId id = 0;
    Segment segment;
  };

  static constexpr std::size_t pending_most = 16;

  /// What whoever attends waits for in the driver. It may have ended meanwhile.
  struct Resting {
    core::Provider* provider = nullptr;
    core::OperationId id = 0;
  };
  /// Of the oldest piece under way; no provider where there is none. Under the dispatcher's lock.
  [[nodiscard]] Resting next_rest();
  [[nodiscard]] Resting next_rest_locked();
  void look();
  /// Right after begin, whose reading of the clock still is good enough to keep deadlines by.
  void look_first();
  /// How long the next piece may be, and how many may be under way.
  [[nodiscard]] std::uint64_t piece_bytes_of(ProviderKind provider) const;
  void refill();
  void submit(const Segment& segment);
  [[nodiscard]] std::optional<Segment> next_piece();
  void note_failure(const Pending& pending, const core::Completion& completion);
  [[nodiscard]] bool may_stage_instead(const core::Completion& completion,
                                       const Segment& segment) const;
  /// What a provider moved otherwise than it was told to fails a transfer that requires the direct
  /// path.
  void enforce_policy(const core::Completion& completion);
  void finish();
  void note_arrival(Receipt& receipt) const;
  void leave_running();
  /// The peer of a transfer learns that it begins, and how it ended.
  void announce();
  void report();
  void note_partial_arrival();
  void take(const core::Completion& completion);
  /// A source file that is not what it was when it was opened is named in the receipt.
  void note_changed_source();
  /// Before a file is committed it is asked which of its bytes are whole.
  void note_written_file();
  /// A file under its temporary name is unknown to the caller.
  void name_written_file();
  void stop_pending();

  std::uint64_t deadline_ns_;
  std::uint64_t ended_ns_ = 0;  ///< when the last completion was found, as its provider says
  TransferOwner* owner_;
  Receipt receipt_;
  std::optional<Error> first_error_;
  core::InlineList<Pending, pending_most> pending_;
  std::once_flag route_made_;
  std::optional<Route> route_;
  std::size_t segment_index_ = 0;
  std::uint64_t segment_done_bytes_ = 0;
  std::optional<Cause> cancelled_because_;
  bool direct_given_up_ = false;
  bool staged_unasked_ = false;
  bool announced_ = false;
  bool submitting_ = false;
  bool beginning_ = false;
  Resting first_rest_;
  std::optional<core::Confirmed> confirmed_;  ///< a moment ago: for what is submitted by begin
  bool attended_ = false;
  bool ended_here_ = false;  ///< found its end in its own look(): nobody else is in finish()
};

/// Whether two places share a byte; for files, whether they are one.
[[nodiscard]] bool overlaps(const Place& first, const Place& second);

/// Runs one operation outside any receipt and ledger (probes, checksums) and waits for it, for
/// drop_patience_ns at most: then it is given up, with what it uses. `uses` owns memory that no
/// region owns.
[[nodiscard]] core::Completion run_operation(SessionState& state, const Segment& segment,
                                             std::shared_ptr<void> uses);

/// Makes sure the storage provider knows the GPU memory of a route that it will move. Failure is
/// not an error: the provider then uses the memory unregistered, and says so.
void attach_for_storage(SessionState& state, const GpuMemory& memory);

}  // namespace nobounce::session
