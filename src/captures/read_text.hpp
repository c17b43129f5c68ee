// Captured text -> pieces with facts, and signs. Text comes in any chunks; memory is bounded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "captures/content.hpp"
#include "captures/line_words.hpp"
#include "captures/parser.hpp"
#include "core/capture.hpp"

namespace nobounce::captures {

/// Whether parsers see lines that have none of their words; for tests, as nothing may come of it.
enum class Showing : std::uint8_t { lines_with_words, every_line };

class TextReader {
 public:
  /// With every format's parser, or with the one of that name (for tests).
  explicit TextReader(std::string_view only = {}, Showing showing = Showing::lines_with_words);

  void begin(std::string file);
  /// UTF-8, or UTF-16 with a mark of its byte order.
  void feed(std::string_view bytes);
  void end();  ///< of the text begun last

  /// What all texts say together. Nothing can be read afterwards.
  [[nodiscard]] core::Captures finish();

 private:
  void split(std::string_view text);
  void take_line(std::string_view raw, bool open = false);
  void offer(std::string_view text, bool open);
  bool offer_to_all(const Line& line);
  bool offer_to(std::size_t parser, const Line& line);
  /// Parsers that took one of the last lines, as bits.
  [[nodiscard]] std::uint32_t listening(std::uint64_t number);
  /// Whose output the lines below are, where a line says so.
  void look_for_node(std::string_view text);

  Sink sink_;
  TextDecoder decoder_;
  std::vector<std::unique_ptr<Parser>> parsers_;
  std::vector<std::uint64_t> lines_behind_;   ///< of each parser
  std::vector<std::uint64_t> listens_until_;  ///< of each parser
  LineWords words_;                           ///< of all parsers, which are their marks
  std::string_view first_word_;               ///< of the first parser
  std::uint32_t shown_all_ = 0;               ///< parsers that see every line
  std::uint32_t listening_ = 0;               ///< parsers that may listen
  std::optional<std::uint32_t> found_;        ///< parsers whose words the line has
  std::string node_;                          ///< of the lines below a prompt or a heading
  std::string maybe_node_;  ///< a name below a rule; another rule makes it a heading
  bool below_rule_ = false;
  std::string carry_;   ///< a line whose end is in the next chunk
  std::string buffer_;  ///< of the line being cleaned
  std::uint64_t number_ = 0;
  bool dropping_ = false;  ///< the rest of a line that is too long
};

/// One text in memory.
[[nodiscard]] core::Captures read_text(std::string_view text, std::string file);

/// Readings of one counter in several texts, told as before and after.
void join_readings(core::Captures& captures);

}  // namespace nobounce::captures
