// Which of some hundred words a line has, found in one pass: most lines of a log have none, and are
// then shown to no parser.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace nobounce::captures {

class LineWords {
 public:
  /// At least three bytes long, and stays where it is.
  void add(std::string_view word, std::uint32_t marks);
  /// The marks of all words that the text has, together.
  [[nodiscard]] std::uint32_t marks_in(std::string_view text) const;

 private:
  struct Word {
    std::string_view text;
    std::uint32_t marks = 0;
    std::uint32_t key_at = 0;  ///< where its rarest three bytes are
    std::uint32_t next = 0;    ///< one more than the index of another of the same slot
  };
  [[nodiscard]] std::uint32_t marks_of_slot(std::uint32_t slot, std::string_view text,
                                            std::size_t at) const;

  std::vector<Word> words_;
  std::vector<std::uint16_t> slots_;  ///< one more than the index of a word; 0: none
};

}  // namespace nobounce::captures
