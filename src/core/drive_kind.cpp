// Lists of drivers and types.
#include "core/drive_kind.hpp"

#include <algorithm>
#include <iterator>

namespace nobounce::core {

bool is_network_file_system(std::string_view type) {
  constexpr std::string_view types[] = {"nfs",    "nfs4", "lustre", "wekafs",
                                        "beegfs", "gpfs", "scatefs"};
  return std::find(std::begin(types), std::end(types), type) != std::end(types);
}

bool is_pci_drive(const Drive& drive) {
  if (drive.parent.kind == Parent::Kind::nic) return false;
  constexpr std::string_view no_function[] = {"dm",   "md",  "loop",      "nbd",
                                              "zram", "brd", "nvme_rdma", "nvme_tcp"};
  return !is_network_file_system(drive.driver) &&
         std::find(std::begin(no_function), std::end(no_function), drive.driver) ==
             std::end(no_function);
}

}  // namespace nobounce::core
