// `nvidia-smi -L`, the table of plain `nvidia-smi`, and other lines that name the product of a GPU.
#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

bool list_is_product(std::string_view name) {
  for (const std::string_view maker :
       {"NVIDIA", "Tesla", "GeForce", "Quadro", "AMD", "GRID", "TITAN"}) {
    if (starts(name, maker)) return true;
  }
  return false;
}

class DeviceListParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {"NVIDIA",    "Tesla", "GeForce", "Quadro",
                                                 "AMD",       "GRID",  "TITAN",   "virtual machine",
                                                 "Hypervisor"};
    return {words, 0};
  }

  bool take(const Line& line) override {
    const std::string_view text = trim(line.text);
    if (starts(text, "GPU ")) return take_listed(text, line);
    if (starts(text, "|")) return take_table(text, line);
    if (has(text, "virtual machine") || has(text, "Hypervisor vendor") ||
        has(text, "Hypervisor detected"))
      return take_guest(text, line);
    return false;
  }

  void end() override { close(); }

 private:
  void ensure(const Line& line) {
    if (!near(line, 20)) open("nvidia_smi", line);
    reach(line);
  }

  void leave(std::uint64_t index, std::string_view product, const Line& line) {
    ensure(line);
    const std::string gpu = "GPU" + std::to_string(index);
    set_entry(facts(), "products", gpu, product);
    sign(core::SignKind::product, line, gpu, "", std::string(product));
  }

  /// `GPU 0: NVIDIA H100 (UUID: GPU-..)`, `GPU Tesla T4  Driver Version: 470.82.01`.
  bool take_listed(std::string_view text, const Line& line) {
    text.remove_prefix(4);
    const auto index = whole_number(text);
    const std::size_t colon = text.find(':');
    if (index.has_value() && colon != std::string_view::npos && colon < 5) {
      std::string_view product = trim(text.substr(colon + 1));
      product = trim(before(product, "("));
      if (!list_is_product(product) || *index > 1024) return false;
      leave(*index, product, line);
      return true;
    }
    if (list_is_product(text) && has(text, "  ")) {
      leave(0, trim(before(text, "  ")), line);
      return true;
    }
    return false;
  }

  /// `|   0  NVIDIA H100 80GB HBM3          On  | 00000000:1B:00.0 Off |`.
  bool take_table(std::string_view text, const Line& line) {
    std::string_view rest = trim(text.substr(1));
    const auto index = whole_number(rest);
    if (!index.has_value() || *index > 1024) return false;
    rest.remove_prefix(rest.find_first_not_of("0123456789") == std::string_view::npos
                           ? rest.size()
                           : rest.find_first_not_of("0123456789"));
    rest = trim(rest);
    if (!list_is_product(rest)) return false;
    leave(*index, trim(before(before(rest, "  "), "...")), line);
    const std::string_view address = find_address(rest);
    if (!address.empty())
      sign(core::SignKind::gpu_address, line, "GPU" + std::to_string(*index), "",
           short_address(address));
    return true;
  }

  bool take_guest(std::string_view text, const Line& line) {
    if (!has(text, "KVM") && !has(text, "Xen") && !has(text, "VMware") && !has(text, "Microsoft") &&
        !has(text, "Hyper") && !has(text, "QEMU"))
      return false;
    ensure(line);
    set_fact(facts(), "guest", true);
    sign(core::SignKind::guest, line, "", "", std::string(first_word(text)));
    return true;
  }
};

}  // namespace

std::unique_ptr<Parser> device_list_parser(Sink& sink) {
  return std::make_unique<DeviceListParser>(sink);
}

}  // namespace nobounce::captures
