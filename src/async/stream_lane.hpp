// A stream as its transfers see it: three counters in host memory, and what was ordered on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include <nobounce/async.hpp>
#include "session/transfer_state.hpp"

namespace nobounce::async {

/// One transfer of a stream. Guarded by the streams' mutex, but for `ended`.
struct StreamOrder {
  system::Host* host = nullptr;
  std::uint64_t sequence = 0;
  std::uint64_t deadline_ns = 0;  ///< how long it may take once the stream is there
  std::uint32_t gpu = 0;
  bool by_owner = true;  ///< the stream is of that GPU
  Visibility visibility = Visibility::native;
  DevicePointer status_word;
  std::unique_ptr<session::TransferState_> transfer;  ///< null once its end is known
  std::uint64_t begun_ns = 0;                         ///< 0: the stream is not there yet
  bool told_to_stop = false;                          ///< by the watchdog
  bool released = false;                              ///< the stream may go on
  Outcome outcome;
  std::atomic<bool> ended{false};  ///< released, and `outcome` holds
};

/// The words of one stream, 64 bytes apart. All count transfers and only ever grow.
struct LaneWords {
  static constexpr std::size_t spacing = 8;
  static constexpr std::size_t bytes = 4 * spacing * sizeof(std::uint64_t);

  std::uint64_t* base = nullptr;
  std::uint64_t gpu_base = 0;  ///< the same as the GPU names it

  [[nodiscard]] std::uint64_t* reached() const { return base; }  ///< written by the stream
  [[nodiscard]] std::uint64_t* done() const { return base + spacing; }
  [[nodiscard]] std::uint64_t* status() const { return base + 2 * spacing; }
  [[nodiscard]] std::uint64_t* passed() const { return base + 3 * spacing; }  ///< by the stream
  [[nodiscard]] std::uint64_t address_of(const std::uint64_t* word) const {
    return gpu_base + static_cast<std::uint64_t>(word - base) * sizeof(std::uint64_t);
  }
};

struct StreamLane {
  StreamHandle stream = nullptr;
  /// One puts its marks at a time, in the order of sequences. Before the streams' mutex, which
  /// nobody holds in the driver: it may wait for room on the stream, and the worker makes it.
  std::mutex putting;
  LaneWords words;
  std::uint64_t last_sequence = 0;
  std::deque<std::shared_ptr<StreamOrder>> orders;  ///< not released yet, the first first
};

}  // namespace nobounce::async
