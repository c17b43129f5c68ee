// What a machine's fields matter to goes by whole steps, and where a client stands is no
// difference.
#include "cli/diff_fields.hpp"

#include <gtest/gtest.h>

namespace nobounce::cli {
namespace {

using report::DiffWeight;

TEST(DiffFields, MatchWholeSteps) {
  EXPECT_EQ(field_rule("/gpus/0/mode").weight, DiffWeight::setting);
  EXPECT_EQ(field_rule("/processor/model").weight, DiffWeight::other);
  EXPECT_EQ(field_rule("/drives/nvme0n1/model").weight, DiffWeight::other);
  EXPECT_EQ(field_rule("/modules/nvme").cause, Cause::storage_driver_not_registered);
  EXPECT_NE(field_rule("/modules/nvme_core").cause, Cause::storage_driver_not_registered);
  EXPECT_EQ(field_rule("/gpus/0/link/width").cause, Cause::machine_link_downtrained);
  EXPECT_EQ(field_rule("/nics/mlx5_0/link_layer").cause, Cause::none);
  EXPECT_EQ(field_rule("/mounts/~1data/type").weight, DiffWeight::setting);
  EXPECT_EQ(field_rule("/drives/md0/parts").cause, Cause::storage_mount_is_layered);
  EXPECT_EQ(field_rule("/nvlinks/0/count").weight, DiffWeight::setting);
}

TEST(DiffFields, OfEveryPortOfASwitchMatter) {
  EXPECT_EQ(field_rule("/switches/0/ports/0/acs_control").cause, Cause::machine_acs_redirect);
  EXPECT_EQ(field_rule("/gpus/0/bar1_bytes_max").cause, Cause::machine_bar1_too_small);
}

TEST(DiffFields, OfAMountLeaveOutAddresses) {
  const auto options = [](const char* text) {
    const core::Json machine = core::JsonObject{
        {"mounts", core::JsonArray{core::JsonObject{{"point", "/data"}, {"options", text}}}}};
    return diff_fields(machine).at("/mounts/~1data/options");
  };
  EXPECT_EQ(options("rw,vers=4.2,clientaddr=10.0.0.7,addr=10.0.0.1"), "rw,vers=4.2");
  EXPECT_EQ(options("mountaddr=10.0.0.1,rw"), "rw");
  EXPECT_EQ(options("rw,noaddr,localaddr=1"), "rw,noaddr,localaddr=1");
  EXPECT_EQ(options("addr=10.0.0.1"), "");
}

}  // namespace
}  // namespace nobounce::cli
