// The topology that a captured text shows: devices, how far they are apart, what they hang on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace nobounce::core {

enum class TextDeviceKind : std::uint8_t { gpu, nic, drive, other };

struct TextDevice {
  std::string name;  ///< as the text has it: GPU0, mlx5_0, 0000:41:00.0
  TextDeviceKind kind = TextDeviceKind::other;
  std::string detail;             ///< its product, its bus address, or what a legend calls it
  std::vector<std::string> path;  ///< from the processor down to what it hangs on; empty: not shown
};

struct TextTopology {
  std::string format;  ///< topo_m, nccl_topo_xml, lspci_tree ...
  std::string file;
  std::uint64_t first_line = 0;
  std::uint64_t last_line = 0;
  std::vector<TextDevice> devices;
  /// NV18, PIX, PXB, PHB, NODE, SYS ... by numbers of devices, the smaller one first.
  std::map<std::pair<std::size_t, std::size_t>, std::string> levels;

  std::vector<std::string> notes;  ///< what the text hides

  /// Empty where the text does not say it.
  [[nodiscard]] std::string level(std::size_t one, std::size_t other) const {
    const auto found = levels.find(std::minmax(one, other));
    return found == levels.end() ? std::string() : found->second;
  }
};

/// From near to far: NVLink (the more links the nearer), then the levels of PCIe; words that nobody
/// knows last.
[[nodiscard]] unsigned level_rank(const std::string& level);

}  // namespace nobounce::core
