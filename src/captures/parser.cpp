// Pieces, facts and signs, with their bounds.
#include "captures/parser.hpp"

#include <algorithm>
#include <utility>

namespace nobounce::captures {

namespace {

constexpr std::size_t pieces_max = 4096;
constexpr std::size_t signs_max = 300'000;
constexpr std::size_t entries_max = 4096;
constexpr std::uint64_t bytes_max = 128ULL << 20;
/// Pieces that parsers may still add to.
constexpr std::size_t pieces_open_max = 64;

std::uint64_t bytes_of_json(const core::Json& json) {
  std::uint64_t bytes = sizeof(core::Json);
  if (const std::string* text = json.as_text()) bytes += text->size();
  if (const core::JsonArray* items = json.as_array()) {
    for (const core::Json& item : *items) bytes += bytes_of_json(item);
  }
  if (const core::JsonObject* members = json.as_object()) {
    for (const auto& [key, value] : *members)
      bytes += sizeof(key) + key.size() + bytes_of_json(value);
  }
  return bytes;
}

std::uint64_t bytes_of_sign(const core::CaptureSign& sign) {
  std::uint64_t bytes = sizeof(sign) + sign.numbers.size() * sizeof(double);
  for (const std::string* text :
       {&sign.source, &sign.target, &sign.direction, &sign.word, &sign.other, &sign.host})
    bytes += text->size();
  for (const core::TextLine& line : sign.lines)
    bytes += sizeof(line) + line.file.size() + line.text.size();
  return bytes;
}

void bound_text(std::string& text) {
  if (text.size() > text_bytes_max) text = bounded_text(text);
}

core::Json bounded_value(core::Json value) {
  const std::string* text = value.as_text();
  return text != nullptr && text->size() > text_bytes_max ? core::Json(bounded_text(*text))
                                                          : std::move(value);
}

}  // namespace

std::size_t Sink::open(std::string_view kind, std::uint64_t line) {
  for (; pieces_done_ + pieces_open_max < captures_.pieces.size(); ++pieces_done_) {
    for (const auto& [key, value] : captures_.pieces[pieces_done_].facts)
      bytes_ += key.size() + bytes_of_json(value);
  }
  const bool full = bytes_ >= bytes_max && !captures_.pieces.empty();
  if (full || captures_.pieces.size() >= pieces_max) {
    core::CapturePiece& last = captures_.pieces.back();
    set_fact(last.facts, "further_pieces_dropped", true);
    return captures_.pieces.size() - 1;
  }
  captures_.pieces.push_back({std::string(kind), file_, line, line, {}});
  return captures_.pieces.size() - 1;
}

void Sink::add(core::CaptureSign sign) {
  for (std::string* text :
       {&sign.source, &sign.target, &sign.direction, &sign.word, &sign.other, &sign.host})
    bound_text(*text);
  const std::uint64_t bytes = bytes_of_sign(sign);
  if (captures_.signs.size() >= signs_max || bytes_ + bytes > bytes_max) {
    set_fact(captures_.pieces[sign.piece].facts, "further_signs_dropped", true);
    return;
  }
  bytes_ += bytes;
  captures_.signs.push_back(std::move(sign));
}

void Parser::open(std::string_view kind, const Line& line) {
  piece_ = sink_.open(kind, line.number);
  last_ = line.number;
}

void Parser::reach(const Line& line) {
  if (!piece_.has_value()) return;
  core::CapturePiece& piece = sink_.piece(*piece_);
  piece.last_line = std::max(piece.last_line, line.number);
  last_ = line.number;
}

core::JsonObject& Parser::facts() {
  return sink_.piece(*piece_).facts;
}

void Parser::sign(core::CaptureSign sign) {
  if (!piece_.has_value()) return;
  sign.piece = *piece_;
  sink_.add(std::move(sign));
}

void Parser::sign(core::SignKind kind, const Line& line, std::string source, std::string target,
                  std::string word, double value) {
  core::CaptureSign one;
  one.kind = kind;
  one.source = std::move(source);
  one.target = std::move(target);
  one.word = std::move(word);
  one.value = value;
  one.lines.push_back(evidence(line));
  sign(std::move(one));
}

void set_fact(core::JsonObject& facts, std::string_view name, core::Json value) {
  value = bounded_value(std::move(value));
  const std::string bounded = name.size() > text_bytes_max ? bounded_text(name) : std::string();
  if (!bounded.empty()) name = bounded;
  for (auto& [key, held] : facts) {
    if (key == name) {
      held = std::move(value);
      return;
    }
  }
  if (facts.size() < entries_max) facts.emplace_back(std::string(name), std::move(value));
}

const core::Json* fact(const core::JsonObject& facts, std::string_view name) {
  for (const auto& [key, held] : facts) {
    if (key == name) return &held;
  }
  return nullptr;
}

void set_entry(core::JsonObject& facts, std::string_view name, std::string_view key,
               core::Json value) {
  for (auto& [held_name, held] : facts) {
    if (held_name != name) continue;
    if (core::JsonObject* object = held.as_object()) set_fact(*object, key, std::move(value));
    return;
  }
  core::JsonObject object;
  set_fact(object, key, std::move(value));
  set_fact(facts, name, std::move(object));
}

void add_item(core::JsonObject& facts, std::string_view name, core::Json value) {
  value = bounded_value(std::move(value));
  for (auto& [held_name, held] : facts) {
    if (held_name != name) continue;
    core::JsonArray* items = held.as_array();
    if (items == nullptr || items->size() >= entries_max) return;
    if (std::find(items->begin(), items->end(), value) == items->end())
      items->push_back(std::move(value));
    return;
  }
  core::JsonArray items;
  items.push_back(std::move(value));
  set_fact(facts, name, std::move(items));
}

}  // namespace nobounce::captures
