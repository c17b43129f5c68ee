// Lines of NCCL and RCCL logs.
#include "captures/nccl_line.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

/// The last `[digits]` in the text, and what stands before it.
bool nccl_device(std::string_view left, NcclLine& line, std::string_view& rest) {
  for (std::size_t close = left.rfind(']'); close != std::string_view::npos && close > 0;
       close = close == 0 ? std::string_view::npos : left.rfind(']', close - 1)) {
    std::size_t begin = close;
    while (begin > 0 && is_digit(left[begin - 1])) --begin;
    if (begin < close && begin > 0 && left[begin - 1] == '[' && close - begin < 5) {
      line.device = static_cast<std::uint32_t>(*whole_number(left.substr(begin, close - begin)));
      rest = left.substr(0, begin - 1);
      return true;
    }
  }
  return false;
}

bool nccl_is_glue(char c) {
  return c == ':' || c == '|' || c == '>' || c == ')' || c == ']' || c == '"';
}

/// `node:710:710` at the end of the text.
void nccl_process(std::string_view left, NcclLine& line) {
  left = trim(left);
  std::size_t front = left.size();
  while (front > 0 && !is_blank(left[front - 1])) --front;
  const std::string_view word = left.substr(front);
  const std::size_t thread = word.rfind(':');
  if (thread == std::string_view::npos || thread == 0) return;
  const std::size_t process = word.rfind(':', thread - 1);
  if (process == std::string_view::npos) return;
  const auto digits = [word](std::size_t begin, std::size_t end) {
    if (begin >= end) return false;
    for (std::size_t i = begin; i < end; ++i) {
      if (!is_digit(word[i])) return false;
    }
    return true;
  };
  if (!digits(process + 1, thread) || !digits(thread + 1, word.size())) return;
  line.host = word.substr(0, process);
  // What collectors glue in front: `0:node`, `worker|node`.
  std::size_t begin = line.host.size();
  while (begin > 0 && !nccl_is_glue(line.host[begin - 1])) --begin;
  line.host.remove_prefix(begin);
  line.process = word.substr(static_cast<std::size_t>(line.host.data() - word.data()),
                             thread - static_cast<std::size_t>(line.host.data() - word.data()));
}

}  // namespace

NcclLine nccl_line(std::string_view text, std::size_t from) {
  NcclLine line;
  line.body = trim(text);
  std::size_t at = from == std::string_view::npos ? from : text.find("NCCL ", from);
  while (at != std::string_view::npos) {
    const std::string_view level = text.substr(at + 5, 5);
    if (starts(level, "INFO") || starts(level, "WARN") || starts(level, "TRACE") ||
        starts(level, "ERROR") || starts(level, "ABORT"))
      break;
    at = text.find("NCCL ", at + 5);
  }
  if (at == std::string_view::npos) return line;
  line.marked = true;
  std::size_t level_end = at + 5;
  while (level_end < text.size() && !is_blank(text[level_end])) ++level_end;
  line.body = trim(text.substr(level_end));
  std::string_view rest;
  if (nccl_device(text.substr(0, at), line, rest)) nccl_process(rest, line);
  return line;
}

