// Cleaning lines.
#include "captures/line.hpp"

#include <algorithm>
#include <cstring>

#include "captures/scan.hpp"
#include "core/json.hpp"

namespace nobounce::captures {

namespace {

/// Length of an escape sequence at the front, also of one that lost its first byte: `[4m`.
std::size_t escape_length(std::string_view text) {
  std::size_t at = 0;
  if (text[0] == '\x1b') {
    at = 1;
  } else if (starts(text, "^[[")) {
    at = 2;
  }
  if (at >= text.size()) return at;
  if (at == 1 && text[1] == ']') {  // up to the bell
    const std::size_t bell = text.find('\a');
    return bell == std::string_view::npos ? text.size() : bell + 1;
  }
  if (text[at] != '[') return at == 1 ? 2 : 0;
  std::size_t end = at + 1;
  while (end < text.size() && (is_digit(text[end]) || text[end] == ';' || text[end] == '?')) ++end;
  if (end >= text.size()) return at == 0 ? 0 : end;
  const bool letter = is_letter(text[end]);
  if (at > 0) return letter ? end + 1 : end;
  // Without the escape byte only colours are sure: `[4m`, and not `[mem`.
  return text[end] == 'm' && end > at + 1 ? end + 1 : 0;
}

void append_byte(std::string& buffer, char c) {
  constexpr std::string_view digits = "0123456789abcdef";
  const auto value = static_cast<unsigned char>(c);
  buffer += "\\x";
  buffer += digits[value >> 4];
  buffer += digits[value & 15];
}

constexpr std::uint64_t high_bits = 0x8080808080808080u;

constexpr std::uint64_t eight_of(char c) {
  return static_cast<unsigned char>(c) * 0x0101010101010101u;
}

/// High bits: nonzero where any byte of eight is zero.
constexpr std::uint64_t zeros(std::uint64_t eight) {
  return (eight - eight_of('\x01')) & ~eight & high_bits;
}

/// Whether any byte of eight is a control character, beyond ASCII, or begins what stands for
/// another: `^`, `&` and the backslash. Tabs count as controls.
bool has_special(std::uint64_t eight) {
  const std::uint64_t control = (eight - eight_of(' ')) & ~eight;
  // `\` and `^` differ in one bit.
  return (((eight | control) & high_bits) | zeros((eight | eight_of('\x02')) ^ eight_of('^')) |
          zeros(eight ^ eight_of('&'))) != 0;
}

/// Whether a colour that lost its escape is there: `[4m`.
bool has_bare_colour(std::string_view raw) {
  // From its end: the letter is rarer than brackets, and seldom behind a digit.
  for (std::size_t at = raw.find('m'); at != std::string_view::npos; at = raw.find('m', at + 1)) {
    std::size_t begin = at;
    while (begin > 0 &&
           (is_digit(raw[begin - 1]) || raw[begin - 1] == ';' || raw[begin - 1] == '?'))
      --begin;
    if (begin < at && begin > 0 && raw[begin - 1] == '[') return true;
  }
  return false;
}

bool is_plain(std::string_view raw) {
  std::size_t at = 0;
  for (; at + 8 <= raw.size(); at += 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, raw.data() + at, 8);
    if (has_special(eight)) break;
  }
  bool marks = false;
  for (; at < raw.size(); ++at) {
    const auto byte = static_cast<unsigned char>(raw[at]);
    if (byte >= 0x80 || (byte < 0x20 && raw[at] != '\t')) return false;
    marks = marks || raw[at] == '&' || raw[at] == '^' || raw[at] == '\\';
  }
  if (marks && (has(raw, "&gt;") || has(raw, "^[[") || has(raw, "\\u003e"))) return false;
  return !has_bare_colour(raw);
}

std::string_view without_quotes(std::string_view text) {
  while (true) {
    std::size_t begin = 0;
    while (begin < text.size() && is_blank(text[begin])) ++begin;
    if (begin == text.size() || text[begin] != '>') return text;
    text.remove_prefix(begin + 1);
    if (starts(text, " ")) text.remove_prefix(1);
  }
}

/// Bytes at the front that stand for themselves and begin nothing.
std::size_t ordinary_run(std::string_view raw) {
  std::size_t length = 0;
  for (; length < raw.size(); ++length) {
    const char c = raw[length];
    if (c < ' ' || c > '~' || c == '[' || c == '^' || c == '&' || c == '\\') break;
  }
  return length;
}

void append_character(std::string& buffer, std::string_view& raw) {
  const char c = raw.front();
  if (starts(raw, "\xC2\xA0")) {  // a blank that does not break
    buffer += ' ';
    raw.remove_prefix(2);
    return;
  }
  if (starts(raw, "\xEF\xBB\xBF") || starts(raw, "\xE2\x80\x8B")) {  // marks without width
    raw.remove_prefix(3);
    return;
  }
  if (starts(raw, "&gt;")) {
    buffer += '>';
    raw.remove_prefix(4);
    return;
  }
  if (starts(raw, "\\u003e")) {  // of JSON within a log
    buffer += '>';
    raw.remove_prefix(6);
    return;
  }
  const std::size_t length = core::utf8_length(raw);
  if (length == 0) {
    append_byte(buffer, c);
    raw.remove_prefix(1);
    return;
  }
  const bool control =
      length == 1 && ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f);
  if (!control) buffer += raw.substr(0, length);
  raw.remove_prefix(length);
}

}  // namespace

