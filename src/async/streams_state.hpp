// What stands behind Streams: the lanes, and the worker that serves them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "async/stream_lane.hpp"
#include "async/visibility.hpp"
#include "session/session_state.hpp"
#include "system/workers.hpp"

namespace nobounce::async {

struct StreamsState final : system::Worker {
  explicit StreamsState(session::SessionState& of_session);
  ~StreamsState() override;
  StreamsState(const StreamsState&) = delete;
  StreamsState& operator=(const StreamsState&) = delete;

  [[nodiscard]] Status open();
  [[nodiscard]] Result<std::shared_ptr<StreamOrder>> enqueue(StreamHandle stream,
                                                             const Place& source,
                                                             const Place& target,
                                                             const StreamOptions& options);
  [[nodiscard]] system::Step step() override;

 private:
  /// Why this transfer may not be put behind a stream's wait.
  [[nodiscard]] std::optional<Error> why_not(const session::TransferPlan& plan) const;
  /// Where another device writes into memory of `gpu`.
  [[nodiscard]] Visibility visibility_for(const session::TransferPlan& plan, std::uint32_t gpu,
                                          bool by_owner) const;
  /// False where it is of another GPU, or of a context that is not ours.
  [[nodiscard]] bool is_stream_of(StreamHandle stream, std::uint32_t gpu) const;
  /// Makes what is otherwise made at first use: readers, slots, streams.
  [[nodiscard]] Status warm_up(std::uint32_t gpu);
  [[nodiscard]] Result<StreamLane*> lane_of(StreamHandle stream);
  [[nodiscard]] Status put(StreamLane& lane, const StreamOrder& order);
  /// True if something changed.
  bool serve(StreamLane& lane);
  void start(StreamOrder& order);
  void watch(StreamOrder& order);
  /// Lets the stream go on.
  void release(StreamLane& lane, StreamOrder& order, Outcome outcome);
  /// The same for the lane's first, which could not be stopped and may still write.
  void release_late(StreamLane& lane);
  [[nodiscard]] bool all_ended() const;
  void close();

  session::SessionState& session_;
  mutable std::mutex mutex_;
  std::map<StreamHandle, std::unique_ptr<StreamLane>> lanes_;
  std::map<std::uint32_t, GpuAbilities> abilities_;  ///< written by open alone
  std::map<std::uint32_t, system::cuda::CUevent>
      events_;  ///< as `abilities_`; nobody waits for them
  system::HostBuffer words_;
  std::uint64_t words_gpu_ = 0;  ///< `words_` as GPUs name it
  std::size_t words_taken_ = 0;
  std::vector<std::shared_ptr<StreamOrder>> late_;  ///< released by the watchdog, still moving
  std::uint64_t last_change_ns_ = 0;
  bool closing_ = false;
  std::optional<system::WorkerId> worker_;
};

}  // namespace nobounce::async
