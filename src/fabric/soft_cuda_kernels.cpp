// The soft CUDA driver: kernels. Each access asks the driver whether the GPU has the address
// mapped, and goes over the bus.
#include <algorithm>
#include <utility>
#include <vector>

#include "fabric/soft_cuda_driver.hpp"

namespace nobounce::fabric {

namespace cuda = system::cuda;

/// One kernel's view of memory. Used by its GPU's engine alone.
class SoftCuda::KernelLane final : public Lane {
 public:
  KernelLane(SoftCuda& driver, std::uint32_t gpu) : driver_(driver), gpu_(gpu) {}

  /// Between two steps some of what was stored gets out by itself.
  void end_step(bool last) {
    if (last || faulted()) return fence();
    while (!stores_.empty() && driver_.engines_.random().below(2) == 0) leave(pick());
  }

  [[nodiscard]] std::uint32_t gpu() const override { return gpu_; }
  [[nodiscard]] bool faulted() const override { return fault_ != cuda::success; }
  [[nodiscard]] CUresult fault() const { return fault_; }

  void load_bytes(DevicePointer source, std::span<std::byte> target) override {
    std::fill(target.begin(), target.end(), std::byte{0});
    const auto end = reach(source, target.size(), false);
    if (!end) return;
    leave_overlapping(source, target.size(), stores_.size());
    settle(driver_.bus_.kernel_load(gpu_, *end, target));
  }
  void store_bytes(DevicePointer target, std::span<const std::byte> source) override {
    const auto end = reach(target, source.size(), true);
    if (!end) return;
    stores_.push_back({target, *end, {source.begin(), source.end()}});
    if (stores_.size() > stores_max) leave(pick());
  }
  void fence() override {
    while (!stores_.empty()) leave(pick());
  }

 protected:
  std::uint64_t update(DevicePointer target, std::size_t bytes, Update kind, std::uint64_t operand,
                       std::uint64_t expected) override {
    constexpr BusUpdate::Kind kinds[] = {BusUpdate::Kind::add, BusUpdate::Kind::exchange,
                                         BusUpdate::Kind::compare_exchange};
    const auto end = reach(target, bytes, true);
    if (!end) return 0;
    leave_overlapping(target, bytes, stores_.size());
    std::uint64_t before = 0;
    settle(driver_.bus_.kernel_update(
        gpu_, *end, {kinds[static_cast<std::size_t>(kind)], bytes, operand, expected}, before));
    return before;
  }

 private:
  /// The end on the bus that an address stands for, or a fault.
  std::optional<End> reach(DevicePointer address, std::uint64_t bytes, bool writing);
  void settle(const Carried& carried) {
    if (carried.outcome == BusOutcome::bad_address) fault_ = cuda::error_illegal_address;
    if (carried.outcome == BusOutcome::faulted) fault_ = cuda::error_unknown;
  }

  /// A store that nobody else has seen yet.
  struct Store {
    DevicePointer address;
    End end;
    std::vector<std::byte> bytes;
  };
  static constexpr std::size_t stores_max = 24;

  [[nodiscard]] std::size_t pick() { return driver_.engines_.random().below(stores_.size()); }
  /// Those among the first `count` that lie there, the oldest first: one address is never seen out
  /// of turn.
  void leave_overlapping(DevicePointer address, std::uint64_t bytes, std::size_t count) {
    for (std::size_t i = 0; i < count;) {
      const Store& store = stores_[i];
      const bool apart = store.address.value + store.bytes.size() <= address.value ||
                         address.value + bytes <= store.address.value;
      if (apart) {
        ++i;
        continue;
      }
      const std::size_t before = stores_.size();
      leave(i);
      count -= before - stores_.size();
      i = 0;
    }
  }
  void leave(std::size_t index) {
    const std::size_t before = stores_.size();
    leave_overlapping(stores_[index].address, stores_[index].bytes.size(), index);
    index -= before - stores_.size();
    const Store store = std::move(stores_[index]);
    stores_.erase(stores_.begin() + static_cast<std::ptrdiff_t>(index));
    settle(driver_.bus_.kernel_store(gpu_, store.bytes, store.end));
  }

  SoftCuda& driver_;
  const std::uint32_t gpu_;
  CUresult fault_ = cuda::success;
  std::vector<Store> stores_;  ///< in the order of the program
};

std::optional<End> SoftCuda::KernelLane::reach(DevicePointer address, std::uint64_t bytes,
                                               bool writing) {
  if (faulted()) return std::nullopt;
  const auto inside = [&](const std::optional<GpuAllocation>& allocation) {
    return allocation && !allocation->internal &&
           bytes <= allocation->length_bytes - (address.value - allocation->base.value);
  };
  if (const auto device = driver_.allocations_.find(address); inside(device)) {
    const std::lock_guard lock(driver_.mutex_);
    const int access = driver_.access_of(gpu_, *device);
    const int needed = writing ? cuda::memory_access_read_write : cuda::memory_access_read;
    const bool checked = !driver_.bus_.planted(Mutant::cuda_kernel_unchecked);
    if (!checked || (access & needed) == needed) return End::of(address);
  }
  const auto* host = reinterpret_cast<const void*>(address.value);
  if (inside(driver_.allocations_.find_host(host))) {
    return End::at(driver_.bus_.address_of(host));
  }
  fault_ = cuda::error_illegal_address;
  return std::nullopt;
}

CUresult SoftCuda::launch(CUstream stream, Kernel kernel) {
  StreamEntry entry;
  if (const CUresult code = stream_of(stream, entry); code != cuda::success) return code;
  if (!kernel) return cuda::error_invalid_value;
  // Shared, because a queued command is copied and a kernel keeps state between its steps.
  struct Running {
    KernelLane lane;
    Kernel kernel;
  };
  auto running =
      std::make_shared<Running>(Running{KernelLane(*this, entry.context->gpu), std::move(kernel)});
  return engines_.submit(entry.stream, [running] {
    const system::Step step = running->kernel(running->lane);
    const bool done = step.kind == system::Step::Kind::done;
    running->lane.end_step(done);
    return GpuWorkStep{done, running->lane.fault()};
  });
}

}  // namespace nobounce::fabric
