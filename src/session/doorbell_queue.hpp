// What stands behind a DoorbellQueue: its memory, its registers, and the drive's queue.
#pragma once

#include <cstdint>
#include <optional>

#include <nobounce/doorbell.hpp>
#include "session/session_state.hpp"

namespace nobounce::session {

struct DoorbellQueueState {
  explicit DoorbellQueueState(SessionState& owner);
  ~DoorbellQueueState();
  DoorbellQueueState(const DoorbellQueueState&) = delete;
  DoorbellQueueState& operator=(const DoorbellQueueState&) = delete;

  [[nodiscard]] Status open(const BlockRange& range, const GpuMemory& memory,
                            const DoorbellOptions& options);
  void set_state(device::State state);
  /// The reads; a second time it answers the same.
  [[nodiscard]] Outcome close();

  SessionState& session;
  BlockRange drive;
  GpuMemory data;
  device::NvmeQueueSet set;
  bool opened = false;
  std::optional<Outcome> written;  ///< after close, where a kernel wrote

 private:
  [[nodiscard]] Status judge_order() const;
  [[nodiscard]] Status lay_out(const DoorbellOptions& options);
  [[nodiscard]] Status map_registers(const provider::nvme::GuestDoorbells& doorbells);
  [[nodiscard]] std::uint64_t count(device::NvmeCount which) const;
  /// Commands whose end nobody saw.
  struct UnderWay {
    std::uint64_t commands = 0;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] Status read_under_way(UnderWay& reads, UnderWay& writes);
  [[nodiscard]] Outcome outcome_of(bool writing, const Status& ended, const UnderWay& left);
  [[nodiscard]] Status end_queue();
  void give_back();

  std::optional<GpuMemory> words_;  ///< queues, lists and words, in GPU memory
  system::HostBuffer host_words_;   ///< state and counts
  std::optional<std::uint16_t> queue_;
  bool let_go_ = true;               ///< the drive writes to none of it any more
  std::byte* registered_ = nullptr;  ///< registers, as CUDA knows them
  std::uint64_t started_ns_ = 0;
  std::optional<Outcome> closed_;  ///< what the first close answered
};

}  // namespace nobounce::session
