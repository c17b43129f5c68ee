// Beginnings of files, and UTF-16.
#include "captures/content.hpp"

#include <algorithm>

#include "captures/scan.hpp"
#include "core/json.hpp"

namespace nobounce::captures {

namespace {

struct Beginning {
  std::string_view bytes;
  Content content;
};

using namespace std::string_view_literals;

constexpr Beginning beginnings[] = {
    {"\x1f\x8b"sv, {ContentKind::compressed, "gzip", "zcat"}},
    {"\x28\xb5\x2f\xfd"sv, {ContentKind::compressed, "zstd", "zstdcat"}},
    {"\xfd"
     "7zXZ\0"sv,
     {ContentKind::compressed, "xz", "xzcat"}},
    {"\x04\x22\x4d\x18"sv, {ContentKind::compressed, "lz4", "lz4cat"}},
    {"PK\x03\x04"sv, {ContentKind::archive, "zip", "unzip -p"}},
    {"7z\xbc\xaf\x27\x1c"sv, {ContentKind::archive, "7z", "7z x -so"}},
    {"\xff\xfe\0\0"sv, {ContentKind::wide, "UTF-32", "iconv -f UTF-32 -t UTF-8"}},
    {"\0\0\xfe\xff"sv, {ContentKind::wide, "UTF-32", "iconv -f UTF-32 -t UTF-8"}},
    {"%PDF-"sv, {ContentKind::binary, "PDF", ""}},
    {"\x7f"
     "ELF"sv,
     {ContentKind::binary, "a program", ""}},
};

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte == 0x7f) return true;
  return byte < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != '\f' && c != '\b' &&
         c != '\a' && c != '\v' && c != '\x1b';
}

/// Text in units of 16 bits without a mark: every other byte of ASCII is zero.
std::string_view unmarked_wide(std::string_view first) {
  std::size_t zeros[2] = {0, 0};
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (first[i] == '\0') ++zeros[i % 2];
  }
  const std::size_t most = first.size() / 2 - first.size() / 16;
  if (first.size() < 8 || zeros[0] + zeros[1] > first.size() / 2 + 1) return {};
  if (zeros[1] >= most) return "iconv -f UTF-16LE -t UTF-8";
  return zeros[0] >= most ? "iconv -f UTF-16BE -t UTF-8" : std::string_view();
}

}  // namespace

Content content_of(std::string_view first) {
  if (first.empty()) return {ContentKind::empty, {}, {}};
  for (const Beginning& one : beginnings) {
    if (starts(first, one.bytes)) return one.content;
  }
  if (starts(first, "BZh") && first.substr(std::min<std::size_t>(4, first.size()), 6) == "1AY&SY")
    return {ContentKind::compressed, "bzip2", "bzcat"};
  if (first.size() > 262 && first.substr(257, 5) == "ustar")
    return {ContentKind::archive, "tar", "tar -xOf"};
  if (starts(first, "\xff\xfe") || starts(first, "\xfe\xff")) return {};
  if (const std::string_view reader = unmarked_wide(first); !reader.empty())
    return {ContentKind::wide, "UTF-16", reader};
  // A log that was cut while it was written begins with a hole.
  std::string_view rest = first;
  while (!rest.empty() && rest.front() == '\0') rest.remove_prefix(1);
  if (rest.empty() && first.size() < content_bytes) return {ContentKind::binary, {}, {}};
  std::size_t strange = 0;
  const std::size_t all = rest.size();
  while (!rest.empty()) {
    const std::size_t length = core::utf8_length(rest);
    // A character may be cut at the end.
    if ((length == 0 && rest.size() >= 4) || is_control(rest.front())) ++strange;
    rest.remove_prefix(std::max<std::size_t>(length, 1));
  }
  // Other alphabets than UTF-8's are strange too, and are text: some of their bytes are ASCII.
  if (strange * 4 > all) return {ContentKind::binary, {}, {}};
  return {};
}

void TextDecoder::begin() {
  *this = TextDecoder();
}

std::string_view TextDecoder::decode(std::string_view bytes) {
  if (writing_ == Writing::utf8) return bytes;
  text_.clear();
  if (writing_ != Writing::undecided) {
    decode_wide(bytes);
    return text_;
  }
  if (bytes.empty()) return {};
  const auto may_begin = [](std::string_view text) {
    for (const std::string_view mark : {"\xef\xbb\xbf"sv, "\xff\xfe"sv, "\xfe\xff"sv}) {
      if (text.size() < mark.size() && starts(mark, text)) return true;
    }
    return false;
  };
  front_ += bytes.substr(0, 3);
  if (front_.size() < 3 && may_begin(front_)) return {};
  const std::size_t held = front_.size() - std::min<std::size_t>(bytes.size(), 3);
  if (starts(front_, "\xff\xfe") || starts(front_, "\xfe\xff")) {
    writing_ = front_.front() == '\xff' ? Writing::utf16_low_first : Writing::utf16_high_first;
    decode_wide(bytes.substr(2 - held));  // of two bytes at most one was held back
    return text_;
  }
  writing_ = Writing::utf8;
  const std::size_t mark = starts(front_, "\xef\xbb\xbf") ? 3 : 0;
  if (mark >= held) return bytes.substr(mark - held);
  text_ = front_.substr(mark, held - mark);
  text_ += bytes;
  return text_;
}

std::string_view TextDecoder::end() {
  text_.clear();
  if (writing_ == Writing::undecided) {
    text_ = front_;
  } else if (half_ || surrogate_ != 0) {
    text_ = "\xef\xbf\xbd";
  }
  return text_;
}

void TextDecoder::decode_wide(std::string_view bytes) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned>(static_cast<unsigned char>(c));
    half_ = !half_;
    if (half_) {
      first_byte_ = byte;
    } else {
      take_unit(writing_ == Writing::utf16_low_first ? first_byte_ | byte << 8
                                                     : first_byte_ << 8 | byte);
    }
  }
}

void TextDecoder::take_unit(unsigned unit) {
  const auto put = [this](unsigned byte) { text_ += static_cast<char>(byte); };
  const bool second = unit >= 0xDC00 && unit < 0xE000;
  if (surrogate_ != 0 && second) {
    const unsigned point = 0x10000 + ((surrogate_ - 0xD800) << 10) + (unit - 0xDC00);
    surrogate_ = 0;
    put(0xF0 | point >> 18);
    put(0x80 | (point >> 12 & 0x3F));
    put(0x80 | (point >> 6 & 0x3F));
    put(0x80 | (point & 0x3F));
    return;
  }
  constexpr std::string_view replacement = "\xef\xbf\xbd";
  if (surrogate_ != 0) text_ += replacement;
  surrogate_ = 0;
  if (unit < 0x80) {
    put(unit);
  } else if (unit < 0x800) {
    put(0xC0 | unit >> 6);
    put(0x80 | (unit & 0x3F));
  } else if (unit >= 0xD800 && unit < 0xDC00) {
    surrogate_ = unit;
  } else if (second) {
    text_ += replacement;
  } else {
    put(0xE0 | unit >> 12);
    put(0x80 | (unit >> 6 & 0x3F));
    put(0x80 | (unit & 0x3F));
  }
}

}  // namespace nobounce::captures
