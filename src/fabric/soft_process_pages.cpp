// Reads /proc/self/maps: the one place that tells what lies behind an address of this process.
#include "fabric/soft_process_pages.hpp"

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace nobounce::fabric {

namespace {

/// Linux 6.5 and later.
bool guards_files(const std::string& release) {
  int major = 0;
  int minor = 0;
  if (std::sscanf(release.c_str(), "%d.%d", &major, &minor) != 2) return false;
  return major > 6 || (major == 6 && minor >= 5);
}

bool written_back(const Machine& machine, const std::string& path) {
  // Shared anonymous memory has a name, too: /memfd:..., /dev/zero (deleted), /SYSV...
  constexpr std::string_view gone = " (deleted)";
  const bool named = path.size() > 1 && path[0] == '/' && path.compare(0, 7, "/memfd:") != 0 &&
                     path.compare(0, 5, "/SYSV") != 0 &&
                     (path.size() < gone.size() ||
                      path.compare(path.size() - gone.size(), gone.size(), gone) != 0);
  if (!named) return false;
  const Mount* mount = mount_of(machine, path);
  return mount != nullptr && mount->type != "tmpfs" && mount->type != "hugetlbfs";
}

}  // namespace

bool pinnable_pages(const Machine& machine, const void* pointer, std::size_t bytes,
                    bool read_only) {
  const bool files_matter = !read_only && guards_files(machine.kernel.release);
  auto at = reinterpret_cast<std::uintptr_t>(pointer);
  const std::uintptr_t end = at + bytes;
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (at < end && std::getline(maps, line)) {
    unsigned long begin = 0;
    unsigned long behind = 0;
    char rights[5] = "";
    int path = -1;
    if (std::sscanf(line.c_str(), "%lx-%lx %4s %*x %*s %*u %n", &begin, &behind, rights, &path) <
            3 ||
        at >= behind) {
      continue;
    }
    if (at < begin) return false;  // a hole
    if (!read_only && rights[1] != 'w') return false;
    const bool shared_writable = rights[1] == 'w' && rights[3] == 's';
    if (files_matter && shared_writable && path > 0 &&
        written_back(machine, line.substr(static_cast<std::size_t>(path)))) {
      return false;
    }
    at = behind;
  }
  return at >= end;
}

}  // namespace nobounce::fabric
