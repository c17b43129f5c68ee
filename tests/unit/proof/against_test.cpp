// Two proofs compared: what appeared, vanished or changed, and nothing else.
#include <gtest/gtest.h>

#include "proof/against.hpp"

namespace nobounce::proof {
namespace {

ProofRow row_of(const char* source, const char* target, Verdict verdict) {
  ProofRow row;
  row.member = Member::p2p;
  row.source = source;
  row.target = target;
  row.direction = "copy";
  row.verdict = verdict;
  row.known = Known::witnessed;
  row.link = Link::nvlink;
  return row;
}

Proof proof_of(std::vector<ProofRow> rows) {
  return {"live", "live", std::move(rows)};
}

TEST(Against, IsEmptyForAProofAndItself) {
  const Proof proof = proof_of({row_of("gpu:0", "gpu:1", Verdict::direct)});
  EXPECT_TRUE(changes_since(proof, proof).empty());
}

TEST(Against, IgnoresNumbersAndTheOrderOfRowsAndCauses) {
  Proof before = proof_of(
      {row_of("gpu:0", "gpu:1", Verdict::direct), row_of("gpu:1", "gpu:0", Verdict::staged)});
  before.rows[1].causes = {Cause::machine_acs_redirect, Cause::p2p_no_gain};
  Proof after = proof_of({before.rows[1], before.rows[0]});
  after.rows[0].causes = {Cause::p2p_no_gain, Cause::machine_acs_redirect};
  after.rows[1].physical.host_dram_bytes = Slope{0.02, 0.01};
  EXPECT_TRUE(changes_since(before, after).empty());
}

TEST(Against, NamesEachFieldThatChanged) {
  const Proof before = proof_of({row_of("gpu:0", "gpu:1", Verdict::direct)});
  Proof after = before;
  after.rows[0].verdict = Verdict::staged;
  after.rows[0].known = Known::counted;
  after.rows[0].link = Link::host_bridge;
  after.rows[0].causes = {Cause::machine_acs_redirect};
  const std::vector<ProofChange> changes = changes_since(before, after);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].kind, ProofChangeKind::changed);
  EXPECT_EQ(changes[0].row, "p2p gpu:0 -> gpu:1 copy");
  EXPECT_EQ(changes[0].fields,
            (std::vector<ProofChange::Field>{{"verdict", "direct", "staged"},
                                             {"known", "witnessed", "counted"},
                                             {"link", "nvlink", "host_bridge"},
                                             {"causes", "none", "machine.acs_redirect"}}));
}

TEST(Against, ListsRowsThatAppearedAndVanished) {
  const Proof before = proof_of(
      {row_of("gpu:0", "gpu:1", Verdict::direct), row_of("gpu:1", "gpu:0", Verdict::direct)});
  const Proof after = proof_of(
      {row_of("gpu:0", "gpu:2", Verdict::staged), row_of("gpu:1", "gpu:0", Verdict::direct)});
  const std::vector<ProofChange> changes = changes_since(before, after);
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].kind, ProofChangeKind::appeared);
  EXPECT_EQ(changes[0].row, "p2p gpu:0 -> gpu:2 copy");
  EXPECT_EQ(changes[0].fields[0], (ProofChange::Field{"verdict", "", "staged"}));
  EXPECT_EQ(changes[1].kind, ProofChangeKind::vanished);
  EXPECT_EQ(changes[1].row, "p2p gpu:0 -> gpu:1 copy");
}

TEST(Against, TellsIssuersAndRepeatedRowsApart) {
  Proof before = proof_of(
      {row_of("gpu:0", "gpu:1", Verdict::direct), row_of("gpu:0", "gpu:1", Verdict::direct)});
  Proof after = before;
  after.rows[1].issuer = Issuer::kernel;
  const std::vector<ProofChange> changes = changes_since(before, after);
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].row, "p2p gpu:0 -> gpu:1 copy by kernel");
  EXPECT_EQ(changes[1].kind, ProofChangeKind::vanished);
}

TEST(Against, SaysFirstThatAnotherMachineWasProved) {
  const Proof before = proof_of({});
  Proof after = before;
  after.host_kind = "soft";
  after.machine = "dgx";
  const std::vector<ProofChange> changes = changes_since(before, after);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].row, "machine");
  EXPECT_EQ(changes[0].fields.size(), 2U);
}

}  // namespace
}  // namespace nobounce::proof
