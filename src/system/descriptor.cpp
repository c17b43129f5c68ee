// What a descriptor is called in error texts.
#include "system/descriptor.hpp"

#include <climits>

namespace nobounce::system {

std::string path_of_descriptor(int number) {
  const std::string link = "/proc/self/fd/" + std::to_string(number);
  char path[PATH_MAX];
  const ssize_t length = ::readlink(link.c_str(), path, sizeof path);
  if (length <= 0) return "descriptor " + std::to_string(number);
  return std::string(path, static_cast<std::size_t>(length));
}

}  // namespace nobounce::system
