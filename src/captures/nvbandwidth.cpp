// nvbandwidth: rates between pairs, tests that were waived, data that was wrong.
#include <algorithm>

#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

class NvbandwidthParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {"nvbandwidth Version:", "Waiving ",
                                                 "Invalid value when checking the pattern",
                                                 "_memcpy_", "bandwidth (GB/s)"};
    return {words, 20};
  }

  bool take(const Line& line) override {
    const std::string_view text = trim(line.text);
    if (text.empty()) return false;
    if (const auto version = after(text, "nvbandwidth Version:"); version.has_value()) {
      finish();
      open("nvbandwidth", line);
      std::string_view number = first_word(*version);
      if (starts(number, "v")) number.remove_prefix(1);
      set_fact(facts(), "version", number);
      const auto major = whole_number(number);
      const auto minor = whole_number(after(number, ".").value_or(""));
      checks_data_ = major.value_or(0) > 0 || minor.value_or(0) >= 7;
      return true;
    }
    return take_outcome(text, line) || take_device(text, line) || take_title(text, line) ||
           take_row(text, line);
  }

  void end() override {
    finish();
    close();
  }

 private:
  void ensure(const Line& line) {
    if (!near(line, 60)) {
      finish();
      open("nvbandwidth", line);
    }
    reach(line);
  }

  static bool is_peer_test(std::string_view name) {
    return has(name, "device_to_device") && !has(name, "multinode");
  }

  bool take_outcome(std::string_view text, const Line& line) {
    if (const auto test = after(text, "Waiving "); test.has_value() && starts(text, "Waiving ")) {
      if (!has(*test, "device_to_device") && !has(*test, "_memcpy_")) return false;
      ensure(line);
      if (is_peer_test(*test)) sign(core::SignKind::peer_waived, line);
      return true;
    }
    if (has(text, "Invalid value when checking the pattern")) {
      ensure(line);
      core::CaptureSign one;
      one.kind = core::SignKind::peer_mismatch;
      one.word = test_;
      one.lines.push_back(evidence(line));
      mismatch_ = true;
      if (is_peer_test(test_) || test_.empty()) sign(std::move(one));
      return true;
    }
    if (const auto offset = number_after(text, "Current offset :"); offset.has_value()) {
      if (!near(line, 10)) return false;
      reach(line);
      set_fact(facts(), "offset", *offset);
      return true;
    }
    if (starts(text, "Running ") && has(text, "_memcpy_")) {
      ensure(line);
      test_ = std::string(until(text.substr(8), ". \t"));
      return true;
    }
    if (starts(text, "SUM ") && has(text, "_memcpy_")) {
      ensure(line);
      return true;
    }
    return false;
  }

  /// `Device 0: NVIDIA A100-SXM4-40GB (00000000:0B:00)`.
  bool take_device(std::string_view text, const Line& line) {
    if (!starts(text, "Device ") || !is_open()) return false;
    const auto index = whole_number(text.substr(7));
    const std::size_t colon = text.find(": ");
    if (!index.has_value() || *index > 255 || colon == std::string_view::npos || !near(line, 20))
      return false;
    reach(line);
    gpus_ = std::max(gpus_, *index + 1);
    set_fact(facts(), "gpus", gpus_);
    const std::string gpu = "GPU" + std::to_string(*index);
    const std::string_view product = trim(before(text.substr(colon + 2), "("));
    set_entry(facts(), "products", gpu, product);
    sign(core::SignKind::product, line, gpu, "", std::string(product));
    return true;
  }

  /// `memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)`.
  bool take_title(std::string_view text, const Line& line) {
    if (!has(text, "bandwidth (GB/s)") || !has(text, "(row)")) {
      if (!near(line, 20)) return false;
      for (const std::string_view word :
           {"Built from", "NOTE: This tool", "NOTE: The", "Additional system", "CUDA Runtime",
            "CUDA Driver", "Driver Version"}) {
        if (!starts(text, word)) continue;
        reach(line);
        return true;
      }
      return false;
    }
    ensure(line);
    peers_ = has(text, "GPU(row)") && has(text, "GPU(column)");
    reads_ = has(text, "<-");
    both_ = has(text, "<->");
    columns_.clear();
    title_ = evidence(line);
    in_table_ = true;
    return true;
  }

  bool take_row(std::string_view text, const Line& line) {
    if (!in_table_ || !near(line, 2)) return false;
    const std::vector<std::string_view> words = words_of(text);
    const bool header = columns_.empty();
    for (const std::string_view word : words) {
      if (word != "N/A" && !real_number(word).has_value()) return false;
    }
    if (header) {
      for (const std::string_view word : words) {
        const auto number = whole_number(word);
        if (!number.has_value() || has(word, ".") || *number > 255) return false;
        columns_.push_back(*number);
      }
      reach(line);
      if (peers_) gpus_ = std::max<std::uint64_t>(gpus_, columns_.size());
      if (gpus_ > 0) set_fact(facts(), "gpus", gpus_);
      return true;
    }
    const auto row = whole_number(words[0]);
    if (!row.has_value() || has(words[0], ".") || *row > 255) return false;
    reach(line);
    if (!peers_) return true;
    for (std::size_t i = 1; i < words.size() && i <= columns_.size(); ++i) {
      const auto value = real_number(words[i]);
      if (!value.has_value() || *value <= 0 || columns_[i - 1] == *row) continue;
      add(*row, columns_[i - 1], *value, line);
    }
    return true;
  }

  void add(std::uint64_t row, std::uint64_t column, double value, const Line& line) {
    core::CaptureSign one;
    one.kind = core::SignKind::peer_bandwidth;
    one.source = "GPU" + std::to_string(reads_ && !both_ ? column : row);
    one.target = "GPU" + std::to_string(reads_ && !both_ ? row : column);
    one.value = value;
    one.lines = {evidence(line), title_};
    if (found_.size() < 65536) found_.push_back(std::move(one));
  }

  void finish() {
    if (is_open()) {
      // Versions that do not compare data say how fast, not whether it arrived.
      for (core::CaptureSign& one : found_) {
        one.word = mismatch_ ? "mismatch" : checks_data_ ? "checked" : "unchecked";
        sign(std::move(one));
      }
    }
    found_.clear();
    columns_.clear();
    test_.clear();
    gpus_ = 0;
    checks_data_ = mismatch_ = in_table_ = peers_ = reads_ = both_ = false;
  }

  std::vector<core::CaptureSign> found_;
  std::vector<std::uint64_t> columns_;
  std::string test_;
  core::TextLine title_;
  std::uint64_t gpus_ = 0;
  bool checks_data_ = false;
  bool mismatch_ = false;
  bool in_table_ = false;
  bool peers_ = false;
  bool reads_ = false;
  bool both_ = false;
};

}  // namespace

std::unique_ptr<Parser> nvbandwidth_parser(Sink& sink) {
  return std::make_unique<NvbandwidthParser>(sink);
}

}  // namespace nobounce::captures
