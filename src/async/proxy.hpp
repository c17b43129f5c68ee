// A proxy: a worker that takes kernels' requests from one queue and has them carried out. Calls
// nothing of the driver.
#pragma once

#include <atomic>
#include <cstdint>

#include <nobounce/async.hpp>
#include "core/kernel_consumer.hpp"
#include "system/host.hpp"

namespace nobounce::async {

/// Written by its proxy alone, read by anybody.
struct alignas(64) ProxyCounts {
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> arrived_bytes{0};
  std::atomic<std::uint64_t> asked_bytes{0};
  std::atomic<std::uint64_t> system_calls{0};
  std::atomic<std::uint64_t> wake_ups{0};
  std::atomic<std::uint64_t> last_code{0};
  std::atomic<std::uint64_t> tail{0};
  /// Odd while a request is being carried out: who sees the same odd number for long sees a stall.
  std::atomic<std::uint64_t> turns{0};
};

class Proxy final : public system::Worker {
 public:
  /// `queues` as this process names its memory.
  Proxy(system::Host& host, core::KernelConsumer& consumer, const device::QueueSet& queues,
        std::uint32_t index, const std::atomic<bool>& stopping);
  [[nodiscard]] system::Step step() override;
  [[nodiscard]] const ProxyCounts& counts() const { return counts_; }
  [[nodiscard]] std::uint32_t index() const { return index_; }

 private:
  void serve(const device::Request& request);
  void complete(const device::Request& request, const core::KernelAnswer& answer);

  system::Host& host_;
  core::KernelConsumer& consumer_;
  const device::QueueSet queues_;
  const std::uint32_t index_;
  const std::atomic<bool>& stopping_;
  const std::uint32_t looks_;  ///< in one step
  device::Consumer<device::NativePlatform> queue_;
  std::uint64_t last_request_ns_ = 0;
  bool asleep_ = false;
  ProxyCounts counts_;
};

}  // namespace nobounce::async
