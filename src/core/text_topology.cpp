// How near a level is.
#include "core/text_topology.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>

namespace nobounce::core {

unsigned level_rank(const std::string& level) {
  if (level.compare(0, 2, "NV") == 0) {
    unsigned links = 0;
    (void)std::from_chars(level.data() + 2, level.data() + level.size(), links);
    return 100 - std::min(links, 99U);
  }
  constexpr std::string_view words[] = {"C2C", "XGMI", "PIX",         "PIX or PXB", "PXB",
                                        "PHB", "NODE", "NODE or SYS", "SYS"};
  const auto* const found = std::find(std::begin(words), std::end(words), level);
  return 101 + static_cast<unsigned>(found - std::begin(words));
}

}  // namespace nobounce::core
