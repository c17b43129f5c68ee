// Witnesses: counters that no mover owns, what each can tell apart, and one reading of all of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nobounce/words.hpp>
#include "evidence/link_counters.hpp"
#include "evidence/witness_value.hpp"
#include "system/counted_host.hpp"
#include "system/host.hpp"

namespace nobounce::evidence {

enum class WitnessKind : std::uint8_t {
  cpu_time,     ///< of this process, ns
  host_dram,    ///< bytes read and written by all memory controllers, everybody's
  gpu_pcie,     ///< bytes over the watched GPUs' PCIe links, both ways (NVML 197, 198)
  gpu_nvlink,   ///< bytes sent over the watched GPUs' NVLinks (NVML 138)
  nvidia_fs,    ///< operations that reached the nvidia-fs driver
  cufile,       ///< requests that libcufile completed on its direct path, in this process
  host_copies,  ///< bytes that the session itself moved through host memory
  cpu_touched,  ///< of them by CPU copies
  drive,        ///< bytes read and written by the watched drive
  page_cache,   ///< bytes of files in memory, everybody's
  seam_calls,   ///< calls that the session made of CUDA, cuFile and the kernel's file I/O
};
inline constexpr std::size_t witness_count = 11;
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

/// Whether a witness tells direct from staged for that member over that link.
[[nodiscard]] bool separates(WitnessKind kind, Member member, Link link);

struct WitnessReading {
  std::uint64_t time_ns = 0;
  WitnessValue values[witness_count];
  [[nodiscard]] const WitnessValue& of(WitnessKind kind) const {
    return values[static_cast<std::size_t>(kind)];
  }
};

/// Reads all witnesses of a host. Creates no context and changes nothing. Not thread-safe.
class Witnesses {
 public:
  /// `counted`: the host that the session under proof was opened on, where its calls are counted.
  /// All must outlive the witnesses.
  Witnesses(system::Host& host, const system::CountedHost* counted);
  /// Whose counters are read, from now on: GPUs' links, and a block device by its name; none:
  /// nobody's.
  void watch(std::vector<std::uint32_t> gpus, std::string drive = "") {
    links_.watch(std::move(gpus));
    drive_ = std::move(drive);
  }
  [[nodiscard]] WitnessReading read();

 private:
  [[nodiscard]] WitnessValue read_cpu();
  [[nodiscard]] WitnessValue read_dram();
  [[nodiscard]] WitnessValue read_nvidia_fs();
  [[nodiscard]] WitnessValue read_cufile();
  [[nodiscard]] WitnessValue read_drive();
  [[nodiscard]] WitnessValue read_page_cache();

  system::Host& host_;
  const system::CountedHost* counted_;
  std::vector<std::string> dram_pmus_;
  LinkCounters links_;
  std::string drive_;
};

}  // namespace nobounce::evidence
