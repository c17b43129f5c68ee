// Every word has its own spelling, and the spellings are the ones that documents promise.
#include <gtest/gtest.h>

#include <nobounce/error.hpp>
#include <nobounce/machine.hpp>
#include <nobounce/place.hpp>
#include <nobounce/route.hpp>
#include <nobounce/words.hpp>
#include <string>

namespace nobounce {
namespace {

template <typename Enum>
std::string all_words() {
  std::string words;
  for (std::uint8_t i = 0; to_string(static_cast<Enum>(i)) != "invalid"; ++i) {
    if (i > 0) words += ' ';
    words += to_string(static_cast<Enum>(i));
  }
  return words;
}

TEST(Words, AreSpelledAsTheDesignWritesThem) {
  EXPECT_EQ(all_words<Member>(), "host p2p rdma storage async");
  EXPECT_EQ(all_words<Carriage>(), "direct device_bounced in_place cpu_mapped staged unattributed");
  EXPECT_EQ(all_words<Link>(), "none nvlink pcie_switch host_bridge inter_socket c2c");
  EXPECT_EQ(all_words<Issuer>(), "host stream kernel");
  EXPECT_EQ(all_words<Poster>(), "cpu cpu_proxy gpu");
  EXPECT_EQ(all_words<Policy>(), "direct_required direct_preferred staged_only");
  EXPECT_EQ(all_words<Known>(), "claimed counted witnessed");
  EXPECT_EQ(all_words<Verdict>(), "direct staged degraded impossible broken unknown");
  EXPECT_EQ(all_words<FindingState>(), "met unmet unknown");
  EXPECT_EQ(all_words<CauseKind>(), "precondition observed measured");
  EXPECT_EQ(all_words<PathLevel>(), "X NV PIX PXB PHB NODE SYS");
  EXPECT_EQ(all_words<TransferState>(), "done refused failed cancelled");
  EXPECT_EQ(all_words<ErrorOrigin>(),
            "os cuda nvml cufile policy input session fabric verbs nvme remote");
  EXPECT_EQ(all_words<ProviderKind>(), "storage peer rdma nvme host staged");
  EXPECT_EQ(all_words<AllocationKind>(),
            "unknown device vmm pool ipc_import managed host_pinned host_pageable");
  EXPECT_EQ(all_words<IommuMode>(), "off identity translated unknown inherit");
  EXPECT_EQ(all_words<LinkLayer>(), "infiniband ethernet unknown");
  EXPECT_EQ(all_words<Answer>(), "no yes unknown");
  EXPECT_EQ(all_words<FabricManager>(), "not_needed running absent unknown");
  EXPECT_EQ(all_words<AcsMode>(), "off redirect source_validation unknown inherit");
  EXPECT_EQ(all_words<PeerForwarding>(), "refused allowed unknown");
  EXPECT_EQ(all_words<PeerStatus>(), "ok cns gns tns ns dr unknown");
}

TEST(Words, KnowEveryCarriage) {
  EXPECT_EQ(to_string(static_cast<Carriage>(carriage_count - 1)), "unattributed");
  EXPECT_EQ(to_string(static_cast<Carriage>(carriage_count)), "invalid");
}

TEST(Policy, IsFoundByItsExactName) {
  EXPECT_EQ(policy_from_string("direct_required"), Policy::direct_required);
  EXPECT_EQ(policy_from_string("direct_preferred"), Policy::direct_preferred);
  EXPECT_EQ(policy_from_string("staged_only"), Policy::staged_only);
  for (const char* name : {"", "direct", "Direct_Required", "direct_required "}) {
    EXPECT_EQ(policy_from_string(name), std::nullopt) << name;
  }
}

TEST(CarriageBytes, AddUp) {
  CarriageBytes bytes;
  bytes[Carriage::direct] = 5;
  bytes[Carriage::unattributed] = 2;
  CarriageBytes more;
  more[Carriage::direct] = 1;
  bytes += more;
  EXPECT_EQ(bytes[Carriage::direct], 6u);
  EXPECT_EQ(bytes.total(), 8u);
}

TEST(Parent, IsWrittenAsInMachineDocuments) {
  EXPECT_EQ(to_string(Parent{Parent::Kind::host_bridge, 3}), "host_bridge:3");
  EXPECT_EQ(to_string(Parent{Parent::Kind::pci_switch, 0}), "switch:0");
  EXPECT_EQ(to_string(Parent{Parent::Kind::nic, 1}), "nic:1");
}

}  // namespace
}  // namespace nobounce
