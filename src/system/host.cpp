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

Result<system::Verbs*> Host::verbs() {
  return not_offered("RDMA adapters");
}

Result<system::Network*> Host::network() {
  return not_offered("network");
}

Result<system::Pci*> Host::pci() {
  return not_offered("PCI functions");
}

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

void HostDeleter::operator()(Host* host) const {
  delete host;
}

}  // namespace nobounce
