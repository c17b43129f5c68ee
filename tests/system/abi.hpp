// Compares two function types as a caller's machine code sees them.
#pragma once

#include <type_traits>

namespace nobounce::test {

template <typename T>
inline constexpr bool is_number = std::is_integral_v<T> || std::is_enum_v<T>;

/// Sizes of what two pointers point to; equal where one of them is unknown (void, opaque handles).
template <typename Ours, typename Theirs>
constexpr bool same_target() {
  using A = std::remove_cv_t<std::remove_pointer_t<Ours>>;
  using B = std::remove_cv_t<std::remove_pointer_t<Theirs>>;
  if constexpr (std::is_void_v<A> || std::is_void_v<B>) {
    return true;
  } else if constexpr (std::is_pointer_v<A> || std::is_pointer_v<B>) {
    return std::is_pointer_v<A> && std::is_pointer_v<B>;
  } else if constexpr (requires {
                         sizeof(A);
                         sizeof(B);
                       }) {
    return sizeof(A) == sizeof(B);
  } else {
    return true;
  }
}

template <typename Ours, typename Theirs>
constexpr bool same_value() {
  if constexpr (std::is_void_v<Ours> || std::is_void_v<Theirs>) {
    return std::is_void_v<Ours> && std::is_void_v<Theirs>;
  } else if constexpr (std::is_pointer_v<Ours> || std::is_pointer_v<Theirs>) {
    if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
      return same_target<Ours, Theirs>();
    } else {
      return false;
    }
  } else {
    return sizeof(Ours) == sizeof(Theirs) && is_number<Ours> == is_number<Theirs>;
  }
}

template <typename Ours, typename Theirs>
struct SameCall : std::false_type {};

/// Ours is a method of a table, theirs the C function behind it.
template <typename Table, typename R, typename... A, typename S, typename... B>
struct SameCall<R (Table::*)(A...), S (*)(B...)> {
  static constexpr bool compare() {
    if constexpr (sizeof...(A) != sizeof...(B)) {
      return false;
    } else {
      return same_value<R, S>() && (same_value<A, B>() && ...);
    }
  }
  static constexpr bool value = compare();
};

/// The same for C functions that the compiler knows to be noexcept or not.
template <typename Method, typename Function>
constexpr bool same_call(Method, Function) {
  return SameCall<Method, Function>::value;
}

}  // namespace nobounce::test
