// Finding values in a JSON document by key and by pointer (RFC 6901), and guessing which was meant.
#include <algorithm>
#include <charconv>
#include <optional>

#include "core/json.hpp"

namespace nobounce::core {

namespace {

// Takes the step that `pointer` starts with ("/key...") off it. Empty for a malformed step.
std::optional<std::string> take_step(std::string_view& pointer) {
  if (pointer.empty() || pointer.front() != '/') return std::nullopt;
  pointer.remove_prefix(1);
  const std::string_view raw = pointer.substr(0, pointer.find('/'));
  pointer.remove_prefix(raw.size());
  std::string step;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '~') {
      step += raw[i];
      continue;
    }
    ++i;
    if (i >= raw.size() || (raw[i] != '0' && raw[i] != '1')) return std::nullopt;
    step += raw[i] == '0' ? '~' : '/';
  }
  return step;
}

const Json* child_of(const Json& parent, std::string_view step) {
  if (parent.as_object() != nullptr) return parent.find(step);
  const JsonArray* items = parent.as_array();
  if (items == nullptr || step.empty() || (step.size() > 1 && step.front() == '0')) return nullptr;
  std::size_t index = 0;
  const auto [end, failure] = std::from_chars(step.data(), step.data() + step.size(), index);
  if (failure != std::errc{} || end != step.data() + step.size()) return nullptr;
  return index < items->size() ? &(*items)[index] : nullptr;
}

void collect(const Json& json, const std::string& prefix, std::vector<std::string>& pointers) {
  if (const JsonObject* members = json.as_object(); members != nullptr && !members->empty()) {
    for (const auto& [key, value] : *members) collect(value, prefix + pointer_step(key), pointers);
    return;
  }
  if (const JsonArray* items = json.as_array(); items != nullptr && !items->empty()) {
    for (std::size_t i = 0; i < items->size(); ++i) {
      collect((*items)[i], prefix + "/" + std::to_string(i), pointers);
    }
    return;
  }
  pointers.push_back(prefix);
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

const Json* Json::find(std::string_view key) const {
  const JsonObject* members = as_object();
  if (members == nullptr) return nullptr;
  for (const auto& [name, member] : *members) {
    if (name == key) return &member;
  }
  return nullptr;
}

Json* Json::find(std::string_view key) {
  return const_cast<Json*>(static_cast<const Json*>(this)->find(key));
}

const Json* resolve_pointer(const Json& document, std::string_view pointer) {
  const Json* at = &document;
  while (!pointer.empty()) {
    const std::optional<std::string> step = take_step(pointer);
    if (!step.has_value()) return nullptr;
    at = child_of(*at, *step);
    if (at == nullptr) return nullptr;
  }
  return at;
}

Json* resolve_pointer(Json& document, std::string_view pointer) {
  return const_cast<Json*>(resolve_pointer(static_cast<const Json&>(document), pointer));
}

std::vector<std::string> all_pointers(const Json& document) {
  std::vector<std::string> pointers;
  collect(document, "", pointers);
  return pointers;
}

std::string pointer_step(std::string_view key) {
  std::string step = "/";
  for (const char c : key) {
    if (c == '~') {
      step += "~0";
    } else if (c == '/') {
      step += "~1";
    } else {
      step += c;
    }
  }
  return step;
}

std::string nearest(std::string_view text, const std::vector<std::string>& candidates) {
  constexpr std::size_t compared_max = 256;  // the work grows with the product of the lengths
  text = text.substr(0, compared_max);
  const std::string* best = nullptr;
  if (text.size() >= 3) {
    for (const std::string& candidate : candidates) {
      const bool begins = std::string_view(candidate).substr(0, text.size()) == text;
      if (begins && (best == nullptr || candidate.size() < best->size())) best = &candidate;
    }
  }
  if (best != nullptr) return *best;
  std::size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    const std::string_view compared = std::string_view(candidate).substr(0, compared_max);
    const std::size_t distance = edit_distance(text, compared);
    if (best == nullptr || distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best == nullptr ? std::string() : *best;
}

std::string nearest_pointer(const Json& document, std::string_view pointer) {
  std::string found;
  const Json* at = &document;
  std::string with_slash;
  if (!pointer.empty() && pointer.front() != '/') {
    with_slash = "/" + std::string(pointer);
    pointer = with_slash;
  }
  while (!pointer.empty()) {
    const std::string raw(pointer.substr(1, pointer.find('/', 1) - 1));
    const std::optional<std::string> step = take_step(pointer);
    const Json* child = step.has_value() ? child_of(*at, *step) : nullptr;
    if (child != nullptr) {
      found += pointer_step(*step);
      at = child;
      continue;
    }
    if (const JsonObject* members = at->as_object(); members != nullptr && !members->empty()) {
      std::vector<std::string> keys;
      for (const auto& [key, value] : *members) keys.push_back(key);
      const std::string key = nearest(step.value_or(raw), keys);
      found += pointer_step(key);
      at = at->find(key);
    } else if (const JsonArray* items = at->as_array(); items != nullptr && !items->empty()) {
      found += "/" + std::to_string(items->size() - 1);
      at = &items->back();
    } else {
      return found;
    }
  }
  return found;
}

}  // namespace nobounce::core
