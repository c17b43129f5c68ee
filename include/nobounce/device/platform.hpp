// What device code needs of its machine: atomic accesses by order and scope, time, a pause, and the
// lanes of a warp. One policy for CUDA and for host compilers; tests have others.
#pragma once

#include <cstdint>

#if !defined(__CUDA_ARCH__)
#include <atomic>
#endif

#if defined(__CUDACC__)
#define NOBOUNCE_DEVICE __host__ __device__
#else
#define NOBOUNCE_DEVICE
#endif

namespace nobounce::device {

/// Of an access. `acquire` is for loads, `release` for stores, `acquire_release` for updates.
enum class Order : std::uint8_t { relaxed, acquire, release, acquire_release };

/// Who must see an access in order: the threads of one GPU, or CPUs and other devices too.
enum class Scope : std::uint8_t { gpu, system };

/// The machine itself. On a GPU each access is one PTX instruction that carries its order and
/// scope; on a CPU, std::atomic_ref. There are no stand-alone fences, so that ThreadSanitizer sees
/// all there is. A CPU thread counts as a warp of one lane.
///
/// Another policy offers the same members; it may have state, is copied, and its Pointer<T> needs
/// `pointer + index`.
class NativePlatform {
 public:
  template <typename T>
  using Pointer = T*;
  template <typename T>
  NOBOUNCE_DEVICE static T* at(std::uint64_t address) {
    return reinterpret_cast<T*>(address);
  }

  template <Order order, Scope scope, typename T>
  NOBOUNCE_DEVICE T load(T* source) const;
  template <Order order, Scope scope, typename T>
  NOBOUNCE_DEVICE void store(T* target, T value) const;
  /// Two words side by side, aligned to both together, at once where the machine can: on a bus that
  /// is one request less. Relaxed; the two are ordered with nothing, nor with one another.
  template <Scope scope>
  NOBOUNCE_DEVICE void store_pair(std::uint64_t* target, std::uint64_t first,
                                  std::uint64_t second) const;
  /// Answers what was there before.
  template <Order order, Scope scope, typename T>
  NOBOUNCE_DEVICE T fetch_add(T* target, T operand) const;
  /// Answers what was there before: the exchange has happened if that is `expected`.
  template <Order order, Scope scope, typename T>
  NOBOUNCE_DEVICE T compare_exchange(T* target, T expected, T desired) const;
  /// A store to a device's registers, after everything this thread did before it. Nobody may
  /// combine or repeat it.
  NOBOUNCE_DEVICE void store_register(std::uint32_t* target, std::uint32_t value) const;

  /// Nanoseconds, monotonic. A CPU's caller brings the clock; without one no deadline ever passes.
  NOBOUNCE_DEVICE std::uint64_t now_ns() const;
  /// Between two looks at something that others change.
  NOBOUNCE_DEVICE void pause() const;

  /// Lanes that are here together, as a mask; which of them this one is.
  NOBOUNCE_DEVICE std::uint32_t lanes_here() const;
  NOBOUNCE_DEVICE std::uint32_t lane() const;
  /// Those of `lanes` whose key is that of this lane. All of `lanes` must call it.
  NOBOUNCE_DEVICE std::uint32_t lanes_alike(std::uint32_t lanes, std::uint64_t key) const;
  /// The leader's value, for all of `lanes`.
  NOBOUNCE_DEVICE std::uint64_t from_lane(std::uint32_t lanes, std::uint64_t value,
                                          std::uint32_t leader) const;
  NOBOUNCE_DEVICE void join_lanes(std::uint32_t lanes) const;

