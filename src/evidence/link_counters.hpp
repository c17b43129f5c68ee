// Byte counters of GPU links by NVML, made whole: the PCIe ones have 32 bits and wrap every 4 GiB.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "evidence/witness_value.hpp"
#include "system/host.hpp"

namespace nobounce::evidence {

/// Sums over the watched GPUs. On a live host a worker reads the PCIe counters every 15 ms while
/// GPUs are watched (one reading takes about 0.5 ms per GPU, measured on an H200), because 4 GiB
/// pass in 78 ms at 55 GB/s; a longer gap makes readings on both its sides incomparable.
/// Thread-safe.
class LinkCounters final : public system::Worker {
 public:
  explicit LinkCounters(system::Host& host) : host_(host) {}
  ~LinkCounters() override;
  LinkCounters(const LinkCounters&) = delete;
  LinkCounters& operator=(const LinkCounters&) = delete;

  /// Machine indices, which are NVML's. Totals begin anew. An empty list ends the watch.
  void watch(std::vector<std::uint32_t> gpus);

  /// Bytes sent and received over the GPUs' PCIe links (NVML fields 197 and 198).
  [[nodiscard]] WitnessValue pcie_bytes();
  /// Payload bytes sent over all the GPUs' NVLinks (field 138): what one sends another receives.
  [[nodiscard]] WitnessValue nvlink_bytes();

  [[nodiscard]] system::Step step() override;

 private:
  struct Unwrapped {
    std::uint32_t last = 0;
    bool started = false;
  };
  struct Fields {
    WitnessValue failed;  ///< its cause is none where both were read
    std::uint64_t raw[2] = {0, 0};
  };

  [[nodiscard]] Fields read(std::uint32_t gpu, unsigned first, unsigned second, int count);
  [[nodiscard]] WitnessValue sample();  ///< with mutex_ held
  void stop();

  system::Host& host_;
  std::mutex mutex_;
  bool initialised_ = false;
  std::vector<std::uint32_t> gpus_;
  std::vector<Unwrapped> pcie_;
  double pcie_bytes_ = 0;
  std::uint64_t sampled_ns_ = 0;
  std::uint64_t gaps_ = 0;
  bool sampling_ = false;
  system::WorkerId worker_ = 0;
};

}  // namespace nobounce::evidence
