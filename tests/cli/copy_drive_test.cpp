// `nobounce copy` with raw drives.
#include <gtest/gtest.h>

#include "support/program.hpp"
#include "support/schema.hpp"

namespace nobounce::test {
namespace {

constexpr const char* spare = "nvme:0000:0a:00.0";

TEST(CopyDrive, NeedsTheWordAndThenIsDirectBothWays) {
  const Ran unasked = run({"copy", spare, "gpu:0", "--machine", "soft:spare-drive"});
  EXPECT_EQ(unasked.exit_code, 1);
  EXPECT_TRUE(holds(unasked.err, "nvme.take_needed")) << unasked.err;
  EXPECT_TRUE(holds(unasked.err, "--take")) << unasked.err;

  const Ran moved = run({"copy", "gpu:0", spare, "gpu:1", "--take", "--length", "8MiB", "--policy",
                         "direct_required", "--machine", "soft:spare-drive"});
  EXPECT_EQ(moved.exit_code, 0) << moved.err;
  EXPECT_TRUE(holds(moved.out, "direct")) << moved.out;
  EXPECT_FALSE(holds(moved.out, "staged ")) << moved.out;
  EXPECT_TRUE(holds(moved.out, "drive:0000:0a:00.0")) << moved.out;
}

TEST(CopyDrive, WritesReceiptsAsDocuments) {
  const Ran ran = run({"copy", spare, "gpu:0", "--take", "--length", "1MiB", "--json", "--machine",
                       "soft:spare-drive"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(schema_violations(document_of(ran)), "");
}

TEST(CopyDrive, IsRefusedWhereTheDriveIsInUseOrNotWhole) {
  const core::Json machine = document_of(run({"topo", "--machine", "soft:spare-drive", "--json"}));
  const std::string used = "nvme:" + text_at(machine, "/drives/0/bdf");
  const Ran mounted = run({"copy", used, "gpu:0", "--take", "--machine", "soft:spare-drive"});
  EXPECT_EQ(mounted.exit_code, 1);
  EXPECT_TRUE(holds(mounted.err, "nvme.in_use")) << mounted.err;
  const Ran odd =
      run({"copy", "gpu:0", spare, "--take", "--length", "1000", "--machine", "soft:spare-drive"});
  EXPECT_EQ(odd.exit_code, 1);
  EXPECT_TRUE(holds(odd.err, "nvme.unaligned")) << odd.err;
  const Ran wrong = run({"copy", "nvme:nvme0n1", "gpu:0", "--take"});
  EXPECT_EQ(wrong.exit_code, 2);
}

}  // namespace
}  // namespace nobounce::test
