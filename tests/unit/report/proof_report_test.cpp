// The proof for people and for programs: contradictions first, every number or null, and nothing
// half understood when it is read back.
#include <gtest/gtest.h>

#include <string>

#include "report/proof_report.hpp"
#include "support/schema.hpp"

namespace nobounce::report {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

/// Without line breaks: where a sentence is broken is not what is tested.
std::string unbroken(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\n';
    if (!blank || result.empty() || result.back() != ' ') result += blank ? ' ' : c;
  }
  return result;
}

ProofRow full_row() {
  ProofRow row;
  row.member = Member::p2p;
  row.source = "gpu:0";
  row.target = "gpu:1";
  row.direction = "copy";
  row.verdict = Verdict::degraded;
  row.link = Link::host_bridge;
  row.known = Known::witnessed;
  row.facts.state = FindingState::unmet;
  row.facts.findings = {{Cause::machine_acs_redirect, "gpu:0 -> gpu:1", FindingState::unmet,
                         "redirected", "not", "setpci -s 00:01.0", "/sys"},
                        {Cause::machine_acs_redirect, "gpu:1 -> gpu:0", FindingState::unmet, "too",
                         "not", "", "/sys"}};
  row.runtime.bytes[Carriage::direct] = 11;
  row.runtime.bytes[Carriage::unattributed] = 12;
  row.runtime.control_bytes[Carriage::staged] = 23;
  row.runtime.known = Known::counted;
  row.runtime.data_verified = true;
  row.physical.state = PhysicalState::separated;
  row.physical.host_dram_bytes = Slope{0.25, 0.125};
  row.physical.control_host_dram_bytes = Slope{2, 0};
  row.physical.cpu_ns = Slope{-0.5, 0.0625};
  row.physical.witnesses = {{"gpu_nvlink", true, Slope{1.03, 0.5}, Slope{0, 0.25}, Cause::none, ""},
                            {"nvidia_fs", false, std::nullopt, std::nullopt,
                             Cause::evidence_nvidia_fs_counters_unavailable, "no such file"}};
  row.physical.volumes_bytes = {1, 2, 3};
  row.physical.unreadable = Cause::evidence_dram_counters_refused;
  row.causes = {Cause::machine_acs_redirect};
  row.contradictions = {"the receipts say one thing, the counters another"};
  row.missing = {"counters that move"};
  row.benefit = {"PCIe link of gpu:0", 2.5, true};
  return row;
}

Proof proof_of(std::vector<ProofRow> rows) {
  return {"soft", "workstation", std::move(rows)};
}

TEST(ProofText, PrintsContradictionsBeforeTheTable) {
  ProofRow plain = full_row();
  plain.contradictions.clear();
  const std::string text = proof_text(proof_of({plain, full_row()}), {});
  EXPECT_EQ(text.rfind("CONTRADICTION  p2p gpu:0 -> gpu:1 copy\n", 0), 0U) << text;
  EXPECT_LT(text.find("one thing"), text.find("member")) << text;
  EXPECT_EQ(proof_text(proof_of({plain}), {}).rfind("member", 0), 0U);
}

