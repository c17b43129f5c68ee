// Texts of other versions, sizes, layouts and collectors than those of the cases.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <sstream>

#include "case_rig.hpp"
#include "judge/text_topology.hpp"

namespace nobounce::test {
namespace {

struct Said {
  Member member;
  Verdict verdict;
  std::string subject = {};
  std::string direction = {};
  Cause cause = Cause::none;
};

struct Variant {
  const char* name;
  std::string text;
  std::vector<Said> expected;
};

bool is_said(const core::Explanation& got, const Said& said) {
  return std::any_of(got.verdicts.begin(), got.verdicts.end(), [&](const auto& row) {
    return row.member == said.member && row.verdict == said.verdict &&
           (said.subject.empty() || row.subject == said.subject) &&
           (said.direction.empty() || row.direction == said.direction) &&
           (said.cause == Cause::none ||
            std::find(row.causes.begin(), row.causes.end(), said.cause) != row.causes.end());
  });
}

const std::string switch_stanza =
    "41:00.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0)\n"
    "\tCapabilities: [148 v1] Access Control Services\n"
    "\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+\n"
    "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- "
    "DirectTrans-\n";

std::vector<Variant> variants() {
  using M = Member;
  using V = Verdict;
  return {
      // NCCL by version.
      {"2.3: ranks without brackets",
       "h:1:1 [0] NCCL INFO Ring 00 : 0 -> 1 via P2P/common device\n"
       "h:1:1 [2] NCCL INFO Ring 00 : 2 -> 8 [send] via NET/IB/0/GDRDMA\n",
       {{M::p2p, V::direct, "", "forward"}, {M::rdma, V::direct, "GPU2-NET0", "send"}}},
      {"2.6: bus ids and the device of the process",
       "gpu1:10:20 [3] NCCL INFO Ring 02 : 3[68000] -> 4[6c000] via P2P/IPC\n"
       "gpu1:10:20 [3] NCCL INFO Ring 02 : 3[68000] -> 7[41000] via direct shared memory\n",
       {{M::p2p, V::direct, "GPU3-rank4"},
        {M::p2p, V::staged, "GPU3-rank7", "", Cause::p2p_shared_memory_transport}}},
      {"2.12: indirect over another GPU, and PXN",
       "n0:5:6 [1] NCCL INFO Channel 01/0 : 1[1] -> 6[6] via P2P/indirect/2[2]\n"
       "n0:5:6 [1] NCCL INFO Channel 01/0 : 1[1] -> 9[1] [send] via NET/IB/3(2)/GDRDMA\n",
       {{M::p2p, V::direct, "GPU1-GPU6"}, {M::rdma, V::direct, "GPU1-NET3", "send"}}},
      {"2.20: MNNVL, SHM by a copy engine, collnet",
       "n0:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 4[0] via P2P/MNNVL\n"
       "n0:5:6 [1] NCCL INFO Channel 00 : 1[1] -> 2[2] via SHM/CE/direct\n"
       "n0:5:6 [3] NCCL INFO CollNet 00/0 : 3 [send] via COLLNET/SHARP/0/GDRDMA\n",
       {{M::p2p, V::direct, "rank0-rank4"},
        {M::p2p, V::staged, "GPU1-GPU2"},
        {M::rdma, V::direct, "GPU3-NET0", "send"}}},
      {"2.26: over PCIe on a C2C machine",
       "NCCL version 2.26.2+cuda12.8\n"
       "gb:5:6 [0] NCCL INFO Channel 00/0 : 4[0] -> 0[0] [receive] via NET/IB/0/GDRDMA(PCI)\n",
       {{M::rdma, V::direct, "GPU0-NET0", "receive"}}},
      {"2.30: SHM/direct",
       "n:5:6 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct\n",
       {{M::p2p, V::staged, "GPU0-GPU1", "", Cause::p2p_shared_memory_transport}}},
      {"sends staged by the rule of GDR reads, receives direct",
       "n:5:6 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ib0:192.0.2.1<0>\n"
       "n:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0\n"
       "n:5:6 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA\n",
       {{M::rdma, V::staged, "GPU0-mlx5_0", "send", Cause::rdma_host_buffers},
        {M::rdma, V::direct, "GPU0-mlx5_0", "receive"}}},
      {"RCCL appends what a rank is",
       "n:5:6 [0] NCCL INFO RCCL version : 2.22.3-develop:1b2f9a\n"
       "n:5:6 [0] NCCL INFO Channel 03/0 : 0[0] -> 1[1] via P2P/IPC comm 0x55aa nRanks 08\n",
       {{M::p2p, V::direct, "GPU0-GPU1"}}},
      {"a distance with its version has a name",
       "NCCL version 2.22.3+cuda12.6\n"
       "n:5:6 [5] NCCL INFO GPU Direct RDMA Disabled for GPU 5b000 / HCA 0 (distance 7 > 4)\n",
       {{M::rdma, V::staged, "GPU5-NET0", "", Cause::rdma_distance_over_limit}}},
      {"a far adapter is refused, a near one used",
       "n:5:6 [5] NCCL INFO GPU Direct RDMA Disabled for GPU 5b000 / HCA 0 (distance 7 > 4)\n"
       "n:5:6 [5] NCCL INFO Channel 00/0 : 5[5] -> 13[5] [send] via NET/IB/5/GDRDMA\n",
       {{M::rdma, V::direct, "GPU5-NET5", "send"}}},
      {"a completion error in the words of 2.29",
       "n:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n"
       "[2026-01-02 03:04:05] n:5:9 [0] transport/net_ib.cc:2411 NCCL WARN NET/IB: Got completion "
       "from peer "
       "192.0.2.1<1234> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129 "
       "(Send) hca mlx5_0\n",
       {{M::rdma, V::broken, "GPU0-NET0", "send", Cause::rdma_retry_exceeded}}},
      {"an error elsewhere leaves a pair unproven",
       "n0:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n"
       "n1:7:6 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [send] via NET/IB/0/GDRDMA\n"
       "n1:7:9 [0] NCCL WARN NET/IB : Got completion from peer 192.0.2.1<1234> with error 4, "
       "opcode 1, len 0, vendor err 81 (Send)\n",
       {{M::rdma, V::broken, "n1:GPU0-NET0", "send"},
        {M::rdma, V::unknown, "n0:GPU0-NET0", "send"}}},
      {"a job that hangs",
       "[rank0]:[E ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation "
       "timeout: WorkNCCL(SeqNum=3, "
       "OpType=ALLREDUCE) ran for 600044 milliseconds before timing out.\n"
       "n:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n",
       {{M::p2p, V::unknown, "GPU0-GPU1", "", Cause::p2p_hang}}},
      {"the driver refuses a pair that NCCL wanted",
       "n:5:6 [0] transport/p2p.cc:275 NCCL WARN Cuda failure 'peer access is not supported "
       "between these two devices'\n",
       {{M::p2p, V::impossible}}},
      // Wrapped, cut, prefixed.
      {"a terminal broke lines before the end",
       "n:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0\n/GDRDMA\n"
       "n:5:6 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via\nP2P/CUMEM\n"
       "n:5:6 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDR\nDMA/Shared\n",
       {{M::rdma, V::direct, "GPU0-NET0", "send"},
        {M::p2p, V::direct, "GPU0-GPU1"},
        {M::rdma, V::direct, "GPU0-NET0", "receive"}}},
      {"a line that is cut off is no use",
       "n:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDR\n",
       {{M::rdma, V::unknown, "GPU0-NET0", "send", Cause::evidence_text_incomplete}}},
      {"collectors: docker's JSON, mpirun, ray, Kubernetes",
       "{\"log\":\"n:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -\\u003e 1[1] via "
       "P2P/CUMEM\\n\",\"stream\":\"stdout\"}\n"
       "[1,3]<stdout>:n:5:6 [2] NCCL INFO Channel 00/0 : 2[2] -> 3[3] via P2P/CUMEM\n"
       "(RayWorkerWrapper pid=991, ip=192.0.2.7) n:5:6 [4] NCCL INFO Channel 00/0 : 4[4] -> 5[5] "
       "via SHM/direct/direct\n"
       "2026-03-01T00:00:00.123456789Z stdout F n:5:6 [6] NCCL INFO Channel 00/0 : 6[6] -> 7[7] "
       "via P2P/IPC\n",
       {{M::p2p, V::direct, "GPU2-GPU3"},
        {M::p2p, V::staged, "GPU4-GPU5"},
        {M::p2p, V::direct, "GPU6-GPU7"}}},
      {"node names in other letters",
       "rechenknoten-\xC3\xBC:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n",
       {{M::p2p, V::direct, "GPU0-GPU1"}}},
      {"matrices behind a node's name and a task's number",
       "node7: \tGPU0\tGPU1\tmlx5_0\tCPU Affinity\nnode7: GPU0\t X \tSYS\tPHB\t0-15\nnode7: "
       "GPU1\tSYS\t X \tSYS\t16-31\n"
       "node7: mlx5_0\tPHB\tSYS\t X \n",
       {{M::p2p, V::unknown, "GPU0-GPU1", "", Cause::machine_cross_socket},
        {M::rdma, V::unknown, "GPU0-mlx5_0", "", Cause::machine_cross_host_bridge}}},
      // Matrices.
      {"sixteen GPUs, rows broken at the width of a terminal",
       [] {
         std::string text = "\t";
         for (int i = 0; i < 16; ++i) text += "GPU" + std::to_string(i) + "\t";
         text += "CPU Affinity\tNUMA Affinity\n";
         for (int i = 0; i < 16; ++i) {
           text += "GPU" + std::to_string(i);
           for (int j = 0; j < 16; ++j) {
             text += i == j ? "\t X " : i / 8 == j / 8 ? "\tNV6" : "\tSYS";
             if (j == 9) text += "\n";
           }
           text += "\t0-63\t0\n";
         }
         return text;
       }(),
       {{M::p2p, V::unknown, "GPU3-GPU7"},
        {M::p2p, V::unknown, "GPU3-GPU12", "", Cause::machine_cross_socket}}},
      {"a coherent machine: its distances say little",
       "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
       "GPU0\t X \tNV18\tSYS\t0-71\t0,3-9,11-17\t2\nGPU1\tNV18\t X "
       "\tSYS\t72-143\t1,18-24\t10\nNIC0\tSYS\tSYS\t X \t\t\t\n",
       {{M::rdma, V::unknown, "GPU0-NIC0", "", Cause::machine_coherent_link}}},
      {"SOC is what SYS was called",
       "\tGPU0\tGPU1\tmlx4_0\tCPU Affinity\nGPU0\t X \tSOC\tPHB\t0-7\nGPU1\tSOC\t X "
       "\tSOC\t8-15\nmlx4_0\tPHB\tSOC\t X \n",
       {{M::p2p, V::unknown, "GPU0-GPU1", "", Cause::machine_cross_socket}}},
      {"properties that refuse no copy",
       "$ nvidia-smi topo -p2p n\n \tGPU0\tGPU1\n GPU0\tX\tNS\n GPU1\tNS\tX\n",
       {{M::p2p, V::unknown, "GPU0-GPU1"}}},
      {"disabled by the registry",
       "$ nvidia-smi topo -p2p w\n \tGPU0\tGPU1\n GPU0\tX\tDR\n GPU1\tDR\tX\n",
       {{M::p2p, V::impossible, "GPU0-GPU1", "write", Cause::p2p_disabled_by_setting}}},
      {"amd-smi",
       "LINK TYPE TABLE:\n             0000:0c:00.0 0000:22:00.0\n0000:0c:00.0 SELF         "
       "XGMI\n0000:22:00.0 XGMI         SELF\n",
       {{M::p2p, V::unknown, "GPU0-GPU1"}}},
      // Measurements.
      {"a PCIe pair that gains a little and answers at once",
       "P2P Connectivity Matrix\n     D\\D     0     1\n     0\t     1     1\n     1\t     1     "
       "1\n"
       "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1 \n     0 900.00 "
       "20.00 \n     1 20.10 900.00 \n"
       "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D     0      1 \n   "
       "  0 900.00 25.00 \n     1 25.10 900.00 \n"
       "P2P=Disabled Latency Matrix (us)\n   GPU     0      1 \n     0   2.00 15.00 \n     1 15.00 "
       "2.00 \n"
       "P2P=Enabled Latency (P2P Writes) Matrix (us)\n   GPU     0      1 \n     0   2.00 1.20 \n  "
       "   1 1.20 2.00 \n",
       {{M::p2p, V::direct, "GPU0-GPU1"}, {M::p2p, V::direct, "GPU1-GPU0"}}},
      {"a pair that cannot is measured all the same",
       "P2P Connectivity Matrix\n     D\\D     0     1\n     0       1     0\n     1       0     "
       "1\n"
       "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1 \n     0 900.00 "
       "20.00 \n     1 20.10 900.00 \n"
       "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D     0      1 \n   "
       "  0 900.00 40.00 \n     1 40.10 900.00 \n",
       {{M::p2p, V::impossible, "GPU0-GPU1"}}},
      {"a version that compares no data",
       "nvbandwidth Version: v0.5\nRunning device_to_device_memcpy_read_ce.\nmemcpy CE GPU(row) <- "
       "GPU(column) bandwidth (GB/s)\n"
       "           0         1\n 0       N/A    276.07\n 1    276.36       N/A\n",
       {{M::p2p, V::unknown, "GPU1-GPU0"}}},
      {"simpleP2P whose data is right",
       "[simpleP2P] - Starting...\nChecking for multiple GPUs...\nCUDA-capable device count: 2\n"
       "> Peer access from NVIDIA A100 (GPU0) -> NVIDIA A100 (GPU1) : Yes\n"
       "Enabling peer access between GPU0 and GPU1...\ncudaMemcpyPeer / cudaMemcpy between GPU0 "
       "and GPU1: 230.10GB/s\n"
       "Run kernel on GPU1, taking source data from GPU0 and writing to GPU1...\nCopy data back to "
       "host from GPU0 and verify results...\n"
       "Disabling peer access...\nShutting down...\nTest passed\n",
       {{M::p2p, V::direct, "GPU0-GPU1", "both"}}},
      {"simpleP2P whose data is wrong",
       "[simpleP2P] - Starting...\nCUDA-capable device count: 2\nEnabling peer access between GPU0 "
       "and GPU1...\n"
       "Run kernel on GPU0, taking source data from GPU1 and writing to GPU0...\n"
       "Verification error @ element 1: val = 0.000000, ref = 4.000000\nTest failed!\n",
       {{M::p2p, V::broken, "GPU0-GPU1", "", Cause::p2p_wrong_data}}},
      {"perftest: managed memory is no GPU memory",
       "$ ib_write_bw -d mlx5_1 --use_cuda=0\ninitializing CUDA\nPicking device No. 0\n"
       "allocated GPU buffer of a 131072 address at 0x7f00 for type CUDA_MEM_MANAGED\n             "
       "       RDMA_Write BW Test\n"
       " Dual-port       : OFF          Device         : mlx5_1\n #bytes     #iterations    BW "
       "peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
       " 65536      5000             190.10             190.00             0.362\n",
       {{M::rdma, V::unknown, "mlx5_1", "", Cause::rdma_host_memory_test}}},
      {"perftest: a command line without GPU memory",
       "$ ib_write_bw -d mlx5_1 10.0.0.1\n                    RDMA_Write BW Test\n"
       " Dual-port       : OFF          Device         : mlx5_1\n #bytes     #iterations    BW "
       "peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
       " 65536      5000             190.10             190.00             0.362\n",
       {{M::rdma, V::unknown, "mlx5_1", "", Cause::rdma_host_memory_test}}},
      {"perftest: a command line with GPU memory, what it printed before its table cut out",
       "$ ib_write_bw -d mlx5_1 --use_cuda=0 10.0.0.1\n                    RDMA_Write BW Test\n"
       " Dual-port       : OFF          Device         : mlx5_1\n #bytes     #iterations    BW "
       "peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
       " 65536      5000             190.10             190.00             0.362\n",
       {{M::rdma, V::unknown, "mlx5_1", "", Cause::evidence_text_incomplete}}},
      {"perftest: from its header on, behind a sentence",
       "I ran ib_write_bw between our nodes:\n                    RDMA_Write BW Test\n"
       " Dual-port       : OFF          Device         : mlx5_1\n #bytes     #iterations    BW "
       "peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
       " 65536      5000             190.10             190.00             0.362\n",
       {{M::rdma, V::unknown, "mlx5_1", "", Cause::evidence_text_incomplete}}},
      {"perftest: no dma-buf",
       "$ ib_write_bw -d mlx5_1 --use_cuda=1 --use_cuda_dmabuf\nPicking device No. 1\n"
       "allocated GPU buffer address at 00007f pointer=0x7f\nCouldn't allocate MR with "
       "error=93\nfailed to create mr\n",
       {{M::rdma, V::impossible, "GPU1-mlx5_1", "", Cause::rdma_dmabuf_not_supported}}},
      {"perftest: the completion fails",
       "Completion with error at client\n  Failed status 4: wr_id 0 syndrom 0x51\nscnt=828, "
       "ccnt=700\n",
       {{M::rdma, V::broken, "", "", Cause::rdma_remote_access_error}}},
      // UCX.
      {"UCX: fragments in host memory",
       "+---------------------------+--------------------------------------------------------------"
       "-+\n"
       "| ucx inter-node cfg#3      | tagged message by ucp_tag_send*(multi) from cuda/GPU0        "
       "  |\n"
       "+---------------------------+---------------------------------------------+----------------"
       "-+\n"
       "|                   0..8184 | eager copy-in copy-out                      | "
       "rc_mlx5/mlx5_0:1 |\n"
       "|                 8185..inf | rendezvous cuda_copy, zero-copy read from remote, cuda_copy, "
       "frag host | rc_mlx5/mlx5_0:1 |\n",
       {{M::rdma, V::staged, "GPU0-mlx5_0", "", Cause::rdma_host_buffers}}},
      {"UCX: what it supposes of the far side",
       "+---------------------------+--------------------------------------------------------------"
       "+\n"
       "| ucx inter-node cfg#3      | tagged message by ucp_tag_send*(multi) from cuda/GPU0        "
       "|\n"
       "|                    1..inf | (?) rendezvous zero-copy read from remote | rc_mlx5/mlx5_0:1 "
       "|\n",
       {{M::rdma, V::unknown, "GPU0-mlx5_0", "", Cause::evidence_text_incomplete}}},
      {"UCX: cuda_ipc within a node",
       "| ucx intra-node cfg#3      | tagged message by ucp_tag_send*(multi) from cuda/GPU0 to "
       "cuda  |\n"
       "|                    0..inf | rendezvous zero-copy read from remote       | cuda_ipc/cuda  "
       "  |\n",
       {{M::p2p, V::direct, "GPU0-GPU"}}},
      {"UCX: managed memory",
       "| a inter-node cfg#1 | remote memory write by ucp_put* from cuda-managed to cuda-managed "
       "|\n| 0..inf | zero-copy | rc_mlx5/mlx5_0:1 |\n",
       {{M::rdma, V::unknown}}},
      // Storage.
      {"gdscheck: routes",
       " GDS release version: 1.16.1.26\n nvidia_fs version:  2.28 nvidia_fs minimum version: "
       "2.12\n DRIVER CONFIGURATION:\n"
       " NVMe               : nvfs, compat\n NFS                : compat\n CUFILE CONFIGURATION:\n "
       "properties.use_compat_mode : true\n",
       {{M::storage, V::unknown, "NVMe", "", Cause::evidence_capability_only}}},
      {"gdscheck: compatibility forced",
       " GDS release version: 1.7.2.10\n nvidia_fs version:  2.16\n NVMe               : "
       "Supported\n properties.use_compat_mode : true\n"
       " properties.force_compat_mode : true\n",
       {{M::storage, V::staged, "", "", Cause::storage_compat_forced}}},
      {"gdscheck: line ends lost",
       " NVMe : Unsupported NVMeOF : Unsupported SCSI : Unsupported NFS : Unsupported\n",
       {{M::storage, V::unknown, "", "", Cause::storage_driver_not_registered}}},
      {"cuFile: the file is refused in the end",
       " 01-01-2026 00:00:00:1 [pid=5 tid=5] ERROR  cufio-fs:268 Unsupported block device: "
       "/dev/dm-0\n"
       " 01-01-2026 00:00:00:1 [pid=5 tid=5] ERROR  cufio:340 cuFileHandleRegister error: internal "
       "error\n",
       {{M::storage, V::impossible, "/dev/dm-0", "", Cause::storage_block_device_unsupported}}},
      {"cuFile: no P2PDMA, and the module's path taken",
       " 26-02-2026 03:08:04:646 [pid=9 tid=9] INFO   cufio-drv:828 pci_p2pdma not supported "
       "errornum: 801 error:  CUDA_ERROR_NOT_SUPPORTED\n"
       " 26-02-2026 03:08:05:646 [pid=9 tid=9] DEBUG  cufio_core:2971 gds path taken with ODIRECT "
       "fd: 61\n",
       {{M::storage, V::direct, "process 9"}}},
      {"gds_stats tells both ways",
       "cuFile STATS VERSION : 3\nGPU 0 Read: bw=1.2 util(%)=9 n=100 posix=40 unalign=0 dr=0 err=0 "
       "MiB=9 Write: bw=0 util(%)=0 n=0 posix=0 unalign=0 err=0 MiB=0 BufRegister: n=1 err=0\n",
       {{M::storage, V::staged, "GPU0", "read", Cause::storage_compat_used}}},
      {"counters: one reading decides nothing",
       "IO stats: Enabled, peer IO stats: Disabled\nReads  : n=77 ok=77 err=0 readMiB=77 "
       "io_state_err=0\nWrites : n=0 ok=0 err=0 writeMiB=0 io_state_err=0\n",
       {{M::storage, V::unknown, "reads"}}},
      {"counters: the later reading is smaller",
       "# before\nReads  : n=77 ok=77 err=0\n# after\nReads  : n=5 ok=5 err=0\n",
       {{M::storage, V::unknown, "reads"}}},
      {"gdsio was told to go through the host",
       "IoType: READ XferType: CPU_GPU Threads: 4 DataSetSize: 1/1(KiB) IOSize: 512(KiB) "
       "Throughput: 3.0 GiB/sec, Avg_Latency: 3.0 usecs ops: 4 total_time 3.3 secs\n",
       {{M::storage, V::staged, "", "read", Cause::storage_host_path_requested}}},
      // The machine.
      {"redirecting ports of a switch, as a mail quotes them",
       "> " + switch_stanza,
       {{M::p2p, V::unknown, "41:00.0", "", Cause::machine_acs_redirect}}},
      {"control words, as setpci prints them",
       "$ sudo setpci -s 41:00.0 ECAP_ACS+6.w\n001d\n$ sudo setpci -s 42:00.0 ECAP_ACS+6.w\n0001\n",
       {{M::p2p, V::unknown, "41:00.0", "", Cause::machine_acs_redirect}}},
      {"the IOMMU's mode of a device",
       "$ cat /sys/bus/pci/devices/0000:41:00.0/iommu_group/type\nDMA-FQ\n",
       {{M::p2p, V::unknown, "0000:41:00.0", "", Cause::machine_iommu_translated}}},
      {"a command line without the kernel's words",
       "$ cat /proc/cmdline\nBOOT_IMAGE=/vmlinuz-6.8 root=/dev/sda1 intel_iommu=on iommu=pt\n$ "
       "dmesg | grep -i iommu\n"
       "[0.1] iommu: Default domain type: Passthrough (set via kernel command line)\n",
       {{M::p2p, V::unknown, "", "", Cause::evidence_capability_only}}},
      {"a link at half its width",
       "41:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 40GB] (rev a1)\n"
       "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM not supported\n\t\tLnkSta:\tSpeed "
       "16GT/s, Width x8\n",
       {{M::p2p, V::unknown, "41:00.0", "", Cause::machine_link_downtrained}}},
      {"the IOMMU refuses the processor's own graphics",
       "[    0.361089] DMAR: [DMA Read NO_PASID] Request device [00:02.0] fault addr 0x7cd80000 "
       "[fault reason 0x01] Present bit in root entry is clear\n",
       {{M::p2p, V::unknown, "00:02.0", "", Cause::machine_iommu_fault}}},
      {"the IOMMU refuses an adapter",
       "mlx5_core 0000:41:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x002f address=0x10 "
       "flags=0x0020]\n",
       {{M::rdma, V::broken, "0000:41:00.0", "", Cause::machine_iommu_fault}}},
      {"a module whose symbols are missing",
       "[  11.1] nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)\n",
       {{M::rdma, V::staged, "nvidia_peermem", "", Cause::rdma_peermem_load_failed}}},
      {"ibstat",
       "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: "
       "Down\n\t\tPhysical state: Disabled\n\t\tRate: 10\n",
       {{M::rdma, V::impossible, "mlx5_0", "", Cause::rdma_port_down}}},
      {"rdma link",
       "link mlx5_2/1 state DOWN physical_state DISABLED netdev ens3f0\n",
       {{M::rdma, V::impossible, "mlx5_2", "", Cause::rdma_port_down}}},
      {"peer memory, as grep prints it",
       "/sys/kernel/mm/memory_peers/nv_mem/num_alloc_mrs:4\n/sys/kernel/mm/memory_peers/nv_mem/"
       "num_reg_bytes:8388608\n/sys/kernel/mm/memory_peers/nv_mem/num_dereg_bytes:4194304\n",
       {{M::rdma, V::direct}}},
      {"peer memory, one reading: since the module was loaded",
       "/sys/kernel/mm/memory_peers/nv_mem/num_reg_bytes:8388608\n",
       {{M::rdma, V::unknown, "", "", Cause::evidence_text_incomplete}}},
      {"peer memory of two clients is no counter that moved",
       "/sys/kernel/mm/memory_peers/amdkfd/num_reg_bytes:0\n/sys/kernel/mm/memory_peers/nv_mem/"
       "num_reg_bytes:956301312\n",
       {{M::rdma, V::unknown}}},
      {"requests that all failed",
       "# before\nReads  : n=0 ok=0 err=0 readMiB=0 io_state_err=0\n# after\nReads  : n=100 ok=0 "
       "err=100 readMiB=0 io_state_err=100\n",
       {{M::storage, V::broken, "reads", "read", Cause::storage_cufile_refused}}},
      {"transfers of a pair, of which none succeeded",
       "# before\nReads  : n=0 ok=0 err=0 readMiB=0\n"
       "gpu peer peerrank p2pdist link gen numa np2p class\n"
       "0000:41:00.0 0000:42:00.0 1 4 4 4 0 0 nvme\n"
       "# after\nReads  : n=9 ok=0 err=9 readMiB=0\n"
       "gpu peer peerrank p2pdist link gen numa np2p class\n"
       "0000:41:00.0 0000:42:00.0 1 4 4 4 0 9 nvme\n",
       {{M::storage, V::broken, "reads", "read", Cause::storage_cufile_refused},
        {M::storage, V::unknown, "", "both", Cause::storage_cufile_refused}}},
      {"transfers of a pair",
       "# before\nReads  : n=0 ok=0 err=0 readMiB=0\n"
       "gpu peer peerrank p2pdist link gen numa np2p class\n"
       "0000:41:00.0 0000:42:00.0 1 4 4 4 0 0 nvme\n"
       "# after\nReads  : n=9 ok=9 err=0 readMiB=9\n"
       "gpu peer peerrank p2pdist link gen numa np2p class\n"
       "0000:41:00.0 0000:42:00.0 1 4 4 4 0 9 nvme\n",
       {{M::storage, V::direct, "41:00.0-42:00.0", "both"}}},
      {"requests of which nothing says that they succeeded",
       "# before\nReads  : n=1\n# after\nReads  : n=100\n",
       {{M::storage, V::unknown, "reads", "read", Cause::evidence_text_incomplete}}},
      {"requests without bytes",
       "# before\nReads  : n=0 ok=0 err=0 readMiB=7\n# after\nReads  : n=9 ok=9 err=0 readMiB=7\n",
       {{M::storage, V::unknown, "reads", "read", Cause::evidence_text_incomplete}}},
      {"readings of two nodes",
       "node1: Reads  : n=10 ok=10 err=0 readMiB=10\nnode2: Reads  : n=500 ok=500 err=0 "
       "readMiB=500\n",
       {{M::storage, V::unknown, "node1:reads", "read"},
        {M::storage, V::unknown, "node2:reads", "read"}}},
      {"readings of two nodes, each below its prompt",
       "[root@node1 ~]# cat /proc/driver/nvidia-fs/stats\nReads  : n=10 ok=10 err=0 readMiB=10\n"
       "[root@node2 ~]# cat /proc/driver/nvidia-fs/stats\nReads  : n=500 ok=500 err=0 "
       "readMiB=500\n",
       {{M::storage, V::unknown, "node1:reads", "read"},
        {M::storage, V::unknown, "node2:reads", "read"}}},
      {"readings of one node, below its prompts",
       "me@node1:~$ cat /proc/driver/nvidia-fs/stats\nReads  : n=10 ok=10 err=0 readMiB=10\n"
       "me@node1:~$ cat /proc/driver/nvidia-fs/stats\nReads  : n=500 ok=500 err=0 readMiB=500\n",
       {{M::storage, V::direct, "reads", "read"}}},
      {"readings of two nodes, asked over ssh",
       "$ ssh -q me@node1 cat /proc/driver/nvidia-fs/stats\nReads  : n=10 ok=10 err=0 readMiB=10\n"
       "$ ssh -q me@node2 cat /proc/driver/nvidia-fs/stats\nReads  : n=500 ok=500 err=0 "
       "readMiB=500\n",
       {{M::storage, V::unknown, "node2:reads", "read"}}},
      {"readings of two nodes, as dshbak prints them",
       "----------------\nnode1\n----------------\nnum_reg_bytes value: "
       "5\n----------------\nnode2\n"
       "----------------\nnum_reg_bytes value: 9\n",
       {{M::rdma, V::unknown, "node1:GPU-NIC"}, {M::rdma, V::unknown, "node2:GPU-NIC"}}},
      {"a request that failed",
       " 15-03-2025 10:11:12:123 [pid=4711 tid=4712] ERROR  cufio_core:712 nvfs_io_submit failed "
       "with -5\n",
       {{M::storage, V::impossible, "process 4711", "both", Cause::storage_cufile_refused}}},
      {"a direct path that was not taken",
       "[pid=1 tid=1] DEBUG cufio:99 gds path taken: no, falling back\n",
       {}},
      {"a direct path, and requests that failed",
       "[pid=9 tid=1] INFO  cufio:99 gds path taken with ODIRECT fd\n[pid=9 tid=1] ERROR  "
       "cufio_core:712 nvfs_io_submit failed with -5\n",
       {{M::storage, V::unknown, "process 9", "both", Cause::storage_cufile_refused}}},
      {"two nodes, of which one cannot",
       "a:5:6 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
       "b:7:8 [0] NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'\n"
       "a:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [receive] via NET/IB/0\n"
       "b:7:8 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [send] via NET/IB/0\n",
       {{M::rdma, V::staged, "a:GPU0-NET0", "receive", Cause::rdma_peermem_not_loaded},
        {M::rdma, V::staged, "b:GPU0-NET0", "send", Cause::rdma_host_buffers}}},
      {"a pair of one node, refused on another",
       "a:5:6 [1] NCCL INFO Channel 01/0 : 1[1] -> 0[0] via P2P/CUMEM\n"
       "b:5:6 [2] NCCL INFO P2P is disabled between NVLINK connected GPUs 1 and 0. \n"
       "b:5:6 [1] NCCL INFO comm 0x1 rank 1 nranks 2 cudaDev 1\n",
       {{M::p2p, V::direct, "a:GPU1-GPU0"},
        {M::p2p, V::impossible, "b:GPU1-GPU0", "", Cause::machine_nvlink_down}}},
      {"nodes without a name: ranks tell them apart",
       "NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n"
       "NCCL INFO Channel 00/0 : 8[0] -> 9[1] via SHM/direct/direct\n",
       {{M::p2p, V::direct, "rank0-rank1"}, {M::p2p, V::staged, "rank8-rank9"}}},
      {"communicators without a name: their ranks tell nothing",
       "NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n"
       "NCCL INFO Channel 00/0 : 0[4] -> 1[0] via SHM/direct/direct\n",
       {{M::p2p, V::direct, "GPU0-GPU1"}, {M::p2p, V::staged, "GPU4-GPU0"}}},
      {"PXN: the adapter is beside the GPU that the traffic goes through",
       "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV18\tPIX\tSYS\t0-31\t0\n"
       "GPU1\tNV18\t X \tSYS\tPIX\t32-63\t1\nNIC0\tPIX\tSYS\t X \tSYS\nNIC1\tSYS\tPIX\tSYS\t X \n\n"
       "NIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n\n"
       "n0:5:6 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB "
       "ib0:192.0.2.1<0>\n"
       "n0:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
       "n0:5:6 [0] NCCL INFO Channel 01/0 : 0[0] -> 9[1] [send] via NET/IB/1(1)/GDRDMA\n",
       {{M::rdma, V::direct, "GPU0-NIC1", "send"}}},
      {"sockets were chosen, and nothing that is shown leaves the node",
       "h:1:1 [0] NCCL INFO NET/IB : No device found.\nh:1:1 [0] NCCL INFO NET/Socket : Using "
       "[0]eth0:10.0.0.1<0>\n"
       "h:1:9 [0] NCCL INFO comm 0x55 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 1000 - Init START\n"
       "h:1:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n",
       {{M::rdma, V::unknown, "", "", Cause::evidence_text_incomplete}, {M::p2p, V::direct}}},
      {"the last line of a text may lack its end",
       "n:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0",
       {{M::rdma, V::unknown, "GPU0-NET0", "send", Cause::evidence_text_incomplete}}},
      {"an adapter's number that a terminal broke",
       "n:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/1\n2/GDRDMA\n",
       {{M::rdma, V::direct, "GPU0-NET12", "send"}}},
      {"a measurement without an iteration",
       "$ ib_write_bw -d mlx5_0 --use_cuda=0 -D 10\nallocated 131072 bytes of GPU buffer at 0x7f\n"
       "                    RDMA_Write BW Test\n Device         : mlx5_0\n"
       " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
       " 65536      0             0.00            0.00             0.000000\n",
       {}},
      {"a check that failed on one node and passed on another",
       "nodeA\ndir 0->1  writer read-back: 5eed1234 0badf00d\ndir 0->1  owner local read: 00000000 "
       "00000000\nnodeB\ndir 0->1  writer read-back: 5eed1234 0badf00d\ndir 0->1  owner local "
       "read: "
       "5eed1234 0badf00d\n",
       {{M::p2p, V::broken, "GPU0-GPU1", "", Cause::p2p_wrong_data}}},
      {"matrices of two machines are no difference",
       "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1\n     0 900.1  "
       "12.1\n"
       "     1  12.1 900.1\nUnidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0     "
       " 1\n"
       "     0 900.1  50.1\n     1  50.1 900.1\nUnidirectional P2P=Enabled Bandwidth (P2P Writes) "
       "Matrix (GB/s)\n   D\\D     0      1\n     0 900.1  50.2\n     1  50.2 900.1\n",
       {{M::p2p, V::unknown, "GPU0-GPU1", "", Cause::p2p_no_gain}}},
      {"a drive whose driver is not registered, and P2PDMA",
       "$ cat /proc/driver/nvidia-fs/modules\nlustre: 1\n$ mount\n/dev/nvme0n1p1 on /data type "
       "ext4 "
       "(rw,relatime,data=ordered)\n NVMe P2PDMA        : Supported\n NVMe               : "
       "Unsupported\n properties.use_compat_mode : true\n",
       {{M::storage, V::unknown, "/data", "both", Cause::storage_driver_not_registered}}},
      {"peer memory that nobody registered",
       "num_alloc_mrs value: 0\nnum_reg_bytes value: 0\n",
       {{M::rdma, V::unknown}}},
  };
}

TEST(CaptureVariants, AreExplained) {
  for (const Variant& variant : variants()) {
    const core::Explanation got = explain_texts({{"text", variant.text}});
    const bool may_be_direct =
        std::any_of(variant.expected.begin(), variant.expected.end(),
                    [](const Said& said) { return said.verdict == Verdict::direct; });
    for (const core::ExplainedVerdict& row : got.verdicts)
      EXPECT_TRUE(may_be_direct || row.verdict != Verdict::direct)
          << variant.name << ": " << row.subject;
    for (const Said& said : variant.expected) {
      EXPECT_TRUE(is_said(got, said))
          << variant.name << ": " << to_string(said.member) << ' ' << to_string(said.verdict) << ' '
          << said.subject << ' ' << said.direction << ' ' << to_string(said.cause) << '\n'
          << core::dump_json(report::explanation_json(got));
    }
  }
}

TEST(CaptureVariants, RcclIsToldWhatHelpsOnItsGpus) {
  const core::Explanation got = explain_texts(
      {{"text",
        "n:5:6 [0] NCCL INFO RCCL version : 2.22.3-HEAD:1b2f9a\n"
        "n:5:6 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
        "n:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0 comm 0x55aa nRanks "
        "16\n"}});
  EXPECT_TRUE(is_said(
      got, {Member::rdma, Verdict::staged, "GPU0-NET0", "send", Cause::rdma_peermem_not_loaded}));
  for (const core::ExplainedVerdict& row : got.verdicts) {
    EXPECT_EQ(row.remedy.find("nvidia"), std::string::npos) << row.remedy;
    EXPECT_NE(row.remedy.find("amdkfd"), std::string::npos) << row.remedy;
  }
}

TEST(CaptureVariants, AFailureAfterASuccessOfTheSampleIsSaid) {
  const std::string front =
      "[simpleP2P] - Starting...\nChecking for multiple GPUs...\nCUDA-capable device count: 2\n"
      "Enabling peer access between GPU0 and GPU1...\nRun kernel on GPU1, taking source data from "
      "GPU0 and writing to GPU1...\n";
  const std::string good = front + "Disabling peer access...\nShutting down...\nTest passed\n";
  const std::string bad =
      front + "Verification error @ element 1: val = 0.000000, ref = 4.000000\nTest failed!\n";
  EXPECT_TRUE(is_said(explain_texts({{"a", good}}), {Member::p2p, Verdict::direct, "GPU0-GPU1"}));
  for (const std::string& text : {good + bad, bad + good}) {
    const core::Explanation got = explain_texts({{"a", text}});
    EXPECT_TRUE(is_said(got, {Member::p2p, Verdict::broken, "GPU0-GPU1"}));
    for (const core::ExplainedVerdict& row : got.verdicts)
      EXPECT_NE(row.verdict, Verdict::direct) << row.subject;
  }
}

TEST(CaptureVariants, NothingInOrdinaryTextIsRecognised) {
  const std::string text =
      "Hello, I have a machine with two cards and it is slow.\n\nRegards\n0 1 2 3\nname : value\n"
      "https://example.org/a?b=c > d | e\nint main() { return 0; }\n";
  EXPECT_TRUE(explain_texts({{"mail", text}}).pieces.empty());
}

TEST(CaptureVariants, LinesKeepTheirNumbers) {
  const core::Explanation got =
      explain_texts({{"chat",
                      "> hi\r\n>\r\n> \x1b[1mn:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via "
                      "P2P/CUMEM\x1b[0m\r\n> bye\r\n"}});
  ASSERT_EQ(got.verdicts.size(), 1U);
  ASSERT_EQ(got.verdicts[0].evidence.size(), 1U);
  EXPECT_EQ(got.verdicts[0].evidence[0].line, 3U);
  EXPECT_EQ(got.verdicts[0].evidence[0].text,
            "n:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM");
  ASSERT_EQ(got.pieces.size(), 1U);
  EXPECT_EQ(got.pieces[0].first_line, 3U);
}

TEST(CaptureVariants, TwoReadingsInTwoFilesAreOneDifference) {
  const std::string before =
      "IO stats: Enabled, peer IO stats: Disabled\nReads  : n=10 ok=10 err=0\nWrites : n=0 ok=0 "
      "err=0\n";
  const std::string after =
      "IO stats: Enabled, peer IO stats: Disabled\nReads  : n=30 ok=30 err=0\nWrites : n=0 ok=0 "
      "err=0\n";
  // The names say the order.
  for (const bool turn : {false, true}) {
    std::vector<CaseText> texts = {{"before.txt", before}, {"after.txt", after}};
    if (turn) std::swap(texts[0], texts[1]);
    const core::Explanation got = explain_texts(texts);
    EXPECT_TRUE(is_said(got, {Member::storage, Verdict::direct, "reads", "read"}));
  }
}

TEST(CaptureVariants, ARunThatTheDriverNeverSawIsStagedWhereNoOtherRouteIs) {
  const std::string stats =
      "# before\nIO stats: Enabled, peer IO stats: Disabled\nReads  : n=7 ok=7 err=0\nWrites : n=0 "
      "ok=0 err=0\n"
      "# after\nIO stats: Enabled, peer IO stats: Disabled\nReads  : n=7 ok=7 err=0\nWrites : n=0 "
      "ok=0 err=0\n";
  const std::string run_of_it =
      "IoType: READ XferType: GPUD Threads: 8 DataSetSize: 1/1(KiB) IOSize: 1024(KiB) Throughput: "
      "6.1 GiB/sec, "
      "Avg_Latency: 1.0 usecs ops: 43008 total_time 6.8 secs\n";
  const std::string check =
      " NVMe P2PDMA        : Unsupported\n NVMe               : Supported\n "
      "properties.use_compat_mode : true\n";
  EXPECT_TRUE(
      is_said(explain_texts({{"a", stats}, {"b", run_of_it}}),
              {Member::storage, Verdict::unknown, "", "", Cause::storage_no_io_reached_driver}));
  EXPECT_TRUE(
      is_said(explain_texts({{"a", stats}, {"b", run_of_it}, {"c", check}}),
              {Member::storage, Verdict::staged, "", "", Cause::storage_no_io_reached_driver}));
}

TEST(CaptureVariants, ChunksOfAnySizeGiveTheSame) {
  const std::string text =
      text_of_file(cases_folder() / "bundle/near_nic_left_unused/nccl.txt") + switch_stanza;
  const std::string whole = core::dump_json(report::explanation_json(explain_texts({{"t", text}})));
  for (const std::size_t size : {1U, 7U, 64U, 1000U}) {
    captures::TextReader reader;
    reader.begin("t");
    for (std::size_t at = 0; at < text.size(); at += size)
      reader.feed(std::string_view(text).substr(at, size));
    reader.end();
    EXPECT_EQ(core::dump_json(report::explanation_json(judge::explain(reader.finish()))), whole)
        << size;
  }
}

/// Every line of every case, cut behind each word and each sign.
TEST(CaptureVariants, LinesCutAnywhereDoNoHarm) {
  std::set<std::string> cuts = {"GDS release version"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(cases_folder())) {
    if (entry.path().extension() != ".txt") continue;
    std::istringstream lines(text_of_file(entry.path()));
    for (std::string line; std::getline(lines, line);) {
      for (std::size_t at = line.find_first_of(" :=([,/"); at < line.size() && at < 200;
           at = line.find_first_of(" :=([,/", at + 1)) {
        cuts.insert(line.substr(0, at));
        cuts.insert(line.substr(0, at + 1));
      }
    }
  }
  ASSERT_GT(cuts.size(), 1000U);
  std::string text;
  for (const std::string& cut : cuts) text += cut + '\n';
  const core::Explanation got = explain_texts({{"cuts", text}});
  EXPECT_FALSE(got.pieces.empty());
  EXPECT_TRUE(core::parse_json(core::dump_json(report::explanation_json(got)), "cuts").ok());
}

TEST(CaptureVariants, WhatIsKeptIsBoundedInBytes) {
  captures::TextReader reader;
  reader.begin(std::string(4000, 'f'));  // each line that is kept names its file
  constexpr int lines = 40'000;
  for (int i = 0; i < lines; ++i)
    reader.feed("ibv_reg_mr failed: Bad address length=" + std::to_string(i) + "\n");
  reader.end();
  const core::Captures read = reader.finish();
  std::size_t bytes = 0;
  for (const core::CaptureSign& sign : read.signs) {
    for (const core::TextLine& line : sign.lines) bytes += line.file.size() + line.text.size();
  }
  EXPECT_GT(bytes, std::size_t{32} << 20);
  EXPECT_LT(bytes, std::size_t{129} << 20);
  EXPECT_LT(read.signs.size(), std::size_t{lines});
  ASSERT_FALSE(read.pieces.empty());
  const auto& facts = read.pieces.back().facts;
  EXPECT_TRUE(std::any_of(facts.begin(), facts.end(),
                          [](const auto& fact) { return fact.first == "further_signs_dropped"; }));
}

/// `lspci -tv` of one host bridge with a drive below each of its ports.
core::Captures drives_in_a_tree(unsigned drives) {
  std::string text;
  for (unsigned i = 0; i < drives; ++i) {
    char line[120];
    std::snprintf(line, sizeof line, "%s%02x.%u-[%02x]----00.0  Samsung NVMe SSD Controller\n",
                  i == 0            ? "-[0000:00]-+-"
                  : i + 1 == drives ? "           \\-"
                                    : "           +-",
                  i / 8 % 256, i % 8, i % 256);
    text += line;
  }
  return captures::read_text(text, "tree");
}

TEST(CaptureVariants, AllDevicesOfALargeTreeHaveTheirPlaces) {
  core::Captures read = drives_in_a_tree(200);
  const std::vector<core::TextTopology> shown = judge::text_topologies(read);
  ASSERT_EQ(shown.size(), 1U);
  ASSERT_EQ(shown[0].devices.size(), 200U);
  EXPECT_EQ(shown[0].level(3, 199), "PHB");
  const core::Explanation explained = judge::explain(std::move(read));
  EXPECT_EQ(report::explanation_text(explained, report::Style{}).find("than are kept"),
            std::string::npos);
}

TEST(CaptureVariants, WhatATreeHasMoreThanIsKeptIsSaid) {
  core::Captures read = drives_in_a_tree(1100);
  const std::vector<core::TextTopology> shown = judge::text_topologies(read);
  ASSERT_EQ(shown.size(), 1U);
  EXPECT_TRUE(std::any_of(shown[0].notes.begin(), shown[0].notes.end(), [](const auto& note) {
    return note.find("devices more") != std::string::npos;
  }));
  const core::Explanation explained = judge::explain(std::move(read));
  EXPECT_NE(report::explanation_text(explained, report::Style{}).find("more devices ("),
            std::string::npos)
      << report::explanation_text(explained, report::Style{});
}

TEST(CaptureVariants, BytesThatAreNoTextDoNoHarm) {
  std::string text =
      "\xff\xfe GPU0\xff\nn:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/\xff\n";
  text += std::string(200000, 'x') + "\n" + std::string(100, '\0') + "\n";
  const core::Explanation got = explain_texts({{"t", text}});
  EXPECT_TRUE(core::parse_json(core::dump_json(report::explanation_json(got)), "t").ok());
}

}  // namespace
}  // namespace nobounce::test
