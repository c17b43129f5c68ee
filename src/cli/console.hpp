// Where a command prints: results on standard output, errors and progress on standard error.
#pragma once

#include <string_view>
#include <vector>

#include "cli/exit_code.hpp"
#include "core/json.hpp"
#include "report/style.hpp"

namespace nobounce::cli {

struct ConsoleOptions {
  bool json = false;
  bool colour_output = false;
  bool colour_error = false;
  bool progress = false;  ///< standard error is a terminal
};

/// For one thread.
class Console {
 public:
  explicit Console(ConsoleOptions options) : options_(options) {}

  [[nodiscard]] bool json() const { return options_.json; }
  [[nodiscard]] bool progress() const { return options_.progress; }
  [[nodiscard]] report::Style style() const { return {options_.colour_output}; }

  void text(std::string_view text);
  void document(const core::Json& json);
  /// A document on one line, of several that come one after the other: seen at once.
  void line(const core::Json& json);
  void flush();
  void progress_text(std::string_view text);

  /// Says it on standard error, or with --json as `nobounce.error/1` on standard output. Answers
  /// its exit code.
  int problem(const Problem& problem, std::vector<core::Json> receipts = {});

  /// Flushes. False if standard output took less than it was given (a full disk): said on standard
  /// error.
  [[nodiscard]] bool finish();

 private:
  ConsoleOptions options_;
};

}  // namespace nobounce::cli
