// Region: memory that transfers read or write, registered with every provider that accepted it.
#pragma once

#include <cstdint>
#include <memory>

#include <nobounce/place.hpp>

namespace nobounce {

namespace session {
struct RegionState;
}

/// Move-only. Owns the registration, and the bytes too when it came from allocate. Keep an adopted
/// address valid until the Region is destroyed. Destroying it with a transfer in flight, or after
/// its Session, is a programming error and aborts; unless the transfer was given up (it could not
/// be stopped), which keeps the memory, or needs what was adopted, until it has ended. Reading
/// accessors is safe from any thread.
class Region {
 public:
  explicit Region(std::unique_ptr<session::RegionState> state);
  Region(Region&&) noexcept;
  Region& operator=(Region&&) noexcept;
  ~Region();

  /// The whole region, or a part of it. Parts must lie inside: asserts.
  [[nodiscard]] Place place() const;
  [[nodiscard]] Place place(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;
  [[nodiscard]] std::uint64_t length_bytes() const;
  [[nodiscard]] AllocationKind kind() const;
  /// The CPU address of host memory; null for GPU memory.
  [[nodiscard]] std::byte* host_address() const;

 private:
  std::unique_ptr<session::RegionState> state_;
};

}  // namespace nobounce
