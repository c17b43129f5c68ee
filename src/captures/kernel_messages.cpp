// dmesg and journals: IOMMU faults, peer DMA that the kernel or the driver refuses, the IOMMU's
// mode, BAR1 windows, hypervisors.
#include <algorithm>
#include <set>

#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

class KernelMessagesParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {"IO_PAGE_FAULT",
                                                 "INVALID_DEVICE_REQUEST",
                                                 "ILLEGAL_DEV_TABLE_ENTRY",
                                                 "DMAR: [DMA ",
                                                 "DMAR:[DMA ",
                                                 "access is not set",
                                                 "arm-smmu",
                                                 "do not share an upstream bridge",
                                                 "Host bridge not in P2PDMA whitelist",
                                                 "ACS redirect is set between",
                                                 "NVRM",
                                                 "system not yet initialized",
                                                 "SYSTEM_NOT_READY",
                                                 "match with driver version",
                                                 "available PCIe bandwidth, limited by",
                                                 "Linux version ",
                                                 "Command line:",
                                                 "BOOT_IMAGE=",
                                                 "Default domain type:",
                                                 "iommu_group",
                                                 "DMA domain TLB invalidation policy",
                                                 "Hypervisor detected",
                                                 "DMI:",
                                                 "[10de:",
                                                 "64bit pref",
                                                 "nvidia-fs:",
                                                 "nvidia_fs:"};
    return {words, 0};
  }

  bool take(const Line& line) override {
    const std::string_view text = line.text;
    return take_fault(text, line) || take_refusal(text, line) || take_driver(text, line) ||
           take_fabric(text, line) || take_boot(text, line) || take_link(text, line) ||
           take_window(text, line) || take_storage(text, line);
  }

  void end() override {
    finish();
    close();
  }

 private:
  void ensure(const Line& line) {
    if (!is_open()) open("dmesg_iommu", line);
    reach(line);
  }

  /// The driver in front of an address: `nvidia 0000:21:00.0:`.
  static std::string driver_before(std::string_view text, std::string_view address) {
    const std::size_t at = static_cast<std::size_t>(address.data() - text.data());
    const std::string_view front = trim(text.substr(0, at));
    const std::size_t blank = front.find_last_of(" \t");
    return std::string(blank == std::string_view::npos ? front : front.substr(blank + 1));
  }

  bool take_fault(std::string_view text, const Line& line) {
    const bool amd = has(text, "IO_PAGE_FAULT") || has(text, "INVALID_DEVICE_REQUEST") ||
                     has(text, "ILLEGAL_DEV_TABLE_ENTRY");
    const bool intel = has(text, "DMAR: [DMA ") || has(text, "DMAR:[DMA ") ||
                       has(text, "PTE Read access is not set") ||
                       has(text, "PTE Write access is not set");
    const bool arm = has(text, "arm-smmu") && has(text, "event 0x10");
    if (!amd && !intel && !arm) return false;
    ensure(line);
    ++faults_;
    set_fact(facts(), "iommu", amd ? "amd" : intel ? "intel" : "arm");
    set_fact(facts(), "faults", faults_);
    const std::string_view address = find_address(text);
    std::string device(address);
    std::string driver = address.empty() ? "" : driver_before(text, address);
    if (!device.empty() && fact(facts(), "device") == nullptr) set_fact(facts(), "device", device);
    if (!faulted_.insert(device).second || faulted_.size() > 1024) return true;
    sign(core::SignKind::iommu_fault, line, device, "", driver);
    return true;
  }

  bool take_refusal(std::string_view text, const Line& line) {
    const bool bridge = has(text, "do not share an upstream bridge") ||
                        has(text, "Host bridge not in P2PDMA whitelist");
    const bool acs = has(text, "ACS redirect is set between the client and provider");
    if (!bridge && !acs) return false;
    ensure(line);
    const std::string_view client = find_address(text);
    std::string provider;
    if (const auto rest = after(text, "provider ("); rest.has_value())
      provider = std::string(find_address(*rest));
    core::CaptureSign one;
    one.kind = core::SignKind::peer_dma_refused;
    one.source = std::string(client);
    one.target = provider;
    one.word = client.empty() ? "" : driver_before(text, client);
    one.other = acs ? "acs" : "bridge";
    one.lines.push_back(evidence(line));
    if (!one.source.empty()) set_fact(facts(), "client", one.source);
    if (!provider.empty()) set_fact(facts(), "provider", provider);
    sign(std::move(one));
    return true;
  }

  bool take_driver(std::string_view text, const Line& line) {
    if (!has(text, "NVRM")) return false;
    if (has(text, "has fallen off the bus")) {
      ensure(line);
      // `NVRM: Xid (PCI:0000:09:00): 79, ..`, `NVRM: GPU 0000:09:00.0: ..`.
      std::string gpu = short_address(find_address(text));
      if (gpu.empty()) {
        gpu = short_address(until(after(text, "PCI:").value_or(""), ")"));
        if (!gpu.empty()) gpu += ".0";
      }
      add_item(facts(), "gpus_lost", gpu);
      if (lost_.insert(gpu).second && lost_.size() <= 1024)
        sign(core::SignKind::gpu_lost, line, gpu);
      return true;
    }
    if (const auto pair = after(text, "IOMMU mapping failed from "); pair.has_value()) {
      ensure(line);
      const std::string source(first_word(*pair));
      const std::string target(first_word(after(*pair, " to ").value_or("")));
      set_fact(facts(), "src", source);
      set_fact(facts(), "dst", target);
      core::CaptureSign one;
      one.kind = core::SignKind::peer_unmapped;
      one.source = source;
      one.target = target;
      if (alignment_.has_value()) one.lines.push_back(*alignment_);
      one.lines.push_back(evidence(line));
      sign(std::move(one));
      return true;
    }
    if (has(text, "peer DMA address") && has(text, "not aligned")) {
      ensure(line);
      alignment_ = evidence(line);
      return true;
    }
    if (has(text, "PCI topology not supported for dma-buf") || has(text, "dma-buf")) {
      ensure(line);
      if (has(text, "not supported"))
        sign(core::SignKind::registration_failed, line, std::string(find_address(text)), "",
             "dmabuf");
      return true;
    }
    return false;
  }

  /// `CUDA error: system not yet initialized`, `nv-fabricmanager[1821]: fabric manager NVIDIA GPU
  /// driver interface version 550.54.14 don't match with driver version 550.54.15`.
  bool take_fabric(std::string_view text, const Line& line) {
    const bool cuda = has(text, "system not yet initialized") || has(text, "SYSTEM_NOT_READY");
    const bool manager = has(text, "fabric manager") && has(text, "match with driver version");
    if (!cuda && !manager) return false;
    ensure(line);
    sign(core::SignKind::fabric_down, line, "", "", manager ? "version" : "cuda");
    return true;
  }

  bool take_boot(std::string_view text, const Line& line) {
    if (const auto kernel = after(text, "Linux version "); kernel.has_value()) {
      ensure(line);
      set_fact(facts(), "kernel", first_word(*kernel));
      return true;
    }
    if (has(text, "Command line:") || starts(trim(text), "BOOT_IMAGE=")) {
      ensure(line);
      if (const auto image = after(text, "vmlinuz-"); image.has_value())
        set_fact(facts(), "kernel", first_word(*image));
      for (const std::string_view word : words_of(text)) {
        for (const std::string_view option : {"iommu=", "intel_iommu=", "amd_iommu="}) {
          if (!starts(word, option)) continue;
          const std::string value(word.substr(option.size()));
          set_fact(facts(),
                   option == "iommu="
                       ? "cmdline_iommu"
                       : "cmdline_" + std::string(option.substr(0, option.size() - 1)),
                   value);
          if (value == "off") off_ = evidence(line);
          if (value == "pt") passes_ = true;
        }
      }
      return true;
    }
    if (const auto type = after(text, "Default domain type:"); type.has_value()) {
      ensure(line);
      set_fact(facts(), "default_domain_type", first_word(*type));
      type_ = evidence(line);
      translated_ = has(*type, "Translated");
      return true;
    }
    if (take_domain(text, line)) return true;
    if (has(text, "DMA domain TLB invalidation policy")) {
      ensure(line);
      return true;
    }
    if (has(text, "Hypervisor detected") ||
        (has(text, "DMI:") && (has(text, "QEMU") || has(text, "KVM")))) {
      ensure(line);
      set_fact(facts(), "guest", true);
      sign(core::SignKind::guest, line, "", "", "hypervisor");
      return true;
    }
    return false;
  }

  /// The IOMMU's mode for one device: `/sys/../iommu_group/type:DMA-FQ`, or on the line behind
  /// `cat`.
  bool take_domain(std::string_view text, const Line& line) {
    const std::size_t file = std::min(text.find("iommu_group/type"), text.find("iommu_groups/"));
    if (file != std::string_view::npos && has(text, "/type")) {
      domain_line_ = line.number;
      domain_device_ = std::string(find_address(text));
    } else if (domain_line_ == 0 || line.number != domain_line_ + 1) {
      return false;
    }
    listen(line, 1);
    std::string_view word = trim(text);
    if (file != std::string_view::npos) word = trim(after(text.substr(file), "type").value_or(""));
    while (starts(word, ":") || starts(word, " ")) word.remove_prefix(1);
    if (word != "DMA" && word != "DMA-FQ" && word != "identity") return false;
    ensure(line);
    domain_line_ = line.number;
    set_fact(facts(), "iommu_domain", word);
    sign(word == "identity" ? core::SignKind::graph_shown : core::SignKind::iommu_translated, line,
         domain_device_, "", "domain type");
    return true;
  }

  /// `mlx5_core 0000:42:00.0: 31.504 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x4
  /// link at 0000:40:01.1 (capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)`.
  bool take_link(std::string_view text, const Line& line) {
    const std::size_t words = text.find(" Gb/s available PCIe bandwidth, limited by ");
    const auto capable = after(text, "(capable of ");
    const std::string_view address = find_address(text);
    if (words == std::string_view::npos || !capable.has_value() || address.empty()) return false;
    std::size_t begin = words;
    while (begin > 0 && (is_digit(text[begin - 1]) || text[begin - 1] == '.')) --begin;
    if (begin == words) return false;
    ensure(line);
    core::CaptureSign one;
    one.kind = core::SignKind::link_downtrained;
    one.source = short_address(address);
    one.word = std::string(text.substr(begin, words - begin)) + " of " +
               std::string(until(*capable, " ")) + " Gb/s";
    one.other = driver_before(text, address);
    one.lines.push_back(evidence(line));
    sign(std::move(one));
    return true;
  }

  /// `pci 0000:81:00.0: BAR 1 [mem 0x2c0e0000000-0x2c0efffffff 64bit pref]`.
  bool take_window(std::string_view text, const Line& line) {
    const std::size_t id = text.find("[10de:");
    const std::string_view address = find_address(text);
    if (id != std::string_view::npos && has(text, "type 00") && !address.empty()) {
      ensure(line);
      if (gpus_.size() < 1024) gpus_.insert(std::string(address));
      return true;
    }
    if (address.empty() || !has(text, "64bit pref")) return false;
    std::optional<std::string_view> range;
    for (const std::string_view mark : {"BAR 1 [mem ", "BAR 1: assigned [mem ", "BAR 1: [mem ",
                                        "BAR 1 [mem size ", "reg 0x14: [mem "}) {
      if (!range.has_value()) range = after(text, mark);
    }
    if (!range.has_value()) return false;
    const auto first = hex_number(*range);
    const auto last = hex_number(after(*range, "-").value_or(""));
    if (!first.has_value() || !last.has_value() || *last < *first) return false;
    const std::uint64_t mebibytes = (*last - *first + 1) >> 20;
    // Adapters and drives have other windows; below 64 MiB it is none of a GPU.
    if (mebibytes < 64 || (gpus_.count(std::string(address)) == 0 && has(text, "mlx5")))
      return false;
    ensure(line);
    const core::Json* held = fact(facts(), "bar1_mib");
    if (held == nullptr || (held->as_unsigned() != nullptr && *held->as_unsigned() > mebibytes))
      set_fact(facts(), "bar1_mib", mebibytes);
    sign(core::SignKind::bar1_size, line, std::string(address), "", "",
         static_cast<double>(mebibytes));
    return true;
  }

  bool take_storage(std::string_view text, const Line& line) {
    if (!has(text, "nvidia-fs:") && !has(text, "nvidia_fs:")) return false;
    ensure(line);
    if (has(text, "nvfs_pin_gpu_pages Error") || has(text, "nvidia_p2p_get_pages")) {
      if (const auto error = signed_number(after(text, "ret ").value_or("")); error.has_value())
        set_fact(facts(), "ret", *error);
      sign(core::SignKind::pin_refused, line, "", "", "nvidia-fs");
    }
    return true;
  }

  void finish() {
    if (is_open() && type_.has_value()) {
      core::CaptureSign one;
      // The type is printed even where the command line switches the IOMMU off.
      one.kind = off_.has_value()          ? core::SignKind::iommu_off
                 : translated_ && !passes_ ? core::SignKind::iommu_translated
                                           : core::SignKind::graph_shown;
      one.word = "domain type";
      one.lines.push_back(*type_);
      if (off_.has_value()) one.lines.push_back(*off_);
      sign(std::move(one));
    }
    faults_ = 0;
    domain_line_ = 0;
    faulted_.clear();
    lost_.clear();
    gpus_.clear();
    alignment_.reset();
    type_.reset();
    off_.reset();
    translated_ = passes_ = false;
  }

  std::string domain_device_;
  std::uint64_t domain_line_ = 0;
  std::uint64_t faults_ = 0;
  std::set<std::string> faulted_;
  std::set<std::string> lost_;
  std::set<std::string> gpus_;
  std::optional<core::TextLine> alignment_;
  std::optional<core::TextLine> type_;
  std::optional<core::TextLine> off_;
  bool translated_ = false;
  bool passes_ = false;
};

}  // namespace

std::unique_ptr<Parser> kernel_messages_parser(Sink& sink) {
  return std::make_unique<KernelMessagesParser>(sink);
}

}  // namespace nobounce::captures
