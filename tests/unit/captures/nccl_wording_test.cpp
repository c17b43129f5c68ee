// Lines of transport in use in the wording of every version of NCCL from 2.3 to 2.30.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "captures/nccl_line.hpp"

namespace nobounce::captures {
namespace {

struct Wording {
  const char* version;
  const char* body;
  NcclUseKind kind;
  const char* direction;
  bool gdrdma;
};

const std::vector<Wording>& wordings() {
  using K = NcclUseKind;
  static const std::vector<Wording> all = {
      {"2.3", "Ring 00 : 0 -> 1 via P2P/common device", K::peer, "", false},
      {"2.3", "1 <- 0 via P2P/common device", K::peer, "", false},
      {"2.3", "Ring 01 : 0[0] -> 1[1] via P2P/IPC", K::peer, "", false},
      {"2.3", "Ring 01 : 0[0] -> 1[1] via P2P/direct pointer", K::peer, "", false},
      {"2.3", "Ring 01 : 0[0] <- 1[1] via P2P/direct pointer", K::peer, "", false},
      {"2.3", "Ring 01 : 0[0] -> 1[1] via direct shared memory", K::shared_memory, "", false},
      {"2.3", "Ring 00 : 3 -> 4 via NET/IB/0/GDRDMA", K::network, "", true},
      {"2.3", "Ring 00 : 3 -> 4 via NET/Socket/0", K::network, "", false},
      {"2.4", "Ring 00 : 3 -> 4 [receive] via NET/IB/1/GDRDMA", K::network, "receive", true},
      {"2.4", "Ring 00 : 3 -> 4 [send] via NET/IB/1", K::network, "send", false},
      {"2.5", "Ring 00 : 3[1b000] -> 4[1c000] [send] via NET/IB/1/GDRDMA", K::network, "send",
       true},
      {"2.5", "Ring 00 : 3[1b000] -> 4[1c000] via P2P/IPC", K::peer, "", false},
      {"2.6", "Coll 00 : 3 [receive] via COLLNET/SHARP/0/GDRDMA", K::collective, "receive", true},
      {"2.7", "Channel 00 : 3[1b000] -> 4[1c000] via P2P/common device", K::peer, "", false},
      {"2.7", "Channel 00 : 3[1b000] -> 4[1c000] via P2P/IPC/read", K::peer, "", false},
      {"2.8", "Channel 00 : 3[1b000] -> 4[1c000] via P2P/indirect/5[1d000]", K::peer, "", false},
      {"2.8", "Channel 00 : 3[1b000] -> 9[1c000] [send] via NET/IB/1/GDRDMA/Shared", K::network,
       "send", true},
      {"2.8", "Channel 00 : 3[1b000] -> 9[1c000] [send] via NET/IB/1/Shared", K::network, "send",
       false},
      {"2.9", "CollNet 00 : 3 [send] via COLLNET/SHARP/0", K::collective, "send", false},
      {"2.12", "Channel 00/0 : 3[1b000] -> 9[1c000] [send] via NET/IB/1(5)/GDRDMA", K::network,
       "send", true},
      {"2.13", "Channel 00 : 3[1b000] -> 4[1c000] via SHM/direct/direct", K::shared_memory, "",
       false},
      {"2.14", "Channel 00/0 : 3[1b000] -> 4[1c000] via P2P/direct pointer/read", K::peer, "",
       false},
      {"2.18", "Channel 00/0 : 3[1b] -> 4[1c] via P2P/CUMEM", K::peer, "", false},
      {"2.18", "Ring 00 : 3[3] <- 4[4] via P2P/CUMEM", K::peer, "", false},
      {"2.18", "Channel 00 : 3[3] -> 4[4] via SHM/CE/CE", K::shared_memory, "", false},
      {"2.20", "Channel 00/0 : 3[3] -> 4[4] via P2P/MNNVL/read", K::peer, "", false},
      {"2.20", "Channel 00/0 : 3[3] -> 4[4] via P2P/CUMEM/CE", K::peer, "", false},
      {"2.26", "Channel 00/0 : 3[3] -> 9[1] [receive] via NET/IB/1/GDRDMA(PCI)/Shared", K::network,
       "receive", true},
      {"2.26", "CollNet 00/0 : 3 [receive] via COLLNET/SHARP/0/GDRDMA", K::collective, "receive",
       true},
      {"2.30", "Channel 00 : 3[3] -> 4[4] via SHM/direct", K::shared_memory, "", false},
      {"any", "Channel 00/0 : 3[3] -> 9[1] [send] via NET/AWS Libfabric/2/GDRDMA", K::network,
       "send", true},
      {"any", "Channel 00/0 : 3[3] -> 9[1] [send] via NET/OFI/2", K::network, "send", false},
      {"any", "Channel 00/0 : 3[3] -> 9[1] [send] via NET/FastSocket/0", K::network, "send", false},
  };
  return all;
}

TEST(NcclWording, OfEveryVersionIsUnderstood) {
  for (const Wording& one : wordings()) {
    const auto use = nccl_use(one.body);
    ASSERT_TRUE(use.has_value()) << one.version << ": " << one.body;
    EXPECT_EQ(use->kind, one.kind) << one.body;
    EXPECT_EQ(use->direction, one.direction) << one.body;
    EXPECT_EQ(use->gdrdma, one.gdrdma) << one.body;
    EXPECT_FALSE(use->cut) << one.body;
  }
}

/// Shorter by its end, a line may say less, and never that GPU memory was used where it was not.
TEST(NcclWording, CutAnywhereALineClaimsNoMore) {
  for (const Wording& one : wordings()) {
    const std::string body = one.body;
    for (std::size_t length = 0; length < body.size(); ++length) {
      const auto use = nccl_use(std::string_view(body).substr(0, length));
      if (!use.has_value()) continue;
      if (!one.gdrdma) {
        EXPECT_FALSE(use->gdrdma) << body.substr(0, length);
      }
      EXPECT_EQ(use->kind, one.kind) << body.substr(0, length);
    }
  }
}

/// Everything that was read of a use, as one text.
std::string told(const std::optional<NcclUse>& use) {
  if (!use.has_value()) return "nothing";
  const auto number = [](const std::optional<std::uint32_t>& value) {
    return value.has_value() ? std::to_string(*value) : std::string("-");
  };
  std::string text = std::to_string(static_cast<int>(use->kind));
  for (const NcclRank& rank : {use->source, use->target})
    text += ' ' + std::to_string(rank.rank) + '[' + std::string(rank.bracket) + ']';
  for (const std::string_view part : {use->direction, use->transport, use->plugin})
    text += " '" + std::string(part) + '\'';
  return text + number(use->adapter) + number(use->proxy) + (use->gdrdma ? 'g' : '.') +
         (use->cut ? 'c' : '.');
}

/// The usual layout is read from its front and all others from their middle. A letter in front
/// makes any line one of the others, of which nothing else may differ.
TEST(NcclWording, FromItsFrontALineSaysTheSameAsFromItsMiddle) {
  const std::string_view bytes = " /:[]->v0a9\t\"via";
  for (const Wording& one : wordings()) {
    const std::string body = one.body;
    for (std::size_t at = 0; at <= body.size(); ++at) {
      EXPECT_EQ(told(nccl_use(body.substr(0, at))), told(nccl_use("x" + body.substr(0, at))));
      for (const char byte : bytes) {
        std::string changed = body;
        if (at < body.size()) changed[at] = byte;
        EXPECT_EQ(told(nccl_use(changed)), told(nccl_use("x" + changed))) << changed;
        changed = body;
        changed.insert(at, 1, byte);
        EXPECT_EQ(told(nccl_use(changed)), told(nccl_use("x" + changed))) << changed;
      }
    }
  }
}

TEST(NcclWording, WhatIsNoUse) {
  for (const char* body :
       {"Channel 00/24 : 0 1 2 3", "Trees [0] 1/-1/-1->0->-1", "Connected all rings via nothing",
        "Channel 00/0 : a[b] -> c[d] via P2P/IPC", "Channel 00/0 : 0[0] -> 1[1] via ",
        "-> via P2P/IPC", "Channel 00/0 : 0[0] -> 1[1] via carrier pigeon",
        "GPU Direct RDMA Enabled for HCA 0 'mlx5_0'"})
    EXPECT_FALSE(nccl_use(body).has_value()) << body;
}

TEST(NcclWording, WhoSaysIt) {
  const NcclLine plain = nccl_line("node-a:31877:33510 [5] NCCL INFO Using network IB");
  EXPECT_EQ(plain.host, "node-a");
  EXPECT_EQ(plain.process, "node-a:31877");
  EXPECT_EQ(plain.device, 5U);
  EXPECT_EQ(plain.body, "Using network IB");
  const NcclLine warning =
      nccl_line("[2026-01-02 03:04:05] n1:7:9 [0] transport/net_ib.cc:241 NCCL WARN NET/IB : x");
  EXPECT_EQ(warning.host, "n1");
  EXPECT_EQ(warning.device, 0U);
  EXPECT_EQ(warning.body, "NET/IB : x");
  EXPECT_TRUE(warning.marked);
  const NcclLine bare = nccl_line("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC");
  EXPECT_FALSE(bare.marked);
  EXPECT_TRUE(bare.host.empty());
}

TEST(NcclDistances, ChangeTheirMeaningByVersion) {
  EXPECT_EQ(nccl_version_number("2.20.5"), 22005U);
  EXPECT_EQ(nccl_version_number("nonsense"), 0U);
  EXPECT_EQ(nccl_distance_name(nccl_version_number("2.4.2"), 3), "SOC");
  EXPECT_EQ(nccl_distance_name(nccl_version_number("2.4.8"), 3), "NODE");
  EXPECT_EQ(nccl_distance_name(nccl_version_number("2.5.7"), 4), "SYS");
  EXPECT_EQ(nccl_distance_name(nccl_version_number("2.8.3"), 4), "PXB");
  EXPECT_EQ(nccl_distance_name(nccl_version_number("2.25.1"), 6), "PHB");
  EXPECT_EQ(nccl_distance_name(nccl_version_number("2.26.2"), 6), "PXN");
  EXPECT_EQ(nccl_distance_name(nccl_version_number("2.27.5"), 6), "P2C");
  EXPECT_EQ(nccl_distance_name(0, 6), "");
  EXPECT_EQ(nccl_distance_name(nccl_version_number("2.30.7"), 99), "");
}

}  // namespace
}  // namespace nobounce::captures
