// Kernels of a software machine: host code that runs on a soft GPU's own worker, in stream order,
// and reaches memory by device pointers through the bus alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <type_traits>
#include <utility>

#include <nobounce/units.hpp>
#include "system/workers.hpp"

namespace nobounce::fabric {

/// What a kernel does memory with. Stores wait in a buffer, and leave it in an order drawn from the
/// machine's seed: others see them in turn only where the kernel orders them, by store_release or
/// fence, as on a real GPU. The kernel itself sees its own, and the end of the kernel ends the
/// wait.
///
/// Addresses are device pointers of any GPU, or of pinned or
/// managed host memory. One that this GPU has no mapping for faults, as on a real GPU: the kernel
/// is not stepped again, what it still does has no effect, and from then on all contexts of the
/// process answer error_illegal_address.
class Lane {
 public:
  virtual ~Lane() = default;
  [[nodiscard]] virtual std::uint32_t gpu() const = 0;
  [[nodiscard]] virtual bool faulted() const = 0;

  virtual void load_bytes(DevicePointer source, std::span<std::byte> target) = 0;
  virtual void store_bytes(DevicePointer target, std::span<const std::byte> source) = 0;
  /// Everything this kernel stored before is seen before what it does from here on.
  virtual void fence() = 0;

  /// Of 1, 2, 4 or 8 bytes, aligned: never torn.
  template <typename T>
  [[nodiscard]] T load(DevicePointer source) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    load_bytes(source, std::as_writable_bytes(std::span<T, 1>(&value, 1)));
    return value;
  }
  template <typename T>
  void store(DevicePointer target, T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    store_bytes(target, std::as_bytes(std::span<const T, 1>(&value, 1)));
  }
  template <typename T>
  void store_release(DevicePointer target, T value) {
    fence();
    store(target, value);
    fence();  // nothing of ours is kept back longer than this
  }
  /// Atomic for the whole machine; of 4 or 8 bytes, aligned. All answer what was there before.
  template <typename T>
  T atomic_add(DevicePointer target, T operand) {
    return updated<T>(target, Update::add, operand, T{});
  }
  template <typename T>
  T atomic_exchange(DevicePointer target, T desired) {
    return updated<T>(target, Update::exchange, desired, T{});
  }
  template <typename T>
  T atomic_compare_exchange(DevicePointer target, T expected, T desired) {
    return updated<T>(target, Update::compare_exchange, desired, expected);
  }

 protected:
  enum class Update : std::uint8_t { add, exchange, compare_exchange };
  virtual std::uint64_t update(DevicePointer target, std::size_t bytes, Update kind,
                               std::uint64_t operand, std::uint64_t expected) = 0;

 private:
  template <typename T>
  T updated(DevicePointer target, Update kind, T operand, T expected) {
    static_assert(std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
    using Bits = std::make_unsigned_t<T>;
    return static_cast<T>(
        update(target, sizeof(T), kind, static_cast<Bits>(operand), static_cast<Bits>(expected)));
  }
};

/// Stepped until it answers `done`; its stream goes on after that. Between two steps other streams
/// have their turn, so that a kernel may wait for a flag by answering `busy`.
using Kernel = std::function<system::Step(Lane&)>;

/// A kernel that does its work in one step.
template <typename Work>
[[nodiscard]] Kernel kernel_once(Work work) {
  return [work = std::move(work)](Lane& lane) {
    work(lane);
    return system::Step::done();
  };
}

}  // namespace nobounce::fabric
