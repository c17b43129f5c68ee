// Every case of tests/captures is explained as its file says: verdicts, causes, subjects, facts.
#include <algorithm>

#include <gtest/gtest.h>

#include "case_rig.hpp"

namespace nobounce::test {
namespace {

std::string shown(const core::Explanation& explanation) {
  return core::dump_json(report::explanation_json(explanation));
}

TEST(CaptureCases, AreExplainedAsTheirFileSays) {
  const core::Json cases = json_of_file(cases_folder() / "cases.json");
  std::size_t failed = 0;
  for (const core::Json& one : *cases.as_array()) {
    const std::string input = *one.find("input")->as_text();
    const core::Explanation got = explain_texts(texts_of_case(cases_folder() / input));
    const std::string problems = problems_of_case(one, got);
    if (!problems.empty()) ++failed;
    EXPECT_EQ(problems, "") << input << '\n' << *one.find("why")->as_text() << '\n' << shown(got);
    EXPECT_FALSE(got.pieces.empty()) << input;
  }
  EXPECT_EQ(failed, 0U) << "of " << cases.as_array()->size();
  EXPECT_GE(cases.as_array()->size(), 106U);
}

core::Explanation own_capture(const char* name) {
  const auto file = std::filesystem::path(NOBOUNCE_SOURCE_DIR) / "tests/captures/own" / name;
  return explain_texts({{name, text_of_file(file)}});
}

TEST(OwnCaptures, DefaultIsDirectBothWays) {
  const core::Explanation got = own_capture("nccl_p2p.txt");
  ASSERT_EQ(got.verdicts.size(), 2U) << shown(got);
  for (const core::ExplainedVerdict& row : got.verdicts) {
    EXPECT_EQ(row.member, Member::p2p);
    EXPECT_EQ(row.verdict, Verdict::direct);
    ASSERT_FALSE(row.evidence.empty());
    EXPECT_NE(row.evidence.front().text.find("via P2P/CUMEM"), std::string::npos);
  }
  EXPECT_EQ(got.verdicts[0].subject, "GPU0-GPU1");
  EXPECT_EQ(got.verdicts[0].evidence.front().line, 88U);
  EXPECT_EQ(got.overall, Verdict::direct);
}

TEST(OwnCaptures, SharedMemoryIsStagedAlthoughItSaysDirect) {
  const core::Explanation got = own_capture("nccl_p2p_disabled.txt");
  ASSERT_EQ(got.verdicts.size(), 2U) << shown(got);
  for (const core::ExplainedVerdict& row : got.verdicts) {
    EXPECT_EQ(row.verdict, Verdict::staged);
    ASSERT_FALSE(row.causes.empty());
    EXPECT_EQ(row.causes.front(), Cause::p2p_disabled_by_setting);
  }
}

TEST(OwnCaptures, SocketsBetweenTwoGpusOfOneNodeAreStaged) {
  const core::Explanation got = own_capture("nccl_p2p_and_shm_disabled.txt");
  EXPECT_EQ(got.overall, Verdict::staged) << shown(got);
  for (const core::ExplainedVerdict& row : got.verdicts) EXPECT_EQ(row.verdict, Verdict::staged);
  EXPECT_TRUE(std::any_of(got.verdicts.begin(), got.verdicts.end(), [](const auto& row) {
    return row.member == Member::rdma &&
           std::find(row.causes.begin(), row.causes.end(), Cause::rdma_socket_transport) !=
               row.causes.end();
  }));
}

TEST(OwnCaptures, WhatTheMachineShowsDecidesNothing) {
  for (const char* name : {"topo_m_two_h200_guest.txt", "nvidia_smi_q_two_h200_guest.txt"}) {
    const core::Explanation got = own_capture(name);
    EXPECT_EQ(got.overall, Verdict::unknown) << name;
    EXPECT_FALSE(got.verdicts.empty()) << name;
    for (const core::ExplainedVerdict& row : got.verdicts) EXPECT_EQ(row.verdict, Verdict::unknown);
  }
}

}  // namespace
}  // namespace nobounce::test
