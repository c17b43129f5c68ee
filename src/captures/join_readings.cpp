// Two texts with one reading each of the same counter are a reading before and one after.
#include <algorithm>

#include "captures/read_text.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

/// -1 before, 1 after, 0 where the file's name does not say.
int reading_order(std::string_view file) {
  const std::string name = lower(file);
  if (has(name, "before") || has(name, "_pre") || has(name, "-pre")) return -1;
  if (has(name, "after") || has(name, "_post") || has(name, "-post")) return 1;
  return 0;
}

}  // namespace

void join_readings(core::Captures& captures) {
  for (const char* source : {"reads", "writes"}) {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < captures.signs.size(); ++i) {
      const core::CaptureSign& sign = captures.signs[i];
      if (sign.kind == core::SignKind::driver_counter && sign.word == "once" &&
          sign.source == source && !sign.lines.empty())
        found.push_back(i);
    }
    if (found.size() < 2) continue;
    std::stable_sort(found.begin(), found.end(), [&](std::size_t a, std::size_t b) {
      return reading_order(captures.signs[a].lines.front().file) <
             reading_order(captures.signs[b].lines.front().file);
    });
    const core::CaptureSign first = captures.signs[found.front()];
    core::CaptureSign& last = captures.signs[found.back()];
    last.word = "twice";
    last.value = first.second;
    last.lines.insert(last.lines.begin(), first.lines.front());
    const std::string key = std::string(source) == "reads" ? "Reads n" : "Writes n";
    set_entry(captures.pieces[last.piece].facts, "delta", key,
              static_cast<std::int64_t>(last.second - last.value));
    for (std::size_t i = found.size() - 1; i-- > 0;)
      captures.signs[found[i]].kind = core::SignKind::graph_shown,
      captures.signs[found[i]].word = "joined";
  }
}

}  // namespace nobounce::captures
