// Where NCCL, by its version, sees something else than what is so.
#include "judge/library_view.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace nobounce::judge {
namespace {

using Version = std::array<std::uint32_t, 3>;

Version version_of(std::string_view text) {
  Version version{};
  for (std::uint32_t& part : version) {
    const std::size_t end = std::min(text.find('.'), text.size());
    (void)std::from_chars(text.data(), text.data() + end, part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return version;
}

bool has_peer_client(const core::HostFacts& host, std::string_view name) {
  const auto& peers = host.rdma.memory_peers;
  return peers.has_value() && std::find(peers->begin(), peers->end(), name) != peers->end();
}

/// Which files NCCL takes for a sign of the module, by version (see nccl's src/transport/net_ib.cc
/// over its tags).
bool nccl_sees_module(const Version& version, const core::HostFacts& host) {
  if (has_peer_client(host, "nv_mem")) return true;
  if (version >= Version{2, 23, 4}) return true;  // it looks at /sys/module/nvidia_peermem
  if (version >= Version{2, 22, 3} && has_peer_client(host, "nv_mem_nc")) return true;
  return version >= Version{2, 9, 8} && version <= Version{2, 21, 5} &&
         has_peer_client(host, "nvidia-peermem");
}

}  // namespace

std::vector<LibraryView> library_views(const Machine& machine, const core::HostFacts& host) {
  std::vector<LibraryView> views;
  const auto nccl = machine.libraries.find("nccl");
  if (nccl == machine.libraries.end()) return views;
  const Version version = version_of(nccl->second);
  const std::string name = "NCCL " + nccl->second;
  if (machine.modules.nvidia_peermem && !nccl_sees_module(version, host)) {
    // From 2.13 on it tries dma-buf, too.
    const bool other_way = machine.kernel.dmabuf && version >= Version{2, 13, 4};
    views.push_back(
        {name, Cause::rdma_peermem_unseen_by_library,
         std::string("nvidia_peermem is loaded, and this version does not see it: it looks for "
                     "/sys/kernel/mm/memory_peers/nv_mem, which this kernel does not have") +
             (other_way ? "; dma-buf is there and it will use that"
                        : "; it will send from host memory")});
  }
  const bool coherent = std::any_of(machine.gpus.begin(), machine.gpus.end(),
                                    [](const Gpu& gpu) { return gpu.coherent; });
  if (coherent && version >= Version{2, 4, 0} && version < Version{2, 27, 3}) {
    views.push_back({name, Cause::rdma_distance_over_limit,
                     "on coherent systems this version keeps to PCIe distances, which say nothing "
                     "here: set NCCL_NET_GDR_C2C=1 (2.26) or NCCL_NET_GDR_LEVEL=SYS"});
  }
  return views;
}

}  // namespace nobounce::judge