std::string_view clean_line(std::string_view raw, std::string& buffer) {
  while (!raw.empty() && (raw.back() == '\r' || raw.back() == '\n')) raw.remove_suffix(1);
  if (is_plain(raw)) return without_quotes(raw);
  buffer.clear();
  while (!raw.empty()) {
    const std::size_t ordinary = ordinary_run(raw);
    if (ordinary > 0) {
      buffer += raw.substr(0, ordinary);
      raw.remove_prefix(ordinary);
      continue;
    }
    const bool may_begin = raw.front() == '\x1b' || raw.front() == '[' || raw.front() == '^';
    const std::size_t escape = may_begin ? escape_length(raw) : 0;
    if (escape > 0) {
      raw.remove_prefix(escape);
    } else {
      append_character(buffer, raw);
    }
  }
  return without_quotes(buffer);
}

namespace {

bool is_two_digits(std::string_view text, std::size_t at) {
  return at + 1 < text.size() && is_digit(text[at]) && is_digit(text[at + 1]);
}

/// `2026-02-11T09:13:48.617-05:00`, `2026-02-11 09:13:48,617`, `09:13:48.617`.
std::size_t time_length(std::string_view text) {
  std::size_t at = 0;
  if (text.size() > 10 && is_two_digits(text, 0) && is_two_digits(text, 2) &&
      (text[4] == '-' || text[4] == '/') && is_two_digits(text, 5) && is_two_digits(text, 8)) {
    at = 10;
    if (text[at] != 'T' && text[at] != ' ') return 0;
    ++at;
  }
  if (!is_two_digits(text, at) || at + 8 > text.size() || text[at + 2] != ':' ||
      !is_two_digits(text, at + 3) || text[at + 5] != ':' || !is_two_digits(text, at + 6))
    return 0;
  at += 8;
  while (at < text.size() && (is_digit(text[at]) || text[at] == '.' || text[at] == ',')) ++at;
  if (at < text.size() && text[at] == 'Z') return at + 1;
  if (at + 5 < text.size() && (text[at] == '+' || text[at] == '-') && is_two_digits(text, at + 1)) {
    ++at;
    while (at < text.size() && (is_digit(text[at]) || text[at] == ':')) ++at;
  }
  return at;
}

/// `Nov 29 15:36:10 `.
std::size_t syslog_length(std::string_view text) {
  constexpr std::string_view months = "JanFebMarAprMayJunJulAugSepOctNovDec";
  if (text.size() < 15 || months.find(text.substr(0, 3)) % 3 != 0 || text[3] != ' ') return 0;
  const std::size_t length = time_length(text.substr(7));
  return length > 0 && is_digit(text[5]) ? 7 + length : 0;
}

/// What stands in brackets: `[1,0]<stdout>:`, `[rank0]:`, `(RayWorker pid=12)`, `[  33.6152]`.
std::size_t label_length(std::string_view text) {
  const char open = text.front();
  const std::size_t close = text.find(open == '(' ? ')' : ']');
  if (close == std::string_view::npos || close > 60) return 0;
  const std::string_view inside = text.substr(1, close - 1);
  std::size_t end = close + 1;
  if (open == '(') return has(inside, "pid=") || has(inside, "rank") ? end : 0;
  for (const std::string_view stream : {"<stdout>:", "<stderr>:", "<stdout>", "<stderr>"}) {
    if (starts(text.substr(end), stream)) return end + stream.size();
  }
  if (starts(inside, "rank") || starts(inside, "default") || starts(inside, "worker"))
    return starts(text.substr(end), ":") ? end + 1 : end;
  const std::string_view digits = trim(inside);
  if (!digits.empty() && digits.find_first_not_of("0123456789.") == std::string_view::npos &&
      has(digits, "."))
    return end;  // seconds since the kernel started
  return time_length(digits) == digits.size() && !digits.empty() ? end : 0;
}

std::size_t prefix_length(std::string_view text) {
  if (text.empty()) return 0;
  if (const std::size_t length = time_length(text); length > 0) return length;
  if (const std::size_t length = syslog_length(text); length > 0) return length;
  if (text.front() == '[' || text.front() == '(') return label_length(text);
  for (const std::string_view stream : {"stdout F ", "stderr F ", "stdout P ", "stderr P "}) {
    if (starts(text, stream)) return stream.size();
  }
  if (starts(text, "| ") && time_length(text.substr(2)) > 0) return 2;
  // docker compose, ECS and others: `worker-1  | `.
  const std::size_t bar = text.substr(0, 52).find(" | ");
  if (bar != std::string_view::npos) {
    const std::string_view name = trim(text.substr(0, bar));
    if (!name.empty() && name.find_first_of(" \t|+") == std::string_view::npos &&
        (has(name, "-") || has(name, "_")) && is_letter(name.front()))
      return bar + 3;
  }
  return 0;
}

}  // namespace

