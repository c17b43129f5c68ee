// The decision over three layers, without any machine: each lie that a layer can tell gets the
// verdict it deserves.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "proof/decide.hpp"

namespace nobounce::proof {
namespace {

constexpr std::uint64_t volume = 1 << 20;

CarriageBytes all(Carriage carriage) {
  CarriageBytes bytes;
  bytes[carriage] = volume;
  return bytes;
}

/// An honest direct row: receipts say direct, DRAM carried nothing, the control twice its bytes.
ProofRow direct_row() {
  ProofRow row;
  row.member = Member::p2p;
  row.facts.state = FindingState::met;
  row.runtime.bytes = all(Carriage::direct);
  row.runtime.control_bytes = all(Carriage::staged);
  row.runtime.known = Known::counted;
  row.runtime.data_verified = true;
  row.physical.state = PhysicalState::separated;
  row.physical.host_dram_bytes = Slope{0.01, 0.001};
  row.physical.control_host_dram_bytes = Slope{2.0, 0.001};
  return row;
}

struct Case {
  const char* name;
  void (*change)(ProofRow&);
  bool was_refused = false;
  bool degraded = false;
  Verdict verdict;
  Known known;
  std::size_t contradictions = 0;
  const char* missing = "";  ///< a part of the first sentence
  Cause cause = Cause::none;
};

class Decision : public ::testing::TestWithParam<Case> {};

TEST_P(Decision, IsAsStrongAsItsEvidence) {
  const Case& wanted = GetParam();
  ProofRow row = direct_row();
  wanted.change(row);
  decide(row, wanted.was_refused, wanted.degraded);
  EXPECT_EQ(row.verdict, wanted.verdict) << to_string(row.verdict);
  EXPECT_EQ(row.known, wanted.known) << to_string(row.known);
  EXPECT_EQ(row.contradictions.size(), wanted.contradictions);
  const bool named = std::find(row.causes.begin(), row.causes.end(),
                               Cause::evidence_contradiction) != row.causes.end();
  EXPECT_EQ(named, wanted.contradictions > 0);
  const std::string missing = row.missing.empty() ? "" : row.missing.front();
  EXPECT_EQ(missing.empty(), std::string(wanted.missing).empty()) << missing;
  EXPECT_NE(missing.find(wanted.missing), std::string::npos) << missing;
  if (wanted.cause != Cause::none) {
    EXPECT_NE(std::find(row.causes.begin(), row.causes.end(), wanted.cause), row.causes.end())
        << to_string(wanted.cause);
  }
}

void add_witness(ProofRow& row, const char* name, double transfer, double control,
                 bool separates = true) {
  row.physical.witnesses.push_back({.witness = name,
                                    .separates = separates,
                                    .transfer = Slope{transfer, 0.001},
                                    .control = Slope{control, 0.001}});
}

/// A pair on NVLink whose host DRAM nobody can count, as in a guest.
void nvlink_in_a_guest(ProofRow& row, double nvlink, double nvlink_control, double pcie,
                       double pcie_control) {
  row.link = Link::nvlink;
  row.physical = {};
  row.physical.unreadable = Cause::evidence_dram_counters_absent;
  add_witness(row, "gpu_nvlink", nvlink, nvlink_control);
  add_witness(row, "gpu_pcie", pcie, pcie_control);
}

void unmet(ProofRow& row) {
  row.facts.state = FindingState::unmet;
  row.facts.findings.push_back(
      {.cause = Cause::machine_acs_redirect, .state = FindingState::unmet});
}

INSTANTIATE_TEST_SUITE_P(
    Honest, Decision,
    ::testing::Values(
        Case{"Direct", [](ProofRow&) {}, false, false, Verdict::direct, Known::witnessed},
        Case{"Degraded", [](ProofRow&) {}, false, true, Verdict::degraded, Known::witnessed},
        Case{"Staged",
             [](ProofRow& row) {
               row.runtime.bytes = all(Carriage::staged);
               row.physical.host_dram_bytes = Slope{2.0, 0.001};
               row.physical.state = PhysicalState::inconclusive;
             },
             false, false, Verdict::staged, Known::witnessed},
        Case{"StagedWithoutCounters",
             [](ProofRow& row) {
               row.runtime.bytes = all(Carriage::staged);
               row.runtime.known = Known::claimed;
               row.physical = {};
             },
             false, false, Verdict::staged, Known::claimed, 0, "counters of host DRAM"},
        Case{"MixedCountsAsStaged",
             [](ProofRow& row) {
               row.runtime.bytes[Carriage::staged] = 3 * volume;
               row.physical.host_dram_bytes = Slope{2.0, 0.001};
             },
             false, false, Verdict::staged, Known::witnessed},
        Case{"MixedThatClaimsMoreThanTheCountersLeaveRoomFor",
             [](ProofRow& row) {
               row.runtime.bytes[Carriage::staged] = volume / 2;
               row.physical.host_dram_bytes = Slope{2.0, 0.001};
             },
             false, false, Verdict::staged, Known::witnessed, 1},
        Case{"UnattributedButWitnessed",
             [](ProofRow& row) { row.runtime.bytes = all(Carriage::unattributed); }, false, false,
             Verdict::direct, Known::witnessed},
        Case{"RefusedThenStaged",
             [](ProofRow& row) {
               unmet(row);
               row.runtime.bytes = all(Carriage::staged);
             },
             true, false, Verdict::staged, Known::counted, 0, "", Cause::machine_acs_redirect},
        Case{"RefusedAndNothingMoved",
             [](ProofRow& row) {
               unmet(row);
               row.runtime.bytes = {};
               row.runtime.known = Known::claimed;
             },
             true, false, Verdict::impossible, Known::claimed, 0, "", Cause::machine_acs_redirect}),
    [](const auto& tested) { return std::string(tested.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Lies, Decision,
    ::testing::Values(
        Case{"StagesButClaimsDirect",
             [](ProofRow& row) { row.physical.host_dram_bytes = Slope{2.0, 0.001}; }, false, false,
             Verdict::staged, Known::witnessed, 1},
        Case{"ClaimsStagedButWasDirect",
             [](ProofRow& row) { row.runtime.bytes = all(Carriage::staged); }, false, false,
             Verdict::unknown, Known::claimed, 1},
        Case{"CountersStuck",
             [](ProofRow& row) {
               row.physical.host_dram_bytes = Slope{0, 0};
               row.physical.control_host_dram_bytes = Slope{0, 0};
               row.physical.state = PhysicalState::inconclusive;
             },
             false, false, Verdict::unknown, Known::counted, 0, "the counters stand still"},
        Case{"CountersMissing",
             [](ProofRow& row) {
               row.physical = {};
               row.physical.unreadable = Cause::evidence_dram_counters_absent;
             },
             false, false, Verdict::unknown, Known::counted, 0, "counters of host DRAM",
             Cause::evidence_dram_counters_absent},
        Case{"CountersOfTheControlOnlyMissing",
             [](ProofRow& row) { row.physical.control_host_dram_bytes.reset(); }, false, false,
             Verdict::unknown, Known::counted, 0, "counters of host DRAM"},
        Case{"WrongData", [](ProofRow& row) { row.runtime.data_verified = false; }, false, false,
             Verdict::broken, Known::witnessed, 1, "", Cause::p2p_wrong_data},
        Case{"WrongDataByStaging",
             [](ProofRow& row) {
               row.runtime.data_verified = false;
               row.runtime.bytes = all(Carriage::staged);
             },
             false, false, Verdict::broken, Known::witnessed},
        Case{"WrongDataAfterARefusal",
             [](ProofRow& row) {
               unmet(row);
               row.runtime.data_verified = false;
               row.runtime.bytes = all(Carriage::staged);
             },
             true, false, Verdict::broken, Known::witnessed},
        Case{"ControlThatDidNotStage",
             [](ProofRow& row) { row.runtime.control_bytes = all(Carriage::direct); }, false, false,
             Verdict::unknown, Known::counted, 0, "a control that stages"},
        Case{"ControlThatStagedInPart",
             [](ProofRow& row) { row.runtime.control_bytes[Carriage::direct] = 1; }, false, false,
             Verdict::unknown, Known::counted, 0, "a control that stages"},
        Case{"ControlThatNeverRan", [](ProofRow& row) { row.runtime.control_bytes = {}; }, false,
             false, Verdict::unknown, Known::counted, 0, "a control that stages"},
        Case{"WitnessThatCannotSeparate",
             [](ProofRow& row) {
               row.physical.host_dram_bytes = Slope{0.2, 3};
               row.physical.state = PhysicalState::inconclusive;
             },
             false, false, Verdict::unknown, Known::counted, 0, "clearly none or clearly"},
        Case{"WitnessInBetween",
             [](ProofRow& row) { row.physical.host_dram_bytes = Slope{1.0, 0.001}; }, false, false,
             Verdict::unknown, Known::counted, 0, "clearly none or clearly"},
        Case{"UnmetButDirect", [](ProofRow& row) { unmet(row); }, false, false, Verdict::direct,
             Known::witnessed, 1},
        Case{"RefusedButDirect", [](ProofRow& row) { unmet(row); }, true, false, Verdict::unknown,
             Known::counted, 1},
        Case{"RefusedAndUnattributed",
             [](ProofRow& row) {
               unmet(row);
               row.runtime.bytes = all(Carriage::unattributed);
             },
             true, false, Verdict::unknown, Known::counted, 0, "receipts that attribute"},
        Case{"NobodyKnows",
             [](ProofRow& row) {
               row.runtime.bytes = all(Carriage::unattributed);
               row.runtime.known = Known::claimed;
               row.physical = {};
             },
             false, false, Verdict::unknown, Known::claimed, 0, "counters of host DRAM"}),
    [](const auto& tested) { return std::string(tested.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Links, Decision,
    ::testing::Values(
        Case{"NvlinkCarriedIt", [](ProofRow& row) { nvlink_in_a_guest(row, 1.03, 0, 0.01, 2); },
             false, false, Verdict::direct, Known::witnessed},
        Case{"NvlinkCarriedItDegraded",
             [](ProofRow& row) { nvlink_in_a_guest(row, 1.03, 0, 0.01, 2); }, false, true,
             Verdict::degraded, Known::witnessed},
        Case{"NvlinkStuckButThePayloadLeftPcie",
             [](ProofRow& row) { nvlink_in_a_guest(row, 0, 0, 0.01, 2); }, false, false,
             Verdict::direct, Known::witnessed},
        Case{"ThePayloadTookPcieAndNobodyKnowsHow",
             [](ProofRow& row) { nvlink_in_a_guest(row, 0, 0, 2, 2); }, false, false,
             Verdict::unknown, Known::counted, 1, "counters of host DRAM",
             Cause::evidence_dram_counters_absent},
        Case{"BothStandStill", [](ProofRow& row) { nvlink_in_a_guest(row, 0, 0, 0, 0); }, false,
             false, Verdict::unknown, Known::counted, 0, "counters of host DRAM"},
        Case{"TheControlTookNvlinkToo",
             [](ProofRow& row) { nvlink_in_a_guest(row, 1.03, 1.03, 0, 0); }, false, false,
             Verdict::unknown, Known::counted, 0, "counters of host DRAM"},
        Case{"TooNoisyToTellApart",
             [](ProofRow& row) {
               nvlink_in_a_guest(row, 1.03, 0, 0.01, 2);
               for (WitnessSlope& one : row.physical.witnesses) one.transfer->error = 3;
             },
             false, false, Verdict::unknown, Known::counted, 0, "counters of host DRAM"},
        Case{"ThatCannotSeparateSayNothing",
             [](ProofRow& row) {
               nvlink_in_a_guest(row, 1.03, 0, 0.01, 2);
               for (WitnessSlope& one : row.physical.witnesses) one.separates = false;
             },
             false, false, Verdict::unknown, Known::counted, 0, "counters of host DRAM"},
        Case{"LinksAndMemoryExcludeOneAnother",
             [](ProofRow& row) {
               row.link = Link::nvlink;
               row.physical.host_dram_bytes = Slope{2.0, 0.001};
               add_witness(row, "gpu_nvlink", 1.03, 0);
             },
             false, false, Verdict::unknown, Known::counted, 1, "counters that agree"},
        Case{"TheSessionCopiedItItself",
             [](ProofRow& row) {
               row.physical = {};
               add_witness(row, "host_copies", 2, 2, false);
             },
             false, false, Verdict::staged, Known::counted, 1, "counters of host DRAM"},
        Case{"TheSessionCopiedItItselfAndMemoryDidNotSeeIt",
             [](ProofRow& row) { add_witness(row, "host_copies", 2, 2, false); }, false, false,
             Verdict::unknown, Known::counted, 1},
        Case{"NoCopiesOfTheSessionProveNothing",
             [](ProofRow& row) {
               row.physical = {};
               add_witness(row, "host_copies", 0, 2, false);
             },
             false, false, Verdict::unknown, Known::counted, 0, "counters of host DRAM"}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(DecisionAlone, NamesThePhysicalStateByWhatTheCountersShowed) {
  ProofRow stuck = direct_row();
  stuck.physical.control_host_dram_bytes = Slope{0, 0};
  decide(stuck, false, false);
  EXPECT_EQ(stuck.physical.state, PhysicalState::inconclusive);
  ProofRow absent = direct_row();
  absent.physical.host_dram_bytes.reset();
  decide(absent, false, false);
  EXPECT_EQ(absent.physical.state, PhysicalState::unreadable);
}

TEST(DecisionAlone, GivesStorageACauseOfItsOwnForWrongData) {
  ProofRow row = direct_row();
  row.member = Member::storage;
  row.runtime.data_verified = false;
  decide(row, false, false);
  EXPECT_NE(std::find(row.causes.begin(), row.causes.end(), Cause::storage_p2p_lost),
            row.causes.end());
}

}  // namespace
}  // namespace nobounce::proof
