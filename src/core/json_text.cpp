// Writing a JSON value: always valid UTF-8, whatever bytes the texts hold.
#include <charconv>
#include <cmath>

#include "core/json.hpp"

namespace nobounce::core {

// No overlong forms, no surrogates.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [text](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned first = byte(0);
  const auto follows = [&byte](std::size_t i, unsigned low, unsigned high) {
    return byte(i) >= low && byte(i) <= high;
  };
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1, 0x80, 0xBF) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = first == 0xED ? 0x9F : 0xBF;
    return follows(1, low, high) && follows(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90 : 0x80;
    const unsigned high = first == 0xF4 ? 0x8F : 0xBF;
    return follows(1, low, high) && follows(2, 0x80, 0xBF) && follows(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

namespace {

void write_escape(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  constexpr std::string_view digits = "0123456789abcdef";
  const auto value = static_cast<unsigned char>(c);
  out += "\\u00";
  out += digits[value >> 4];
  out += digits[value & 15];
}

// `\\xff`: as text of four characters.
void write_byte(std::string& out, char c) {
  constexpr std::string_view digits = "0123456789abcdef";
  const auto value = static_cast<unsigned char>(c);
  out += "\\\\x";
  out += digits[value >> 4];
  out += digits[value & 15];
}

void write_text(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t length = utf8_length(text);
    if (length == 0) {  // JSON cannot hold such a byte; spelled out, a file name can be found again
      write_byte(out, c);
      text.remove_prefix(1);
      continue;
    }
    if (length == 1 &&
        (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7F)) {
      write_escape(out, c);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  out += '"';
}

void write_real(std::string& out, double number) {
  if (!std::isfinite(number)) {  // JSON has no such number
    out += "null";
    return;
  }
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), number).ptr;
  const std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  out += text;
  // So that it reads back as a real.
  if (text.find_first_of(".e") == std::string_view::npos) out += ".0";
}

class TextWriter {
 public:
  explicit TextWriter(bool compact) : compact_(compact) {}

  void write(const Json& json) {
    std::visit([this](const auto& value) { put(value); }, json.value);
  }
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  void put(std::nullptr_t) { out_ += "null"; }
  void put(bool flag) { out_ += flag ? "true" : "false"; }
  void put(std::int64_t number) { out_ += std::to_string(number); }
  void put(std::uint64_t number) { out_ += std::to_string(number); }
  void put(double number) { write_real(out_, number); }
  void put(const std::string& text) { write_text(out_, text); }
  void put(const JsonArray& items) {
    wrap('[', ']', items, [this](const Json& item) { write(item); });
  }
  void put(const JsonObject& members) {
    wrap('{', '}', members, [this](const auto& member) {
      write_text(out_, member.first);
      out_ += compact_ ? ":" : ": ";
      write(member.second);
    });
  }

  template <typename Items, typename Write>
  void wrap(char open, char close, const Items& items, Write write_one) {
    out_ += open;
    ++depth_;
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_ += ',';
      first = false;
      new_line();
      write_one(item);
    }
    --depth_;
    if (!items.empty()) new_line();
    out_ += close;
  }

  void new_line() {
    if (compact_) return;
    out_ += '\n';
    out_.append(2 * depth_, ' ');
  }

  bool compact_;
  std::size_t depth_ = 0;
  std::string out_;
};

}  // namespace

bool is_plain_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0 || text.front() == '\0') return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string dump_json(const Json& json, bool compact) {
  TextWriter writer(compact);
  writer.write(json);
  return writer.take();
}

}  // namespace nobounce::core
