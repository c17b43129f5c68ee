// The BAR1 window of one GPU: 64 KiB windows onto its memory, handed out first fit until they run
// out.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>

namespace nobounce::fabric {

/// Offsets are relative to the window and to the GPU's memory. Thread-safe.
class BusBar1 {
 public:
  static constexpr std::uint64_t page_bytes = 64u << 10;

  explicit BusBar1(std::uint64_t size_bytes) : size_bytes_(size_bytes / page_bytes * page_bytes) {}

  /// Maps the pages that cover [memory_offset, + length) side by side; answers the window offset of
  /// the first byte.
  [[nodiscard]] std::optional<std::uint64_t> map(std::uint64_t memory_offset,
                                                 std::uint64_t length_bytes);
  /// Takes what map answered.
  bool unmap(std::uint64_t window_offset);
  /// The memory behind a stretch of the window, if one mapping holds all of it.
  [[nodiscard]] std::optional<std::uint64_t> memory_at(std::uint64_t window_offset,
                                                       std::uint64_t length_bytes) const;
  [[nodiscard]] std::uint64_t used_bytes() const;
  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }

 private:
  struct Mapping {
    std::uint64_t length_bytes = 0;  ///< whole pages
    std::uint64_t memory_page = 0;   ///< offset of the first page in GPU memory
    std::uint64_t answered = 0;      ///< what map answered
  };
  const std::uint64_t size_bytes_;
  mutable std::shared_mutex mutex_;
  std::map<std::uint64_t, Mapping> mappings_;  ///< by first page of the window
  std::uint64_t used_bytes_ = 0;
};

}  // namespace nobounce::fabric
