// Logs as they are pasted in a chat at night: what must be said of each, what must not, and a word
// that the advice must have. In the layout of real ones.
#include <algorithm>

#include <gtest/gtest.h>

#include "case_rig.hpp"

namespace nobounce::test {
namespace {

struct Pasted {
  const char* name;
  const char* text;
  Member member;
  Verdict verdict;
  Cause cause;             ///< none: any
  const char* remedy;      ///< that the advice of this row has
  const char* remedy_not;  ///< that no advice has; empty: nothing
  Cause never;             ///< that no row may name; none: nothing
};

constexpr Pasted pasted[] = {
    {"Mooncake registers memory of a GPU without a module",
     R"(I1130 02:51:48.341589  1710 rdma_context.cpp:125] RDMA device: mlx5_2, LID: 0, GID: (GID_Index 3) 00
I1130 02:51:48.352782  1710 transfer_engine_bench.cpp:299] VRAM is used
E1130 02:51:48.497743  1710 rdma_context.cpp:201] Failed to register memory 0x7f4680000000: Bad address [14]
[2026-11-30 02:51:48 TP0] Mooncake memory registration failed.
)",
     Member::rdma, Verdict::impossible, Cause::rdma_registration_failed, "nvidia-peermem", "",
     Cause::machine_bar1_too_small},
    {"Mooncake registers memory that may be the host's",
     "E0605 17:54:16.878770 178707 rdma_context.cpp:198] Failed to register memory 0x7f56e6600000: "
     "Numerical result out of range [34]\n",
     Member::rdma, Verdict::unknown, Cause::rdma_registration_failed, "ulimit -l", "", Cause::none},
    {"memory that may not be locked is no module that is missing",
     "n1:100:200 [0] misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error "
     "Cannot "
     "allocate memory\n"
     "n1:100:200 [0] NCCL INFO transport/net_ib.cc:1150 -> 2\n",
     Member::rdma, Verdict::impossible, Cause::rdma_memlock_limit, "ulimit -l", "modprobe",
     Cause::rdma_registration_failed},
    {"a plugin registers host memory",
     "ip-10-0-87-143:149:298 [5] register_mr_buffers:465 NCCL WARN NET/OFI Unable to register "
     "memory "
     "(type = 1) for device 0. RC: 12, Error: Cannot allocate memory\n",
     Member::rdma, Verdict::impossible, Cause::rdma_memlock_limit, "memlock=-1", "modprobe",
     Cause::rdma_registration_failed},
    {"adapters of two rails do not reach each other",
     "[2026-03-13 22:26:02] host-01:4321:4400 [5] ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp "
     "failed with 110 Connection timed out, on dev mlx5_5:1, curr state INIT, next state RTR, "
     "local "
     "GID index 3, local GID ::ffff:10.1.1.2, remote GID ::ffff:10.1.7.2\n",
     Member::rdma, Verdict::impossible, Cause::rdma_retry_exceeded, "NCCL_CROSS_NIC=0", "",
     Cause::rdma_port_down},
    {"an adapter without a way there",
     "dgxh100-3:225140:225355 [0] misc/ibvwrap.cc:187 NCCL WARN Call to ibv_modify_qp failed with "
     "error Network is unreachable\n",
     Member::rdma, Verdict::impossible, Cause::rdma_no_gid, "show_gids", "", Cause::none},
    {"Mooncake finds no module",
     "E20261130 02:30:19.433391 12 rdma_context.cpp:1343] DMA BUF supported required for GPU RDMA "
     "without nvidia-peermem\n"
     "E20261130 02:30:19.448818 12 rdma_transport.cpp:827] RdmaTransport: No available RNIC\n",
     Member::rdma, Verdict::impossible, Cause::rdma_peermem_not_loaded, "modprobe nvidia-peermem",
     "", Cause::rdma_no_rdma_device},
    {"NIXL over a UCX without CUDA",
     R"(2026-11-30 02:10:11 NIXL INFO    _api.py:361 Backend UCX was instantiated
W1130 02:10:11.552910   4121 ucx_utils.cpp:628] UCX CUDA support was not found! GPU memory is not supported.
    self.agent.registerMem(reg_descs, handle_list)
nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND
)",
     Member::rdma, Verdict::impossible, Cause::rdma_plugin_without_gdr, "ucx_info -v", "",
     Cause::rdma_peermem_not_loaded},
    {"UCX is asked for transports that it has not",
     "[1744331142.029753] [gpu-51:2802612:a]     ucp_context.c:2190 UCX  WARN  transports "
     "'cuda_copy','cuda_ipc' are not available, please use one or more of: cma, posix, rc_mlx5\n",
     Member::rdma, Verdict::impossible, Cause::rdma_plugin_without_gdr, "ucx_info -d", "",
     Cause::none},
    {"UCX cannot register memory of a GPU",
     R"([1767930429.285934] [node17:13245:0]          ib_md.c:309  UCX  ERROR ibv_reg_mr(address=0x7f3e2a000000, length=2097152, access=0xf) failed: Bad address
[1767930429.285990] [node17:13245:0]         ucp_mm.c:62   UCX  ERROR failed to register address 0x7f3e2a000000 (cuda) length 2097152 on md[4]=mlx5_0: Input/output error (md supports: host)
)",
     Member::rdma, Verdict::impossible, Cause::rdma_registration_failed, "EFAULT", "", Cause::none},
    {"a file on overlay has no udev record, and needs none",
     R"( 09-06-2025 01:51:11:418 [pid=7742 tid=7742] NOTICE  cufio-drv:830 running in compatible mode
 09-06-2025 01:52:46:947 [pid=7742 tid=7921] ERROR  cufio-fs:327 error creating udev_device for block device dev_no: 0:383
 09-06-2025 01:52:46:947 [pid=7742 tid=7921] ERROR  cufio-fs:740 error getting volume attributes error for device: dev_no: 0:383
)",
     Member::storage, Verdict::staged, Cause::storage_filesystem_unsupported, "findmnt -T",
     "udevadm", Cause::storage_udev_missing},
    {"a drive of a container without udev",
     " 09-06-2025 01:51:11:418 [pid=7 tid=7] NOTICE  cufio-drv:830 running in compatible mode\n"
     " 09-06-2025 01:52:46:947 [pid=7 tid=9] ERROR  cufio-fs:327 error creating udev_device for "
     "block device dev_no: 259:3\n",
     Member::storage, Verdict::staged, Cause::storage_udev_missing, "/run/udev", "findmnt",
     Cause::storage_filesystem_unsupported},
    {"KvikIO without cuFile",
     R"(   WARNING - KvikIO compat mode
      libcufile.so not used
GPU               | NVIDIA A100-SXM4-80GB (dev #0)
GDS driver        | N/A (Compatibility Mode)
cufile read       |   2.11 GiB/s
)",
     Member::storage, Verdict::staged, Cause::storage_compat_used, "KVIKIO_COMPAT_MODE", "",
     Cause::storage_nvidia_fs_absent},
    {"a GPU fell off the bus, and the job with it",
     R"([1084456.074562] NVRM: Xid (PCI:0000:09:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
[1084456.074566] NVRM: GPU 0000:09:00.0: GPU has fallen off the bus.
gpu-07:983:1261 [3] NCCL INFO Channel 00/0 : 35[3] -> 43[3] [send] via NET/IB/1/GDRDMA
)",
     Member::host, Verdict::broken, Cause::none, "Power-cycle", "", Cause::machine_iommu_fault},
    {"faults of a USB controller",
     "[   12.1] xhci_hcd 0000:0a:00.3: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0012 "
     "address=0xfffc0000 flags=0x0000]\n",
     Member::p2p, Verdict::unknown, Cause::none, "nobounce prove", "iommu=pt",
     Cause::machine_iommu_fault},
    {"an adapter in a slot of four lanes",
     "[   15.0] mlx5_core 0000:42:00.0: 31.504 Gb/s available PCIe bandwidth, limited by 8.0 GT/s "
     "PCIe x4 link at 0000:40:01.1 (capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)\n",
     Member::rdma, Verdict::unknown, Cause::machine_link_downtrained, "slot", "", Cause::none},
    {"RDMA switched off by a setting",
     R"(h1:77:91 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.
h1:77:91 [0] NCCL INFO NET/Socket : Using [0]ens5:10.0.0.4<0>
h1:77:91 [0] NCCL INFO Using network Socket
h1:77:91 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0
)",
     Member::rdma, Verdict::staged, Cause::rdma_socket_transport, "unset NCCL_IB_DISABLE", "",
     Cause::rdma_no_rdma_device},
    {"RCCL names itself on a line of its own",
     R"(RCCL version : 2.22.3-develop:b5c3b9a
HIP version  : 6.4.43482-0f2d60242
mi300-01:4012:4100 [0] NCCL INFO NET/IB : Using [0]bnxt_re0:1/RoCE [1]bnxt_re1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>
mi300-01:4012:4100 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'bnxt_re0'
mi300-01:4012:4100 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0 comm 0x55 nRanks 16
)",
     Member::rdma, Verdict::staged, Cause::rdma_peermem_not_loaded, "amdkfd", "modprobe nvidia",
     Cause::none},
    {"a limit that no adapter is near enough for",
     R"(w:77:301 [0] NCCL INFO NCCL_NET_GDR_LEVEL set by environment to LOC
w:77:301 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.244.1.17<0>
w:77:301 [0] NCCL INFO GPU Direct RDMA Disabled for GPU 0 / HCA 0 (distance 4 > 0)
w:77:301 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0
)",
     Member::rdma, Verdict::staged, Cause::rdma_distance_over_limit, "unset NCCL_NET_GDR_LEVEL",
     "raise the limit", Cause::rdma_peermem_not_loaded},
    {"shared memory although the driver offers peer access",
     R"(box:900:950 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct
box:900:951 [1] NCCL INFO Channel 00 : 1[1] -> 0[0] via SHM/direct/direct
$ nvidia-smi topo -p2p r
 	GPU0	GPU1	
 GPU0	X	OK	
 GPU1	OK	X	
)",
     Member::p2p, Verdict::staged, Cause::p2p_shared_memory_transport,
     "NCCL_P2P_LEVEL=", "driver refuses", Cause::p2p_product_not_supported},
    {"a fabric manager of another version",
     R"(Nov 30 01:00:00 dgx nv-fabricmanager[1821]: fabric manager NVIDIA GPU driver interface version 550.54.14 don't match with driver version 550.54.15. Please update with matching NVIDIA driver package.
RuntimeError: CUDA error: system not yet initialized
)",
     Member::p2p, Verdict::impossible, Cause::machine_fabric_manager_absent, "nvidia-fabricmanager",
     "", Cause::machine_cross_socket},
    {"a container without adapters",
     "# ibv_devinfo\nNo IB devices found\n# ls /dev/infiniband\nls: cannot access "
     "'/dev/infiniband': No such file or directory\n",
     Member::rdma, Verdict::impossible, Cause::rdma_no_rdma_device, "/dev/infiniband", "",
     Cause::rdma_port_down},
    {"a port that no subnet manager has set up",
     "CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Initializing\n\t\tPhysical state: "
     "LinkUp\n\t\tSM lid: 0\n\t\tLink layer: InfiniBand\n",
     Member::rdma, Verdict::impossible, Cause::rdma_port_down, "subnet manager", "cable",
     Cause::none},
    {"counters of memory controllers alone",
     R"( Performance counter stats for 'system wide':

     1,234,567,890      uncore_imc_0/cas_count_read/

      10.001234567 seconds time elapsed
)",
     Member::host, Verdict::unknown, Cause::evidence_text_incomplete, "idle window", "",
     Cause::none},
};

