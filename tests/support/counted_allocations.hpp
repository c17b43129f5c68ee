// Counts what a program allocates, by replacing operator new and delete. To be included by one
// source of a program, and by no other.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace nobounce::test {

inline std::atomic<std::uint64_t> allocations_made{0};
inline thread_local std::uint64_t allocations_made_here = 0;

/// By all threads, and by the caller's alone.
inline std::uint64_t allocations() {
  return allocations_made;
}
inline std::uint64_t allocations_of_this_thread() {
  return allocations_made_here;
}

inline void count_allocation() {
  allocations_made.fetch_add(1, std::memory_order_relaxed);
  ++allocations_made_here;
}

}  // namespace nobounce::test

void* operator new(std::size_t length_bytes) {
  nobounce::test::count_allocation();
  void* const memory = std::malloc(length_bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
// All forms that anybody here may use, so that none falls back on the library's own.
void* operator new(std::size_t length_bytes, const std::nothrow_t&) noexcept {
  nobounce::test::count_allocation();
  return std::malloc(length_bytes);
}
void* operator new(std::size_t length_bytes, std::align_val_t alignment) {
  nobounce::test::count_allocation();
  const auto step = static_cast<std::size_t>(alignment);
  void* const memory = std::aligned_alloc(step, (length_bytes + step - 1) / step * step);
  if (memory == nullptr) std::abort();
  return memory;
}
void* operator new[](std::size_t length_bytes) {
  return operator new(length_bytes);
}
void* operator new[](std::size_t length_bytes, const std::nothrow_t& nothrow) noexcept {
  return operator new(length_bytes, nothrow);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
