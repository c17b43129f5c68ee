// Facts about a drive that somebody wants to own: who has it now. Plain values, judged by judge/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nobounce::core {

struct DriveUse {
  std::string what;    ///< "/dev/nvme0n1p2 is mounted on /home"
  std::string source;  ///< the file it was read from
};

struct DriveFacts {
  std::string bdf;
  bool exists = false;
  bool is_nvme = false;        ///< by its class
  std::string driver;          ///< empty: none
  std::vector<DriveUse> uses;  ///< mounts, swap, devices built on it
};

/// The commands that take a PCI function away from its driver (empty: it has none) and give it to
/// vfio-pci.
[[nodiscard]] std::string commands_to_bind(std::string_view bdf, std::string_view driver);

}  // namespace nobounce::core
