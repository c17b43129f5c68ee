// The device queue's machine on a soft GPU: every access is the kernel's own, over the bus, and
// plain stores wait in its buffer until something orders them.
#pragma once

#include <cstdint>

#include <nobounce/device/platform.hpp>
#include "fabric/soft_kernel.hpp"

namespace nobounce::fabric {

template <typename T>
struct SoftPointer {
  DevicePointer pointer;

  [[nodiscard]] SoftPointer operator+(std::uint64_t index) const {
    return {pointer.plus(index * sizeof(T))};
  }
  [[nodiscard]] std::uint64_t address() const { return pointer.value; }
};

/// Of one step of a kernel: a block counts as a warp of one lane.
class SoftQueuePlatform {
 public:
  template <typename T>
  using Pointer = SoftPointer<T>;
  template <typename T>
  static SoftPointer<T> at(std::uint64_t address) {
    return {DevicePointer{address}};
  }

  explicit SoftQueuePlatform(Lane& lane) : lane_(&lane) {}

  template <device::Order, device::Scope, typename T>
  T load(SoftPointer<T> source) const {
    return lane_->load<T>(source.pointer);
  }
  template <device::Order order, device::Scope, typename T>
  void store(SoftPointer<T> target, T value) const {
    if constexpr (order == device::Order::release) {
      lane_->store_release<T>(target.pointer, value);
    } else {
      lane_->store<T>(target.pointer, value);
    }
  }
  template <device::Scope scope>
  void store_pair(SoftPointer<std::uint64_t> target, std::uint64_t first,
                  std::uint64_t second) const {
    store<device::Order::relaxed, scope>(target, first);
    store<device::Order::relaxed, scope>(target + 1, second);
  }
  template <device::Order order, device::Scope, typename T>
  T fetch_add(SoftPointer<T> target, T operand) const {
    if constexpr (order == device::Order::acquire_release) lane_->fence();
    return lane_->atomic_add<T>(target.pointer, operand);
  }
  template <device::Order order, device::Scope, typename T>
  T compare_exchange(SoftPointer<T> target, T expected, T desired) const {
    if constexpr (order == device::Order::acquire_release) lane_->fence();
    return lane_->atomic_compare_exchange<T>(target.pointer, expected, desired);
  }
  void store_register(SoftPointer<std::uint32_t> target, std::uint32_t value) const {
    lane_->store_release<std::uint32_t>(target.pointer, value);
  }
  /// Soft kernels have no clock: they wait by steps, which their machine bounds.
  [[nodiscard]] std::uint64_t now_ns() const { return 0; }
  void pause() const {}
  [[nodiscard]] std::uint32_t lanes_here() const { return 1; }
  [[nodiscard]] std::uint32_t lane() const { return 0; }
  [[nodiscard]] std::uint32_t lanes_alike(std::uint32_t lanes, std::uint64_t) const {
    return lanes;
  }
  [[nodiscard]] std::uint64_t from_lane(std::uint32_t, std::uint64_t value, std::uint32_t) const {
    return value;
  }
  void join_lanes(std::uint32_t) const {}

 private:
  Lane* lane_;
};

}  // namespace nobounce::fabric
