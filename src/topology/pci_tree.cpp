// Reads /sys/bus/pci/devices: places by their real paths, ACS from configuration space.
#include "topology/pci_tree.hpp"

#include <algorithm>
#include <utility>

#include "topology/sysfs_text.hpp"

namespace nobounce::topology {
namespace {

constexpr std::size_t config_legacy_bytes = 256;
constexpr std::uint32_t acs_capability_id = 0x000d;
constexpr std::uint32_t ats_capability_id = 0x000f;
constexpr std::uint32_t ats_enable = 0x8000;

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/// dddd:bb:dd.f, where the domain may have more digits.
bool is_bdf(std::string_view text) {
  if (text.size() < 12) return false;
  const std::size_t domain = text.size() - 8;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool colon = i == domain || i == domain + 3;
    if (colon ? text[i] != ':' : i == domain + 6 ? text[i] != '.' : !is_hex(text[i])) return false;
  }
  return true;
}

bool is_root(std::string_view part) {
  return part.substr(0, 3) == "pci" && part.find(':') != std::string_view::npos && !is_bdf(part);
}

std::uint32_t word_at(std::string_view bytes, std::size_t at, std::size_t length) {
  std::uint32_t value = 0;
  for (std::size_t i = length; i-- > 0;)
    value = value << 8 | static_cast<std::uint8_t>(bytes[at + i]);
  return value;
}

std::string hex4(std::uint32_t value) {
  std::string text(4, '0');
  for (std::size_t i = 4; i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 15];
  return text;
}

std::uint32_t generation_of(std::string_view speed) {
  constexpr std::pair<std::string_view, std::uint32_t> speeds[] = {
      {"2.5 ", 1}, {"5.0 ", 2},  {"5 ", 2},  {"8.0 ", 3},  {"8 ", 3}, {"16.0 ", 4},
      {"16 ", 4},  {"32.0 ", 5}, {"32 ", 5}, {"64.0 ", 6}, {"64 ", 6}};
  for (const auto& [text, generation] : speeds) {
    if (speed.substr(0, text.size()) == text) return generation;
  }
  return 0;
}

/// A width register without a link reads 0 or 255.
std::uint32_t width_of(std::optional<std::int64_t> value) {
  return value.has_value() && *value > 0 && *value <= 32 ? static_cast<std::uint32_t>(*value) : 0;
}

PciFunction place(std::string bdf, std::string path) {
  PciFunction function;
  for (const std::string_view part : split(path, '/')) {
    if (is_root(part)) {
      // A domain of its own behind an endpoint (Intel VMD) starts a new tree.
      function.root = part;
      function.bridges.clear();
    } else if (is_bdf(part) && part != bdf) {
      function.bridges.emplace_back(part);
    }
  }
  function.bdf = std::move(bdf);
  function.path = std::move(path);
  return function;
}

}  // namespace

std::string PciFunction::id() const {
  return hex4(vendor) + ":" + hex4(device);
}

PciTree PciTree::read(system::Files& files) {
  PciTree tree(files);
  const std::string devices = "/sys/bus/pci/devices";
  for (std::string& name : names_in(files, devices)) {
    const Result<std::string> path = files.real_path(devices + "/" + name);
    if (!path || !is_bdf(name)) continue;
    PciFunction function = place(std::move(name), *path);
    const auto field = [&](const char* file) {
      return static_cast<std::uint32_t>(number_at(files, function.path + file).value_or(0));
    };
    function.vendor = field("/vendor");
    function.device = field("/device");
    function.class_code = field("/class");
    tree.functions_.push_back(std::move(function));
  }
  std::sort(tree.functions_.begin(), tree.functions_.end(),
            [](const PciFunction& a, const PciFunction& b) {
              return std::pair(a.bdf.size(), a.bdf) < std::pair(b.bdf.size(), b.bdf);
            });
  for (std::size_t i = 0; i < tree.functions_.size(); ++i) tree.by_bdf_[tree.functions_[i].bdf] = i;
  return tree;
}

std::vector<std::string> PciTree::roots() const {
  std::vector<std::string> roots;
  for (const PciFunction& function : functions_) {
    const std::uint32_t base_class = function.class_code >> 16;
    // Servers have many root buses with nothing but counters and memory controllers on them.
    const bool counts = function.is_bridge() || !function.bridges.empty() || base_class <= 0x03 ||
                        function.class_code >> 8 == 0x0600;
    if (counts && !function.root.empty()) roots.push_back(function.root);
  }
  std::sort(roots.begin(), roots.end(), [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  });
  roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
  return roots;
}

const PciFunction* PciTree::find(std::string_view bdf) const {
  const auto at = by_bdf_.find(bdf);
  return at == by_bdf_.end() ? nullptr : &functions_[at->second];
}

