// Compares words with the table of causes.
#include "cli/cause_hint.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <nobounce/cause.hpp>
#include "core/json.hpp"

namespace nobounce::cli {

namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c == '-' ? '_' : c;
  });
  return result;
}

std::string_view behind_dot(std::string_view id) {
  return id.substr(id.find('.') + 1);
}

/// As many letters of one stand in the other, in order, as could.
bool resembles(std::string_view word, std::string_view candidate) {
  std::size_t found = 0;
  for (const char c : candidate) {
    if (found < word.size() && word[found] == c) ++found;
  }
  std::size_t reverse = 0;
  for (const char c : word) {
    if (reverse < candidate.size() && candidate[reverse] == c) ++reverse;
  }
  return 4 * std::max(found, reverse) >= 3 * std::min(word.size(), candidate.size()) &&
         2 * word.size() >= candidate.size() && 2 * candidate.size() >= word.size();
}

}  // namespace

std::string cause_hint(std::string_view word) {
  const std::string id = lower(word);
  if (id.empty() ||
      id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.") != std::string::npos)
    return {};
  std::vector<std::string> ids;
  std::vector<std::string> tails;
  for (const CauseRow& row : cause_table()) {
    if (row.id == word) return "a cause is asked for alone: nobounce explain " + std::string(word);
    ids.emplace_back(row.id);
    tails.emplace_back(behind_dot(row.id));
  }
  const bool whole = id.find('.') != std::string::npos;
  const std::string near = core::nearest(id, whole ? ids : tails);
  if (!resembles(id, near)) return {};
  const std::string& meant =
      whole ? near
            : ids[static_cast<std::size_t>(std::find(tails.begin(), tails.end(), near) -
                                           tails.begin())];
  return "did you mean nobounce explain " + meant + "? nobounce explain --list shows all causes";
}

}  // namespace nobounce::cli
