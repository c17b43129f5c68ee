// `rocm-smi --showtopo` and `amd-smi topology`: weights, hops and kinds of links between GPUs.
#include "captures/device_names.hpp"
#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

class AmdTopologyParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {"ROCm System Management Interface",
                                                 "between two GPUs",
                                                 "WEIGHT TABLE",
                                                 "HOPS TABLE",
                                                 "LINK TYPE TABLE",
                                                 "ACCESS TABLE",
                                                 "NUMA BW TABLE"};
    return {words, 3};
  }

  bool take(const Line& line) override {
    const std::string_view text = trim(line.text);
    if (has(text, "ROCm System Management Interface")) {
      begin(line);
      return true;
    }
    if (const std::string_view table = title(text); !table.empty()) {
      if (!near(line, 60)) begin(line);
      reach(line);
      table_ = table;
      columns_.clear();
      return true;
    }
    if (!near(line, 3) || table_.empty()) return false;
    const std::vector<std::string_view> words = words_of(text);
    if (words.empty()) return false;
    if (take_header(words, line)) return true;
    return take_row(words, line);
  }

  void end() override {
    finish();
    close();
  }

 private:
  static std::string_view title(std::string_view text) {
    if (has(text, "Weight between two GPUs") || starts(text, "WEIGHT TABLE")) return "weight";
    if (has(text, "Hops between two GPUs") || starts(text, "HOPS TABLE")) return "hops";
    if (has(text, "Link Type between two GPUs") || starts(text, "LINK TYPE TABLE"))
      return "link_type";
    if (starts(text, "ACCESS TABLE") || has(text, "Link accessibility between two GPUs"))
      return "access";
    if (starts(text, "NUMA BW TABLE") || has(text, "Bandwidth between two GPUs")) return "other";
    return {};
  }

  void begin(const Line& line) {
    finish();
    open("topo_amd", line);
    table_ = {};
    columns_.clear();
    gpus_ = 0;
    first_ = evidence(line);
  }

  bool take_header(const std::vector<std::string_view>& words, const Line& line) {
    if (!columns_.empty()) return false;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const bool address = address_length(words[i]) == words[i].size();
      if (!address && !is_gpu_name(words[i])) {
        columns_.clear();
        return false;
      }
      columns_.push_back(address ? "GPU" + std::to_string(i) : std::string(words[i]));
      if (address) set_entry(facts(), "addresses", columns_.back(), words[i]);
    }
    if (columns_.size() > 128) columns_.resize(128);
    reach(line);
    gpus_ = std::max(gpus_, columns_.size());
    return true;
  }

  bool take_row(const std::vector<std::string_view>& words, const Line& line) {
    if (columns_.empty()) return false;
    std::string label(words.front());
    if (address_length(label) == label.size()) {
      const core::Json* addresses = fact(facts(), "addresses");
      if (addresses == nullptr || addresses->as_object() == nullptr) return false;
      std::string found;
      for (const auto& [gpu, address] : *addresses->as_object()) {
        if (address.as_text() != nullptr && *address.as_text() == label) found = gpu;
      }
      label = found;
    }
    if (!is_gpu_name(label)) return false;
    reach(line);
    for (std::size_t i = 1; i < words.size() && i <= columns_.size(); ++i) {
      const std::string& column = columns_[i - 1];
      if (column == label) continue;
      leave(label, column, words[i], line);
    }
    return true;
  }

  void leave(const std::string& row, const std::string& column, std::string_view cell,
             const Line& line) {
    const std::string key = row + "-" + column;
    if (table_ == "link_type") {
      if (cell != "PCIE" && cell != "XGMI") return;
      set_entry(facts(), "link_type", key, cell);
    } else if (table_ == "access") {
      set_entry(facts(), "access", key, cell);
      return;
    } else if (table_ == "weight" || table_ == "hops") {
      const auto number = whole_number(cell);
      if (!number.has_value()) return;
      set_entry(facts(), table_, key, *number);
    } else {
      return;
    }
    if (table_ == "weight" || row > column) return;
    core::CaptureSign one;
    one.kind = core::SignKind::level;
    one.source = row;
    one.target = column;
    if (table_ == "link_type") {
      if (cell == "XGMI") one.word = "XGMI";
    } else {
      // rocm-smi counts PCIe hops: to the host bridge and, from three on, between sockets.
      const std::uint64_t hops = whole_number(cell).value_or(0);
      one.word = hops >= 3 ? "SYS" : hops == 2 ? "PHB" : "";
    }
    if (one.word.empty()) return;
    one.lines.push_back(evidence(line));
    sign(std::move(one));
  }

  void finish() {
    if (!is_open() || gpus_ == 0) return;
    set_fact(facts(), "gpus", static_cast<std::uint64_t>(gpus_));
    core::CaptureSign shown;
    shown.kind = core::SignKind::topology_shown;
    shown.word = "amd";
    shown.lines.push_back(first_);
    sign(std::move(shown));
    gpus_ = 0;
  }

  std::string_view table_;
  std::vector<std::string> columns_;
  core::TextLine first_;
  std::size_t gpus_ = 0;
};

}  // namespace

std::unique_ptr<Parser> amd_topology_parser(Sink& sink) {
  return std::make_unique<AmdTopologyParser>(sink);
}

}  // namespace nobounce::captures
