// Witnesses: counters that no mover owns, what each can tell apart, and one reading of all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nobounce/cause.hpp>
#include <nobounce/machine.hpp>
#include "system/host.hpp"

namespace nobounce::evidence {

enum class WitnessKind : std::uint8_t {
  cpu_time,    ///< of this process, ns
  host_dram,   ///< bytes read and written by all memory controllers, everybody's
  gpu_pcie,    ///< bytes over all GPUs' PCIe links (NVML 197, 198)
  gpu_nvlink,  ///< bytes over all GPUs' NVLinks (NVML 138, 139)
  nvidia_fs,   ///< operations that reached the nvidia-fs driver
};
inline constexpr std::size_t witness_count = 5;
[[nodiscard]] std::string_view to_string(WitnessKind kind);

/// What a witness can separate. Only a separating witness raises `known` to witnessed.
struct WitnessRow {
  WitnessKind kind;
  bool direct_from_staged_storage = false;
  bool direct_from_staged_peer_pcie = false;
  bool direct_from_staged_peer_nvlink = false;
  bool whole_machine = false;  ///< counts others too: needs an idle window
  std::string_view why;
};
[[nodiscard]] const WitnessRow& witness_row(WitnessKind kind);

/// One counter's value, or why there is none.
struct WitnessValue {
  std::optional<double> value;
  Cause unreadable = Cause::none;
  std::string detail;  ///< the error in words, where unreadable
};

struct WitnessReading {
  std::uint64_t time_ns = 0;
  WitnessValue values[witness_count];
  [[nodiscard]] const WitnessValue& of(WitnessKind kind) const {
    return values[static_cast<std::size_t>(kind)];
  }
};

/// Reads all witnesses of a host. Creates no context and changes nothing. Not thread-safe (it
/// unwraps counters).
class Witnesses {
 public:
  Witnesses(system::Host& host, const Machine& machine);
  [[nodiscard]] WitnessReading read();

 private:
  [[nodiscard]] WitnessValue read_dram();
  [[nodiscard]] WitnessValue read_fields(unsigned first, unsigned second, double unit_bytes,
                                         bool wraps, std::uint64_t now_ns);
  [[nodiscard]] WitnessValue read_nvidia_fs();

  /// A counter that wraps at 32 bits, made whole again. Void after a gap in which it may have
  /// wrapped twice.
  struct Unwrapped {
    std::uint64_t last = 0;
    double total = 0;
    bool started = false;
  };

  system::Host& host_;
  const Machine& machine_;
  std::vector<std::string> dram_pmus_;
  std::vector<Unwrapped> pcie_;
  std::uint64_t pcie_read_ns_ = 0;
};

}  // namespace nobounce::evidence
