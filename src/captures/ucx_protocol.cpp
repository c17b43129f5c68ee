// UCX's protocol tables (UCX_PROTO_INFO): which way it takes for which sizes and kinds of memory.
#include <algorithm>

#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

struct UcxRow {
  std::string range;
  std::string what;
  std::string lanes;
  bool estimated = false;
  core::TextLine line;
};

std::vector<std::string_view> ucx_fields(std::string_view text) {
  const std::size_t begin = text.find('|');
  if (begin == std::string_view::npos) return {};
  std::vector<std::string_view> fields;
  for (const std::string_view field : split(text.substr(begin + 1), '|'))
    fields.push_back(trim(field));
  if (!fields.empty() && fields.back().empty()) fields.pop_back();
  return fields;
}

/// `cuda/GPU1` -> cuda; `host memory` -> host.
std::string ucx_memory(std::string_view text) {
  return lower(until(trim(text), "/ ,("));
}

bool ucx_on_gpu(std::string_view memory) {
  if (has(memory, "managed")) return false;  // may lie in host memory
  return starts(memory, "cuda") || starts(memory, "rocm") || starts(memory, "ze-");
}

bool ucx_is_range(std::string_view text) {
  if (text.empty() || !is_digit(text.front())) return false;
  return text.find_first_not_of("0123456789.infKMGB") == std::string_view::npos;
}

class UcxProtocolParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {" by ucp_"};
    return {words, 3};
  }

  bool take(const Line& line) override {
    if (!has(line.text, "|")) {
      if (!near(line, 2) || !has(line.text, "+--")) return false;
      reach(line);
      return true;
    }
    const std::vector<std::string_view> fields = ucx_fields(line.text);
    if (fields.size() < 2) return false;
    if (take_operation(fields, line)) return true;
    if (!near(line, 3) || fields.size() < 3 || !ucx_is_range(fields[0])) return false;
    add_row(fields[0], fields[1], fields[2], line);
    return true;
  }

  void end() override {
    finish();
    close();
  }

 private:
  bool take_operation(const std::vector<std::string_view>& fields, const Line& line) {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const auto by = after(fields[i], " by ucp_");
      if (!by.has_value() || !has(*by, " from ")) continue;
      finish();
      if (!near(line, 3)) open("ucx_proto", line);
      reach(line);
      operation_ = "ucp_" + std::string(until(*by, "*( "));
      std::string_view memory = *after(*by, " from ");
      from_ = ucx_memory(before(memory, " to "));
      const auto gpu = after(before(memory, " to "), "/GPU");
      gpu_ = gpu.has_value() ? "GPU" + std::to_string(whole_number(*gpu).value_or(0)) : "";
      to_.clear();
      if (const auto target = after(memory, " to "); target.has_value()) {
        to_ = ucx_memory(*target);
        const auto other = after(*target, "/GPU");
        if (gpu_.empty() && other.has_value())
          gpu_ = "GPU" + std::to_string(whole_number(*other).value_or(0));
      }
      between_ = i > 0 && has(fields[0], "intra-node")   ? "intra"
                 : i > 0 && has(fields[0], "inter-node") ? "inter"
                                                         : "";
      set_fact(facts(), "operation", operation_);
      set_fact(facts(), "from", from_);
      if (!to_.empty()) set_fact(facts(), "to", to_);
      active_ = true;
      header_ = evidence(line);
      if (fields.size() >= i + 3) add_row("", fields[i + 1], fields[i + 2], line);
      return true;
    }
    return false;
  }

  void add_row(std::string_view range, std::string_view what, std::string_view lanes,
               const Line& line) {
    if (!active_) return;
    reach(line);
    UcxRow row{std::string(range), lower(what), std::string(lanes), starts(what, "(?)"),
               evidence(line)};
    if (row.estimated) {
      ++estimated_;
      set_fact(facts(), "estimated_rows", estimated_);
    }
    for (std::string_view word : words_of(lanes)) {
      while (!word.empty() && (word.back() == ',' || word.back() == ')')) word.remove_suffix(1);
      while (!word.empty() && word.front() == '(') word.remove_prefix(1);
      if (has(word, "/")) add_item(facts(), "lanes", word);
    }
    if (rows_.size() < 256) rows_.push_back(std::move(row));
  }

  /// What a row does with GPU memory.
  static std::string kind_of(const UcxRow& row) {
    const bool tcp = starts(row.lanes, "tcp/") || has(row.lanes, " tcp/");
    if (has(row.what, "software emulation")) return tcp ? "emulated_tcp" : "emulated";
    if (tcp) return "tcp";
    if (has(row.what, "frag host")) return "host_fragments";
    if (has(row.what, "copy-in") || has(row.what, "copy to attached") ||
        has(row.what, "copy from mapped"))
      return "copied";
    if (has(row.lanes, "sysv/") || has(row.lanes, "posix/")) return "shared_memory";
    if (has(row.what, "zero-copy") && !has(row.what, "copy-out"))
      return row.estimated ? "zero_copy_estimated" : "zero_copy";
    return "other";
  }

  static std::string adapter_of(const UcxRow& row) {
    for (const std::string_view word : words_of(row.lanes)) {
      const std::size_t slash = word.find('/');
      if (slash == std::string_view::npos) continue;
      const std::string_view device = until(word.substr(slash + 1), ":,)");
      if (starts(word, "cuda_ipc") || starts(word, "rocm_ipc")) return "cuda_ipc";
      if (!device.empty()) return std::string(device);
    }
    return {};
  }

  void finish() {
    if (!active_) return;
    active_ = false;
    core::CaptureSign one;
    one.kind = core::SignKind::protocol;
    one.source = gpu_;
    one.direction = between_;
    one.other = operation_;
    if (!ucx_on_gpu(from_) && !ucx_on_gpu(to_)) {
      one.word = "host_memory";
      one.lines.push_back(rows_.empty() ? header_ : rows_.back().line);
      if (!rows_.empty()) one.target = adapter_of(rows_.back());
      one.lines.insert(one.lines.begin(), header_);
    } else if (rows_.empty()) {
      one.word = "no_rows";
      one.lines.push_back(header_);
    } else {
      // The largest sizes decide; small ones may be sent inline.
      auto main = std::find_if(rows_.rbegin(), rows_.rend(), [](const UcxRow& row) {
        return ends(row.range, "inf") || row.range.empty();
      });
      if (main == rows_.rend()) {
        one.word = "no_large_rows";
        one.lines = {header_, rows_.back().line};
      } else {
        one.word = kind_of(*main);
        if (one.word != "shared_memory") one.target = adapter_of(*main);
        one.lines.push_back(main->line);
        if (main->line.line != header_.line) one.lines.push_back(header_);
      }
    }
    sign(std::move(one));
    rows_.clear();
  }

  std::vector<UcxRow> rows_;
  std::string operation_, from_, to_, gpu_, between_;
  core::TextLine header_;
  std::uint64_t estimated_ = 0;
  bool active_ = false;
};

}  // namespace

std::unique_ptr<Parser> ucx_protocol_parser(Sink& sink) {
  return std::make_unique<UcxProtocolParser>(sink);
}

}  // namespace nobounce::captures
