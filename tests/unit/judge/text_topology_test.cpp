// Signs and facts of a text become devices and distances; what a text does not say stays empty.
#include "judge/text_topology.hpp"

#include <gtest/gtest.h>

namespace nobounce::judge {
namespace {

core::CaptureSign level(const char* source, const char* target, const char* word) {
  core::CaptureSign sign;
  sign.kind = core::SignKind::level;
  sign.source = source;
  sign.target = target;
  sign.word = word;
  return sign;
}

TEST(TextTopology, HoldsWhatThePieceSays) {
  core::Captures captures;
  captures.pieces.resize(2);
  captures.pieces[0].kind = "topo_m";
  captures.pieces[0].facts = {{"nic_names", core::JsonObject{{"NIC0", "mlx5_0"}}}};
  captures.signs = {level("GPU0", "GPU1", "NV4"), level("GPU0", "NIC0", "PXB")};
  captures.signs.push_back(level("GPU5", "GPU6", "PIX"));
  captures.signs.back().piece = 1;
  const auto made = text_topologies(captures);
  ASSERT_EQ(made.size(), 2u) << "another piece is another machine, for all that is known";
  ASSERT_EQ(made[0].devices.size(), 3u);
  EXPECT_EQ(made[0].devices[0].name, "GPU0");
  EXPECT_EQ(made[0].devices[2].kind, core::TextDeviceKind::nic);
  EXPECT_EQ(made[0].devices[2].detail, "mlx5_0");
  EXPECT_EQ(made[0].level(1, 0), "NV4");
  EXPECT_EQ(made[0].level(1, 2), "") << "nobody said it";
}

TEST(TextTopology, IsNoneWhereNoDistanceIsSaid) {
  core::Captures captures;
  captures.pieces.resize(1);
  captures.pieces[0].kind = "lsmod";
  EXPECT_TRUE(text_topologies(captures).empty());
}

TEST(TextTopology, TakesNvlinksBeforeLevelsOfPcie) {
  core::Captures captures;
  captures.pieces.resize(1);
  captures.pieces[0].kind = "nccl_topo_xml";
  captures.pieces[0].facts = {{"nvlinks", core::JsonObject{{"GPU0-GPU1", "NV12"}}}};
  captures.signs = {level("GPU0", "GPU1", "SYS")};
  EXPECT_EQ(text_topologies(captures).at(0).level(0, 1), "NV12");
}

TEST(LevelRank, GoesFromNearToFar) {
  const char* const order[] = {"NV18", "NV4",  "C2C",         "PIX", "PIX or PXB", "PXB",
                               "PHB",  "NODE", "NODE or SYS", "SYS", "unheard of"};
  for (std::size_t i = 1; i < std::size(order); ++i)
    EXPECT_LT(core::level_rank(order[i - 1]), core::level_rank(order[i])) << order[i];
}

}  // namespace
}  // namespace nobounce::judge