std::string_view without_prefixes(std::string_view text) {
  for (int i = 0; i < 6; ++i) {
    const std::size_t begin = text.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return text;
    const std::size_t length = prefix_length(text.substr(begin));
    if (length == 0) return text;
    text.remove_prefix(begin + length);
  }
  return text;
}

std::string_view node_of(std::string_view text) {
  text = trim(text);
  const std::string_view front = text.substr(0, 62);
  const std::size_t at = std::min(front.find(": "), front.find(":\t"));
  if (at == std::string_view::npos || at == 0) return {};
  for (const char c : text.substr(0, at)) {
    if (!is_name(c) && c != '-' && c != '.' && c != '[' && c != ']') return {};
  }
  return text.substr(0, at);
}

bool is_node_name(std::string_view text) {
  text = trim(text);
  if (text.empty() || text.size() > 60 || !is_letter(text.front())) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_name(c) || c == '-' || c == '.'; });
}

bool is_rule(std::string_view text) {
  text = trim(text);
  return text.size() >= 8 && text.front() == '-' &&
         text.find_first_not_of('-') == std::string_view::npos;
}

std::optional<std::string_view> node_of_command(std::string_view text) {
  text = trim(text);
  std::string_view command;
  std::string_view node;
  if (starts(text, "$ ")) {
    command = text.substr(2);
  } else {
    // `[user@node dir]# `, `(env) user@node:dir$ `.
    const std::size_t at = text.substr(0, 41).find('@');
    if (at == std::string_view::npos || at == 0) return std::nullopt;
    const std::size_t end = std::min({text.find("$ ", at), text.find("# ", at), text.size()});
    if (end == text.size() && !ends(text, "$") && !ends(text, "#")) return std::nullopt;
    node = until(text.substr(at + 1), ": ]~$#");
    if (!is_node_name(node) || at + 1 + node.size() > end) return std::nullopt;
    const std::size_t begin = text.find_last_of("[ (", at);
    const std::string_view user =
        text.substr(begin == std::string_view::npos ? 0 : begin + 1,
                    at - (begin == std::string_view::npos ? 0 : begin + 1));
    if (!is_node_name(user)) return std::nullopt;
    command = end + 2 <= text.size() ? text.substr(end + 2) : std::string_view();
  }
  if (!starts(trim(command), "ssh ")) return node;
  // The first word that is no option is the node, after a user's name.
  for (const std::string_view word : words_of(trim(command).substr(4))) {
    if (starts(word, "-")) continue;
    const std::size_t user = word.find('@');
    const std::string_view host = user == std::string_view::npos ? word : word.substr(user + 1);
    return is_node_name(host) ? host : node;
  }
  return node;
}

std::string_view without_node(std::string_view text) {
  const std::string_view node = node_of(text);
  return node.empty() ? node : trim(text).substr(node.size() + 1);
}

std::string quoted_line(std::string_view text) {
  return bounded_text(trim(text));
}

std::string bounded_text(std::string_view text) {
  if (text.size() <= text_bytes_max) return std::string(text);
  std::size_t end = text_bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

}  // namespace nobounce::captures
