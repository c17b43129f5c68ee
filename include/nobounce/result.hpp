// Result<T>: a value or an Error. std::expected's core, for C++20.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>
#include <variant>

#include <nobounce/error.hpp>

namespace nobounce {

/// Holds a T or an Error. Reading the wrong side is a programming error and aborts, also in release
/// builds.
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by design
  Result(Error error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit by design

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  [[nodiscard]] T& value() & { return *checked(std::get_if<0>(&state_)); }
  [[nodiscard]] const T& value() const& { return *checked(std::get_if<0>(&state_)); }
  [[nodiscard]] T&& value() && { return std::move(*checked(std::get_if<0>(&state_))); }
  [[nodiscard]] T& operator*() & { return value(); }
  [[nodiscard]] const T& operator*() const& { return value(); }
  [[nodiscard]] T&& operator*() && { return std::move(*this).value(); }
  [[nodiscard]] T* operator->() { return &value(); }
  [[nodiscard]] const T* operator->() const { return &value(); }

  [[nodiscard]] const Error& error() const& { return *checked(std::get_if<1>(&state_)); }
  [[nodiscard]] Error&& error() && { return std::move(*checked(std::get_if<1>(&state_))); }

 private:
  template <typename Pointer>
  static Pointer checked(Pointer pointer) {
    if (pointer == nullptr) {
      std::fputs("nobounce: the wrong side of a Result was read\n", stderr);
      std::abort();
    }
    return pointer;
  }

  std::variant<T, Error> state_;
};

/// Success, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit by design

  [[nodiscard]] bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] const Error& error() const {
    if (!error_.has_value()) {
      std::fputs("nobounce: the wrong side of a Result was read\n", stderr);
      std::abort();
    }
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace nobounce
