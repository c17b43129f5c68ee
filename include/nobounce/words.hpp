// The closed vocabularies of the project: how a byte travelled, over what, on whose order, and what
// we say of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nobounce {

/// Which member of the family a transfer belongs to; chosen by its two places, never by the caller.
enum class Member : std::uint8_t { host, p2p, rdma, storage, async };

/// How a byte travelled. The six buckets of a receipt sum to the bytes that arrived.
enum class Carriage : std::uint8_t {
  direct,          ///< crossed no host DRAM but the source's or target's own, and no CPU register
  device_bounced,  ///< direct to the GPU, then one copy inside GPU memory (alignment)
  in_place,    ///< the GPU's DMA used host pages where they already lay (page cache): no bounce, no
               ///< CPU copy
  cpu_mapped,  ///< CPU loads and stores through the BAR
  staged,      ///< through a bounce buffer in host memory
  unattributed,  ///< arrived, and nothing can tell how
};
inline constexpr std::size_t carriage_count = 6;

/// What carried it. `none`: nothing moved, or it never left the memory it was in.
enum class Link : std::uint8_t { none, nvlink, pcie_switch, host_bridge, inter_socket, c2c };

/// Who gave the order to transfer.
enum class Issuer : std::uint8_t { host, stream, kernel };

/// Who rang the doorbell. A proxy is a named mode, never a fallback.
enum class Poster : std::uint8_t { cpu, cpu_proxy, gpu };

/// What the caller admits, per transfer.
enum class Policy : std::uint8_t {
  direct_required,   ///< admits `direct` and `device_bounced` only; anything else is refused before
                     ///< a byte moves
  direct_preferred,  ///< direct where possible, else staged, and the receipt says so (default)
  staged_only,       ///< always through host memory (for comparison and control runs)
};

/// How strongly a receipt's carriage is known, weakest first.
enum class Known : std::uint8_t {
  claimed,    ///< the mover says so
  counted,    ///< a driver's or device's own counter agrees
  witnessed,  ///< a separating counter that the mover does not own agrees
};

/// What we conclude for a pair and a direction.
enum class Verdict : std::uint8_t { direct, staged, degraded, impossible, broken, unknown };

/// One precondition, judged.
enum class FindingState : std::uint8_t { met, unmet, unknown };

/// What a cause rests on: a fact read beforehand, something seen happening, or a measurement.
enum class CauseKind : std::uint8_t { precondition, observed, measured };

/// Distance of two devices in nvidia-smi's words: same device, one switch, several switches, one
/// host bridge, one NUMA node, across sockets. `nvlink` is written NVn with n links.
enum class PathLevel : std::uint8_t { self, nvlink, pix, pxb, phb, node, sys };

/// How a transfer ended.
enum class TransferState : std::uint8_t { done, refused, failed, cancelled };

[[nodiscard]] std::string_view to_string(Member value);
[[nodiscard]] std::string_view to_string(Carriage value);
[[nodiscard]] std::string_view to_string(Link value);
[[nodiscard]] std::string_view to_string(Issuer value);
[[nodiscard]] std::string_view to_string(Poster value);
[[nodiscard]] std::string_view to_string(Policy value);
[[nodiscard]] std::string_view to_string(Known value);
[[nodiscard]] std::string_view to_string(Verdict value);
[[nodiscard]] std::string_view to_string(FindingState value);
[[nodiscard]] std::string_view to_string(CauseKind value);
[[nodiscard]] std::string_view to_string(PathLevel value);
[[nodiscard]] std::string_view to_string(TransferState value);

/// The policy with that exact name, or nothing.
[[nodiscard]] std::optional<Policy> policy_from_string(std::string_view name);

/// Bytes by carriage. A plain sum type: arithmetic only.
struct CarriageBytes {
  std::array<std::uint64_t, carriage_count> by{};

  [[nodiscard]] constexpr std::uint64_t& operator[](Carriage carriage) {
    return by[static_cast<std::size_t>(carriage)];
  }
  [[nodiscard]] constexpr std::uint64_t operator[](Carriage carriage) const {
    return by[static_cast<std::size_t>(carriage)];
  }
  [[nodiscard]] constexpr std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t bytes : by) sum += bytes;
    return sum;
  }
  constexpr CarriageBytes& operator+=(const CarriageBytes& other) {
    for (std::size_t i = 0; i < carriage_count; ++i) by[i] += other.by[i];
    return *this;
  }
  constexpr bool operator==(const CarriageBytes&) const = default;
};

}  // namespace nobounce
