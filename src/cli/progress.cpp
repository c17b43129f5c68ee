// Draws the progress bar.
#include "cli/progress.hpp"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "report/quantity.hpp"
#include "report/style.hpp"

namespace nobounce::cli {

namespace {

constexpr std::uint64_t bar_columns = 30;
constexpr const char* wipe_line = "\r\x1b[K";

}  // namespace

std::string progress_bar(std::uint64_t done_bytes, std::uint64_t total_bytes) {
  const double part = total_bytes == 0 ? 1.0
                                       : static_cast<double>(std::min(done_bytes, total_bytes)) /
                                             static_cast<double>(total_bytes);
  const auto full = static_cast<std::size_t>(part * static_cast<double>(bar_columns));
  return fmt::format("[{}{}] {:>3} %  {} of {}", std::string(full, '#'),
                     std::string(bar_columns - full, '.'), static_cast<int>(part * 100.0),
                     report::short_bytes(done_bytes), report::short_bytes(total_bytes));
}

Progress::Progress(Console& console, const std::string& label, std::uint64_t total_bytes)
    : console_(console), label_(report::visible(label)), total_bytes_(total_bytes) {}

Progress::~Progress() {
  if (shown_) console_.progress_text(wipe_line);
}

void Progress::show(std::uint64_t done_bytes) {
  console_.progress_text(
      fmt::format("{}{}  {}", wipe_line, label_, progress_bar(done_bytes, total_bytes_)));
  shown_ = true;
}

void Progress::show_phase(const std::string& phase) {
  console_.progress_text(fmt::format("{}{}  {}", wipe_line, label_, phase));
  shown_ = true;
}

}  // namespace nobounce::cli
