// Numbers and texts as bytes, most significant byte first; reading never goes beyond the end.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nobounce::wire {

[[nodiscard]] inline bool is_printable(char character) {
  return character >= 0x20 && character < 0x7f;
}

class ByteWriter {
 public:
  explicit ByteWriter(std::vector<std::byte>& target) : target_(target) {}

  void number(std::uint64_t value, unsigned width_bytes) {
    for (unsigned i = width_bytes; i > 0; --i)
      target_.push_back(static_cast<std::byte>(value >> ((i - 1) * 8)));
  }
  void u8(std::uint8_t value) { number(value, 1); }
  void u16(std::uint16_t value) { number(value, 2); }
  void u32(std::uint32_t value) { number(value, 4); }
  void u64(std::uint64_t value) { number(value, 8); }
  void bytes(std::span<const std::byte> source) {
    target_.insert(target_.end(), source.begin(), source.end());
  }
  /// Cut to `length_max`, which must fit into 16 bits; what is not printable ASCII becomes `?`.
  void text(std::string_view source, std::size_t length_max) {
    source = source.substr(0, length_max);
    u16(static_cast<std::uint16_t>(source.size()));
    for (const char character : source)
      target_.push_back(static_cast<std::byte>(is_printable(character) ? character : '?'));
  }

 private:
  std::vector<std::byte>& target_;
};

/// After the first read beyond the end, or of a value that cannot be, everything reads as zero and
/// good() is false for ever.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> source) : rest_(source) {}

  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool at_end() const { return good_ && rest_.empty(); }
  [[nodiscard]] std::span<const std::byte> rest() const { return rest_; }
  void fail() {
    good_ = false;
    rest_ = {};
  }

  std::uint64_t number(unsigned width_bytes) {
    const std::span<const std::byte> source = take(width_bytes);
    std::uint64_t value = 0;
    for (const std::byte byte : source) value = (value << 8) | std::to_integer<std::uint64_t>(byte);
    return value;
  }
  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  /// A number that is at most `most`.
  std::uint8_t u8_up_to(std::uint8_t most) {
    const std::uint8_t value = u8();
    if (value <= most) return value;
    fail();
    return 0;
  }
  template <std::size_t Size>
  void bytes(std::array<std::byte, Size>& target) {
    const std::span<const std::byte> source = take(Size);
    if (good_) std::copy(source.begin(), source.end(), target.begin());
  }
  /// A text of printable ASCII, since it will be shown on terminals.
  std::string text(std::size_t length_max) {
    const std::size_t length = u16();
    if (length > length_max) fail();
    const std::span<const std::byte> source = take(length);
    std::string result;
    result.reserve(source.size());
    for (const std::byte byte : source) {
      const auto character = static_cast<char>(byte);
      if (!is_printable(character)) {
        fail();
        return {};
      }
      result.push_back(character);
    }
    return result;
  }

 private:
  std::span<const std::byte> take(std::size_t length) {
    if (!good_ || length > rest_.size()) {
      fail();
      return {};
    }
    const std::span<const std::byte> taken = rest_.first(length);
    rest_ = rest_.subspan(length);
    return taken;
  }

  std::span<const std::byte> rest_;
  bool good_ = true;
};

}  // namespace nobounce::wire
