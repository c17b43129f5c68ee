// What every parser of captured text must keep to, whatever it is fed: valid JSON comes out, every
// cited line exists, chunks of another size give the same, and so does a parser that sees every
// line.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "captures/read_text.hpp"
#include "core/json.hpp"

namespace nobounce::test {

inline void require(bool holds) {
  if (!holds) std::abort();
}

inline core::Captures read_in_chunks(
    std::string_view only, std::string_view text, std::size_t chunk,
    captures::Showing showing = captures::Showing::lines_with_words) {
  captures::TextReader reader(only, showing);
  reader.begin("text");
  for (std::size_t at = 0; at < text.size(); at += chunk) reader.feed(text.substr(at, chunk));
  reader.end();
  return reader.finish();
}

inline void check_captures(const core::Captures& read, std::string_view text) {
  const auto lines = static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  for (const core::CapturePiece& piece : read.pieces) {
    require(piece.first_line >= 1 && piece.first_line <= piece.last_line &&
            piece.last_line <= lines);
    const std::string facts = core::dump_json(core::Json(piece.facts), true);
    require(core::is_plain_utf8(facts) && core::parse_json(facts, "facts").ok());
  }
  for (const core::CaptureSign& sign : read.signs) {
    require(sign.piece < read.pieces.size());
    for (const core::TextLine& line : sign.lines) {
      require(line.line >= 1 && line.line <= lines && line.text.size() <= 410);
      require(core::is_plain_utf8(line.text) || line.text.empty());
    }
  }
}

/// One format's parser, or all.
inline int fuzz_captures(std::string_view only, const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const core::Captures whole = read_in_chunks(only, text, text.size() + 1);
  check_captures(whole, text);
  const core::Captures shown_all =
      read_in_chunks(only, text, text.size() + 1, captures::Showing::every_line);
  require(shown_all == whole);
  if (size > 0 && data[0] % 8 == 0) {
    const core::Captures parts = read_in_chunks(only, text, 1 + data[size - 1] % 64);
    require(parts.pieces.size() == whole.pieces.size() && parts.signs.size() == whole.signs.size());
  }
  return 0;
}

}  // namespace nobounce::test