  std::uint64_t (*host_clock)() = nullptr;
};

/// How many bits are set; which is the lowest (of a mask that is not 0).
NOBOUNCE_DEVICE constexpr std::uint32_t count_lanes(std::uint32_t lanes) {
  std::uint32_t count = 0;
  for (; lanes != 0; lanes &= lanes - 1) ++count;
  return count;
}
NOBOUNCE_DEVICE constexpr std::uint32_t first_lane(std::uint32_t lanes) {
  std::uint32_t index = 0;
  for (; (lanes & 1U) == 0; lanes >>= 1) ++index;
  return index;
}

#if defined(__CUDA_ARCH__)

namespace ptx {

// One overload per width; the order and the scope are part of the instruction's name.
#define NOBOUNCE_PTX_WIDTH(Type, bits, constraint)                        \
  NOBOUNCE_PTX_LOAD(Type, bits, constraint, relaxed_gpu, "relaxed.gpu")   \
  NOBOUNCE_PTX_LOAD(Type, bits, constraint, relaxed_sys, "relaxed.sys")   \
  NOBOUNCE_PTX_LOAD(Type, bits, constraint, acquire_gpu, "acquire.gpu")   \
  NOBOUNCE_PTX_LOAD(Type, bits, constraint, acquire_sys, "acquire.sys")   \
  NOBOUNCE_PTX_STORE(Type, bits, constraint, relaxed_gpu, "relaxed.gpu")  \
  NOBOUNCE_PTX_STORE(Type, bits, constraint, relaxed_sys, "relaxed.sys")  \
  NOBOUNCE_PTX_STORE(Type, bits, constraint, release_gpu, "release.gpu")  \
  NOBOUNCE_PTX_STORE(Type, bits, constraint, release_sys, "release.sys")  \
  NOBOUNCE_PTX_UPDATE(Type, bits, constraint, relaxed_gpu, "relaxed.gpu") \
  NOBOUNCE_PTX_UPDATE(Type, bits, constraint, relaxed_sys, "relaxed.sys") \
  NOBOUNCE_PTX_UPDATE(Type, bits, constraint, acq_rel_gpu, "acq_rel.gpu") \
  NOBOUNCE_PTX_UPDATE(Type, bits, constraint, acq_rel_sys, "acq_rel.sys")
#define NOBOUNCE_PTX_LOAD(Type, bits, constraint, name, qualifiers) \
  __device__ inline Type load_##name(const Type* source) {          \
    Type value;                                                     \
    asm volatile("ld." qualifiers ".u" bits " %0, [%1];"            \
                 : "=" constraint(value)                            \
                 : "l"(source)                                      \
                 : "memory");                                       \
    return value;                                                   \
  }
#define NOBOUNCE_PTX_STORE(Type, bits, constraint, name, qualifiers) \
  __device__ inline void store_##name(Type* target, Type value) {    \
    asm volatile("st." qualifiers ".u" bits " [%0], %1;"             \
                 :                                                   \
                 : "l"(target), constraint(value)                    \
                 : "memory");                                        \
  }
#define NOBOUNCE_PTX_UPDATE(Type, bits, constraint, name, qualifiers)                 \
  __device__ inline Type add_##name(Type* target, Type operand) {                     \
    Type before;                                                                      \
    asm volatile("atom.add." qualifiers ".u" bits " %0, [%1], %2;"                    \
                 : "=" constraint(before)                                             \
                 : "l"(target), constraint(operand)                                   \
                 : "memory");                                                         \
    return before;                                                                    \
  }                                                                                   \
  __device__ inline Type exchange_##name(Type* target, Type expected, Type desired) { \
    Type before;                                                                      \
    asm volatile("atom.cas." qualifiers ".b" bits " %0, [%1], %2, %3;"                \
                 : "=" constraint(before)                                             \
                 : "l"(target), constraint(expected), constraint(desired)             \
                 : "memory");                                                         \
    return before;                                                                    \
  }
NOBOUNCE_PTX_WIDTH(std::uint32_t, "32", "r")
NOBOUNCE_PTX_WIDTH(unsigned long long, "64", "l")
#undef NOBOUNCE_PTX_WIDTH
#undef NOBOUNCE_PTX_LOAD
#undef NOBOUNCE_PTX_STORE
#undef NOBOUNCE_PTX_UPDATE

