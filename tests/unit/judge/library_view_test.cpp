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

}  // namespace
}  // namespace nobounce::judge
