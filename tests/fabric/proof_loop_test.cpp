// A GPU joined to itself by an adapter of the same machine: rows of adapters, each direction.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "evidence/witness.hpp"
#include "proof/adapter_loop.hpp"
#include "proof/prove.hpp"
#include "support/soft_session.hpp"
#include "system/counted_host.hpp"

namespace nobounce {
namespace {

using test::machine_with;

ProofRow looped(const Machine& machine, std::uint32_t gpu, std::uint32_t adapter, bool writing,
                bool deterministic) {
  fabric::SoftOptions options;
  options.deterministic = deterministic;
  auto host = fabric::SoftHost::create(machine, options);
  EXPECT_TRUE(host.ok());
  const auto counted = system::CountedHost::wrap(**host);
  Result<Session> session = Session::open(*counted, test::SoftSession::quiet());
  EXPECT_TRUE(session.ok());
  evidence::Witnesses witnesses(**host, counted.get());
  const proof::Subject subject = proof::adapter_subject(session->machine(), gpu, adapter, writing);
  proof::ProveOptions small;
  small.volumes_bytes = {512u << 10, 1u << 20, 2u << 20};
  return proof::prove_row(*session, *counted, witnesses, subject, small);
}

std::string told(const ProofRow& row) {
  std::string text = std::string(to_string(row.verdict)) + ", " + std::string(to_string(row.known));
  for (const Cause cause : row.causes) text += ", " + std::string(to_string(cause));
  for (const std::string& each : row.missing) text += "; missing: " + each;
  for (const std::string& each : row.contradictions) text += "; contradiction: " + each;
  return text;
}

class AdapterRows : public testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(AdapterRows, AreDirectAndWitnessedBesideAControlThatStages) {
  const auto [writing, deterministic] = GetParam();

  const ProofRow row = looped(machine_with("workstation"), 1, 0, writing, deterministic);
  EXPECT_EQ(row.verdict, Verdict::direct) << told(row);
  EXPECT_EQ(row.known, Known::witnessed) << told(row);
  EXPECT_EQ(row.source, writing ? "gpu:1" : "nic:mlx5_0");
  EXPECT_EQ(row.target, writing ? "nic:mlx5_0" : "gpu:1");
  EXPECT_EQ(row.direction, writing ? "write" : "read");
  EXPECT_EQ(row.link, Link::pcie_switch);
  EXPECT_EQ(row.runtime.bytes[Carriage::staged], 0u);
  EXPECT_GT(row.runtime.control_bytes[Carriage::staged], 0u);
  EXPECT_TRUE(row.runtime.data_verified.value_or(false));
  ASSERT_TRUE(row.physical.host_dram_bytes && row.physical.control_host_dram_bytes);
  EXPECT_LT(row.physical.host_dram_bytes->per_byte, 0.1);
  EXPECT_GT(row.physical.control_host_dram_bytes->per_byte, 3.9) << "staged at both ends";
}

TEST_P(AdapterRows, AreStagedWithEveryCauseWhereGpuMemoryCannotBeRegistered) {
  const auto [writing, deterministic] = GetParam();
  const ProofRow row =
      looped(machine_with("workstation", {"/kernel/dmabuf=false", "/modules/nvidia_peermem=false"}),
             0, 0, writing, deterministic);
  EXPECT_EQ(row.verdict, Verdict::staged) << told(row);
  EXPECT_EQ(row.runtime.bytes[Carriage::direct], 0u);
  for (const Cause cause : {Cause::rdma_dmabuf_not_supported, Cause::rdma_peermem_not_loaded}) {
    EXPECT_NE(std::find(row.causes.begin(), row.causes.end(), cause), row.causes.end())
        << told(row);
  }
}

/// How many rows of adapters `prove` chooses by itself, and of which adapter.
std::vector<std::uint32_t> chosen_adapters(const Machine& machine) {
  test::SoftSession session(machine);
  std::vector<std::uint32_t> adapters;
  for (const proof::Subject& subject : proof::choose_subjects(*session, session.host(), "", true)) {
    if (subject.adapter.has_value()) adapters.push_back(*subject.adapter);
  }
  return adapters;
}

TEST(AdapterRowsOf, AdaptersThatCanBeUsedAloneAreChosen) {
  const std::size_t all = chosen_adapters(machine_with("workstation")).size();
  EXPECT_EQ(all, 4U) << "each GPU, read and written";
  const std::string down = "/nics/0/active=false";
  EXPECT_TRUE(chosen_adapters(machine_with("workstation", {down})).empty());
  // The next nearest one serves instead, as it would serve a connection.
  const std::vector<std::uint32_t> others = chosen_adapters(machine_with("dgx", {down}));
  EXPECT_FALSE(others.empty());
  EXPECT_EQ(std::count(others.begin(), others.end(), 0U), 0);
}

/// As `prove --peer` would see them: served by the session that uses them, several at once.
TEST_P(AdapterRows, MayBeOfAPeerThatIsTheSameSession) {
  const auto [writing, deterministic] = GetParam();
  fabric::SoftOptions options;
  options.deterministic = deterministic;
  auto host = fabric::SoftHost::create(machine_with("workstation"), options);
  ASSERT_TRUE(host.ok());
  const auto counted = system::CountedHost::wrap(**host);
  Result<Session> session = Session::open(*counted, test::SoftSession::quiet());
  ASSERT_TRUE(session.ok());
  auto one = proof::AdapterLoop::open(*session, *counted, 0, "mlx5_0", 2u << 20, 1);
  auto other = proof::AdapterLoop::open(*session, *counted, 1, "mlx5_0", 2u << 20, 2);
  ASSERT_TRUE(one.ok() && other.ok());
  evidence::Witnesses witnesses(**host, counted.get());
  proof::ProveOptions small;
  small.volumes_bytes = {512u << 10, 1u << 20, 2u << 20};
  for (const auto& loop : {one->get(), other->get()}) {
    proof::Subject subject;
    subject.member = Member::rdma;
    subject.writing = writing;
    subject.medium = "rdma://loop";
    subject.peer = &loop->peer();
    subject.export_name = proof::AdapterLoop::export_name;
    const ProofRow row = proof::prove_row(*session, *counted, witnesses, subject, small);
    EXPECT_EQ(row.verdict, Verdict::direct) << told(row);
    EXPECT_EQ(row.known, Known::witnessed) << told(row);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, AdapterRows, testing::Combine(testing::Bool(), testing::Bool()),
                         [](const auto& each) {
                           return std::string(std::get<0>(each.param) ? "Write" : "Read") +
                                  (std::get<1>(each.param) ? "Deterministic" : "Threads");
                         });

}  // namespace
}  // namespace nobounce
