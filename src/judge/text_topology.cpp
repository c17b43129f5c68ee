// Puts the topology of each piece together.
#include "judge/text_topology.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace nobounce::judge {

namespace {

using core::CapturePiece;
using core::CaptureSign;
using core::SignKind;
using core::TextDevice;
using core::TextDeviceKind;
using core::TextTopology;

const core::JsonObject* entries_of(const CapturePiece& piece, std::string_view name) {
  for (const auto& [key, value] : piece.facts) {
    if (key == name) return value.as_object();
  }
  return nullptr;
}

std::vector<std::string> steps_of(std::string_view text) {
  std::vector<std::string> steps;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    steps.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return steps;
}

bool holds_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [text](std::string_view word) {
    return text.find(word) != std::string_view::npos;
  });
}

/// Of a device that a text calls by its address, its product tells.
TextDeviceKind kind_of_product(std::string_view product) {
  if (holds_any(product, {"Non-Volatile", "NVMe", "SSD"})) return TextDeviceKind::drive;
  if (holds_any(product, {"Mellanox", "ConnectX", "BlueField", "Ethernet"}))
    return TextDeviceKind::nic;
  if (holds_any(product, {"NVSwitch", "Bridge", "Audio"})) return TextDeviceKind::other;
  if (holds_any(product, {"NVIDIA", "Instinct"})) return TextDeviceKind::gpu;
  return TextDeviceKind::other;
}

class TopologyMaker {
 public:
  TopologyMaker(const core::Captures& captures, std::size_t piece)
      : captures_(captures), number_(piece), piece_(captures.pieces[piece]) {}

  TextTopology make() {
    made_.format = piece_.kind;
    made_.file = piece_.file;
    made_.first_line = piece_.first_line;
    made_.last_line = piece_.last_line;
    for (const CaptureSign& sign : captures_.signs) {
      if (sign.piece != number_) continue;
      if (sign.kind == SignKind::nvlink_hidden)
        made_.notes.emplace_back("this form of topo shows PCIe only: NVLinks are not in it");
      if (sign.kind == SignKind::guest)
        made_.notes.emplace_back("a virtual machine: its hypervisor may have made this tree up");
      if (sign.kind != SignKind::level) continue;
      const std::size_t source = device(sign.source);
      put(source, device(sign.target), sign.word);
    }
    if (piece_.kind == "lspci_tree") {
      take_tree();
      made_.notes.emplace_back("lspci shows no NVLinks");
    }
    take_pairs("nvlinks");
    if (piece_.kind == "nccl_topo_xml" && entries_of(piece_, "nvlinks") == nullptr)
      made_.notes.emplace_back("no NVLinks are in it; files made for NCCL may leave them out");
    take_others();
    describe();
    return std::move(made_);
  }

 private:
  std::size_t device(const std::string& name) {
    const auto found = std::find_if(made_.devices.begin(), made_.devices.end(),
                                    [&name](const TextDevice& each) { return each.name == name; });
    if (found != made_.devices.end())
      return static_cast<std::size_t>(found - made_.devices.begin());
    const bool gpu = name.compare(0, 3, "GPU") == 0;
    const bool address = name.find(':') != std::string::npos;
    made_.devices.push_back({name,
                             gpu       ? TextDeviceKind::gpu
                             : address ? TextDeviceKind::other
                                       : TextDeviceKind::nic,
                             "",
                             {}});
    return made_.devices.size() - 1;
  }

  /// The nearer one stands: NVLinks beside the level of PCIe.
  void put(std::size_t one, std::size_t other, const std::string& level) {
    if (one == other || level.empty()) return;
    std::string& present = made_.levels[std::minmax(one, other)];
    if (present.empty() || core::level_rank(level) < core::level_rank(present)) present = level;
  }

  void take_pairs(std::string_view name) {
    const core::JsonObject* pairs = entries_of(piece_, name);
    if (pairs == nullptr) return;
    for (const auto& [key, value] : *pairs) {
      const std::size_t dash = key.find('-');
      const std::string* level = value.as_text();
      if (dash == std::string::npos || level == nullptr) continue;
      const std::size_t one = device(key.substr(0, dash));
      put(one, device(key.substr(dash + 1)), *level);
    }
  }

  /// By the bridges that devices hang below: `root:80 80:01.0 81:00.0`.
  void take_tree() {
    const core::JsonObject* paths = entries_of(piece_, "paths");
    if (paths == nullptr) return;
    std::vector<std::pair<std::size_t, std::vector<std::string>>> places;
    for (const auto& [name, path] : *paths) {
      if (path.as_text() != nullptr) places.emplace_back(device(name), steps_of(*path.as_text()));
    }
    for (std::size_t i = 0; i < places.size(); ++i) {
      for (std::size_t j = i + 1; j < places.size(); ++j)
        put(places[i].first, places[j].first, level_in_tree(places[i].second, places[j].second));
    }
    for (const auto& [name, count] : piece_.facts) {
      if (name != "further_devices_dropped" || count.as_unsigned() == nullptr) continue;
      made_.notes.push_back("the tree has " + std::to_string(*count.as_unsigned()) +
                            " devices more than are shown here");
    }
  }

  static std::string level_in_tree(const std::vector<std::string>& one,
                                   const std::vector<std::string>& other) {
    if (one.empty() || other.empty() || one[0] != other[0]) return "NODE or SYS";
    return one.size() > 1 && other.size() > 1 && one[1] == other[1] ? "PIX or PXB" : "PHB";
  }

  /// Devices that the text shows, and of which it does not say how far they are from any other.
  void take_others() {
    if (const core::JsonObject* places = entries_of(piece_, "paths"); places != nullptr) {
      for (const auto& [name, place] : *places) (void)device(name);
    }
    for (const auto& [key, value] : piece_.facts) {
      const core::JsonArray* names = key == "devices_unsaid" ? value.as_array() : nullptr;
      if (names == nullptr) continue;
      for (const core::Json& name : *names) {
        if (name.as_text() != nullptr) (void)device(*name.as_text());
      }
    }
  }

  void describe() {
    const auto text_of = [this](std::string_view name, const std::string& key) {
      const core::JsonObject* entries = entries_of(piece_, name);
      if (entries == nullptr) return std::string();
      for (const auto& [each, value] : *entries) {
        if (each == key && value.as_text() != nullptr) return *value.as_text();
      }
      return std::string();
    };
    for (TextDevice& each : made_.devices) {
      each.path = steps_of(text_of("paths", each.name));
      each.detail = text_of("products", each.name);
      if (!each.detail.empty()) each.kind = kind_of_product(each.detail);
      if (each.detail.empty()) each.detail = text_of("nic_names", each.name);
      if (each.detail.empty()) each.detail = text_of("bus_addresses", each.name);
    }
  }

  const core::Captures& captures_;
  std::size_t number_;
  const CapturePiece& piece_;
  TextTopology made_;
};

}  // namespace

std::vector<TextTopology> text_topologies(const core::Captures& captures) {
  std::vector<TextTopology> made;
  for (std::size_t piece = 0; piece < captures.pieces.size(); ++piece) {
    TextTopology topology = TopologyMaker(captures, piece).make();
    if (!topology.levels.empty()) made.push_back(std::move(topology));
  }
  return made;
}

}  // namespace nobounce::judge