namespace {

std::optional<NcclRank> nccl_rank_at_end(std::string_view text) {
  text = trim(text);
  NcclRank rank;
  if (ends(text, "]")) {
    const std::size_t open = text.rfind('[');
    if (open == std::string_view::npos) return std::nullopt;
    rank.bracket = text.substr(open + 1, text.size() - open - 2);
    text = text.substr(0, open);
  }
  std::size_t begin = text.size();
  while (begin > 0 && is_digit(text[begin - 1])) --begin;
  const auto number = whole_number(text.substr(begin));
  if (!number.has_value() || *number > 10'000'000) return std::nullopt;
  rank.rank = static_cast<std::uint32_t>(*number);
  return rank;
}

std::optional<NcclRank> nccl_rank_at_front(std::string_view text, std::string_view& rest) {
  text = trim(text);
  std::size_t end = 0;
  while (end < text.size() && is_digit(text[end])) ++end;
  const auto number = whole_number(text.substr(0, end));
  if (!number.has_value() || *number > 10'000'000) return std::nullopt;
  NcclRank rank;
  rank.rank = static_cast<std::uint32_t>(*number);
  if (end < text.size() && text[end] == '[') {
    const std::size_t close = text.find(']', end);
    if (close == std::string_view::npos) return std::nullopt;
    rank.bracket = text.substr(end + 1, close - end - 1);
    end = close + 1;
  }
  rest = text.substr(end);
  return rank;
}

/// Where a transport ends: RCCL appends ` comm 0x..`, collectors quotes and escapes.
std::string_view nccl_transport(std::string_view text) {
  std::size_t end = 0;
  bool blank = false;
  for (; end < text.size(); ++end) {
    const char c = text[end];
    if (c == '"' || c == '\\' || c == '<' || c == '\t') break;
    blank = blank || c == ' ';
  }
  text = text.substr(0, end);
  if (!blank) return text;
  for (const std::string_view tail : {" comm ", " nRanks", "  "}) text = before(text, tail);
  return trim(text);
}

/// Whether `text` is a beginning of `word`, but not the whole.
bool nccl_is_cut(std::string_view text, std::string_view word) {
  return text.size() < word.size() && starts(word, text);
}

/// `NET/IB/1(3)/GDRDMA/Shared`, behind the first slash.
bool nccl_network(std::string_view text, NcclUse& use) {
  // The adapter's number is the first part that begins with a digit; names may hold anything.
  std::size_t at = 0;
  while (true) {
    at = text.find('/', at);
    if (at == std::string_view::npos) {
      use.plugin = text;
      use.cut = true;
      return !text.empty();
    }
    if (at + 1 < text.size() && is_digit(text[at + 1])) break;
    ++at;
  }
  use.plugin = text.substr(0, at);
  std::string_view rest = text.substr(at + 1);
  const auto adapter = whole_number(rest);
  if (!adapter.has_value() || *adapter > 100'000) return false;
  use.adapter = static_cast<std::uint32_t>(*adapter);
  while (!rest.empty() && is_digit(rest.front())) rest.remove_prefix(1);
  if (starts(rest, "(")) {
    const std::size_t close = rest.find(')');
    if (close == std::string_view::npos) {
      use.cut = true;
      return true;
    }
    if (const auto proxy = whole_number(rest.substr(1)); proxy.has_value() && *proxy < 10'000'000)
      use.proxy = static_cast<std::uint32_t>(*proxy);
    rest.remove_prefix(close + 1);
  }
  use.gdrdma = starts(rest, "/GDRDMA");
  if (!use.gdrdma) {
    use.cut = rest == "/" || (!rest.empty() && nccl_is_cut(rest, "/GDRDMA")) ||
              nccl_is_cut(rest, "/Shared");
    if (rest.empty()) use.cut = false;
  }
  return true;
}

}  // namespace

std::size_t nccl_via(std::string_view body) {
  // From the letter, which is rarer than the blank before it.
  for (std::size_t at = body.find("via "); at != std::string_view::npos;
       at = body.find("via ", at + 4)) {
    if (at > 0 && body[at - 1] == ' ') return at - 1;
  }
  return std::string_view::npos;
}

namespace {

/// What the wordings since 2.12 begin with, taken from the front.
class NcclFront {
 public:
  explicit NcclFront(std::string_view text) : text_(text) {}

