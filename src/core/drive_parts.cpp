// Down the parts of drives to those that have none.
#include "core/drive_parts.hpp"

#include <algorithm>
#include <string>

namespace nobounce::core {

std::vector<std::uint32_t> moving_drives(const Machine& machine, std::uint32_t drive) {
  std::vector<std::uint32_t> open = {drive};
  std::vector<std::uint32_t> moving;
  // `open` grows while it is walked; a number is taken once, so a circle ends.
  for (std::size_t i = 0; i < open.size(); ++i) {
    const Drive& each = machine.drives.at(open[i]);
    if (each.parts.empty()) moving.push_back(open[i]);
    for (const std::string& part : each.parts) {
      for (std::uint32_t number = 0; number < machine.drives.size(); ++number) {
        const bool known = std::find(open.begin(), open.end(), number) != open.end();
        if (machine.drives[number].name == part && !known) open.push_back(number);
      }
    }
  }
  return moving;
}

}  // namespace nobounce::core
