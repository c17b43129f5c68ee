// A progress bar on standard error, only where that is a terminal.
#pragma once

#include <cstdint>
#include <string>

#include "cli/console.hpp"

namespace nobounce::cli {

/// One line, rewritten in place and wiped at the end.
class Progress {
 public:
  Progress(Console& console, const std::string& label, std::uint64_t total_bytes);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  void show(std::uint64_t done_bytes);
  /// For a phase that has no count.
  void show_phase(const std::string& phase);

 private:
  Console& console_;
  std::string label_;
  std::uint64_t total_bytes_;
  bool shown_ = false;
};

/// `[#####.....]  45 %  1.2 GiB of 3 GiB`; pure.
[[nodiscard]] std::string progress_bar(std::uint64_t done_bytes, std::uint64_t total_bytes);

}  // namespace nobounce::cli
