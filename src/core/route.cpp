// Routes: the spelling of the providers.
#include <nobounce/route.hpp>

namespace nobounce {

std::string_view to_string(ProviderKind kind) {
  switch (kind) {
    case ProviderKind::storage:
      return "storage";
    case ProviderKind::peer:
      return "peer";
    case ProviderKind::rdma:
      return "rdma";
    case ProviderKind::nvme:
      return "nvme";
    case ProviderKind::host:
      return "host";
    case ProviderKind::staged:
      return "staged";
  }
  return "invalid";
}

}  // namespace nobounce
