// The preconditions of member async, one broken at a time.
#include <gtest/gtest.h>

#include <optional>

#include "judge/async.hpp"

namespace nobounce::judge {
namespace {

struct Case {
  const char* name;
  std::optional<bool> words;
  std::optional<bool> ordered;
  std::optional<bool> by_stream;
  std::optional<bool> by_host;
  FindingState stream_words;
  FindingState order;
};

void PrintTo(const Case& one, std::ostream* stream) {
  *stream << one.name;
}

constexpr auto met_state = FindingState::met;
constexpr auto unmet_state = FindingState::unmet;
constexpr auto unknown_state = FindingState::unknown;

class StreamOrder : public ::testing::TestWithParam<Case> {};

TEST_P(StreamOrder, IsJudgedByEachFact) {
  const Case& one = GetParam();
  core::AsyncFacts facts;
  facts.gpu = 3;
  facts.stream_words = {one.words, "it is so", "attribute 122"};
  facts.inbound_ordered = {one.ordered, "it is so", "attribute 118"};
  facts.flush_by_stream = {one.by_stream, "it is so", "attribute 98"};
  facts.flush_by_host = {one.by_host, "it is so", "attribute 117"};
  const auto findings = judge_stream_order(facts);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].cause, Cause::async_stream_memory_ops_unavailable);
  EXPECT_EQ(findings[0].state, one.stream_words);
  EXPECT_EQ(findings[1].cause, Cause::async_ordering_unproven);
  EXPECT_EQ(findings[1].state, one.order);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.subject, "gpu:3");
    EXPECT_FALSE(finding.needed.empty());
    EXPECT_FALSE(finding.source.empty());
    EXPECT_EQ(finding.remedy.empty(), finding.state != FindingState::unmet);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Facts, StreamOrder,
    ::testing::Values(
        Case{"AllThere", true, true, false, true, met_state, met_state},
        Case{"NoWords", false, true, false, true, unmet_state, met_state},
        Case{"WordsNotRead", std::nullopt, true, false, true, unknown_state, met_state},
        Case{"FlushedByTheStream", true, false, true, false, met_state, met_state},
        Case{"FlushedByTheHost", true, false, false, true, met_state, met_state},
        Case{"Unordered", true, false, false, false, met_state, unmet_state},
        Case{"OrderNotRead", true, std::nullopt, std::nullopt, std::nullopt, met_state,
             unknown_state},
        Case{"FlushNotRead", true, false, false, std::nullopt, met_state, unknown_state}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(KernelOrder, NeedsHostMemoryThatKernelsReach) {
  core::AsyncFacts facts;
  for (const auto& [value, state] : {std::pair{std::optional<bool>(true), FindingState::met},
                                     std::pair{std::optional<bool>(false), FindingState::unmet},
                                     std::pair{std::optional<bool>(), FindingState::unknown}}) {
    facts.host_memory_seen = {value, "it is so", "attribute 41"};
    const auto findings = judge_kernel_order(facts);
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].state, state);
  }
}

/// A kernel cannot wait for anybody's flush, so only the GPU's own order counts.
TEST(DoorbellOrder, NeedsWritesThatTheGpuOrdersItself) {
  core::AsyncFacts facts;
  facts.flush_by_stream = {true, "it is so", "attribute 98"};
  facts.flush_by_host = {true, "it is so", "attribute 117"};
  facts.host_memory_seen = {true, "it is so", "attribute 41"};
  for (const auto& [value, state] : {std::pair{std::optional<bool>(true), FindingState::met},
                                     std::pair{std::optional<bool>(false), FindingState::unmet},
                                     std::pair{std::optional<bool>(), FindingState::unknown}}) {
    facts.inbound_ordered = {value, "it is so", "attribute 118"};
    const auto findings = judge_doorbell_order(facts);
    ASSERT_EQ(findings.size(), 2u);
    EXPECT_EQ(findings[0].cause, Cause::async_ordering_unproven);
    EXPECT_EQ(findings[0].state, state);
    EXPECT_EQ(findings[1].state, FindingState::met);
  }
}

}  // namespace
}  // namespace nobounce::judge
