// The table of supported file systems and block drivers.
#include "judge/file_systems.hpp"

#include <algorithm>
#include <array>

namespace nobounce::judge {
namespace {

// Reads only: the vendors of GPFS and WekaFS ship direct writes switched off, and we have not seen
// one over NFS arrive.
constexpr std::array<FileSystemRow, 9> rows = {{
    {"beegfs", true, true, "", true},
    {"ext4", true, true, "data=ordered", false},
    {"gpfs", true, false, "", true},
    {"lustre", true, true, "", true},
    {"nfs", true, false, "proto=rdma", true},
    {"nfs4", true, false, "proto=rdma", true},
    {"scatefs", true, true, "", true},
    {"wekafs", true, false, "", true},
    {"xfs", true, true, "", false},
}};

constexpr std::array<std::string_view, 2> block_drivers = {"nvme", "nvme_rdma"};

}  // namespace

const FileSystemRow* file_system_row(std::string_view type) {
  const auto* row = std::find_if(rows.begin(), rows.end(),
                                 [&](const FileSystemRow& each) { return each.type == type; });
  return row == rows.end() ? nullptr : row;
}

bool block_driver_supported(std::string_view driver) {
  return std::find(block_drivers.begin(), block_drivers.end(), driver) != block_drivers.end();
}

bool network_driver(std::string_view driver) {
  if (driver == "nvme_rdma" || driver == "nvme_tcp") return true;
  const FileSystemRow* row = file_system_row(driver);
  return row != nullptr && row->network;
}

bool has_option(std::string_view options, std::string_view option) {
  while (!options.empty()) {
    const std::size_t comma = options.find(',');
    if (options.substr(0, comma) == option) return true;
    if (comma == std::string_view::npos) break;
    options.remove_prefix(comma + 1);
  }
  return false;
}

std::string_view file_system_list() {
  return "beegfs, ext4, gpfs, lustre, nfs, nfs4, scatefs, wekafs, xfs";
}

}  // namespace nobounce::judge
