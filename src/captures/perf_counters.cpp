// `perf stat` of memory controllers: counts, which say nothing without a payload and an idle
// window.
#include <algorithm>

#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

class PerfCountersParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {"Performance counter stats for",
                                                 "uncore_imc",
                                                 "amd_umc_",
                                                 "umc_cas_cmd",
                                                 "amd_df/",
                                                 "cas_count_",
                                                 "unc_iio_",
                                                 "unc_upi_"};
    return {words, 6};
  }

  bool take(const Line& line) override {
    const std::string_view text = trim(line.text);
    if (starts(text, "Performance counter stats for")) {
      finish();
      open("perf_counters", line);
      first_ = evidence(line);
      return true;
    }
    if (!near(line, 6)) {
      if (!is_event(text)) return false;
      finish();
      open("perf_counters", line);
      first_ = evidence(line);
    }
    if (has(text, "seconds time elapsed")) {
      reach(line);
      if (const auto seconds = real_number(text); seconds.has_value())
        set_fact(facts(), "seconds", *seconds);
      return true;
    }
    return take_event(text, line);
  }

  void end() override {
    finish();
    close();
  }

 private:
  static bool is_event(std::string_view text) {
    if (text.empty() || !is_digit(text.front())) return false;
    return has(text, "uncore_imc") || has(text, "amd_umc_") || has(text, "umc_cas_cmd") ||
           has(text, "amd_df/") || has(text, "cas_count_") || has(text, "unc_iio_") ||
           has(text, "unc_upi_");
  }

  bool take_event(std::string_view text, const Line& line) {
    if (!is_event(text)) return false;
    const std::vector<std::string_view> words = words_of(text);
    if (words.size() < 2) return false;
    reach(line);
    std::string_view event = words[1];
    const bool mebibytes = event == "MiB" && words.size() > 2;
    if (mebibytes) event = words[2];
    if (mebibytes || has(words[0], ".")) {
      std::string digits(words[0]);  // thousands are parted by commas
      std::erase(digits, ',');
      const auto value = real_number(digits);
      if (value.has_value()) set_entry(facts(), "counters", event, *value);
    } else if (const auto value = whole_number(words[0]); value.has_value()) {
      set_entry(facts(), "counters", event, *value);
    }
    if (!mebibytes && has(event, "cas")) set_fact(facts(), "bytes_per_count", 64);
    any_ = true;
    return true;
  }

  void finish() {
    if (is_open() && any_) {
      core::CaptureSign one;
      one.kind = core::SignKind::counters_alone;
      one.lines.push_back(first_);
      sign(std::move(one));
    }
    any_ = false;
  }

  core::TextLine first_;
  bool any_ = false;
};

}  // namespace

std::unique_ptr<Parser> perf_counters_parser(Sink& sink) {
  return std::make_unique<PerfCountersParser>(sink);
}

}  // namespace nobounce::captures
