// Two readings of the same counter of the same node, of which a text says which came first, are a
// reading before and one after.
#include <algorithm>
#include <map>
#include <tuple>

#include "captures/read_text.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

/// A file's name without the word that says when it was read, and that: -1 before, 1 after, 0 where
/// the name does not say.
struct ReadingFile {
  std::string stem;
  int order = 0;
};

ReadingFile reading_file(std::string_view file) {
  ReadingFile named{lower(file), 0};
  const std::pair<std::string_view, int> words[] = {{"before", -1}, {"after", 1}, {"_pre", -1},
                                                    {"-pre", -1},   {"_post", 1}, {"-post", 1}};
  for (const auto& [word, order] : words) {
    const std::size_t at = named.stem.find(word);
    if (at == std::string::npos) continue;
    named.stem.erase(at, word.size());
    named.order = order;
    return named;
  }
  return named;
}

}  // namespace

void join_readings(core::Captures& captures) {
  // By counter, node and files that belong together: two files of no known order are two machines
  // as likely as two moments.
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < captures.signs.size(); ++i) {
    const core::CaptureSign& sign = captures.signs[i];
    if (sign.kind != core::SignKind::driver_counter || sign.word != "once" || sign.lines.empty())
      continue;
    groups[{sign.source, sign.host, reading_file(sign.lines.front().file).stem}].push_back(i);
  }
  for (auto& [key, found] : groups) {
    if (found.size() < 2) continue;
    const auto order_of = [&](std::size_t i) {
      return reading_file(captures.signs[i].lines.front().file).order;
    };
    std::stable_sort(found.begin(), found.end(),
                     [&](std::size_t a, std::size_t b) { return order_of(a) < order_of(b); });
    const core::CaptureSign first = captures.signs[found.front()];
    core::CaptureSign& last = captures.signs[found.back()];
    last.word = "twice";
    last.value = first.second;
    for (std::size_t i = 0; i + 1 < std::min(last.numbers.size(), first.numbers.size()); i += 2)
      last.numbers[i] = first.numbers[i + 1];
    last.lines.insert(last.lines.begin(), first.lines.front());
    const std::string name = std::get<0>(key) == "reads" ? "Reads n" : "Writes n";
    set_entry(captures.pieces[last.piece].facts, "delta", name,
              static_cast<std::int64_t>(last.second - last.value));
    for (std::size_t i = found.size() - 1; i-- > 0;)
      captures.signs[found[i]].kind = core::SignKind::graph_shown,
      captures.signs[found[i]].word = "joined";
  }
}

}  // namespace nobounce::captures
