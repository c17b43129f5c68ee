// NCCL's and RCCL's topology as XML: where GPUs and adapters hang, and whether the library can
// register GPU memory (gdr).
#include <algorithm>

#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

struct XmlLink {
  std::string target;  ///< the bus address of the GPU at its far end
  std::uint64_t count = 0;
};

struct XmlDevice {
  std::string name;               ///< gpu2, mlx5_1
  std::vector<std::string> path;  ///< cpu, then every bridge above it
  std::optional<std::uint64_t> gdr;
  bool gpu = false;
  core::TextLine line;
  std::vector<XmlLink> links;
  std::uint64_t switch_links = 0;  ///< to NVSwitches
};

std::string_view xml_attribute(std::string_view tag, std::string_view name) {
  std::size_t at = 0;
  while ((at = tag.find(name, at)) != std::string_view::npos) {
    const std::size_t end = at + name.size();
    const bool begins = at > 0 && (is_blank(tag[at - 1]) || tag[at - 1] == '\n');
    if (begins && starts(tag.substr(end), "=\"")) return until(tag.substr(end + 2), "\"");
    at = end;
  }
  return {};
}

class NcclTopologyParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {
        "<system version=", "<pci busid=", "<cpu numaid=",
        "<gpu dev=",        "<net name=",  "<cpu host_hash="};
    return {words, 50};
  }

  bool take(const Line& line) override {
    std::string_view text = trim(line.text);
    if (!tag_.empty()) {  // a tag over several lines
      if (line.number > tag_line_ + 4) {
        tag_.clear();
      } else {
        tag_ += ' ';
        tag_ += text;
        text = tag_;
      }
    }
    if (!starts(text, "<")) {
      tag_.clear();
      return false;
    }
    if (!is_open() && !begins(text)) {
      tag_.clear();
      return false;
    }
    if (!near(line, 50)) {
      if (!begins(text)) return false;
      finish();
      open("nccl_topo_xml", line);
    }
    const std::string whole(text);
    tag_.clear();
    std::string_view rest = whole;
    bool any = false;
    while (!(rest = trim(rest)).empty() && rest.front() == '<') {
      const std::size_t close = rest.find('>');
      if (close == std::string_view::npos) {
        if (rest.size() < 4096) tag_ = std::string(rest);
        tag_line_ = line.number;
        any = true;
        break;
      }
      any = take_tag(rest.substr(1, close - 1), line) || any;
      rest.remove_prefix(close + 1);
    }
    if (any) reach(line);
    return any;
  }

  void end() override {
    finish();
    tag_.clear();
    close();
  }

 private:
  static bool begins(std::string_view text) {
    return starts(text, "<system version=") || starts(text, "<pci busid=") ||
           starts(text, "<cpu numaid=") || starts(text, "<gpu dev=") ||
           starts(text, "<net name=") || starts(text, "<cpu host_hash=");
  }

  bool take_tag(std::string_view tag, const Line& line) {
    const bool closes = starts(tag, "/");
    if (closes) tag.remove_prefix(1);
    const std::string_view name = until(tag, " \t/\n");
    const bool alone = ends(tag, "/");
    const bool node = name == "cpu" || name == "pci";
    if (!node && name != "gpu" && name != "net" && name != "nic" && name != "system" &&
        name != "nvlink" && name != "xgmi" && name != "c2c" && name != "pcilink")
      return false;
    if (closes) {
      if (node && !path_.empty()) path_.pop_back();
      return true;
    }
    if (name == "system") {
      if (const auto version = whole_number(xml_attribute(tag, "version")); version.has_value())
        set_fact(facts(), "xml_version", *version);
    } else if (name == "cpu") {
      take_cpu(tag, alone);
    } else if (name == "pci") {
      take_pci(tag, alone, line);
    } else if (name == "gpu") {
      add("gpu" + std::string(xml_attribute(tag, "dev")), tag, true, line);
    } else if (name == "nvlink") {
      take_nvlink(tag);
    } else if (name == "net") {
      add(std::string(xml_attribute(tag, "name")), tag, false, line);
    }
    return true;
  }

  void take_cpu(std::string_view tag, bool alone) {
    const std::string_view numa = xml_attribute(tag, "numaid");
    if (const auto number = whole_number(numa); number.has_value()) {
      if (fact(facts(), "numa") == nullptr) set_fact(facts(), "numa", *number);
      add_item(facts(), "numa_nodes", *number);
    }
    if (!alone && path_.size() < 64) path_.push_back("cpu" + std::string(numa));
  }

  void take_pci(std::string_view tag, bool alone, const Line& line) {
    const std::string_view kind = xml_attribute(tag, "class");
    const std::string_view address = xml_attribute(tag, "busid");
    first_.line = first_.line == 0 ? line.number : first_.line;
    if (first_.text.empty()) first_ = evidence(line);
    if (starts(kind, "0x0604")) ++bridges_;
    // Bus 00 of a domain of its own is what a hypervisor makes up: `0008:00:00.0`.
    if (!has(address, ":00:")) made_up_ = false;
    if (starts(kind, "0x0302") || starts(kind, "0x0300")) ++gpu_functions_;
    if (starts(kind, "0x0207") || starts(kind, "0x0200")) ++adapter_functions_;
    if (!alone && path_.size() < 64) path_.emplace_back(address);
  }

  void add(std::string name, std::string_view tag, bool gpu, const Line& line) {
    if (devices_.size() >= 256 || name.empty()) return;
    XmlDevice device;
    device.name = std::move(name);
    device.gpu = gpu;
    device.path = path_;
    device.gdr = whole_number(xml_attribute(tag, "gdr"));
    device.line = evidence(line);
    if (device.gdr.has_value()) set_entry(facts(), "gdr", device.name, *device.gdr);
    devices_.push_back(std::move(device));
  }

  /// Stands inside of the GPU's own element. Class 0x0680 is an NVSwitch.
  void take_nvlink(std::string_view tag) {
    const auto count = whole_number(xml_attribute(tag, "count"));
    if (devices_.empty() || !devices_.back().gpu || !count.has_value() || *count > 1000) return;
    XmlDevice& gpu = devices_.back();
    if (starts(xml_attribute(tag, "tclass"), "0x0680")) {
      gpu.switch_links += *count;
    } else if (gpu.links.size() < 64) {
      gpu.links.push_back({std::string(xml_attribute(tag, "target")), *count});
    }
  }

  /// Links that join two GPUs, straight or by switches that both hang on; 0: none.
  static std::uint64_t links_between(const XmlDevice& a, const XmlDevice& b) {
    std::uint64_t count = 0;
    for (const XmlLink& link : a.links) {
      if (!b.path.empty() && link.target == b.path.back()) count += link.count;
    }
    return count > 0 ? count : std::min(a.switch_links, b.switch_links);
  }

  /// Where a device hangs, without its own function, and that function.
  void leave_places() {
    for (const XmlDevice& device : devices_) {
      if (device.path.empty()) continue;
      std::string above;
      for (std::size_t i = 0; i + 1 < device.path.size(); ++i)
        above += (i == 0 ? "" : " ") + device.path[i];
      set_entry(facts(), "paths", sign_name(device), above);
      set_entry(facts(), "bus_addresses", sign_name(device), device.path.back());
    }
  }

  /// By the bridges that both hang below; the device's own function is the last step of its path.
  /// Empty where the processor above one of them is missing: it may be the other's.
  static std::string level_of(const XmlDevice& a, const XmlDevice& b) {
    std::size_t common = 0;
    while (common < a.path.size() && common < b.path.size() && a.path[common] == b.path[common])
      ++common;
    if (common == 0)
      return starts(a.path.front(), "cpu") && starts(b.path.front(), "cpu") ? "SYS" : "";
    const bool only_cpu = common == 1 && starts(a.path.front(), "cpu");
    if (only_cpu) return "PHB";
    const std::size_t farther = std::max(a.path.size(), b.path.size()) - common;
    return farther <= 1 ? "PIX" : "PXB";
  }

  void leave_levels() {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      for (std::size_t j = i + 1; j < devices_.size(); ++j) {
        const bool turn = !devices_[i].gpu && devices_[j].gpu;
        const XmlDevice& a = devices_[turn ? j : i];
        const XmlDevice& b = devices_[turn ? i : j];
        if (a.path.empty() || b.path.empty()) continue;
        if (const std::uint64_t links = links_between(a, b); links > 0)
          set_entry(facts(), "nvlinks", sign_name(a) + "-" + sign_name(b),
                    "NV" + std::to_string(links));
        const std::string level = level_of(a, b);
        if (level.empty()) continue;
        set_entry(facts(), "level_of", a.name + "-" + b.name, level);
        core::CaptureSign one;
        one.kind = core::SignKind::level;
        one.source = sign_name(a);
        one.target = sign_name(b);
        one.word = level;
        one.lines = {a.line, b.line};
        sign(std::move(one));
      }
    }
  }

  static std::string sign_name(const XmlDevice& device) {
    return device.gpu ? "GPU" + device.name.substr(3) : device.name;
  }

  void leave_gdr() {
    for (const XmlDevice& gpu : devices_) {
      if (!gpu.gpu) continue;
      for (const XmlDevice& adapter : devices_) {
        if (adapter.gpu || !adapter.gdr.has_value() || !gpu.gdr.has_value()) continue;
        if (*adapter.gdr != 0 && *gpu.gdr != 0) continue;
        core::CaptureSign one;
        one.kind = core::SignKind::gdr_off_topology;
        one.source = sign_name(gpu);
        one.target = adapter.name;
        one.value = static_cast<double>(*adapter.gdr);
        one.second = static_cast<double>(*gpu.gdr);
        one.lines = {gpu.line, adapter.line};
        sign(std::move(one));
      }
    }
  }

  void finish() {
    if (!is_open()) return;
    const auto gpus = static_cast<std::uint64_t>(
        std::count_if(devices_.begin(), devices_.end(), [](const XmlDevice& d) { return d.gpu; }));
    set_fact(facts(), "gpus", gpus);
    set_fact(facts(), "nics", static_cast<std::uint64_t>(devices_.size()) - gpus);
    set_fact(facts(), "gpu_functions", gpu_functions_);
    set_fact(facts(), "nic_functions", adapter_functions_);
    set_fact(facts(), "bridges", bridges_);
    leave_places();
    leave_levels();
    leave_gdr();
    core::CaptureSign shown;
    shown.kind = core::SignKind::topology_shown;
    shown.word = "xml";
    shown.lines.push_back(devices_.empty() ? first_ : devices_.front().line);
    if (!shown.lines.front().text.empty()) sign(shown);
    // Files written by hand for clouds leave out the bridges; NCCL itself leaves out root ports.
    if (made_up_ && bridges_ == 0 && gpu_functions_ + adapter_functions_ > 1 &&
        !first_.text.empty()) {
      core::CaptureSign hidden;
      hidden.kind = core::SignKind::guest;
      hidden.word = "no bridges";
      hidden.lines.push_back(first_);
      sign(std::move(hidden));
    }
    devices_.clear();
    path_.clear();
    first_ = {};
    bridges_ = gpu_functions_ = adapter_functions_ = 0;
    made_up_ = true;
  }

  std::string tag_;
  std::uint64_t tag_line_ = 0;
  std::vector<std::string> path_;
  std::vector<XmlDevice> devices_;
  core::TextLine first_;
  std::uint64_t bridges_ = 0;
  std::uint64_t gpu_functions_ = 0;
  std::uint64_t adapter_functions_ = 0;
  bool made_up_ = true;
};

}  // namespace

std::unique_ptr<Parser> nccl_topology_parser(Sink& sink) {
  return std::make_unique<NcclTopologyParser>(sink);
}

}  // namespace nobounce::captures
