// What every format's parser is: it takes the lines that belong to it, one after another, and
// leaves pieces with facts, and signs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "captures/line.hpp"
#include "core/capture.hpp"

namespace nobounce::captures {

/// Where parsers leave what they found. Bounded: what exceeds a bound is dropped, and said.
class Sink {
 public:
  void begin_text(std::string file) { file_ = std::move(file); }
  [[nodiscard]] const std::string& file() const { return file_; }

  [[nodiscard]] std::size_t open(std::string_view kind, std::uint64_t line);
  [[nodiscard]] core::CapturePiece& piece(std::size_t index) { return captures_.pieces[index]; }
  [[nodiscard]] core::TextLine evidence(const Line& line) const {
    return {file_, line.number, quoted_line(line.text)};
  }
  void add(core::CaptureSign sign);
  [[nodiscard]] core::Captures take() { return std::move(captures_); }
  [[nodiscard]] const core::Captures& captures() const { return captures_; }

 private:
  std::string file_;
  core::Captures captures_;
  std::uint64_t bytes_ = 0;      ///< of signs, and of the facts of pieces that are done
  std::size_t pieces_done_ = 0;  ///< of which the facts are counted
};

/// Of which lines a format may take one or learn from it: those that have one of its words, and
/// some behind a line that it took. Without words: of all.
struct Vocabulary {
  std::span<const std::string_view> words = {};  ///< each of at least three bytes
  std::uint64_t lines_behind = 0;
};

class Parser {
 public:
  explicit Parser(Sink& sink) : sink_(sink) {}
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;
  virtual ~Parser() = default;

  /// True if the line belongs to this format. Lines come in order; a text may hold others between.
  virtual bool take(const Line& line) = 0;
  [[nodiscard]] virtual Vocabulary vocabulary() const = 0;
  /// The last line that it wants to see whatever that says.
  [[nodiscard]] std::uint64_t listens_until(std::uint64_t lines_behind) const {
    return is_open() ? std::max(listens_until_, last_ + lines_behind) : listens_until_;
  }
  /// The text ends: what is still gathered is to be left now.
  virtual void end() {}

 protected:
  [[nodiscard]] bool is_open() const { return piece_.has_value(); }
  /// Whether the last line taken is at most `lines` before this one.
  [[nodiscard]] bool near(const Line& line, std::uint64_t lines) const {
    return is_open() && line.number <= last_ + lines;
  }
  void open(std::string_view kind, const Line& line);
  /// Wants to see the next lines, too, also if none of this one is taken.
  void listen(const Line& line, std::uint64_t lines) { listens_until_ = line.number + lines; }
  void reach(const Line& line);  ///< the piece goes on to this line
  void close() { piece_.reset(); }
  [[nodiscard]] core::JsonObject& facts();
  [[nodiscard]] core::TextLine evidence(const Line& line) const { return sink_.evidence(line); }
  /// Gives the sign its piece and leaves it.
  void sign(core::CaptureSign sign);
  void sign(core::SignKind kind, const Line& line, std::string source = {}, std::string target = {},
            std::string word = {}, double value = 0);

  Sink& sink_;

 private:
  std::optional<std::size_t> piece_;
  std::uint64_t last_ = 0;
  std::uint64_t listens_until_ = 0;
};

/// Facts: set or replaced; entries of an object; items of a list, each once. Bounded.
void set_fact(core::JsonObject& facts, std::string_view name, core::Json value);
[[nodiscard]] const core::Json* fact(const core::JsonObject& facts, std::string_view name);
void set_entry(core::JsonObject& facts, std::string_view name, std::string_view key,
               core::Json value);
void add_item(core::JsonObject& facts, std::string_view name, core::Json value);

}  // namespace nobounce::captures