/// std::uint64_t is `unsigned long`, which PTX's wrappers above call by its other name.
template <typename T>
struct Native {
  static_assert(sizeof(T) == 4);
  using Type = std::uint32_t;
};
template <>
struct Native<std::uint64_t> {
  using Type = unsigned long long;
};

}  // namespace ptx

template <Order order, Scope scope, typename T>
__device__ T NativePlatform::load(T* source) const {
  static_assert(order == Order::relaxed || order == Order::acquire);
  const auto* from = reinterpret_cast<const typename ptx::Native<T>::Type*>(source);
  if constexpr (order == Order::acquire) {
    if constexpr (scope == Scope::system) return ptx::load_acquire_sys(from);
    return ptx::load_acquire_gpu(from);
  }
  if constexpr (scope == Scope::system) return ptx::load_relaxed_sys(from);
  return ptx::load_relaxed_gpu(from);
}

template <Order order, Scope scope, typename T>
__device__ void NativePlatform::store(T* target, T value) const {
  static_assert(order == Order::relaxed || order == Order::release);
  using Type = typename ptx::Native<T>::Type;
  auto* to = reinterpret_cast<Type*>(target);
  if constexpr (order == Order::release) {
    if constexpr (scope == Scope::system) return ptx::store_release_sys(to, Type{value});
    return ptx::store_release_gpu(to, Type{value});
  }
  if constexpr (scope == Scope::system) return ptx::store_relaxed_sys(to, Type{value});
  return ptx::store_relaxed_gpu(to, Type{value});
}

template <Scope scope>
__device__ void NativePlatform::store_pair(std::uint64_t* target, std::uint64_t first,
                                           std::uint64_t second) const {
  if constexpr (scope == Scope::system) {
    asm volatile("st.relaxed.sys.v2.u64 [%0], {%1, %2};"
                 :
                 : "l"(target), "l"(first), "l"(second)
                 : "memory");
  } else {
    asm volatile("st.relaxed.gpu.v2.u64 [%0], {%1, %2};"
                 :
                 : "l"(target), "l"(first), "l"(second)
                 : "memory");
  }
}

template <Order order, Scope scope, typename T>
__device__ T NativePlatform::fetch_add(T* target, T operand) const {
  using Type = typename ptx::Native<T>::Type;
  auto* to = reinterpret_cast<Type*>(target);
  if constexpr (order == Order::relaxed) {
    if constexpr (scope == Scope::system) return ptx::add_relaxed_sys(to, Type{operand});
    return ptx::add_relaxed_gpu(to, Type{operand});
  }
  if constexpr (scope == Scope::system) return ptx::add_acq_rel_sys(to, Type{operand});
  return ptx::add_acq_rel_gpu(to, Type{operand});
}

template <Order order, Scope scope, typename T>
__device__ T NativePlatform::compare_exchange(T* target, T expected, T desired) const {
  using Type = typename ptx::Native<T>::Type;
  auto* to = reinterpret_cast<Type*>(target);
  if constexpr (order == Order::relaxed) {
    if constexpr (scope == Scope::system)
      return ptx::exchange_relaxed_sys(to, Type{expected}, Type{desired});
    return ptx::exchange_relaxed_gpu(to, Type{expected}, Type{desired});
  }
  if constexpr (scope == Scope::system)
    return ptx::exchange_acq_rel_sys(to, Type{expected}, Type{desired});
  return ptx::exchange_acq_rel_gpu(to, Type{expected}, Type{desired});
}

/// st.mmio would say it best, but needs PTX 8.2 and with it a recent driver: a volatile store is
/// relaxed at system scope and is carried out exactly once.
__device__ inline void NativePlatform::store_register(std::uint32_t* target,
                                                      std::uint32_t value) const {
  asm volatile("fence.acq_rel.sys;\n\tst.volatile.u32 [%0], %1;"
               :
               : "l"(target), "r"(value)
               : "memory");
}

__device__ inline std::uint64_t NativePlatform::now_ns() const {
  unsigned long long time = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}
