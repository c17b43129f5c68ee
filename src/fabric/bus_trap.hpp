// Counts CPU touches of bounce memory: a SIGSEGV handler that opens the touched page and lets the
// program go on.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace nobounce::fabric {

/// One per bus. While any lives, SIGSEGV of this process passes through us; faults outside watched
/// ranges go to the handler that was there before (a sanitizer's, or the default), which is put
/// back with the last one.
class BusTrap {
 public:
  BusTrap();
  ~BusTrap();
  BusTrap(const BusTrap&) = delete;
  BusTrap& operator=(const BusTrap&) = delete;

  /// Page-aligned and PROT_NONE. False if too many ranges are watched in this process already.
  bool watch(std::byte* begin, std::size_t length_bytes);
  void unwatch(std::byte* begin);
  /// Closes the pages again that touches opened. Cheap when there are none.
  void reseal();
  [[nodiscard]] std::uint64_t touches() const { return touches_.load(); }

 private:
  std::atomic<std::uint64_t> touches_{0};
  std::atomic<bool> opened_{false};
};

}  // namespace nobounce::fabric
