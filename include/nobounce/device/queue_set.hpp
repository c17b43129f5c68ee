// Several device queues side by side, one for each consumer, as a kernel is handed them: plain
// addresses, so that it can be passed by value.
#pragma once

#include <cstdint>

#include <nobounce/device/queue.hpp>

namespace nobounce::device {

/// Requests of a token always go to the same queue. The buffer of a token is where the bytes of its
/// request lie, in host memory that the GPU reads: nothing may be asked with a token before its
/// last request has ended.
struct QueueSet {
  static constexpr std::uint32_t gpu_stride_bytes = 512;
  static constexpr std::uint32_t host_stride_bytes = 128;
  static constexpr std::uint32_t line_bytes = 128;
  static constexpr std::uint32_t completion_bytes = 64;

  std::uint64_t gpu_words = 0;    ///< of each queue: head, tail_seen, abandoned, a line apart
  std::uint64_t host_words = 0;   ///< of each queue: tail and state, half a line apart
  std::uint64_t slots = 0;        ///< of all queues, one after the other
  std::uint64_t completions = 0;  ///< by token
  std::uint64_t buffers = 0;      ///< by token
  std::uint32_t queues = 1;
  std::uint32_t tokens = 1;
  std::uint32_t size_log2 = 0;
  std::uint32_t buffer_bytes = 4096;

  [[nodiscard]] NOBOUNCE_DEVICE std::uint32_t queue_of(std::uint32_t token) const {
    return token % queues;
  }
  [[nodiscard]] NOBOUNCE_DEVICE std::uint64_t buffer_of(std::uint32_t token) const {
    return buffers + static_cast<std::uint64_t>(token) * buffer_bytes;
  }
  [[nodiscard]] NOBOUNCE_DEVICE std::uint64_t slot_bytes() const {
    return (std::uint64_t{1} << size_log2) * words_per_slot * 8;
  }

  template <typename Platform>
  [[nodiscard]] NOBOUNCE_DEVICE QueueMemory<Platform> queue(std::uint32_t index) const {
    const std::uint64_t gpu = gpu_words + static_cast<std::uint64_t>(index) * gpu_stride_bytes;
    const std::uint64_t host = host_words + static_cast<std::uint64_t>(index) * host_stride_bytes;
    QueueMemory<Platform> memory;
    memory.head = Platform::template at<std::uint64_t>(gpu);
    memory.tail_seen = Platform::template at<std::uint64_t>(gpu + line_bytes);
    memory.abandoned = Platform::template at<std::uint32_t>(gpu + 2 * line_bytes);
    memory.slots = Platform::template at<std::uint64_t>(slots + index * slot_bytes());
    memory.tail = Platform::template at<std::uint64_t>(host);
    memory.state = Platform::template at<std::uint32_t>(host + line_bytes / 2);
    memory.completions = Platform::template at<std::uint64_t>(completions);
    memory.completion_stride = completion_bytes / 8;
    memory.size_log2 = size_log2;
    return memory;
  }
};

}  // namespace nobounce::device
