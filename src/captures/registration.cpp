// GPU memory that could not be registered or pinned: verbs calls in logs, messages of UCX, NIXL and
// Mooncake, and gdrcopy's driver.
#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

class RegistrationParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {"gdrdrv:",           "gdrcopy",
                                                 "ibv_reg_mr",        "reg_dmabuf_mr",
                                                 "ailed to register", "without nvidia-peermem",
                                                 "CUDA support",      "are not available"};
    return {words, 0};
  }

  bool take(const Line& line) override {
    const std::string_view text = line.text;
    if (has(text, "gdrdrv:") || has(text, "gdrcopy")) return take_gdrcopy(text, line);
    const bool call = has(text, "ibv_reg_mr") || has(text, "ibv_reg_dmabuf_mr") ||
                      has(text, "mlx5dv_reg_dmabuf_mr");
    if (!call) return take_library(text, line);
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
    one.word = has(text, "Cannot allocate memory") ? "locked" : has(text, "dmabuf") ? "dmabuf" : "";
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

  /// What libraries say that register memory of their own accord.
  bool take_library(std::string_view text, const Line& line) {
    // UCX: `failed to register address 0x7f.. (cuda) length 2097152 on md[4]=mlx5_0: ..`.
    if (has(text, "failed to register address") && has(text, "(cuda")) {
      ensure("registration", line);
      core::CaptureSign one;
      one.kind = core::SignKind::registration_failed;
      one.target = std::string(until(after(text, "]=").value_or(""), ": ,"));
      one.word = "ucx";
      one.lines.push_back(evidence(line));
      sign(std::move(one));
      return true;
    }
    // Mooncake: `Failed to register memory 0x7f4680000000: Bad address [14]`. Of host memory other
    // errors are usual: the limit of locked memory, an adapter that is not there.
    if (has(text, "Failed to register memory 0x")) {
      ensure("registration", line);
      sign(core::SignKind::registration_failed, line, "", "",
           has(text, "Bad address")              ? "mooncake"
           : has(text, "Cannot allocate memory") ? "locked"
                                                 : "any memory");
      return true;
    }
    if (has(text, "DMA BUF") && has(text, "without nvidia-peermem")) {
      ensure("registration", line);
      sign(core::SignKind::transport_skipped, line);
      return true;
    }
    // NIXL over a UCX without CUDA; UCX that was asked for transports of CUDA.
    const bool told = has(text, "UCX CUDA support was not found") ||
                      (has(text, "detected as host") && has(text, "CUDA support"));
    const bool asked = has(text, "UCX") && has(text, "are not available") &&
                       (has(text, "'cuda_copy'") || has(text, "'cuda_ipc'") || has(text, "'cuda'"));
    if (!told && !asked) return false;
    ensure("registration", line);
    sign(core::SignKind::gdr_off_plugin, line, "", "", "UCX");
    return true;
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
