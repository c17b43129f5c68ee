// GPU memory that could not be registered or pinned: verbs calls in logs, and gdrcopy's driver.
#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

class RegistrationParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {"gdrdrv:", "gdrcopy", "ibv_reg_mr",
                                                 "reg_dmabuf_mr"};
    return {words, 0};
  }

  bool take(const Line& line) override {
    const std::string_view text = line.text;
    if (has(text, "gdrdrv:") || has(text, "gdrcopy")) return take_gdrcopy(text, line);
    const bool call = has(text, "ibv_reg_mr") || has(text, "ibv_reg_dmabuf_mr") ||
                      has(text, "mlx5dv_reg_dmabuf_mr");
    if (!call) return false;
    const bool failed = has(text, "failed") || has(text, "= NULL") || has(text, "error") ||
                        has(text, "Bad address") || has(text, "returned NULL");
    if (!failed) return false;
    ensure("registration", line);
    std::optional<std::uint64_t> bytes = number_after(text, "length=");
    if (!bytes.has_value()) bytes = number_after(text, "size=");
    if (!bytes.has_value()) {
      const auto size = number_after(lower(text), "over ");
      if (size.has_value() && *size < 1'000'000 && has(text, "MB")) bytes = *size << 20;
    }
    if (bytes.has_value()) set_fact(facts(), "requested_bytes", *bytes);
    core::CaptureSign one;
    one.kind = core::SignKind::registration_failed;
    one.value = static_cast<double>(bytes.value_or(0));
    one.word = has(text, "dmabuf") ? "dmabuf" : "";
    one.lines.push_back(evidence(line));
    sign(std::move(one));
    return true;
  }

  void end() override { close(); }

 private:
  void ensure(const char* kind, const Line& line) {
    if (!near(line, 40)) open(kind, line);
    reach(line);
  }

  /// `gdrdrv:nvidia_p2p_get_pages(va=.. len=196608 ..) failed [ret = -22]`.
  bool take_gdrcopy(std::string_view text, const Line& line) {
    if (!has(text, "failed") && !has(text, "error")) return false;
    ensure("gdrcopy_dmesg", line);
    if (const auto length = number_after(text, "len="); length.has_value())
      set_fact(facts(), "len", *length);
    const auto result =
        signed_number(after(text, "ret = ").value_or(after(text, "ret=").value_or("")));
    if (result.has_value()) set_fact(facts(), "ret", *result);
    if (has(text, "get_pages") || has(text, "pin"))
      sign(core::SignKind::registration_failed, line, "", "", "gdrcopy");
    return true;
  }
};

}  // namespace

std::unique_ptr<Parser> registration_parser(Sink& sink) {
  return std::make_unique<RegistrationParser>(sink);
}

}  // namespace nobounce::captures
