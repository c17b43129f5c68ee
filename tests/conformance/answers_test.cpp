// The comparison itself: what is equal, explained, different, skipped, and what remains
// unconfirmed.
#include "conformance/answers.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace nobounce::conformance {
namespace {

Answers three() {
  Answers answers;
  answers.facts["driver"] = "580.1";
  answers.sequences = {{"a.one", "", {"cuInit = 0", "  note", "cuMemAlloc_v2 = 2"}},
                       {"a.two", "", {"cuMemFree_v2 = 1"}},
                       {"b", "", {"nvmlInit_v2 = 0", "(ended by signal 11)"}}};
  return answers;
}

TEST(ConformanceAnswers, GoThroughJsonUnchanged) {
  Answers answers = three();
  answers.sequences[1].skipped = "needs 2 GPUs, there is 1";
  const auto read = answers_from_json(to_json(answers), "x.json");
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(read->facts, answers.facts);
  ASSERT_EQ(read->sequences.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read->sequences[i].name, answers.sequences[i].name);
    EXPECT_EQ(read->sequences[i].skipped, answers.sequences[i].skipped);
    EXPECT_EQ(read->sequences[i].lines, answers.sequences[i].lines);
  }
  EXPECT_FALSE(answers_from_json("{\"schema\": \"other\"}", "x.json").ok());
  EXPECT_FALSE(answers_from_json("{", "x.json").ok());
}

TEST(ConformanceComparison, EqualAnswersAreEqual) {
  const Comparison comparison = compare(three(), three(), "");
  EXPECT_EQ(comparison.equal.size(), 3u);
  EXPECT_EQ(comparison.unexplained(), 0u);
}

TEST(ConformanceComparison, EveryKindOfDifferenceIsSeen) {
  for (const int kind : {0, 1, 2, 3}) {
    Answers soft = three();
    auto& lines = soft.sequences[0].lines;
    if (kind == 0) lines[2] = "cuMemAlloc_v2 = 1";
    if (kind == 1) lines[1] = "  another note";
    if (kind == 2) lines.pop_back();
    if (kind == 3) lines.emplace_back("cuInit = 0");
    const Comparison comparison = compare(three(), soft, "");
    EXPECT_EQ(comparison.equal.size(), 2u) << kind;
    ASSERT_EQ(comparison.unexplained(), 1u) << kind;
    EXPECT_EQ(comparison.different[0].sequence, "a.one") << kind;
    EXPECT_FALSE(comparison.different[0].lines.empty()) << kind;
  }
}

TEST(ConformanceComparison, AnExplanationNamesItsSequencesAndGoesStale) {
  Answers soft = three();
  soft.sequences[0].lines[0] = "cuInit = 3";
  soft.sequences[1].lines[0] = "cuMemFree_v2 = 0";
  EXPECT_EQ(compare(three(), soft, "# comment\na.one: known\n").unexplained(), 1u);
  const Comparison both = compare(three(), soft, "a.*: known\n");
  EXPECT_EQ(both.unexplained(), 0u);
  EXPECT_EQ(both.different[0].explanation, "known");
  EXPECT_TRUE(both.stale.empty());
  const Comparison stale = compare(three(), soft, "a.*: known\nb: not so\n");
  EXPECT_EQ(stale.stale, std::vector<std::string>{"b"});
}

TEST(ConformanceComparison, AnExplanationMayBeOfOneMachineAlone) {
  Answers soft = three();
  soft.sequences[0].lines[0] = "cuInit = 3";
  EXPECT_EQ(compare(three(), soft, "a.one [driver=580.1]: known\n").unexplained(), 0u);
  for (const char* other : {"a.one [driver=570]", "a.one [gpus=1]", "a.one [driver]", "a.one []"}) {
    const Comparison comparison = compare(three(), soft, std::string(other) + ": known\n");
    EXPECT_EQ(comparison.unexplained(), 1u) << other;
    EXPECT_TRUE(comparison.stale.empty()) << "not of this machine: " << other;
  }
  const Comparison stale = compare(three(), soft, "a.*: known\nb [driver=580.1]: not so\n");
  EXPECT_EQ(stale.stale, std::vector<std::string>{"b"});
}

TEST(ConformanceComparison, WhatOneSideSkippedIsNeitherEqualNorDifferent) {
  Answers live = three();
  live.sequences[1].skipped = "needs 2 GPUs, there is 1";
  live.sequences.pop_back();
  const Comparison comparison = compare(live, three(), "");
  EXPECT_EQ(comparison.equal, std::vector<std::string>{"a.one"});
  EXPECT_EQ(comparison.skipped.size(), 2u);
  // Nobody can tell yet whether their explanations are needed.
  EXPECT_TRUE(compare(live, three(), "a.two: one GPU\nb: newer\n").stale.empty());
  EXPECT_EQ(compare(live, three(), "a.one: equal\n").stale.size(), 1u);
}

TEST(ConformanceComparison, OnlyEqualSequencesConfirm) {
  Answers soft = three();
  soft.sequences[1].lines[0] = "cuMemFree_v2 = 0";
  const Comparison comparison = compare(three(), soft, "a.two: explained is not confirmed\n");
  const auto left = unconfirmed(comparison, three());
  const auto lists = [&](const char* name) {
    return std::find(left.begin(), left.end(), name) != left.end();
  };
  EXPECT_FALSE(lists("cuInit"));
  EXPECT_FALSE(lists("cuMemAlloc_v2"));
  EXPECT_FALSE(lists("nvmlInit_v2"));
  EXPECT_TRUE(lists("cuMemFree_v2"));
  EXPECT_TRUE(lists("cuFileRead"));
  EXPECT_TRUE(lists("nvmlShutdown"));
}

}  // namespace
}  // namespace nobounce::conformance
