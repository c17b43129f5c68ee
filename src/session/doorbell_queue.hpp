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
  [[nodiscard]] Outcome close();

  SessionState& session;
  BlockRange drive;
  GpuMemory data;
  device::NvmeQueueSet set;
  bool opened = false;

 private:
  [[nodiscard]] Status lay_out(const DoorbellOptions& options);
  [[nodiscard]] Status map_registers(const provider::nvme::GuestDoorbells& doorbells);
  [[nodiscard]] std::uint64_t count(device::NvmeCount which) const;
  void give_back();

  std::optional<GpuMemory> words_;  ///< queues, lists and words, in GPU memory
  system::HostBuffer host_words_;   ///< state and counts
  std::optional<std::uint16_t> queue_;
  std::byte* registered_ = nullptr;  ///< registers, as CUDA knows them
  std::uint64_t started_ns_ = 0;
};

}  // namespace nobounce::session
