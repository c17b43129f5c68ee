// What a test-double library answers: a number made of the function's name and every argument, so
// that a wrong function, a lost argument or two swapped ones show.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace doubles {

inline void mix(std::uint64_t& hash, std::uint64_t value) {
  for (int byte = 0; byte < 8; ++byte) {
    hash ^= (value >> (8 * byte)) & 0xff;
    hash *= 0x100000001b3ull;
  }
}

template <typename T>
std::uint64_t number_of(T argument) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<std::uintptr_t>(argument);
  } else if constexpr (std::is_class_v<T>) {
    // Passed by value: its first and last bytes tell whether all of it came over.
    static_assert(sizeof(T) >= 2 * sizeof(std::uint64_t));
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::memcpy(&first, &argument, sizeof first);
    std::memcpy(&last, reinterpret_cast<const char*>(&argument) + sizeof(T) - sizeof last,
                sizeof last);
    return first ^ (last << 1);
  } else {
    return static_cast<std::uint64_t>(argument);
  }
}

/// Called with the arguments of the function it is named after.
struct Answer {
  std::string_view method;
  template <typename... Arguments>
  std::uint64_t operator()(Arguments... arguments) const {
    std::uint64_t hash = 0xcbf29ce484222325ull;
    for (const char character : method) mix(hash, static_cast<unsigned char>(character));
    (mix(hash, number_of(arguments)), ...);
    return hash;
  }
};

/// As a return code: positive.
inline int code_of(std::uint64_t hash) {
  return static_cast<int>(hash & 0x7fffffff);
}

}  // namespace doubles
