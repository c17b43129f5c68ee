// `nvidia-smi -q`, whole or in parts: memory and BAR1 sizes, links, virtualisation.
#include <array>

#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

struct QueriedGpu {
  std::string product;
  std::string address;
  std::optional<std::uint64_t> fb_mib;
  std::optional<std::uint64_t> bar1_mib;
};

/// Headings of blocks that hold what we read; other headings end them.
constexpr std::array smi_blocks = {"FB Memory Usage", "BAR1 Memory Usage",       "PCIe Generation",
                                   "Link Width",      "GPU Virtualization Mode", "GPU Link Info"};

std::optional<std::uint64_t> smi_mebibytes(std::string_view value) {
  const auto number = whole_number(value);
  if (!number.has_value() || !has(value, "MiB")) {
    if (number.has_value() && has(value, "MB")) return number;
    return std::nullopt;
  }
  return number;
}

class SmiQueryParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {"GPU ",
                                                 "NVSMI LOG",
                                                 "FB Memory Usage",
                                                 "BAR1 Memory Usage",
                                                 "PCIe Generation",
                                                 "Link Width",
                                                 "GPU Virtualization Mode",
                                                 "GPU Link Info",
                                                 "Product Name"};
    return {words, 30};
  }

  bool take(const Line& line) override {
    const std::string_view text = trim(line.text);
    if (text.empty()) return false;
    if (has(text, "NVSMI LOG")) {
      begin(line);
      return true;
    }
    if (take_gpu(text, line) || take_heading(text, line)) return true;
    const bool own = near(line, 30);
    if (!own && !starts(text, "Product Name")) return false;
    const std::size_t colon = text.find(" : ");
    if (colon == std::string_view::npos) return false;
    const std::string_view key = trim(text.substr(0, colon));
    const std::string_view value = trim(text.substr(colon + 3));
    if (take_value(key, value, line)) return true;
    // The rest of the output: it belongs here, and says nothing that we need.
    if (!own || !block_is_smi_ || line.text.empty() || !is_blank(line.text.front())) return false;
    reach(line);
    return true;
  }

  void end() override {
    finish();
    close();
  }

 private:
  void begin(const Line& line) {
    finish();
    open("nvidia_smi_q", line);
    first_ = evidence(line);
    gpus_.clear();
    block_.clear();
    generation_max_.reset();
    width_max_.reset();
    block_is_smi_ = true;
  }

  void ensure(const Line& line) {
    if (!near(line, 60)) {
      begin(line);
      block_is_smi_ = false;
    }
    reach(line);
  }

  QueriedGpu& gpu() {
    if (gpus_.empty()) gpus_.emplace_back();
    return gpus_.back();
  }

  [[nodiscard]] std::string gpu_name() const {
    return gpus_.size() < 2 && !full_ ? "" : "GPU" + std::to_string(gpus_.size() - 1);
  }

  /// `GPU 00000000:00:06.0`.
  bool take_gpu(std::string_view text, const Line& line) {
    if (!starts(text, "GPU ")) return false;
    const std::string_view address = trim(text.substr(4));
    if (address.empty() || address_length(address) != address.size()) return false;
    ensure(line);
    block_is_smi_ = true;
    full_ = true;
    if (gpus_.size() < 256) gpus_.emplace_back();
    gpus_.back().address = short_address(address);
    sign(core::SignKind::gpu_address, line, gpu_name(), "", gpus_.back().address);
    return true;
  }

  bool take_heading(std::string_view text, const Line& line) {
    const std::string_view name = ends(text, ":") ? text.substr(0, text.size() - 1) : text;
    for (const char* block : smi_blocks) {
      if (name != block) continue;
      ensure(line);
      block_ = block;
      return true;
    }
    if (block_is_smi_ && near(line, 30) && !has(text, ":") && !has(text, "  ")) {
      block_.clear();
      if (!is_blank(line.text.front())) return false;
      reach(line);
      return true;
    }
    return false;
  }

  bool take_value(std::string_view key, std::string_view value, const Line& line) {
    if (key == "Product Name") {
      ensure(line);
      gpu().product = std::string(value);
      sign(core::SignKind::product, line, gpu_name(), "", std::string(value));
      add_item(facts(), "products", value);
      return true;
    }
    if (key == "Driver Version" || key == "CUDA Version" || key == "Attached GPUs") {
      if (!near(line, 30)) return false;
      reach(line);
      if (key == "Driver Version") set_fact(facts(), "driver_version", first_word(value));
      if (key == "Attached GPUs") set_fact(facts(), "gpus", whole_number(value).value_or(0));
      return true;
    }
    if (block_.empty() || !near(line, 12)) return false;
    if (block_ == "FB Memory Usage" || block_ == "BAR1 Memory Usage")
      return take_memory(key, value, line);
    if (block_ == "GPU Virtualization Mode" && key == "Virtualization Mode") {
      reach(line);
      set_fact(facts(), "virtualization", value);
      if (value == "Pass-Through" || value == "VGPU") {
        set_fact(facts(), "guest", true);
        sign(core::SignKind::guest, line, gpu_name(), "", std::string(value));
      }
      return true;
    }
    if (block_ == "PCIe Generation" || block_ == "Link Width") return take_link(key, value, line);
    return false;
  }

  bool take_memory(std::string_view key, std::string_view value, const Line& line) {
    if (key != "Total") {
      if (key != "Used" && key != "Free" && key != "Reserved") return false;
      reach(line);
      return true;
    }
    const auto size = smi_mebibytes(value);
    if (!size.has_value()) return false;
    reach(line);
    const bool bar = block_ == "BAR1 Memory Usage";
    (bar ? gpu().bar1_mib : gpu().fb_mib) = size;
    const char* name = bar ? "bar1_mib" : "fb_mib";
    if (fact(facts(), name) == nullptr) set_fact(facts(), name, *size);
    sign(bar ? core::SignKind::bar1_size : core::SignKind::gpu_memory, line, gpu_name(), "", "",
         static_cast<double>(*size));
    return true;
  }

  /// A link that is slower than both ends: only width counts, as idle GPUs lower the generation.
  bool take_link(std::string_view key, std::string_view value, const Line& line) {
    if (key != "Max" && key != "Current") return false;
    const auto number = whole_number(value);
    if (!number.has_value()) return false;
    reach(line);
    if (key == "Max") {
      (block_ == "Link Width" ? width_max_ : generation_max_) = number;
    } else if (block_ == "Link Width" && width_max_.has_value() && *number < *width_max_) {
      sign(core::SignKind::link_downtrained, line, gpu_name(), "",
           "x" + std::to_string(*number) + " of x" + std::to_string(*width_max_));
    }
    return true;
  }

  void finish() {
    if (!is_open() || gpus_.empty()) return;
    core::JsonArray list;
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      const QueriedGpu& one = gpus_[i];
      const auto or_null = [](const std::optional<std::uint64_t>& value) {
        return value.has_value() ? core::Json(*value) : core::Json(nullptr);
      };
      list.push_back(core::JsonObject{{"gpu", "GPU" + std::to_string(i)},
                                      {"product", one.product},
                                      {"address", one.address},
                                      {"fb_mib", or_null(one.fb_mib)},
                                      {"bar1_mib", or_null(one.bar1_mib)}});
    }
    set_fact(facts(), "gpu_list", std::move(list));
    core::CaptureSign shown;
    shown.kind = core::SignKind::topology_shown;
    shown.word = "query";
    shown.lines.push_back(first_);
    sign(std::move(shown));
    gpus_.clear();
    full_ = false;
  }

  std::vector<QueriedGpu> gpus_;
  std::string block_;
  std::optional<std::uint64_t> generation_max_;
  std::optional<std::uint64_t> width_max_;
  core::TextLine first_;
  bool block_is_smi_ = false;
  bool full_ = false;
};

}  // namespace

std::unique_ptr<Parser> smi_query_parser(Sink& sink) {
  return std::make_unique<SmiQueryParser>(sink);
}

}  // namespace nobounce::captures
