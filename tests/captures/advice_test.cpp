// What is advised: it fits the version, names what the texts show, and claims nothing of a path.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "case_rig.hpp"

namespace nobounce::test {
namespace {

core::Explanation explain_text(const std::string& text) {
  return explain_texts({{"text", text}});
}

std::string shown_of(const core::Explanation& got) {
  return core::dump_json(report::explanation_json(got));
}

/// The remedies of all rows of a member, in one text.
std::string advice(const core::Explanation& got, Member member) {
  std::string all;
  for (const core::ExplainedVerdict& row : got.verdicts) {
    if (row.member == member) all += row.remedy + '\n';
  }
  return all;
}

bool says_of(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const core::ExplainedVerdict* row_of(const core::Explanation& got, Member member, Verdict verdict,
                                     const std::string& direction) {
  const auto found = std::find_if(got.verdicts.begin(), got.verdicts.end(), [&](const auto& row) {
    return row.member == member && row.verdict == verdict && row.direction == direction;
  });
  return found == got.verdicts.end() ? nullptr : &*found;
}

bool is_blamed(const core::ExplainedVerdict& row, Cause cause) {
  return std::find(row.causes.begin(), row.causes.end(), cause) != row.causes.end();
}

std::string far_adapter(const std::string& version, const std::string& level) {
  return "        GPU0    mlx5_0  CPU Affinity\nGPU0     X      " + level + "     0-7\nmlx5_0  " +
         level + "      X \n\n" + version +
         "n:5:6 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB ib0:192.0.2.71<0>\n"
         "n:5:6 [0] NCCL INFO Ring 00 : 0 -> 8 [send] via NET/IB/0\n";
}

/// Up to 2.5 NCCL reads a number: a word would switch GPUDirect RDMA off.
TEST(Advice, OfALevelFitsTheVersion) {
  struct Row {
    const char* version;
    const char* level;
    const char* wanted;
    const char* unwanted;
  };
  for (const Row& row : {Row{"2.3.7", "SYS", "NCCL_IB_GDR_LEVEL=5", "NCCL_NET_GDR_LEVEL"},
                         Row{"2.4.2", "SYS", "NCCL_NET_GDR_LEVEL=5", "LEVEL=SYS"},
                         Row{"2.4.8", "NODE", "NCCL_NET_GDR_LEVEL=4", "LEVEL=NODE"},
                         Row{"2.5.7", "PHB", "NCCL_NET_GDR_LEVEL=3", "LEVEL=PHB"},
                         Row{"2.6.4", "SYS", "NCCL_NET_GDR_LEVEL=SYS", "LEVEL=5"},
                         Row{"2.21.5", "NODE", "NCCL_NET_GDR_LEVEL=PHB", "LEVEL=NODE"},
                         Row{"2.27.3", "PHB", "NCCL_NET_GDR_LEVEL=PHB", "LEVEL=3"}}) {
    const core::Explanation got = explain_text(
        far_adapter("NCCL version " + std::string(row.version) + "+cuda10.0\n", row.level));
    const std::string said = advice(got, Member::rdma);
    EXPECT_TRUE(says_of(said, row.wanted)) << row.version << ' ' << row.level << '\n' << said;
    EXPECT_FALSE(says_of(said, row.unwanted)) << row.version << ' ' << row.level << '\n' << said;
  }
  const std::string unknown = advice(explain_text(far_adapter("", "SYS")), Member::rdma);
  EXPECT_TRUE(says_of(unknown, "NCCL_NET_GDR_LEVEL=SYS (NCCL 2.6 and later) or =5 (2.4 and 2.5"))
      << unknown;
}

TEST(Advice, NamesNoNearerAdapterThanThereIs) {
  const std::string one =
      advice(explain_text(far_adapter("NCCL version 2.4.2+cuda10.0\n", "SYS")), Member::rdma);
  EXPECT_TRUE(says_of(one, "mlx5_0 is the only adapter that is shown")) << one;
  EXPECT_FALSE(says_of(one, "nearest adapter")) << one;
  EXPECT_TRUE(says_of(one, "nvidia_peermem (nv_peer_mem with drivers before 470)")) << one;
  EXPECT_FALSE(says_of(one, "dma-buf")) << "2.4 knows none: " << one;
  const std::string two = advice(
      explain_text("        GPU0    mlx5_0  mlx5_1\nGPU0     X      SYS     PIX\n\nNCCL version "
                   "2.21.5+cuda12.4\nn:5:6 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB "
                   "ib0:192.0.2.71<0>\nn:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via "
                   "NET/IB/0\n"),
      Member::rdma);
  EXPECT_TRUE(says_of(two, "mlx5_1 is at PIX from GPU0")) << two;
}

/// Of a cause that is printed, the remedy is, too, with its figures.
TEST(Advice, EachCauseHasItsOwn) {
  const core::Explanation got =
      explain_texts(texts_of_case(cases_folder() / "bundle/small_window_slow_peer"));
  const std::string said = advice(got, Member::p2p);
  EXPECT_TRUE(says_of(said, "BAR1 of 0000:81:00.0 and 0000:c2:00.0 is 256 MiB")) << said;
  EXPECT_TRUE(says_of(said, "Resizable BAR")) << said;
  EXPECT_TRUE(says_of(said, "ACSCtl|LnkSta")) << said;
  for (const core::ExplainedVerdict& row : got.verdicts)
    EXPECT_FALSE(says_of(row.reason, "smaller than the memory")) << "no memory is shown";
}

/// Two GPUs below one switch: 60:01.0 and 61:00.0 are above both.
const char* const placed_gpus =
    "|   0  NVIDIA A100-PCIE-40GB          On  | 00000000:63:00.0 Off |                    0 |\n"
    "|   2  NVIDIA A100-PCIE-40GB          On  | 00000000:64:00.0 Off |                    0 |\n\n"
    "-[0000:60]-+-01.0-[61-65]----00.0-[62-65]--+-00.0-[63]----00.0  NVIDIA Corporation GA100 "
    "[A100]\n"
    "                                           \\-01.0-[64]----00.0  NVIDIA Corporation GA100 "
    "[A100]\n\n";

const char* const slow_pair =
    "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      2\n     0 900.1  "
    "20.1\n     2  20.1 900.1\nUnidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n "
    "  D\\D     0      2\n     0 900.1   5.2\n     2   5.2 900.1\n\n";

const char* const error_text =
    "n:5:6 [2] NCCL INFO Channel 03/0 : 2[62000] -> 10[62000] [send] via NET/IB/4/GDRDMA\n"
    "n:5:6 [2] NCCL INFO Channel 03/0 : 10[62000] -> 2[62000] [receive] via NET/IB/4/GDRDMA\n"
    "n:5:7 [2] NCCL WARN NET/IB : Got completion from peer 192.0.2.90<48811> with error 4, opcode "
    "32577, len 0, vendor err 81 (Recv)\n";

std::string redirecting(const char* port) {
  return std::string(port) +
         " PCI bridge: Broadcom / LSI Device c010 (rev b0) (prog-if 00 [Normal decode])\n"
         "\tCapabilities: [148 v1] Access Control Services\n"
         "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- "
         "DirectTrans-\n";
}

/// What receives has failed; of what sends nothing is known.
TEST(Advice, AnErrorIsOfItsDirection) {
  const core::Explanation got = explain_text(error_text);
  const core::ExplainedVerdict* sends = row_of(got, Member::rdma, Verdict::unknown, "send");
  ASSERT_NE(sends, nullptr) << shown_of(got);
  EXPECT_FALSE(is_blamed(*sends, Cause::rdma_remote_access_error));
  const core::ExplainedVerdict* receives = row_of(got, Member::rdma, Verdict::broken, "receive");
  ASSERT_NE(receives, nullptr) << shown_of(got);
  EXPECT_TRUE(says_of(receives->reason, "status 4, local protection error; vendor error 81"))
      << receives->reason;
  EXPECT_EQ(row_of(got, Member::rdma, Verdict::broken, "send"), nullptr);
}

TEST(Advice, StatusesAreThoseOfTheSpecification) {
  const auto reason = [](const char* status) {
    const core::Explanation got = explain_text(
        "n:5:7 [2] NCCL WARN NET/IB : Got completion from peer 192.0.2.9<1> with "
        "error " +
        std::string(status) + ", opcode 1, len 0, vendor err 0 (Send)\n");
    return got.verdicts.empty() ? std::string() : got.verdicts.front().reason;
  };
  EXPECT_TRUE(says_of(reason("4"), "local protection error"));
  EXPECT_TRUE(says_of(reason("5"), "flushed"));
  EXPECT_TRUE(says_of(reason("8"), "local access error"));
  EXPECT_TRUE(says_of(reason("9"), "remote invalid request"));
  EXPECT_TRUE(says_of(reason("10"), "remote access error"));
  EXPECT_TRUE(says_of(reason("11"), "remote operation error"));
  EXPECT_TRUE(says_of(reason("12"), "transport retries exceeded"));
  EXPECT_TRUE(says_of(reason("13"), "receiver-not-ready"));
  EXPECT_TRUE(says_of(reason("21"), "general error"));
}

/// A port that redirects is the reason where a tree has it between the two, and may be elsewhere.
TEST(Advice, APortIsBlamedByItsPlace) {
  const core::Explanation somewhere = explain_text(error_text + redirecting("60:02.0"));
  const core::ExplainedVerdict* row = row_of(somewhere, Member::rdma, Verdict::broken, "receive");
  ASSERT_NE(row, nullptr) << shown_of(somewhere);
  EXPECT_TRUE(says_of(row->reason, "which may be why: no line shows whether it lies between"))
      << row->reason;
  EXPECT_TRUE(says_of(row->remedy, "Find out whether the port lies between")) << row->remedy;
  EXPECT_TRUE(says_of(row->remedy, "60:02.0")) << row->remedy;
  // Where the GPU hangs is known, and the port is the one above it.
  const core::Explanation above =
      explain_text(placed_gpus + std::string(error_text) + redirecting("62:01.0"));
  row = row_of(above, Member::rdma, Verdict::broken, "receive");
  ASSERT_NE(row, nullptr) << shown_of(above);
  EXPECT_TRUE(says_of(row->reason, "62:01.0 redirects peer requests on the way")) << row->reason;
  EXPECT_FALSE(says_of(row->remedy, "Find out whether the port")) << row->remedy;
  // A silent far side is no matter of ports here.
  const core::Explanation silent = explain_text(
      "n:5:7 [2] NCCL WARN NET/IB : Got completion from peer 192.0.2.9<1> with error 12, opcode 1, "
      "len 0, vendor err 129 (Send)\n" +
      redirecting("60:02.0"));
  for (const core::ExplainedVerdict& each : silent.verdicts) {
    if (each.verdict == Verdict::broken) {
      EXPECT_FALSE(is_blamed(each, Cause::machine_acs_redirect)) << shown_of(silent);
    }
  }
}

TEST(Advice, APortAboveBothEndsIsNotBetweenThem) {
  for (const bool between : {false, true}) {
    const core::Explanation got = explain_text(placed_gpus + std::string(slow_pair) +
                                               redirecting(between ? "62:01.0" : "60:01.0"));
    const core::ExplainedVerdict* row = row_of(got, Member::p2p, Verdict::degraded, "forward");
    ASSERT_NE(row, nullptr) << shown_of(got);
    EXPECT_EQ(is_blamed(*row, Cause::machine_acs_redirect), between) << shown_of(got);
  }
}

TEST(Advice, OfHostMemoryTestsSaysHowToMeasure) {
  const std::string perftest = advice(
      explain_texts(texts_of_case(cases_folder() / "perftest/host_memory_run.txt")), Member::rdma);
  EXPECT_TRUE(says_of(perftest, "ib_write_bw -d mlx5_bond_3 --use_cuda=0 at both ends"))
      << perftest;
  EXPECT_TRUE(says_of(perftest, "built with CUDA")) << perftest;
  const std::string ucx =
      advice(explain_texts(texts_of_case(cases_folder() / "ucx_proto/early_table_host_memory.txt")),
             Member::rdma);
  EXPECT_TRUE(says_of(ucx, "ucx_perftest -t tag_bw -m cuda")) << ucx;
}

TEST(Advice, OfHostBuffersNamesTheRuleForReads) {
  const std::string said = advice(
      explain_text("NCCL version 2.18.3+cuda12.2\n"
                   "n:5:6 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA\n"
                   "n:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0\n"),
      Member::rdma);
  EXPECT_TRUE(says_of(said, "NCCL_NET_GDR_READ=1")) << said;
  const std::string plain =
      advice(explain_text("n:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0\n"),
             Member::rdma);
  EXPECT_TRUE(says_of(plain, "lsmod | grep -E 'nvidia_peermem|nv_peer_mem'")) << plain;
  EXPECT_FALSE(says_of(plain, "NCCL_NET_GDR_READ")) << plain;
}

TEST(Advice, OfHostBuffersNamesTheSettingThatKeepsThem) {
  const auto said = [](const std::string& version, const std::string& value) {
    return advice(explain_text("NCCL_NET_GDR_LEVEL=" + value + "\n" +
                               far_adapter("NCCL version " + version + "+cuda10.0\n", "SYS")),
                  Member::rdma);
  };
  EXPECT_TRUE(says_of(said("2.4.2", "SYS"), "it is SYS, which this version reads as 0"))
      << said("2.4.2", "SYS");
  EXPECT_TRUE(says_of(said("2.21.5", "LOC"), "unset NCCL_NET_GDR_LEVEL: it is LOC"))
      << said("2.21.5", "LOC");
  EXPECT_TRUE(says_of(said("2.21.5", "PHB"), "NCCL_NET_GDR_LEVEL=SYS lets it"))
      << said("2.21.5", "PHB");
  EXPECT_FALSE(says_of(said("2.21.5", "SYS"), "NCCL_NET_GDR_LEVEL=SYS lets it"))
      << said("2.21.5", "SYS");
}

/// A level that stops short of the pair is the reason that it goes through host memory.
TEST(Advice, ALevelOfPeersIsASettingToo) {
  const auto is_disabled = [](const std::string& version, const std::string& value,
                              const std::string& level) {
    const core::Explanation got = explain_text(
        "        GPU0    GPU1\nGPU0     X      " + level + "\nGPU1    " + level +
        "     X\n\nNCCL_P2P_LEVEL=" + value + "\nNCCL version " + version +
        "+cuda12.2\nn:5:6 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n");
    const core::ExplainedVerdict* row = row_of(got, Member::p2p, Verdict::staged, "forward");
    return row != nullptr && is_blamed(*row, Cause::p2p_disabled_by_setting);
  };
  EXPECT_TRUE(is_disabled("2.18.3", "PXB", "SYS"));
  EXPECT_TRUE(is_disabled("2.18.3", "LOC", "PIX"));
  EXPECT_TRUE(is_disabled("2.18.3", "2", "NODE"));
  EXPECT_FALSE(is_disabled("2.18.3", "PHB", "NODE"));
  EXPECT_FALSE(is_disabled("2.18.3", "SYS", "SYS"));
  EXPECT_FALSE(is_disabled("2.18.3", "NVL", "NV4"));
  EXPECT_TRUE(is_disabled("2.5.7", "SYS", "PIX")) << "a word is read as 0";
  EXPECT_FALSE(is_disabled("2.5.7", "4", "NODE"));
}

TEST(Advice, OfReadsFitsTheVersion) {
  const auto said = [](const std::string& version) {
    return advice(
        explain_text(
            "NCCL version " + version +
            "+cuda12.2\n"
            "n:5:6 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA\n"
            "n:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0\n"),
        Member::rdma);
  };
  EXPECT_FALSE(says_of(said("2.18.3"), "Ampere")) << said("2.18.3");
  EXPECT_TRUE(says_of(said("2.20.5"), "GPUs before Ampere without NVLink")) << said("2.20.5");
}

/// Without a product and a status nobody knows why the driver refuses.
TEST(Advice, ARefusalWithoutAReasonSaysWhereItStands) {
  const core::Explanation got = explain_text(
      "P2P Connectivity Matrix\n     D\\D     0     1\n     0       1     0\n     1     "
      "  0     1\n");
  const core::ExplainedVerdict* row = row_of(got, Member::p2p, Verdict::impossible, "forward");
  ASSERT_NE(row, nullptr) << shown_of(got);
  EXPECT_FALSE(is_blamed(*row, Cause::p2p_chipset_not_supported)) << shown_of(got);
  EXPECT_TRUE(says_of(row->remedy, "nvidia-smi topo -p2p r says why")) << row->remedy;
}

/// What one row says of a window, or of a port beside NVLink, no other row repeats.
TEST(Advice, RowsDoNotRepeatOrContradictEachOther) {
  const core::Explanation window =
      explain_texts(texts_of_case(cases_folder() / "bundle/small_window_slow_peer"));
  for (const core::ExplainedVerdict& row : window.verdicts)
    EXPECT_NE(row.member, Member::rdma) << shown_of(window);
  const core::Explanation nvlink =
      explain_texts(texts_of_case(cases_folder() / "bundle/near_nics_error_81"));
  for (const core::ExplainedVerdict& row : nvlink.verdicts) {
    if (row.member == Member::p2p) {
      EXPECT_FALSE(is_blamed(row, Cause::machine_acs_redirect)) << shown_of(nvlink);
    }
  }
}

/// Every row that is not direct says what to do, and no advice is empty talk of "the reason".
TEST(Advice, IsThereForEveryRowOfEveryCase) {
  const core::Json cases = json_of_file(cases_folder() / "cases.json");
  for (const core::Json& one : *cases.as_array()) {
    const std::string input = *one.find("input")->as_text();
    for (const core::ExplainedVerdict& row :
         explain_texts(texts_of_case(cases_folder() / input)).verdicts) {
      EXPECT_EQ(row.remedy.empty(), row.verdict == Verdict::direct) << input << ' ' << row.subject;
      EXPECT_EQ(row.remedy.find("  "), std::string::npos) << input << ' ' << row.remedy;
      EXPECT_EQ(row.remedy.find(".."), std::string::npos) << input << ' ' << row.remedy;
    }
  }
}

}  // namespace
}  // namespace nobounce::test