  bool skip(std::string_view words) {
    if (!starts(text_.substr(at_), words)) return false;
    at_ += words.size();
    return true;
  }
  bool digits() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return at_ > begin;
  }
  /// `919[7]`, of at most seven digits.
  bool rank(NcclRank& rank) {
    const std::size_t begin = at_;
    rank.rank = 0;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_)
      rank.rank = rank.rank * 10 + static_cast<std::uint32_t>(text_[at_] - '0');
    if (at_ == begin || at_ > begin + 7 || !skip("[")) return false;
    const std::size_t open = at_;
    while (at_ < text_.size() && is_hex(text_[at_])) ++at_;
    rank.bracket = text_.substr(open, at_ - open);
    return skip("]");
  }
  [[nodiscard]] std::size_t at() const { return at_; }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

/// `Channel 05/0 : 0[0] -> 2[0] [receive] via `, as nearly all lines of a large log begin: length,
/// or zero where the line is another, which is then looked at from its middle.
std::size_t nccl_channel(std::string_view body, NcclUse& use) {
  NcclFront front(body);
  if (!front.skip("Channel ") || !front.digits()) return 0;
  if (front.skip("/") && !front.digits()) return 0;
  if (!front.skip(" : ") || !front.rank(use.source) || !front.skip(" -> ") ||
      !front.rank(use.target) || !front.skip(" "))
    return 0;
  if (front.skip("[send] ")) {
    use.direction = "send";
  } else if (front.skip("[receive] ")) {
    use.direction = "receive";
  }
  return front.skip("via ") ? front.at() : 0;
}

/// The same of any wording.
bool nccl_ends(std::string_view left, NcclUse& use) {
  const std::size_t arrow = left.find("->");
  const std::size_t back = arrow == std::string_view::npos ? left.find("<-") : arrow;
  if (back == std::string_view::npos && !has(left, "Coll")) return false;
  if (ends(left, "[send]")) {
    use.direction = "send";
    left.remove_suffix(6);
  } else if (ends(left, "[receive]")) {
    use.direction = "receive";
    left.remove_suffix(9);
  }
  if (back != std::string_view::npos) {
    const auto first = nccl_rank_at_end(left.substr(0, back));
    std::string_view rest;
    const auto second = nccl_rank_at_front(left.substr(back + 2), rest);
    if (!first.has_value() || !second.has_value()) return false;
    use.source = arrow != std::string_view::npos ? *first : *second;
    use.target = arrow != std::string_view::npos ? *second : *first;
  } else {
    const auto own = nccl_rank_at_end(left);
    if (!own.has_value()) return false;
    use.source = use.target = *own;
  }
  return true;
}

}  // namespace

std::optional<NcclUse> nccl_use(std::string_view body) {
  NcclUse use;
  std::size_t behind = nccl_channel(body, use);
  if (behind == 0) {
    const std::size_t via = nccl_via(body);
    if (via == std::string_view::npos) return std::nullopt;
    use = {};
    if (!nccl_ends(body.substr(0, via), use)) return std::nullopt;
    behind = via + 5;
  }
  use.transport = nccl_transport(body.substr(behind));
  const std::string_view transport = use.transport;
  if (starts(transport, "P2P/")) {
    use.kind = NcclUseKind::peer;
    use.cut = transport == "P2P/";
  } else if (starts(transport, "SHM") || starts(transport, "direct shared memory")) {
    use.kind = NcclUseKind::shared_memory;
  } else if (starts(transport, "NET/")) {
    use.kind = NcclUseKind::network;
    if (!nccl_network(transport.substr(4), use)) return std::nullopt;
  } else if (starts(transport, "COLLNET/")) {
    use.kind = NcclUseKind::collective;
    if (!nccl_network(transport.substr(8), use)) return std::nullopt;
  } else {
    return std::nullopt;
  }
  return use;
}

std::uint32_t nccl_version_number(std::string_view version) {
  std::array<std::uint32_t, 3> parts{};
  for (std::uint32_t& part : parts) {
    const auto number = whole_number(version);
    if (!number.has_value() || *number > 99) return 0;
    part = static_cast<std::uint32_t>(*number);
    while (!version.empty() && is_digit(version.front())) version.remove_prefix(1);
    if (!starts(version, ".")) break;
    version.remove_prefix(1);
  }
  return parts[0] * 10000 + parts[1] * 100 + parts[2];
}

std::string_view nccl_distance_name(std::uint32_t version, std::uint64_t distance) {
  struct Row {
    std::uint32_t first;
    std::vector<std::string_view> names;
  };
  static const std::vector<Row> rows = {
      // SOC: any two host bridges. In 2.3 to 2.5 the limit itself is refused, too.
      {20305, {"PIX", "PXB", "PHB", "SOC"}},
      {20406, {"PIX", "PXB", "PHB", "NODE", "SYS"}},
      {20604, {"LOC", "NVL", "PIX", "PXB", "PHB", "SYS", "NET"}},
      {20803, {"LOC", "NVL", "NVB", "PIX", "PXB", "PHB", "SYS"}},
      {21207, {"LOC", "NVL", "NVB", "PIX", "PXB", "PXN", "PHB", "SYS", "NET"}},
      {22602, {"LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "PXN", "PHB", "SYS", "NET", "DIS"}},
      {22703, {"LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "PXN", "P2C", "PHB", "SYS", "NET", "DIS"}},
      {22705, {"LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS"}},
  };
  if (version < rows.front().first) return {};
  auto row = std::find_if(rows.rbegin(), rows.rend(),
                          [version](const Row& one) { return one.first <= version; });
  return distance < row->names.size() ? row->names[distance] : std::string_view();
}

}  // namespace nobounce::captures