const PciFunction* PciTree::owner_of(std::string_view real_path) const {
  const PciFunction* owner = nullptr;
  for (const std::string_view part : split(real_path, '/')) {
    if (const PciFunction* function = find(part)) owner = function;
  }
  return owner;
}

PcieLink PciTree::link_of(const PciFunction& function) const {
  const std::string& path = function.path;
  PcieLink link;
  link.generation = generation_of(text_at(*files_, path + "/current_link_speed"));
  link.generation_max = generation_of(text_at(*files_, path + "/max_link_speed"));
  link.width = width_of(number_at(*files_, path + "/current_link_width"));
  link.width_max = width_of(number_at(*files_, path + "/max_link_width"));
  return link;
}

std::optional<std::int64_t> PciTree::numa_of(const PciFunction& function) const {
  return number_at(*files_, function.path + "/numa_node");
}

std::optional<std::string> PciTree::extended_capability(const PciFunction& function,
                                                        std::uint32_t id) const {
  const Result<std::string> config = files_->read(function.path + "/config");
  // Without rights the kernel gives 64 bytes, without extended configuration space 256.
  if (!config || config->size() <= config_legacy_bytes) return std::nullopt;
  std::size_t at = config_legacy_bytes;
  for (int capabilities = 0; capabilities < 96 && at + 8 <= config->size(); ++capabilities) {
    const std::uint32_t header = word_at(*config, at, 4);
    if (header == 0 || header == 0xffffffff) break;
    if ((header & 0xffff) == id) return config->substr(at, 16);
    const std::size_t next = header >> 20 & 0xffc;
    if (next < config_legacy_bytes) break;
    at = next;
  }
  return std::string();
}

PortAcs PciTree::acs_of(const PciFunction& port) const {
  const std::optional<std::string> capability = extended_capability(port, acs_capability_id);
  if (!capability.has_value()) return {};
  if (capability->size() < 8) return {AcsMode::off, {}};  // without ACS it cannot redirect
  const std::uint32_t control = word_at(*capability, 6, 2);
  const AcsMode mode = acs_mode(control);
  return {mode, control == acs_control(mode) ? std::string() : "0x" + hex4(control)};
}

Answer PciTree::ats_of(const PciFunction& function) const {
  const std::optional<std::string> capability = extended_capability(function, ats_capability_id);
  if (!capability.has_value()) return Answer::unknown;
  if (capability->size() < 8) return Answer::no;
  return (word_at(*capability, 6, 2) & ats_enable) != 0 ? Answer::yes : Answer::no;
}

std::string PciTree::iommu_group_of(const PciFunction& function) const {
  const Result<std::string> group = files_->real_path(function.path + "/iommu_group");
  return group ? std::string(last_part(*group)) : std::string();
}

std::string PciTree::driver_of(const PciFunction& function) const {
  const Result<std::string> driver = files_->real_path(function.path + "/driver");
  return driver ? std::string(last_part(*driver)) : std::string();
}

IommuMode PciTree::iommu_of(const PciFunction& function) const {
  const std::string group = function.path + "/iommu_group";
  if (!files_->exists(group)) return IommuMode::off;
  const std::string type = text_at(*files_, group + "/type");
  if (type == "identity") return IommuMode::identity;
  if (type == "DMA" || type == "DMA-FQ") return IommuMode::translated;
  return IommuMode::unknown;
}

std::uint64_t PciTree::window_bytes_max(const PciFunction& function, std::size_t bar) const {
  // A bit for each size, of which the lowest stands for 1 MiB.
  const std::string text =
      text_at(*files_, function.path + "/resource" + std::to_string(bar) + "_resize");
  const auto sizes = number_of("0x" + text);
  if (text.empty() || !sizes.has_value() || *sizes <= 0) return 0;
  std::uint64_t bytes = 1u << 20;
  for (auto left = static_cast<std::uint64_t>(*sizes) >> 1; left != 0; left >>= 1) bytes <<= 1;
  return bytes;
}

std::uint64_t PciTree::window_bytes(const PciFunction& function, std::size_t bar) const {
  const std::string text = text_at(*files_, function.path + "/resource");
  const std::vector<std::string_view> lines = split(text, '\n');
  if (bar >= lines.size()) return 0;
  const std::vector<std::string_view> fields = split(lines[bar], ' ');
  if (fields.size() < 2) return 0;
  const auto begin = static_cast<std::uint64_t>(number_of(fields[0]).value_or(0));
  const auto end = static_cast<std::uint64_t>(number_of(fields[1]).value_or(0));
  return end > begin ? end - begin + 1 : 0;
}

}  // namespace nobounce::topology
