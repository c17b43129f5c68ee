// A table of three bytes of each word: one look per byte of the line, and a comparison where that
// finds something.
#include "captures/line_words.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>

#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

constexpr std::size_t key_bytes = 3;
constexpr unsigned slot_bits = 13;

constexpr std::uint32_t with_byte(std::uint32_t key, char c) {
  return key >> 8 | static_cast<std::uint32_t>(static_cast<unsigned char>(c)) << 16;
}

constexpr std::uint32_t slot_of_key(std::uint32_t key) {
  return (key * 0x9E3779B1u) >> (32 - slot_bits);
}

/// How seldom a byte is in text that somebody reads.
unsigned rarity(char c) {
  constexpr std::string_view common = "etaoinsrhldcu ";
  if (common.find(c) != std::string_view::npos) return 0;
  return (c >= 'a' && c <= 'z') || is_digit(c) ? 1 : 2;
}

unsigned rarity_of_key(std::string_view word, std::size_t at) {
  return rarity(word[at]) + rarity(word[at + 1]) + rarity(word[at + 2]);
}

std::uint32_t slot_at(std::string_view word, std::size_t at) {
  std::uint32_t key = 0;
  for (std::size_t i = 0; i < key_bytes; ++i) key = with_byte(key, word[at + i]);
  return slot_of_key(key);
}

}  // namespace

void LineWords::add(std::string_view word, std::uint32_t marks) {
  assert(word.size() >= key_bytes && words_.size() < UINT16_MAX);
  for (Word& held : words_) {
    if (held.text != word) continue;
    held.marks |= marks;
    return;
  }
  if (slots_.empty()) slots_.assign(std::size_t{1} << slot_bits, 0);
  // The rarest three bytes, or nearly so where many words have those: `GPU`.
  unsigned most = 0;
  for (std::size_t at = 0; at + key_bytes <= word.size(); ++at)
    most = std::max(most, rarity_of_key(word, at));
  std::size_t best = 0;
  std::size_t fewest = words_.size() + 1;
  for (std::size_t at = 0; at + key_bytes <= word.size(); ++at) {
    if (rarity_of_key(word, at) + 1 < most) continue;
    std::size_t others = 0;
    for (std::uint32_t slot = slots_[slot_at(word, at)]; slot != 0; slot = words_[slot - 1].next)
      ++others;
    if (others >= fewest) continue;
    fewest = others;
    best = at;
  }
  std::uint16_t& slot = slots_[slot_at(word, best)];
  words_.push_back({word, marks, static_cast<std::uint32_t>(best), slot});
  slot = static_cast<std::uint16_t>(words_.size());
}

std::uint32_t LineWords::marks_in(std::string_view text) const {
  if (slots_.empty() || text.size() < key_bytes) return 0;
  std::uint32_t marks = 0;
  std::uint32_t key = with_byte(with_byte(0, text[0]), text[1]);
  for (std::size_t end = key_bytes; end <= text.size(); ++end) {
    key = with_byte(key, text[end - 1]);
    const std::uint32_t slot = slots_[slot_of_key(key)];
    if (slot != 0) marks |= marks_of_slot(slot, text, end - key_bytes);
  }
  return marks;
}

std::uint32_t LineWords::marks_of_slot(std::uint32_t slot, std::string_view text,
                                       std::size_t at) const {
  std::uint32_t marks = 0;
  for (; slot != 0; slot = words_[slot - 1].next) {
    const Word& word = words_[slot - 1];
    const std::size_t begin = at - word.key_at;
    if (at < word.key_at || begin + word.text.size() > text.size()) continue;
    // Both ends first: what shares three bytes with a word seldom shares them.
    if (text[begin] == word.text.front() &&
        text[begin + word.text.size() - 1] == word.text.back() &&
        text.compare(begin, word.text.size(), word.text) == 0)
      marks |= word.marks;
  }
  return marks;
}

}  // namespace nobounce::captures
