// p2pBandwidthLatencyTest: which pairs can, and bandwidth and latency with peer access off and on.
#include <algorithm>
#include <array>
#include <map>

#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

/// The six measurements of a pair, in the order of CaptureSign::numbers.
enum class PeerTable : std::uint8_t {
  one_way_off,
  one_way_on,
  two_way_off,
  two_way_on,
  latency_off,
  latency_on,
  connectivity,
  none
};
constexpr std::size_t peer_tables = 6;

struct PeerValue {
  double value = -1;
  std::size_t line = 0;
};

class PeerBandwidthParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {"P2P (Peer-to-Peer) GPU Bandwidth Latency Test",
                                                 "pciBusID",
                                                 "Access Peer Device=",
                                                 "P2P Connectivity Matrix",
                                                 "P2P=Enabled",
                                                 "P2P=Disabled"};
    return {words, 10};
  }

  bool take(const Line& line) override {
    const std::string_view text = trim(line.text);
    if (text.empty()) return false;
    if (has(text, "P2P (Peer-to-Peer) GPU Bandwidth Latency Test")) {
      begin(line);
      return true;
    }
    if (take_device(text, line) || take_access(text, line) || take_title(text, line)) return true;
    return take_row(text, line);
  }

  void end() override {
    finish();
    close();
  }

 private:
  void begin(const Line& line) {
    finish();
    open("p2p_bw", line);
    node_ = std::string(line.node);
    header_ = evidence(line);
  }

  void ensure(const Line& line) {
    if (!near(line, 30) || line.node != node_) begin(line);
    reach(line);
  }

  /// `Device: 0, NVIDIA GeForce RTX 4090, pciBusID: 21, pciDeviceID: 0, pciDomainID:0`.
  bool take_device(std::string_view text, const Line& line) {
    if (!starts(text, "Device: ") || !has(text, "pciBusID")) return false;
    const auto index = whole_number(text.substr(8));
    const auto rest = after(text, ",");
    if (!index.has_value() || *index > 255 || !rest.has_value()) return false;
    ensure(line);
    gpus_ = std::max(gpus_, static_cast<std::size_t>(*index) + 1);
    const std::string gpu = "GPU" + std::to_string(*index);
    const std::string_view product = trim(before(*rest, ", pciBusID"));
    set_entry(facts(), "products", gpu, product);
    sign(core::SignKind::product, line, gpu, "", std::string(product));
    const auto bus = after(text, "pciBusID: ");
    if (bus.has_value()) {
      std::string address(until(*bus, ","));
      if (address.size() == 1) address = "0" + address;
      sign(core::SignKind::gpu_address, line, gpu, "", lower(address) + ":00.0");
    }
    return true;
  }

  /// `Device=0 CANNOT Access Peer Device=2`.
  bool take_access(std::string_view text, const Line& line) {
    if (!starts(text, "Device=") || !has(text, "Access Peer Device=")) return false;
    const auto first = whole_number(text.substr(7));
    const auto second = number_after(text, "Peer Device=");
    if (!first.has_value() || !second.has_value() || *first > 255 || *second > 255) return false;
    ensure(line);
    gpus_ = std::max(
        {gpus_, static_cast<std::size_t>(*first) + 1, static_cast<std::size_t>(*second) + 1});
    const bool can = !has(text, "CANNOT");
    const std::string source = "GPU" + std::to_string(*first);
    const std::string target = "GPU" + std::to_string(*second);
    set_entry(facts(), "can_access", source + "-" + target, can);
    sign(core::SignKind::peer_access, line, source, target, "", can ? 1 : 0);
    return true;
  }

  bool take_title(std::string_view text, const Line& line) {
    PeerTable table = PeerTable::none;
    const bool on = has(text, "P2P=Enabled");
    const bool off = has(text, "P2P=Disabled");
    if (has(text, "P2P Connectivity Matrix")) {
      table = PeerTable::connectivity;
    } else if (has(text, "Bandwidth") && has(text, "Matrix") && (on || off)) {
      const bool two = has(text, "Bidirectional");
      table = two ? (on ? PeerTable::two_way_on : PeerTable::two_way_off)
                  : (on ? PeerTable::one_way_on : PeerTable::one_way_off);
    } else if (has(text, "Latency") && has(text, "Matrix") && (on || off)) {
      table = on ? PeerTable::latency_on : PeerTable::latency_off;
    } else {
      return starts(text, "***NOTE: In case a device doesn't have P2P access") && near(line, 10)
                 ? (reach(line), true)
                 : false;
    }
    ensure(line);
    // The same matrix again: another run, or another machine.
    const auto mark = static_cast<std::size_t>(table);
    if (seen_.size() <= mark) seen_.resize(mark + 1);
    if (seen_[mark]) {
      begin(line);
      seen_.resize(mark + 1);
    }
    seen_[mark] = true;
    table_ = table;
    columns_.clear();
    headed_ = false;
    next_row_ = 0;
    return true;
  }

  bool take_row(std::string_view text, const Line& line) {
    if (table_ == PeerTable::none || !near(line, 3) || line.node != node_) return false;
    const std::vector<std::string_view> words = words_of(text);
    if (words.empty()) return false;
    if (words[0] == "D\\D" || words[0] == "GPU" || words[0] == "CPU") {
      // A second matrix whose title is missing: nobody knows what it measures.
      if (headed_ && words[0] != "CPU") table_ = PeerTable::none;
      return table_ != PeerTable::none && take_columns(words, line);
    }
    if (!headed_ || words.size() < 2 || cpu_) {
      if (cpu_ && headed_ && is_digit(text.front())) {
        reach(line);
        return true;
      }
      return false;
    }
    const auto row = whole_number(words[0]);
    if (!row.has_value() || words[0].find('.') != std::string_view::npos) return false;
    if (std::find(columns_.begin(), columns_.end(), *row) == columns_.end()) return false;
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (!real_number(words[i]).has_value() && words[i] != "N/A" && words[i] != "nan")
        return false;
    }
    if (*row < next_row_) {  // the same, without its header
      table_ = PeerTable::none;
      return false;
    }
    next_row_ = *row + 1;
    reach(line);
    lines_.push_back(evidence(line));
    for (std::size_t i = 1; i < words.size() && i <= columns_.size(); ++i) {
      const auto value = real_number(words[i]);
      if (!value.has_value() || columns_[i - 1] == *row) continue;
      if (line.open && i + 1 == words.size()) continue;  // the number may go on
      add(*row, columns_[i - 1], *value, line);
    }
    if (words.size() - 1 < columns_.size()) cut_ = true;
    return true;
  }

  bool take_columns(const std::vector<std::string_view>& words, const Line& line) {
    columns_.clear();
    for (std::size_t i = 1; i < words.size(); ++i) {
      const auto number = whole_number(words[i]);
      if (!number.has_value() || *number > 255) return false;
      columns_.push_back(*number);
      gpus_ = std::max(gpus_, static_cast<std::size_t>(*number) + 1);
    }
    if (columns_.empty()) return false;
    reach(line);
    headed_ = true;
    cpu_ = words[0] == "CPU";
    return true;
  }

  void add(std::uint64_t row, std::uint64_t column, double value, const Line& line) {
    const std::string source = "GPU" + std::to_string(row);
    const std::string target = "GPU" + std::to_string(column);
    if (table_ == PeerTable::connectivity) {
      const auto can = static_cast<std::uint64_t>(value != 0);
      set_entry(facts(), "connectivity", source + "-" + target, can);
      sign(core::SignKind::peer_connected, line, source, target, "", static_cast<double>(can));
      return;
    }
    pairs_[{row, column}][static_cast<std::size_t>(table_)] = {value, lines_.size() - 1};
  }

  void finish() {
    seen_.clear();
    if (!is_open() || gpus_ == 0) {
      table_ = PeerTable::none;
      return;
    }
    set_fact(facts(), "gpus", static_cast<std::uint64_t>(gpus_));
    const std::size_t pairs_of_all = gpus_ * (gpus_ - 1);
    bool whole = pairs_.size() == pairs_of_all && !cut_;
    for (const auto& [pair, values] : pairs_) {
      whole = whole && values[0].value >= 0 && values[1].value >= 0;
    }
    set_fact(facts(), "partial", !whole);
    for (const auto& [pair, values] : pairs_) {
      core::CaptureSign one;
      one.kind = core::SignKind::peer_measured;
      one.host = node_;
      one.source = "GPU" + std::to_string(pair.first);
      one.target = "GPU" + std::to_string(pair.second);
      for (const PeerValue& value : values) {
        one.numbers.push_back(value.value);
        if (value.value >= 0) one.lines.push_back(lines_[value.line]);
      }
      sign(std::move(one));
    }
    pairs_.clear();
    lines_.clear();
    columns_.clear();
    gpus_ = 0;
    table_ = PeerTable::none;
    cut_ = headed_ = cpu_ = false;
  }

  std::map<std::pair<std::uint64_t, std::uint64_t>, std::array<PeerValue, peer_tables>> pairs_;
  std::vector<core::TextLine> lines_;
  std::vector<std::uint64_t> columns_;
  core::TextLine header_;
  std::string node_;
  PeerTable table_ = PeerTable::none;
  std::size_t gpus_ = 0;
  std::uint64_t next_row_ = 0;
  std::vector<bool> seen_;  ///< by PeerTable: matrices of this run
  bool headed_ = false;
  bool cpu_ = false;
  bool cut_ = false;
};

}  // namespace

std::unique_ptr<Parser> peer_bandwidth_parser(Sink& sink) {
  return std::make_unique<PeerBandwidthParser>(sink);
}

}  // namespace nobounce::captures
