// A drive of ours and a peer beside it, whatever stands behind them: the software machine's
// controller, QEMU's, or QEMU's through vfio-pci. One list of cases runs on each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "system/host.hpp"
#include "system/pci.hpp"

namespace nobounce::support {

using Bytes = std::vector<std::byte>;

class NvmeRig {
 public:
  virtual ~NvmeRig() = default;
  [[nodiscard]] virtual system::Host& host() = 0;
  [[nodiscard]] virtual system::PciFunction& drive() = 0;
  /// Where the drive sees the peer's memory, and how much of it there is.
  [[nodiscard]] virtual Iova peer() = 0;
  [[nodiscard]] virtual std::uint64_t peer_bytes() = 0;
  /// The peer's memory as its owner sees it: not by way of the drive.
  [[nodiscard]] virtual Bytes look_at_peer(std::uint64_t offset, std::size_t length) = 0;
  virtual void fill_peer(std::uint64_t offset, const Bytes& bytes) = 0;
  /// A part of the peer's memory, for queues to lie in; nothing where the CPU does not reach it.
  [[nodiscard]] virtual std::optional<system::DmaBuffer> peer_queue(std::uint64_t offset,
                                                                    std::uint64_t length) = 0;
  /// What the drive holds, by another way than the driver; nothing where there is none.
  [[nodiscard]] virtual std::optional<Bytes> look_at_medium(std::uint64_t offset,
                                                            std::size_t length) = 0;
};

/// What a medium holds before a case: every page differs from every other.
inline std::byte pattern_at(std::uint64_t offset) {
  return static_cast<std::byte>((offset * 7 + 3 + (offset >> 12) * 31) & 0xff);
}

inline Bytes pattern(std::uint64_t offset, std::size_t length) {
  Bytes bytes(length);
  for (std::size_t i = 0; i < length; ++i) bytes[i] = pattern_at(offset + i);
  return bytes;
}

}  // namespace nobounce::support
