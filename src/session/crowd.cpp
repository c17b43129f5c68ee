// Counting who knocks.
#include "session/crowd.hpp"

#include <map>

namespace nobounce::session {

std::size_t oldest_of_the_most(std::span<const std::string_view> hosts) {
  std::map<std::string_view, std::size_t> counts;
  for (const std::string_view host : hosts) ++counts[host];
  std::size_t chosen = 0;
  for (std::size_t i = 1; i < hosts.size(); ++i) {
    if (counts[hosts[i]] > counts[hosts[chosen]]) chosen = i;
  }
  return chosen;
}

}  // namespace nobounce::session
