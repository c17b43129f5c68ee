// gdsio: what it was asked to do and how fast it was. `XferType: GPUD` is printed in compatibility
// mode too.
#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

class GdsioParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {"XferType:", "file register error",
                                                 "GPUDirect Storage not supported on current file"};
    return {words, 0};
  }

  bool take(const Line& line) override {
    const std::string_view text = line.text;
    const auto type = after(text, "XferType:");
    if (type.has_value() && has(text, "IoType:")) return take_result(text, *type, line);
    if (has(text, "file register error") ||
        (has(text, "GPUDirect Storage not supported on current file") && !has(text, "[pid="))) {
      ensure(line);
      const auto name = after(text, "filename:");
      sign(core::SignKind::register_refused, line,
           name.has_value() ? std::string(first_word(*name)) : "");
      return true;
    }
    return false;
  }

  void end() override { close(); }

 private:
  void ensure(const Line& line) {
    if (!near(line, 40)) open("gdsio", line);
    reach(line);
  }

  bool take_result(std::string_view text, std::string_view type, const Line& line) {
    ensure(line);
    const std::string transfer(first_word(type));
    const std::string kind(first_word(*after(text, "IoType:")));
    set_fact(facts(), "xfer_type", transfer);
    if (const auto rate = real_after(text, "Throughput:"); rate.has_value())
      set_entry(facts(), "throughput_gib", kind, *rate);
    const auto operations = number_after(text, "ops:");
    if (operations.has_value()) set_fact(facts(), "ops", *operations);
    core::CaptureSign one;
    one.kind = core::SignKind::storage_benchmark;
    one.word = transfer;
    one.other = kind;
    one.value = static_cast<double>(operations.value_or(0));
    one.lines.push_back(evidence(line));
    sign(std::move(one));
    return true;
  }
};

}  // namespace

std::unique_ptr<Parser> gdsio_parser(Sink& sink) {
  return std::make_unique<GdsioParser>(sink);
}

}  // namespace nobounce::captures
