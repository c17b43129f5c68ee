// Copies between memory and the registers of whoever asks: aligned words whole, as the bus carries
// them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace nobounce::fabric {

/// Registers, as the ledger writes them: no memory and no file, so that no load counts as an
/// arrival anywhere.
inline constexpr std::uint64_t registers_file = ~std::uint64_t{0};

/// Which side of a copy is memory that others use at the same time.
enum class WordsOf : std::uint8_t { source, target };

namespace words {

template <typename Unit>
bool copy_whole(std::byte* target, const std::byte* source, std::size_t length, WordsOf shared) {
  const auto* memory = shared == WordsOf::target ? target : source;
  if (length != sizeof(Unit) || reinterpret_cast<std::uintptr_t>(memory) % sizeof(Unit) != 0) {
    return false;
  }
  Unit value{};
  if (shared == WordsOf::target) {
    std::memcpy(&value, source, sizeof value);
    std::atomic_ref<Unit>(*reinterpret_cast<Unit*>(target)).store(value);
  } else {
    // atomic_ref takes no const: nothing is written.
    auto* at = reinterpret_cast<Unit*>(const_cast<std::byte*>(source));
    value = std::atomic_ref<Unit>(*at).load();
    std::memcpy(target, &value, sizeof value);
  }
  return true;
}

}  // namespace words

/// Aligned words whole, all else byte by byte in no promised order.
inline void copy_words(std::byte* target, const std::byte* source, std::size_t length,
                       WordsOf shared) {
  if (words::copy_whole<std::uint8_t>(target, source, length, shared) ||
      words::copy_whole<std::uint16_t>(target, source, length, shared) ||
      words::copy_whole<std::uint32_t>(target, source, length, shared) ||
      words::copy_whole<std::uint64_t>(target, source, length, shared)) {
    return;
  }
  std::memmove(target, source, length);
}

}  // namespace nobounce::fabric
