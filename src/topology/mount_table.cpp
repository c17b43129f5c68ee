// Reads the mount table and drops what nobody can keep data on.
#include "topology/mount_table.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace nobounce::topology {
namespace {

using core::MountLine;

bool is_kernel_made(std::string_view type) {
  constexpr std::array<std::string_view, 20> types = {
      "autofs", "binfmt_misc", "bpf",        "cgroup",     "cgroup2",   "configfs", "debugfs",
      "devpts", "devtmpfs",    "efivarfs",   "fusectl",    "hugetlbfs", "mqueue",   "nsfs",
      "proc",   "pstore",      "rpc_pipefs", "securityfs", "sysfs",     "tracefs"};
  return std::find(types.begin(), types.end(), type) != types.end();
}

bool lies_in(std::string_view point, std::string_view above) {
  return point.size() > above.size() && point.substr(0, above.size()) == above &&
         point[above.size()] == '/';
}

}  // namespace

std::vector<MountLine> read_mount_table(system::Files& files) {
  const Result<std::string> text = files.read("/proc/self/mountinfo");
  if (!text) return {};
  std::vector<MountLine> mounts;
  for (MountLine& mount : core::parse_mount_table(*text)) {
    std::erase_if(mounts, [&](const MountLine& each) { return each.point == mount.point; });
    mounts.push_back(std::move(mount));
  }
  // /sys/kernel/debug inside /sys and the like: nobody's data, and hundreds of lines on some hosts.
  const std::vector<MountLine> all = mounts;
  std::erase_if(mounts, [&](const MountLine& mount) {
    if (mount.type == "nsfs") return true;
    return is_kernel_made(mount.type) &&
           std::any_of(all.begin(), all.end(), [&](const MountLine& above) {
             return is_kernel_made(above.type) && lies_in(mount.point, above.point);
           });
  });
  return mounts;
}

}  // namespace nobounce::topology
