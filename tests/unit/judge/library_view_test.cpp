// NCCL's sight of nvidia_peermem by its version.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "judge/library_view.hpp"

namespace nobounce::judge {
namespace {

struct Sight {
  const char* version;
  std::vector<std::string> peers;  ///< in /sys/kernel/mm/memory_peers
  bool sees;
};

class NcclSight : public ::testing::TestWithParam<Sight> {};

TEST_P(NcclSight, DependsOnItsVersionAndTheFilesItLooksFor) {
  Machine machine;
  machine.modules.nvidia_peermem = true;
  machine.kernel.dmabuf = false;
  machine.libraries["nccl"] = GetParam().version;
  core::HostFacts host;
  if (!GetParam().peers.empty()) host.rdma.memory_peers = GetParam().peers;
  const std::vector<LibraryView> views = library_views(machine, host);
  ASSERT_EQ(views.empty(), GetParam().sees);
  if (views.empty()) return;
  EXPECT_EQ(views[0].cause, Cause::rdma_peermem_unseen_by_library);
  EXPECT_EQ(views[0].library, std::string("NCCL ") + GetParam().version);
  machine.modules.nvidia_peermem = false;
  EXPECT_TRUE(library_views(machine, host).empty()) << "nothing is there to be seen";
}

INSTANTIATE_TEST_SUITE_P(Versions, NcclSight,
                         ::testing::Values(Sight{"2.18.5", {}, false},
                                           Sight{"2.18.5", {"nv_mem"}, true},
                                           Sight{"2.9.8", {"nvidia-peermem"}, true},
                                           Sight{"2.21.5", {"nvidia-peermem"}, true},
                                           Sight{"2.22.3", {"nvidia-peermem"}, false},
                                           Sight{"2.22.3", {"nv_mem_nc"}, true},
                                           Sight{"2.22.3", {}, false}, Sight{"2.23.4", {}, true},
                                           Sight{"2.30.7", {}, true}));

TEST(LibraryViews, SayWhereCoherentSystemsAreJudgedByDistance) {
  Machine machine;
  machine.gpus.emplace_back();
  machine.gpus[0].coherent = true;
  machine.libraries["nccl"] = "2.25.1";
  const std::vector<LibraryView> views = library_views(machine, {});
  ASSERT_EQ(views.size(), 1u);
  EXPECT_EQ(views[0].cause, Cause::rdma_distance_over_limit);
  machine.libraries["nccl"] = "2.27.3";
  EXPECT_TRUE(library_views(machine, {}).empty());
}

/// Two GPUs, each below a root port of one socket, and an adapter beside the first.
Machine two_gpus(const char* nccl) {
  Machine machine;
  machine.processor.architecture = "x86_64";
  machine.processor.vendor = "GenuineIntel";
  machine.libraries["nccl"] = nccl;
  machine.numa_nodes = {NumaNode{}};
  machine.host_bridges = {HostBridge{}};
  machine.switches.resize(1);
  machine.switches[0].parent = Parent{Parent::Kind::host_bridge, 0};
  machine.gpus.resize(2);
  for (Gpu& gpu : machine.gpus) gpu.peer_status = PeerStatus::ok;
  machine.gpus[0].parent = Parent{Parent::Kind::pci_switch, 0};
  machine.gpus[1].parent = Parent{Parent::Kind::host_bridge, 0};
  machine.nics.resize(1);
  machine.nics[0].parent = Parent{Parent::Kind::pci_switch, 0};
  return machine;
}

TEST(LibraryViews, SayWherePairsAreLeftOutThoughTheDriverJoinsThem) {
  Machine machine = two_gpus("2.23.4");
  machine.nics.clear();
  const std::vector<LibraryView> views = library_views(machine, {});
  ASSERT_EQ(views.size(), 1u);
  EXPECT_NE(views[0].sentence.find("gpu:0 and gpu:1"), std::string::npos) << views[0].sentence;
  EXPECT_NE(views[0].sentence.find("NCCL_P2P_LEVEL=SYS"), std::string::npos) << views[0].sentence;
  machine.processor.vendor = "AuthenticAMD";  // two GPUs of such a machine may be anywhere
  EXPECT_TRUE(library_views(machine, {}).empty());
  machine.processor.vendor = "GenuineIntel";
  machine.gpus[1].peer_status = PeerStatus::cns;
  EXPECT_TRUE(library_views(machine, {}).empty()) << "the driver joins them no more than NCCL";
  machine.gpus[1].peer_status = PeerStatus::ok;
  machine.nvlinks = {NvLink{0, 1, 4}};
  EXPECT_TRUE(library_views(machine, {}).empty());
}

TEST(LibraryViews, SayWhereRedirectingPortsAreNotLookedAt) {
  Machine machine = two_gpus("2.23.4");
  machine.gpus[1].parent = Parent{Parent::Kind::pci_switch, 0};
  EXPECT_TRUE(library_views(machine, {}).empty());
  machine.switches[0].acs = AcsMode::redirect;
  const std::vector<LibraryView> views = library_views(machine, {});
  ASSERT_EQ(views.size(), 1u);
  EXPECT_EQ(views[0].cause, Cause::machine_acs_redirect);
}

TEST(LibraryViews, SayWhichGpusHaveNoAdapterNearEnough) {
  Machine machine = two_gpus("2.20.5");
  machine.gpus[0].peer_status = PeerStatus::ns;
  const std::vector<LibraryView> views = library_views(machine, {});
  ASSERT_EQ(views.size(), 1u);
  EXPECT_EQ(views[0].cause, Cause::rdma_distance_over_limit);
  EXPECT_NE(views[0].sentence.find("with gpu:1:"), std::string::npos) << views[0].sentence;
}

}  // namespace
}  // namespace nobounce::judge
