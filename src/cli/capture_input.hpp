// Captured text from files and standard input.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "captures/read_text.hpp"
#include "cli/console.hpp"
#include "cli/exit_code.hpp"
#include "cli/progress.hpp"
#include "system/host.hpp"
#include "system/terminal.hpp"

namespace nobounce::cli {

/// Whose texts they are: what helps where one cannot be read.
enum class CaptureUse : std::uint8_t { explain, topology };

/// Several texts, one after the other, in chunks: memory is bounded, and so is what is read in all.
/// Refuses what is no text, and says what makes one of it. A signal ends it.
class CaptureInput {
 public:
  CaptureInput(Console& console, system::Host& host, CaptureUse use, std::uint64_t limit_bytes);

  /// One text, begun and ended: of a file, or `-` for standard input.
  [[nodiscard]] std::optional<Problem> read(const std::string& path, captures::TextReader& reader);

 private:
  std::optional<Problem> read_standard_input(captures::TextReader& reader);
  std::optional<Problem> read_file(const std::string& path, captures::TextReader& reader);
  /// After each chunk. Looks at the beginning, the bound and signals.
  std::optional<Problem> take(std::string_view bytes, captures::TextReader& reader);
  std::optional<Problem> end(captures::TextReader& reader);
  std::optional<Problem> look(captures::TextReader& reader);
  [[nodiscard]] std::optional<Problem> interrupted() const;
  [[nodiscard]] std::optional<Problem> too_long() const;
  [[nodiscard]] Problem refused(std::string detail, std::string remedy) const;

  Console& console_;
  system::Host& host_;
  CaptureUse use_;
  std::string command_;  ///< what reads a text in standard input
  std::uint64_t limit_bytes_;
  std::uint64_t read_bytes_ = 0;   ///< of all texts
  std::uint64_t shown_bytes_ = 0;  ///< when progress was shown last
  std::string path_;
  std::string front_;    ///< of the text, until it was looked at
  bool looked_ = false;  ///< it is a text
  std::optional<Progress> progress_;
  std::optional<system::InterruptWatch> interrupts_;
};

}  // namespace nobounce::cli