TEST(ProofText, ShowsVerdictKnownLinkAndBothSlopes) {
  const std::string text = proof_text(proof_of({full_row()}), {});
  EXPECT_NE(text.find("gpu:0 -> gpu:1  copy   degraded (witnessed)  host_bridge    0.25     2.00"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("counters that move"), std::string::npos) << text;
  EXPECT_NE(text.find("1 row: 1 degraded."), std::string::npos) << text;
}

TEST(ProofText, ShowsTheLinksCountersOfARowThatTheySeparate) {
  ProofRow row = full_row();
  EXPECT_NE(proof_text(proof_of({row}), {})
                .find("links    NVLink 1.03 bytes per byte, 0.00 for the control"),
            std::string::npos)
      << proof_text(proof_of({row}), {});
  row.physical.witnesses[0].separates = false;
  EXPECT_EQ(proof_text(proof_of({row}), {}).find("NVLink"), std::string::npos);
}

TEST(ProofText, ExplainsEachCauseOnceWithTheRemedyOfItsFinding) {
  const std::string text = proof_text(proof_of({full_row(), full_row()}), {});
  EXPECT_EQ(count(text, "machine.acs_redirect"), 2U) << text;
  EXPECT_EQ(count(text, "try: setpci"), 1U) << text;
}

TEST(ProofText, ShowsNoNumberWhereNoneIsKnown) {
  ProofRow row = full_row();
  row.verdict = Verdict::unknown;
  row.link = Link::none;
  row.physical = {};
  row.benefit = {};
  const std::string text = proof_text(proof_of({row}), {});
  EXPECT_NE(text.find("unknown  -          -        -"), std::string::npos) << text;
  EXPECT_EQ(text.find("unknown ("), std::string::npos) << text;
  EXPECT_EQ(text.find("helps?"), std::string::npos) << text;
}

TEST(ProofText, SaysWhetherDirectWouldHelpAndThatItIsAModel) {
  EXPECT_NE(unbroken(proof_text(proof_of({full_row()}), {}))
                .find("direct is at most 2.5 times as fast (a model from link widths"),
            std::string::npos);
  ProofRow even = full_row();
  even.benefit.speedup_max = 1;
  EXPECT_NE(unbroken(proof_text(proof_of({even}), {})).find("it would be no faster"),
            std::string::npos);
}

TEST(ProofText, ListsWhatChanged) {
  EXPECT_EQ(changes_text({}, "old.json", {}), "\nNothing changed since old.json.\n");
  const std::vector<ProofChange> changes{
      {ProofChangeKind::vanished, "p2p gpu:0 -> gpu:1 copy", {{"verdict", "direct", ""}}}};
  EXPECT_EQ(changes_text(changes, "old.json", {}),
            "\nChanged since old.json:\n"
            "  vanished p2p gpu:0 -> gpu:1 copy\n"
            "           verdict: direct -> -\n");
}

TEST(ProofJson, FollowsItsSchema) {
  ProofRow bare;
  bare.source = bare.target = "gpu:0";
  bare.direction = "read";
  const std::vector<ProofChange> changes{
      {ProofChangeKind::changed, "machine", {{"name", "a", "b"}}}};
  for (const core::Json& json : {proof_json(proof_of({full_row(), bare})),
                                 proof_json(proof_of({}), changes), proof_json(proof_of({}))}) {
    EXPECT_EQ(test::schema_violations(json), "") << core::dump_json(json);
  }
}

TEST(ProofJson, HoldsNullForWhatIsNotKnown) {
  ProofRow row;
  const core::Json json = proof_json(proof_of({row}));
  for (const char* pointer :
       {"/rows/0/physical/host_dram_bytes_per_byte", "/rows/0/physical/cpu_ns_per_byte",
        "/rows/0/physical/errors/control_host_dram_bytes_per_byte", "/rows/0/benefit/speedup_max",
        "/rows/0/runtime/data_verified", "/rows/0/physical/unreadable", "/changes"}) {
    const core::Json* found = core::resolve_pointer(json, pointer);
    ASSERT_NE(found, nullptr) << pointer;
    EXPECT_TRUE(found->is_null()) << pointer;
  }
}

TEST(ProofJson, ListsEachUnmetCauseOnce) {
  const core::Json json = proof_json(proof_of({full_row()}));
  EXPECT_EQ(core::resolve_pointer(json, "/rows/0/static/causes")->as_array()->size(), 1U);
  EXPECT_EQ(core::resolve_pointer(json, "/rows/0/static/findings")->as_array()->size(), 2U);
}

TEST(ProofReadBack, IsTheSameProof) {
  ProofRow bare;
  bare.runtime.data_verified = false;
  const Proof proof = proof_of({full_row(), bare});
  const std::string text = core::dump_json(proof_json(proof));
  const Result<Proof> read = proof_from_text(text, "good.json");
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(core::dump_json(proof_json(*read)), text);
  EXPECT_EQ(read->rows[0].runtime.bytes[Carriage::unattributed], 12U);
  EXPECT_EQ(read->rows[0].physical.cpu_ns->per_byte, -0.5);
  EXPECT_EQ(read->rows[0].physical.of("nvidia_fs")->detail, "no such file");
  EXPECT_EQ(read->rows[1].runtime.data_verified, std::optional<bool>(false));
}

class WrongProofs : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

/// The good document with the value at a pointer replaced.
std::string document_with(const char* pointer, core::Json value) {
  core::Json json = proof_json(proof_of({full_row()}));
  core::Json* found = core::resolve_pointer(json, pointer);
  EXPECT_NE(found, nullptr) << pointer;
  *found = std::move(value);
  return core::dump_json(json);
}

TEST_P(WrongProofs, AreRefusedByNameOfTheField) {
  const auto& [pointer, value] = GetParam();
  const Result<core::Json> json = core::parse_json(value, "value");
  ASSERT_TRUE(json.ok());
  const Result<Proof> read = proof_from_text(document_with(pointer, *json), "old.json");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().origin, ErrorOrigin::input);
  EXPECT_NE(read.error().detail.find(pointer), std::string::npos) << read.error().detail;
  EXPECT_NE(read.error().attempted.find("old.json"), std::string::npos);
  EXPECT_FALSE(read.error().remedy.empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongProofs,
    ::testing::Values(std::pair("/schema", R"("nobounce.proof/2")"), std::pair("/rows", "{}"),
                      std::pair("/machine", "[]"), std::pair("/changes", "1"),
                      std::pair("/rows/0", "null"), std::pair("/rows/0/verdict", R"("splendid")"),
                      std::pair("/rows/0/known", "1"), std::pair("/rows/0/source", "null"),
                      std::pair("/rows/0/causes/0", R"("machine.gremlins")"),
                      std::pair("/rows/0/static/findings/1/state", R"("maybe")"),
                      std::pair("/rows/0/runtime/bytes/direct", "-1"),
                      std::pair("/rows/0/runtime/data_verified", R"("yes")"),
                      std::pair("/rows/0/physical/cpu_ns_per_byte", R"("fast")"),
                      std::pair("/rows/0/physical/errors/cpu_ns_per_byte", "null"),
                      std::pair("/rows/0/physical/witnesses", "{}"),
                      std::pair("/rows/0/physical/witnesses/0/separates", "1"),
                      std::pair("/rows/0/physical/witnesses/0/error", "null"),
                      std::pair("/rows/0/physical/witnesses/1/unreadable", R"("luck")"),
                      std::pair("/rows/0/physical/volumes_bytes/2", "2.5"),
                      std::pair("/rows/0/physical/unreadable", R"("")"),
                      std::pair("/rows/0/benefit/model", "0"),
                      std::pair("/rows/0/missing/0", "7")));

TEST(ProofReadBack, RefusesUnknownAndMissingFields) {
  core::Json json = proof_json(proof_of({full_row()}));
  core::resolve_pointer(json, "/rows/0/benefit")->as_object()->emplace_back("luck", 7);
  EXPECT_NE(proof_from_text(core::dump_json(json), "f")
                .error()
                .detail.find("/rows/0/benefit/luck is unknown"),
            std::string::npos);
  json = proof_json(proof_of({full_row()}));
  core::resolve_pointer(json, "/rows/0/runtime/bytes")->as_object()->pop_back();
  EXPECT_NE(proof_from_text(core::dump_json(json), "f")
                .error()
                .detail.find("/rows/0/runtime/bytes/unattributed is missing"),
            std::string::npos);
  EXPECT_FALSE(proof_from_text("{", "f").ok());
  EXPECT_FALSE(proof_from_text("[]", "f").ok());
  EXPECT_FALSE(proof_from_text("{}", "f").ok());
}

}  // namespace
}  // namespace nobounce::report