__device__ inline void NativePlatform::pause() const {
  asm volatile("nanosleep.u32 20;");
}
__device__ inline std::uint32_t NativePlatform::lanes_here() const {
  return __activemask();
}
__device__ inline std::uint32_t NativePlatform::lane() const {
  std::uint32_t index = 0;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(index));
  return index;
}
__device__ inline std::uint32_t NativePlatform::lanes_alike(std::uint32_t lanes,
                                                            std::uint64_t key) const {
  return __match_any_sync(lanes, static_cast<unsigned long long>(key));
}
__device__ inline std::uint64_t NativePlatform::from_lane(std::uint32_t lanes, std::uint64_t value,
                                                          std::uint32_t leader) const {
  return __shfl_sync(lanes, static_cast<unsigned long long>(value), static_cast<int>(leader));
}
__device__ inline void NativePlatform::join_lanes(std::uint32_t lanes) const {
  __syncwarp(lanes);
}

#else  // a CPU

constexpr std::memory_order host_order(Order order) {
  switch (order) {
    case Order::acquire:
      return std::memory_order_acquire;
    case Order::release:
      return std::memory_order_release;
    case Order::acquire_release:
      return std::memory_order_acq_rel;
    case Order::relaxed:
      break;
  }
  return std::memory_order_relaxed;
}

template <Order order, Scope scope, typename T>
NOBOUNCE_DEVICE T NativePlatform::load(T* source) const {
  static_assert(order == Order::relaxed || order == Order::acquire);
  return std::atomic_ref<T>(*source).load(host_order(order));
}
template <Order order, Scope scope, typename T>
NOBOUNCE_DEVICE void NativePlatform::store(T* target, T value) const {
  static_assert(order == Order::relaxed || order == Order::release);
  std::atomic_ref<T>(*target).store(value, host_order(order));
}
template <Scope scope>
NOBOUNCE_DEVICE void NativePlatform::store_pair(std::uint64_t* target, std::uint64_t first,
                                                std::uint64_t second) const {
  store<Order::relaxed, scope>(target, first);
  store<Order::relaxed, scope>(target + 1, second);
}
template <Order order, Scope scope, typename T>
NOBOUNCE_DEVICE T NativePlatform::fetch_add(T* target, T operand) const {
  return std::atomic_ref<T>(*target).fetch_add(operand, host_order(order));
}
template <Order order, Scope scope, typename T>
NOBOUNCE_DEVICE T NativePlatform::compare_exchange(T* target, T expected, T desired) const {
  constexpr auto failure =
      order == Order::relaxed ? std::memory_order_relaxed : std::memory_order_acquire;
  (void)std::atomic_ref<T>(*target).compare_exchange_strong(expected, desired, host_order(order),
                                                            failure);
  return expected;
}
NOBOUNCE_DEVICE inline void NativePlatform::store_register(std::uint32_t* target,
                                                           std::uint32_t value) const {
  std::atomic_ref<std::uint32_t>(*target).store(value, std::memory_order_release);
}
NOBOUNCE_DEVICE inline std::uint64_t NativePlatform::now_ns() const {
  return host_clock == nullptr ? 0 : host_clock();
}
NOBOUNCE_DEVICE inline void NativePlatform::pause() const {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}
NOBOUNCE_DEVICE inline std::uint32_t NativePlatform::lanes_here() const {
  return 1;
}
NOBOUNCE_DEVICE inline std::uint32_t NativePlatform::lane() const {
  return 0;
}
NOBOUNCE_DEVICE inline std::uint32_t NativePlatform::lanes_alike(std::uint32_t lanes,
                                                                 std::uint64_t) const {
  return lanes;
}
NOBOUNCE_DEVICE inline std::uint64_t NativePlatform::from_lane(std::uint32_t, std::uint64_t value,
                                                               std::uint32_t) const {
  return value;
}
NOBOUNCE_DEVICE inline void NativePlatform::join_lanes(std::uint32_t) const {}

#endif

}  // namespace nobounce::device
