// What cuFile's counters prove: the table of windows.
#include "provider/storage/statistics_window.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace nobounce::provider::storage {
namespace {

struct Row {
  std::string name;
  Window window;
  WindowVerdict verdict;
};

Window window(PathCounters before, PathCounters after, std::uint64_t requests,
              std::uint64_t bounced = 0) {
  return {before, after, requests, bounced};
}

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      {"one request by nvidia-fs", window({}, {.nvfs = 1}, 1), WindowVerdict::direct},
      {"one request by P2PDMA", window({}, {.p2p = 1}, 1), WindowVerdict::direct},
      {"both direct paths", window({}, {.p2p = 2, .nvfs = 3}, 5), WindowVerdict::direct},
      {"counters that stood before", window({.nvfs = 7, .posix = 9}, {.nvfs = 9, .posix = 9}, 2),
       WindowVerdict::direct},
      {"somebody else's direct requests too", window({}, {.nvfs = 12}, 2), WindowVerdict::direct},
      {"all of ours staged", window({}, {.posix = 3}, 3), WindowVerdict::staged},
      {"one staged among many", window({}, {.nvfs = 99, .posix = 1}, 100), WindowVerdict::mixed},
      {"one request, two paths", window({}, {.nvfs = 1, .posix = 1}, 1), WindowVerdict::mixed},
      {"nothing moved", window({.nvfs = 4}, {.nvfs = 4}, 1), WindowVerdict::stuck},
      {"nothing moved and nothing was asked", window({}, {}, 0), WindowVerdict::stuck},
      {"fewer counted than came back", window({}, {.nvfs = 2}, 3), WindowVerdict::stuck},
      {"fewer staged than came back", window({}, {.posix = 2}, 3), WindowVerdict::stuck},
      {"a counter ran backwards", window({.posix = 5}, {.nvfs = 1}, 1), WindowVerdict::mixed},
      {"dynamic routing", window({}, {.nvfs = 1, .rerouted = 1}, 1), WindowVerdict::mixed},
      {"unaligned, as we know", window({}, {.nvfs = 2, .unaligned = 1}, 2, 1),
       WindowVerdict::direct},
      {"more unaligned than we know of", window({}, {.nvfs = 2, .unaligned = 2}, 2, 1),
       WindowVerdict::bounced},
      {"no reading before",
       {std::nullopt, PathCounters{.nvfs = 1}, 1, 0},
       WindowVerdict::unavailable},
      {"no reading after", {PathCounters{}, std::nullopt, 1, 0}, WindowVerdict::unavailable},
  };
  return table;
}

TEST(StatisticsWindow, JudgesEachKindOfWindow) {
  for (const Row& row : rows()) EXPECT_EQ(judge_window(row.window), row.verdict) << row.name;
}

struct ClaimRow {
  WindowVerdict verdict;
  CarriageBytes bytes;
  Known known;
  Cause cause;
};

CarriageBytes carried(Carriage first, std::uint64_t first_bytes,
                      Carriage second = Carriage::unattributed, std::uint64_t second_bytes = 0) {
  CarriageBytes bytes;
  bytes[first] += first_bytes;
  bytes[second] += second_bytes;
  return bytes;
}

TEST(StatisticsWindow, ClaimsNoMoreThanTheVerdictAllows) {
  const WindowBytes bytes{.aligned = 8192, .bounced = 100};
  const CarriageBytes intended = carried(Carriage::direct, 8192, Carriage::device_bounced, 100);
  const CarriageBytes nobody_knows = carried(Carriage::unattributed, 8292);
  const std::vector<ClaimRow> table = {
      {WindowVerdict::direct, intended, Known::counted, Cause::none},
      {WindowVerdict::bounced, carried(Carriage::device_bounced, 8292), Known::counted,
       Cause::storage_unaligned},
      {WindowVerdict::staged, carried(Carriage::staged, 8292), Known::counted,
       Cause::storage_compat_used},
      {WindowVerdict::mixed, nobody_knows, Known::claimed, Cause::evidence_cufile_statistics_mixed},
      {WindowVerdict::stuck, nobody_knows, Known::claimed, Cause::evidence_cufile_statistics_stuck},
      {WindowVerdict::unavailable, nobody_knows, Known::claimed,
       Cause::evidence_cufile_statistics_unavailable},
  };
  for (const ClaimRow& row : table) {
    const Attribution got = attribute(row.verdict, bytes);
    EXPECT_EQ(got.bytes, row.bytes) << static_cast<int>(row.verdict);
    EXPECT_EQ(got.known, row.known) << static_cast<int>(row.verdict);
    EXPECT_EQ(got.cause, row.cause) << static_cast<int>(row.verdict);
  }
}

TEST(StatisticsWindow, WindowsAddUpToTheWeakestKnowledge) {
  Attribution sum;
  add(sum, attribute(WindowVerdict::direct, {4096, 0}));
  EXPECT_EQ(sum.known, Known::counted);
  add(sum, attribute(WindowVerdict::stuck, {4096, 0}));
  EXPECT_EQ(sum.known, Known::claimed);
  add(sum, attribute(WindowVerdict::staged, {10, 0}));
  EXPECT_EQ(sum.known, Known::claimed);
  EXPECT_EQ(sum.bytes.total(), 8202u);
  EXPECT_EQ(sum.cause, Cause::evidence_cufile_statistics_stuck);
}

TEST(StatisticsWindow, EmptyWindowChangesNothing) {
  Attribution sum;
  add(sum, attribute(WindowVerdict::stuck, {}));
  EXPECT_EQ(sum.cause, Cause::none);
  add(sum, attribute(WindowVerdict::direct, {4096, 0}));
  EXPECT_EQ(sum.known, Known::counted);
}

TEST(StatisticsWindow, CountersAreSummedOverGpusByDirection) {
  system::cufile::CUfileStatsLevel3_t statistics{};
  statistics.num_gpus = 2;
  statistics.per_gpu_stats[0].n_nvfs_reads = 1;
  statistics.per_gpu_stats[1].n_nvfs_reads = 2;
  statistics.per_gpu_stats[1].n_posix_writes = 5;
  statistics.per_gpu_stats[1].n_p2p_writes = 6;
  statistics.per_gpu_stats[1].n_dr_reads = 7;
  statistics.per_gpu_stats[0].n_unaligned_writes = 8;
  statistics.per_gpu_stats[2].n_nvfs_reads = 100;  // beyond num_gpus
  EXPECT_EQ(path_counters(statistics, false), (PathCounters{.nvfs = 3, .rerouted = 7}));
  EXPECT_EQ(path_counters(statistics, true), (PathCounters{.p2p = 6, .posix = 5, .unaligned = 8}));
}

}  // namespace
}  // namespace nobounce::provider::storage
