// Hosts: the words for their kinds, and how the handle that users hold lets go of one.
#include "system/host.hpp"

#include <cerrno>
#include <string>

namespace nobounce {
namespace {

Error not_offered(const char* what) {
  return os_error(ENOSYS, std::string("use the ") + what + " of this host");
}

}  // namespace

namespace system {

Result<Verbs*> Host::verbs() {
  return not_offered("RDMA adapters");
}

Result<Network*> Host::network() {
  return not_offered("network");
}

Result<Pci*> Host::pci() {
  return not_offered("PCI functions");
}

}  // namespace system

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
