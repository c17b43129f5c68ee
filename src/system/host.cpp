// Hosts: the words for their kinds, and how the handle that users hold lets go of one.
#include "system/host.hpp"

namespace nobounce {

std::string_view to_string(HostKind kind) {
  switch (kind) {
    case HostKind::live:
      return "live";
    case HostKind::soft:
      return "soft";
    case HostKind::recorded:
      return "recorded";
  }
  return "unknown";
}

void HostDeleter::operator()(system::Host* host) const {
  delete host;
}

}  // namespace nobounce
