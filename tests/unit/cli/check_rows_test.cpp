// Verdicts of rows and the exit code of the worst one.
#include <gtest/gtest.h>

#include <vector>

#include "cli/check_rows.hpp"

namespace nobounce::cli {
namespace {

Finding finding(Cause cause, FindingState state) {
  return {.cause = cause, .subject = "x", .state = state};
}

report::CheckRow row_of(std::vector<Finding> findings, std::vector<Cause> degraded = {}) {
  return storage_row({"drive:a", "gpu:0", "/", false}, std::move(findings), std::move(degraded));
}

TEST(StorageRow, IsDirectWhenEverythingIsMet) {
  const report::CheckRow row = row_of({finding(Cause::storage_cufile_absent, FindingState::met)});
  EXPECT_EQ(row.verdict, Verdict::direct);
  EXPECT_EQ(row.state, FindingState::met);
  EXPECT_TRUE(row.causes.empty());
  EXPECT_EQ(row.source, "drive:a");
  EXPECT_EQ(row.target, "gpu:0");
}

TEST(StorageRow, SwapsItsEndsForWrites) {
  const report::CheckRow row = storage_row({"drive:a", "gpu:0", "/", true}, {}, {});
  EXPECT_EQ(row.source, "gpu:0");
  EXPECT_EQ(row.target, "drive:a");
  EXPECT_EQ(row.direction, "write");
}

TEST(StorageRow, StagesForOneUnmetFindingWhateverElse) {
  const report::CheckRow row =
      row_of({finding(Cause::storage_cufile_absent, FindingState::unknown),
              finding(Cause::storage_nvidia_fs_absent, FindingState::unmet),
              finding(Cause::storage_nvidia_fs_absent, FindingState::unmet)},
             {Cause::machine_cross_socket});
  EXPECT_EQ(row.verdict, Verdict::staged);
  EXPECT_EQ(row.causes, (std::vector<Cause>{Cause::storage_nvidia_fs_absent}));
  EXPECT_FALSE(row.degraded);
}

TEST(StorageRow, IsImpossibleForWhatIsNoRegularFile) {
  const report::CheckRow row =
      row_of({finding(Cause::storage_nvidia_fs_absent, FindingState::unmet),
              finding(Cause::storage_not_a_regular_file, FindingState::unmet)});
  EXPECT_EQ(row.verdict, Verdict::impossible);
  EXPECT_EQ(row.state, FindingState::unmet);
}

TEST(StorageRow, IsUnknownWhereAFindingIs) {
  const report::CheckRow row =
      row_of({finding(Cause::storage_cufile_absent, FindingState::met),
              finding(Cause::machine_iommu_unknown, FindingState::unknown)});
  EXPECT_EQ(row.verdict, Verdict::unknown);
  EXPECT_EQ(row.causes, (std::vector<Cause>{Cause::machine_iommu_unknown}));
}

TEST(StorageRow, IsDegradedWithItsCauses) {
  const report::CheckRow row = row_of({finding(Cause::storage_cufile_absent, FindingState::met)},
                                      {Cause::machine_cross_socket});
  EXPECT_EQ(row.verdict, Verdict::degraded);
  EXPECT_TRUE(row.degraded);
  EXPECT_EQ(row.causes, (std::vector<Cause>{Cause::machine_cross_socket}));
}

TEST(CheckExitCode, IsThatOfTheWorstRow) {
  const report::CheckRow direct = row_of({});
  const report::CheckRow unknown =
      row_of({finding(Cause::machine_iommu_unknown, FindingState::unknown)});
  const report::CheckRow staged =
      row_of({finding(Cause::storage_nvidia_fs_absent, FindingState::unmet)});
  const report::CheckRow degraded = row_of({}, {Cause::machine_cross_socket});
  EXPECT_EQ(check_exit_code({direct}), 0);
  EXPECT_EQ(check_exit_code({direct, unknown}), 4);
  EXPECT_EQ(check_exit_code({unknown, staged}), 3);
  EXPECT_EQ(check_exit_code({degraded, direct}), 3);
  EXPECT_EQ(check_exit_code({staged, no_gpu_row(), unknown}), 1);
}

TEST(PeerRows, AreNotUnknownForWhatOnlyACopyCanTell) {
  const Finding untried{.cause = Cause::p2p_peer_access_not_enabled,
                        .subject = "gpu:0 -> gpu:1",
                        .state = FindingState::unknown};
  const report::CheckRow row = peer_row("gpu:0", "gpu:1", {untried}, {});
  EXPECT_EQ(row.verdict, Verdict::direct);
  EXPECT_EQ(row.state, FindingState::met);
  EXPECT_EQ(row.findings.size(), 1U);
  Finding other = untried;
  other.cause = Cause::machine_acs_redirect;
  EXPECT_EQ(peer_row("gpu:0", "gpu:1", {untried, other}, {}).verdict, Verdict::unknown);
  Finding refused = untried;
  refused.state = FindingState::unmet;
  EXPECT_EQ(peer_row("gpu:0", "gpu:1", {refused}, {}).verdict, Verdict::staged);
}

}  // namespace
}  // namespace nobounce::cli