TEST(PastedLogs, AreJudgedAsWhoKnowsWouldJudgeThem) {
  for (const Pasted& one : pasted) {
    const core::Explanation got = explain_texts({{"pasted", one.text}});
    const std::string shown = core::dump_json(report::explanation_json(got));
    const bool said = std::any_of(got.verdicts.begin(), got.verdicts.end(), [&](const auto& row) {
      return row.member == one.member && row.verdict == one.verdict &&
             (one.cause == Cause::none ||
              std::find(row.causes.begin(), row.causes.end(), one.cause) != row.causes.end()) &&
             row.remedy.find(one.remedy) != std::string::npos;
    });
    EXPECT_TRUE(said) << one.name << '\n' << shown;
    for (const core::ExplainedVerdict& row : got.verdicts) {
      if (one.never != Cause::none) {
        EXPECT_EQ(std::find(row.causes.begin(), row.causes.end(), one.never), row.causes.end())
            << one.name << '\n'
            << shown;
      }
      if (std::string_view(one.remedy_not).empty()) continue;
      EXPECT_EQ(row.remedy.find(one.remedy_not), std::string::npos) << one.name << '\n' << shown;
    }
  }
}

/// A text that is read and decides nothing says so, and not only `unknown`.
TEST(PastedLogs, WhatDecidesNothingIsSaidToDecideNothing) {
  const core::Explanation got = explain_texts({{"pasted", "GDS driver        | v2.17\n"}});
  ASSERT_FALSE(got.pieces.empty());
  EXPECT_TRUE(got.verdicts.empty());
  EXPECT_NE(report::explanation_text(got, report::Style{}).find("nothing in it shows"),
            std::string::npos);
}

/// On machines whose NVLink joins nodes, the number of a GPU is that of its own node.
TEST(PastedLogs, PairsOfTwoNodesAreNamedByRank) {
  const core::Explanation got =
      explain_texts({{"pasted",
                      "gb-01:10:20 [0] NCCL INFO Channel 00/0 : 0[0] -> 4[0] via P2P/MNNVL\n"
                      "gb-01:10:20 [0] NCCL INFO Channel 01/0 : 0[0] -> 8[0] via P2P/MNNVL\n"
                      "gb-01:10:20 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"}});
  std::vector<std::string> subjects;
  for (const core::ExplainedVerdict& row : got.verdicts) subjects.push_back(row.subject);
  std::sort(subjects.begin(), subjects.end());
  EXPECT_EQ(subjects, (std::vector<std::string>{"GPU0-GPU1", "rank0-rank4", "rank0-rank8"}));
}

}  // namespace
}  // namespace nobounce::test
