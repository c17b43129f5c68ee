// Where NCCL, by its version, sees something else than what is so.
#include "judge/library_view.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

#include "core/device_refs.hpp"

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

/// How far apart GPUs may be for NCCL to let them reach one another, unless a variable says so (its
/// src/graph/paths.cc over its tags). True: below one PCIe switch and no farther.
bool nccl_keeps_to_switches(const Version& version, const Machine& machine) {
  const bool x86 = machine.processor.architecture == "x86_64";
  const bool amd = machine.processor.vendor == "AuthenticAMD";
  if (version >= Version{2, 23, 4}) return !(x86 && amd && machine.gpus.size() <= 2);
  return (x86 && !amd) || machine.processor.architecture == "aarch64";
}

std::string pair_text(const std::pair<std::size_t, std::size_t>& pair) {
  return "gpu:" + std::to_string(pair.first) + " and gpu:" + std::to_string(pair.second);
}

std::string pairs_text(const std::vector<std::pair<std::size_t, std::size_t>>& pairs) {
  const std::string first = pair_text(pairs.front());
  if (pairs.size() == 1) return first;
  return first + " and " + std::to_string(pairs.size() - 1) + " other pairs";
}

/// Pairs that it will not join though the driver does, and pairs that it joins over ports that
/// redirect, which it does not look at.
void view_pairs(const std::string& name, const Version& version, const Machine& machine,
                std::vector<LibraryView>& views) {
  if (version < Version{2, 9, 6}) return;
  const bool near_only = nccl_keeps_to_switches(version, machine);
  std::vector<std::pair<std::size_t, std::size_t>> far;
  std::vector<std::pair<std::size_t, std::size_t>> redirected;
  for (std::size_t one = 0; one < machine.gpus.size(); ++one) {
    for (std::size_t other = one + 1; other < machine.gpus.size(); ++other) {
      const Path path = path_between(machine, core::gpu_ref(static_cast<std::uint32_t>(one)),
                                     core::gpu_ref(static_cast<std::uint32_t>(other)));
      const bool offered = machine.gpus[one].peer_status == PeerStatus::ok &&
                           machine.gpus[other].peer_status == PeerStatus::ok;
      if (!offered || path.nvlink_count > 0) continue;
      if (near_only && path.pcie_level > PathLevel::pxb) {
        far.emplace_back(one, other);
      } else if (path.redirected) {
        redirected.emplace_back(one, other);
      }
    }
  }
  if (!far.empty()) {
    views.push_back({name, Cause::none,
                     "the driver offers peer access between " + pairs_text(far) +
                         ", and this version keeps to GPUs below one PCIe switch: it will go "
                         "through shared memory of the host. NCCL_P2P_LEVEL=SYS lets it; verify "
                         "the pair first (nobounce prove)"});
  }
  if (!redirected.empty()) {
    views.push_back({name, Cause::machine_acs_redirect,
                     "it does not look at ACS, and will join " + pairs_text(redirected) +
                         " over ports that redirect: slow, or it hangs. NCCL_P2P_DISABLE=1 until "
                         "that is mended"});
  }
}

/// GPUs without an adapter as near as it wants one.
void view_adapters(const std::string& name, const Version& version, const Machine& machine,
                   std::vector<LibraryView>& views) {
  if (version < Version{2, 6, 0} || machine.nics.empty()) return;
  std::string gpus;
  for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    if (machine.gpus[gpu].coherent) continue;
    bool near = false;
    for (std::size_t nic = 0; nic < machine.nics.size() && !near; ++nic) {
      const Path path = path_between(machine, core::gpu_ref(static_cast<std::uint32_t>(gpu)),
                                     {DeviceRef::Kind::nic, static_cast<std::uint16_t>(nic)});
      near = path.pcie_level <= PathLevel::pxb;
    }
    if (!near) gpus += " gpu:" + std::to_string(gpu);
  }
  if (gpus.empty()) return;
  views.push_back({name, Cause::rdma_distance_over_limit,
                   "no adapter lies below one PCIe switch with" + gpus +
                       ": this version will send from host memory there, also where the adapter "
                       "could reach the GPU"});
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
  // Words for a level are read since 2.6; no older version knows such a machine.
  if (coherent && version >= Version{2, 6, 0} && version < Version{2, 27, 3}) {
    views.push_back({name, Cause::rdma_distance_over_limit,
                     "on coherent systems this version keeps to PCIe distances, which say nothing "
                     "here: set NCCL_NET_GDR_C2C=1 (2.26) or NCCL_NET_GDR_LEVEL=SYS"});
  }
  view_pairs(name, version, machine, views);
  view_adapters(name, version, machine, views);
  return views;
}

}  // namespace nobounce::judge
