// `lspci` and `lspci -vvv`, whole or filtered: which ports redirect peer requests, links below
// their width, BAR1 sizes, emulated devices of a guest.
#include <array>

#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

struct AcsBits {
  bool redirects = false;  ///< request, completion or egress control
  bool validates = false;
  bool translated = false;  ///< DirectTrans
};

/// The control word itself, as setpci prints it.
AcsBits acs_word_bits(std::uint64_t word) {
  AcsBits bits;
  bits.validates = (word & 0x01) != 0;
  bits.redirects = (word & 0x2C) != 0;  // RR, CR, EC
  bits.translated = (word & 0x40) != 0;
  return bits;
}

/// `SrcValid+ TransBlk- ..`, or `{SrcValid:false ..}` as other tools print it.
std::optional<AcsBits> acs_bits(std::string_view text) {
  const auto set = [text](std::string_view name, bool& known) {
    const auto rest = after(text, name);
    if (!rest.has_value() || rest->empty()) return false;
    known = true;
    return rest->front() == '+' || starts(*rest, ":true") || starts(*rest, ": true");
  };
  bool known = false;
  AcsBits bits;
  bits.validates = set("SrcValid", known);
  bits.redirects = set("ReqRedir", known);
  bits.redirects = set("CmpltRedir", known) || bits.redirects;
  bits.redirects = set("EgressCtrl", known) || bits.redirects;
  bits.translated = set("DirectTrans", known);
  if (!known) return std::nullopt;
  return bits;
}

bool pci_class_words(std::string_view rest) {
  for (const std::string_view word :
       {"PCI bridge", "Host bridge", "VGA compatible controller", "3D controller",
        "Infiniband controller", "Ethernet controller", "Non-Volatile memory controller", "Bridge",
        "ISA bridge", "Display controller", "Network controller", "Processing accelerators",
        "System peripheral", "USB controller", "SATA controller", "RAID bus controller",
        "Class "}) {
    if (starts(rest, word)) return true;
  }
  return false;
}

class LspciVerboseParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {"lspci",
                                                 "setpci",
                                                 "bridge",
                                                 "Bridge",
                                                 "controller",
                                                 "Processing accelerators",
                                                 "System peripheral",
                                                 "Class ",
                                                 "no matching",
                                                 "ACS"};
    return {words, 80};
  }

  bool take(const Line& line) override {
    const std::string_view text = trim(line.text);
    if (text.empty()) return false;
    if (has(text, "lspci") && take_command(text, line)) return true;
    if (take_control_word(text, line) || take_stanza(text, line)) return true;
    if (has(text, "no matching") && has(text, "ACS")) return take_unreadable(line);
    if (has(text, "ACSCtl") || has(text, "ACSCap") || has(text, "ACSViol"))
      return take_acs(text, line);
    if (!near(line, 80)) return false;
    return take_detail(text, line);
  }

  void end() override {
    finish();
    close();
    command_device_.clear();
    word_line_ = 0;
  }

 private:
  void ensure(const Line& line) {
    if (!near(line, 400)) {
      finish();
      open("acs_lspci", line);
      lines_ = redirects_ = 0;
      validates_.clear();
      any_address_ = false;
      device_.clear();
      unreadable_.reset();
      first_ = evidence(line);
      if (!command_device_.empty() && line.number <= command_line_ + 3) {
        device_ = command_device_;
        any_address_ = true;
        set_fact(facts(), "device", command_device_);
        set_fact(facts(), "port", command_device_);
      }
    }
    reach(line);
  }

  /// `lspci -s 4b:08.0 -vvv`: what follows is of that device.
  bool take_command(std::string_view text, const Line& line) {
    const std::size_t option = text.find("-s ");
    if (option != std::string_view::npos) {
      const std::string_view address = trim(text.substr(option + 3));
      const std::size_t length = address_length(address);
      if (length > 0) {
        command_device_ = std::string(address.substr(0, length));
        command_line_ = line.number;
        device_ = command_device_;
        if (near(line, 400)) {
          reach(line);
          any_address_ = true;
        }
      }
    }
    if (has(text, "Mellanox") && has(text, "PCI devices")) adapters_shown_ = line.number;
    return false;
  }

  bool take_stanza(std::string_view text, const Line& line) {
    if (text.front() == '+' || text.front() == '-') text = trim(text.substr(1));  // of a diff
    const std::size_t length = address_length(text);
    if (length == 0 || length >= text.size() || !is_blank(text[length])) return false;
    const std::string_view rest = trim(text.substr(length));
    if (!pci_class_words(rest)) return false;
    ensure(line);
    device_ = std::string(text.substr(0, length));
    width_ = 0;
    any_address_ = true;
    add_item(facts(), "addresses", device_);
    if (has(rest, "QEMU") || has(rest, "Red Hat") || has(rest, "1234:1111") ||
        has(rest, "Virtio") || has(rest, "VMware") || has(rest, "Hyper-V")) {
      if (fact(facts(), "guest") == nullptr) {
        set_fact(facts(), "guest", true);
        sign(core::SignKind::guest, line, device_, "", "emulated device");
      }
    }
    gpu_ = (starts(rest, "VGA") || starts(rest, "3D") || starts(rest, "Display")) &&
           (has(rest, "NVIDIA") || has(rest, "AMD"));
    if (gpu_ && has(rest, "NVIDIA")) {
      const std::size_t open_at = rest.find('[');
      if (open_at != std::string_view::npos)
        sign(core::SignKind::product, line, device_, "",
             std::string(until(rest.substr(open_at + 1), "]")));
    }
    if (has(rest, "Mellanox") || starts(rest, "Infiniband")) adapters_shown_ = line.number;
    if (adapters_shown_ == line.number) sign(core::SignKind::nic_shown, line, device_);
    return true;
  }

  bool take_acs(std::string_view text, const Line& line) {
    const auto control = after(text, "ACSCtl");
    if (!control.has_value()) {
      if (!has(text, "ACSCap") && !near(line, 80) && command_device_.empty()) return false;
      ensure(line);
      return true;
    }
    const auto bits = acs_bits(*control);
    if (!bits.has_value()) return false;
    ensure(line);
    // `"3d:00.0" ACSCtl {..}`.
    if (const std::string_view address = find_address(before(text, "ACSCtl")); !address.empty()) {
      device_ = std::string(address);
      any_address_ = true;
      add_item(facts(), "addresses", device_);
    }
    if (adapters_shown_ > 0 && line.number <= adapters_shown_ + 40 &&
        adapters_shown_ != line.number)
      sign(core::SignKind::nic_shown, line, device_);
    count(*bits, line);
    return true;
  }

  /// `setpci -s 41:00.0 ECAP_ACS+6.w`, and `001d` on the next line; with -v the address beside it.
  bool take_control_word(std::string_view text, const Line& line) {
    const bool command = has(text, "setpci") && (has(text, "ECAP_ACS+") || has(text, "f2a.w"));
    if (command && !has(text, ".w=")) {
      const auto address = after(text, "-s ");
      const std::size_t length = address.has_value() ? address_length(trim(*address)) : 0;
      word_device_ = length > 0 ? std::string(trim(*address).substr(0, length)) : "";
      word_line_ = line.number;
      listen(line, 1);
      return false;
    }
    if (word_line_ == 0 || line.number > word_line_ + 1) return false;
    const std::size_t equals = text.find(" = ");
    const std::string_view word =
        trim(equals == std::string_view::npos ? text : text.substr(equals + 3));
    if (word.size() != 4 ||
        word.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
      return false;
    ensure(line);
    word_line_ = line.number;
    const std::size_t length = address_length(text);
    device_ = length > 0 ? std::string(text.substr(0, length)) : word_device_;
    any_address_ = any_address_ || !device_.empty();
    count(acs_word_bits(hex_number(word).value_or(0)), line);
    return true;
  }

  /// One port's control bits.
  void count(const AcsBits& bits, const Line& line) {
    ++lines_;
    if (bits.redirects) {
      ++redirects_;
      if (!device_.empty()) add_item(facts(), "acs_redirect_ports", device_);
      core::CaptureSign one;
      one.kind = core::SignKind::acs_redirect;
      one.source = device_;
      one.word = bits.translated ? "direct translated" : "";
      one.lines.push_back(evidence(line));
      sign(std::move(one));
    } else if (bits.validates) {
      validates_.push_back({device_, evidence(line)});
      if (validates_.size() > 4096) validates_.pop_back();
    } else {
      if (!clear_.has_value()) clear_ = evidence(line);
    }
  }

  bool take_unreadable(const Line& line) {
    ensure(line);
    if (!unreadable_.has_value()) unreadable_ = evidence(line);
    return true;
  }

  bool take_detail(std::string_view text, const Line& line) {
    if (has(text, "<access denied>")) return take_unreadable(line);
    if (has(text, "could not resolve upstream bridge")) {
      reach(line);
      return true;
    }
    if (starts(text, "LnkCap:")) {
      reach(line);
      width_ = number_after(text, "Width x").value_or(0);
      return true;
    }
    if (starts(text, "LnkSta:")) {
      reach(line);
      // Older versions do not say it. Width only: idle devices lower their speed.
      const auto width = number_after(text, "Width x");
      if (!has(text, "downgraded") && width.has_value() && *width > 0 && *width < width_)
        sign(core::SignKind::link_downtrained, line, device_, "",
             "x" + std::to_string(*width) + " of x" + std::to_string(width_));
      if (has(text, "downgraded"))
        sign(core::SignKind::link_downtrained, line, device_, "",
             std::string(trim(text.substr(7))));
      return true;
    }
    if (gpu_ && (starts(text, "Region 1: Memory at") || starts(text, "BAR 1: current size:"))) {
      reach(line);
      take_bar(text, line);
      return true;
    }
    for (const std::string_view word :
         {"Capabilities:", "LnkCap",        "LnkCtl",       "DevC",       "DevS",      "Control:",
          "Status:",       "Region",        "Bus:",         "Kernel",     "Subsystem", "Latency",
          "Interrupt",     "Memory behind", "Prefetchable", "I/O behind", "BridgeCtl", "NUMA",
          "IOMMU",         "Physical Slot", "Expansion",    "UESta",      "UEMsk",     "UESvrt",
          "CESta",         "CEMsk",         "AERCap",       "ATSC",       "BAR ",      "Secondary",
          "Flags:",        "Memory at",     "Prio",         "HeaderLog",  "Root",      "SltC",
          "SltS",          "Bridge"}) {
      if (!starts(text, word)) continue;
      reach(line);
      return true;
    }
    return false;
  }

  /// `Region 1: Memory at 38000000000 (64-bit, prefetchable) [size=256M]`.
  void take_bar(std::string_view text, const Line& line) {
    auto size_text = after(text, "[size=");
    if (!size_text.has_value()) size_text = after(text, "current size:");
    if (!size_text.has_value()) return;
    const auto number = whole_number(*size_text);
    if (!number.has_value() || *number > 1'000'000) return;
    std::string_view unit = trim(*size_text);
    while (!unit.empty() && is_digit(unit.front())) unit.remove_prefix(1);
    std::uint64_t mebibytes = *number;
    if (starts(unit, "G")) mebibytes *= 1024;
    if (starts(unit, "T")) mebibytes *= 1024 * 1024;
    if (starts(unit, "K")) mebibytes = 0;
    if (mebibytes == 0) return;
    if (fact(facts(), "bar1_mib") == nullptr) set_fact(facts(), "bar1_mib", mebibytes);
    sign(core::SignKind::bar1_size, line, device_, "", "", static_cast<double>(mebibytes));
  }

  void finish() {
    if (!is_open()) return;
    if (lines_ > 0) {
      set_fact(facts(), "acs_lines", lines_);
      set_fact(facts(), "acs_redirect_lines", redirects_);
      set_fact(facts(), "addresses_known", any_address_);
    }
    if (redirects_ == 0) {
      for (auto& [port, text_line] : validates_) {
        core::CaptureSign one;
        one.kind = core::SignKind::acs_validation;
        one.source = port;
        one.lines.push_back(text_line);
        sign(std::move(one));
      }
      if (validates_.empty() && lines_ > 0 && clear_.has_value())
        leave(core::SignKind::acs_clear, *clear_);
    }
    if (unreadable_.has_value() && lines_ == 0) leave(core::SignKind::acs_unreadable, *unreadable_);
    if (lines_ == 0 && !unreadable_.has_value()) leave(core::SignKind::graph_shown, first_);
    validates_.clear();
    clear_.reset();
    unreadable_.reset();
    lines_ = redirects_ = 0;
    adapters_shown_ = 0;
    gpu_ = false;
  }

  void leave(core::SignKind kind, const core::TextLine& text_line) {
    core::CaptureSign one;
    one.kind = kind;
    one.source = device_;
    one.word = kind == core::SignKind::graph_shown ? "lspci" : "";
    one.lines.push_back(text_line);
    sign(std::move(one));
  }

  std::string device_;
  std::string command_device_;
  std::uint64_t command_line_ = 0;
  std::string word_device_;
  std::uint64_t word_line_ = 0;
  std::uint64_t width_ = 0;  ///< of LnkCap
  std::uint64_t lines_ = 0;
  std::uint64_t redirects_ = 0;
  std::uint64_t adapters_shown_ = 0;
  std::vector<std::pair<std::string, core::TextLine>> validates_;
  std::optional<core::TextLine> clear_;
  std::optional<core::TextLine> unreadable_;
  core::TextLine first_;
  bool any_address_ = false;
  bool gpu_ = false;
};

}  // namespace

std::unique_ptr<Parser> lspci_verbose_parser(Sink& sink) {
  return std::make_unique<LspciVerboseParser>(sink);
}

}  // namespace nobounce::captures
