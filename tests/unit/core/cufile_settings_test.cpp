// Which settings of a cufile.json stage.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/cufile_settings.hpp"

namespace nobounce::core {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

Settings staging(const char* text) {
  const Result<Json> document = parse_json(text, "cufile.json", {.allow_comments = true});
  EXPECT_TRUE(document);
  return document ? staging_settings(*document) : Settings{};
}

TEST(CufileSettings, ThatStageAreNamed) {
  EXPECT_EQ(staging("{}"), Settings{});
  EXPECT_EQ(staging(R"({"properties":{"allow_compat_mode":false,"force_compat_mode":false,
                        "gds_rdma_write_support":true}})"),
            Settings{});
  EXPECT_EQ(staging(R"({"properties":{"force_compat_mode":true,"allow_compat_mode":true}})"),
            (Settings{{"/properties/allow_compat_mode", "true"},
                      {"/properties/force_compat_mode", "true"}}));
  EXPECT_EQ(staging(R"({"fs":{"lustre":{"posix_gds_min_kb":64},"beegfs":{"posix_gds_min_kb":0},
                        "weka":{"rdma_write_support":false},"generic":{"posix_unaligned_writes":true}}})"),
            (Settings{{"/fs/generic/posix_unaligned_writes", "true"},
                      {"/fs/lustre/posix_gds_min_kb", "64"},
                      {"/fs/weka/rdma_write_support", "false"}}));
}

TEST(CufileSettings, RoutesCountOnlyWhereRoutingIsOn) {
  EXPECT_EQ(staging(R"({"properties":{"rdma_dynamic_routing_order":["GPU_MEM","SYS_MEM"]}})"),
            Settings{});
  EXPECT_EQ(staging(R"({"properties":{"rdma_dynamic_routing":true,
                        "rdma_dynamic_routing_order":["GPU_MEM","SYS_MEM"]}})")
                .size(),
            1u);
}

TEST(CufileSettings, EachHasItsEffectInWords) {
  for (const auto& [pointer, value] :
       staging(R"({"properties":{"force_compat_mode":true,"allow_compat_mode":true}})")) {
    EXPECT_FALSE(staging_effect(pointer).empty()) << pointer;
  }
  EXPECT_TRUE(staging_effect("/properties/unheard_of").empty());
}

}  // namespace
}  // namespace nobounce::core
