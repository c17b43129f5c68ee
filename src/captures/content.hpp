// What is in a file, by how it begins: text, or what a text has to be made of first. And the
// characters of a text, as UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nobounce::captures {

enum class ContentKind : std::uint8_t { text, empty, compressed, archive, wide, binary };

struct Content {
  ContentKind kind = ContentKind::text;
  std::string_view name;    ///< gzip, zip, UTF-16 ...; empty where nobody knows it
  std::string_view reader;  ///< the command that makes a text of it; empty where there is none
};

/// How much of a beginning is worth looking at.
constexpr std::size_t content_bytes = 4096;

/// `first`: as much as `content_bytes`, or all there is.
[[nodiscard]] Content content_of(std::string_view first);

/// UTF-16 with a mark of its byte order becomes UTF-8, such a mark before UTF-8 goes, everything
/// else stays as it is. Takes a text in any chunks.
class TextDecoder {
 public:
  void begin();
  /// A view of `bytes` where they need no change; otherwise valid until the next call.
  [[nodiscard]] std::string_view decode(std::string_view bytes);
  /// What the end of the text leaves undecided.
  [[nodiscard]] std::string_view end();

 private:
  enum class Writing : std::uint8_t { undecided, utf8, utf16_low_first, utf16_high_first };

  void decode_wide(std::string_view bytes);
  void take_unit(unsigned unit);

  Writing writing_ = Writing::undecided;
  std::string front_;  ///< what may be the beginning of a mark
  std::string text_;   ///< decoded
  bool half_ = false;  ///< of a unit, its first byte is known
  unsigned first_byte_ = 0;
  unsigned surrogate_ = 0;  ///< the first of a pair; 0: none
};

}  // namespace nobounce::captures
