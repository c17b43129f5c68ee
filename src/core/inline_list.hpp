// A short list inside its owner: no allocation, and nothing is paid for room that is not used.
#pragma once

#include <cassert>
#include <cstddef>
#include <memory>
#include <type_traits>

namespace nobounce::core {

template <typename T, std::size_t Capacity>
class InlineList {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  InlineList() = default;
  InlineList(const InlineList& other) { take(other); }
  InlineList& operator=(const InlineList& other) {
    if (this != &other) take(other);
    return *this;
  }

  void push_back(const T& value) {
    assert(size_ < Capacity);
    std::construct_at(data() + size_, value);
    ++size_;
  }
  void erase(const T* at) {
    for (T* here = begin() + (at - begin()); here + 1 != end(); ++here) *here = *(here + 1);
    --size_;
  }
  void clear() { size_ = 0; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] T& operator[](std::size_t index) { return data()[index]; }
  [[nodiscard]] const T& operator[](std::size_t index) const { return data()[index]; }
  [[nodiscard]] T* begin() { return data(); }
  [[nodiscard]] T* end() { return data() + size_; }
  [[nodiscard]] const T* begin() const { return data(); }
  [[nodiscard]] const T* end() const { return data() + size_; }

 private:
  void take(const InlineList& other) {
    size_ = 0;
    for (const T& value : other) push_back(value);
  }
  [[nodiscard]] T* data() { return reinterpret_cast<T*>(room_); }
  [[nodiscard]] const T* data() const { return reinterpret_cast<const T*>(room_); }

  alignas(T) std::byte room_[Capacity * sizeof(T)];
  std::size_t size_ = 0;
};

}  // namespace nobounce::core
