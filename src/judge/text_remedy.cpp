// What to do about a row of text, and for an unknown one, what would decide.
#include <algorithm>

#include "judge/text_case.hpp"

namespace nobounce::judge {

namespace {

/// `gpu:0,gpu:1` for a pair that a command can name.
std::string pair_of_command(const TextRow& row) {
  const auto number = [](const std::string& name) {
    return text_is_gpu(name) ? name.substr(3) : std::string();
  };
  const std::string a = number(row.source);
  const std::string b = number(row.target);
  return a.empty() || b.empty() ? "" : "gpu:" + a + ",gpu:" + b;
}

std::string what_decides(const TextCase& text, const TextRow& row) {
  if (text.amd() && row.verdict.member == Member::p2p)
    return "the `via` lines of a run with NCCL_DEBUG=INFO; or a test that writes through the "
           "peer's "
           "window and reads at its owner";
  if (text.amd() && row.verdict.member == Member::rdma)
    return "the `via NET` lines of a run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET (with "
           "/GDRDMA or without); or ib_write_bw -d DEVICE --use_rocm=GPU between two nodes, with "
           "its result";
  switch (row.verdict.member) {
    case Member::p2p: {
      const std::string pair = pair_of_command(row);
      return "on the machine: nobounce prove" + (pair.empty() ? "" : " --pair " + pair) +
             "; or the `via` lines of a run with NCCL_DEBUG=INFO; or p2pBandwidthLatencyTest with "
             "its "
             "matrices for peer access off and on";
    }
    case Member::rdma:
      return "the `via NET` lines of a run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET (with "
             "/GDRDMA or without); or ib_write_bw -d DEVICE --use_cuda=GPU between two nodes, with "
             "its "
             "result";
    case Member::storage:
      return "cat /proc/driver/nvidia-fs/stats before and after a run (first: echo 1 | sudo tee "
             "/sys/module/nvidia_fs/parameters/rw_stats_enabled); or nobounce prove --path "
             "DIRECTORY on "
             "the machine";
    case Member::async:
      return "the library's messages at its info level, with the transport and the handler that it "
             "chose";
    default:
      return "a run beside a counter that moves";
  }
}

/// The ports that the evidence names go into the command.
std::string with_ports(const TextCase& text, std::string_view remedy) {
  std::string filled(remedy);
  std::string ports;
  std::size_t count = 0;
  std::size_t looked_at = 0;
  for (const core::CaptureSign* sign : text.all(core::SignKind::acs_redirect)) {
    if (count == 8 || ++looked_at > 64) break;
    if (sign->source.empty()) continue;
    ++count;
    ports += (ports.empty() ? "" : " ") + sign->source;
  }
  if (ports.empty()) return filled;
  return "for port in " + ports +
         "; do sudo setpci -s $port ECAP_ACS+6.w=0:2c; done (until reboot; not where virtual "
         "machines "
         "need the isolation)";
}

/// What the remedies name is NVIDIA's; on AMD's GPUs the same is done otherwise.
std::string amd_remedy(Cause cause) {
  switch (cause) {
    case Cause::rdma_peermem_not_loaded:
    case Cause::rdma_peermem_load_failed:
    case Cause::rdma_peermem_unseen_by_library:
      return "look for amdkfd in /sys/kernel/mm/memory_peers (the peer-memory client of amdgpu, "
             "with "
             "MLNX_OFED or DOCA-OFED); or, where the kernel exports GPU memory as dma-buf, run "
             "with "
             "NCCL_DMABUF_ENABLE=1";
    case Cause::rdma_dmabuf_not_supported:
      return "use a kernel and rdma-core with dma-buf for RDMA, or the peer-memory client of "
             "amdgpu";
    case Cause::rdma_registration_failed:
      return "check the peer-memory client of amdgpu or dma-buf, the size of the GPU's window and "
             "ulimit -l; the errno says which";
    case Cause::rdma_host_memory_test:
      return "measure with GPU memory: ib_write_bw --use_rocm=0";
    case Cause::machine_nvlink_down:
      return "rocm-smi --showtopo and the kernel's messages of amdgpu show the links of the pair";
    default:
      return {};
  }
}

std::string remedy_for(const TextCase& text, Cause cause) {
  if (cause == Cause::machine_acs_redirect) return with_ports(text, cause_row(cause).remedy);
  std::string remedy(cause_row(cause).remedy);
  if (!text.amd()) return remedy;
  const std::string own = amd_remedy(cause);
  if (!own.empty()) return own;
  for (const std::string_view word : {"nvidia", "NVIDIA", "CUDA", "--use_cuda", "GeForce"}) {
    if (remedy.find(word) != std::string::npos)
      return "nobounce explain " + std::string(to_string(cause)) +
             " says what to look for; its commands are those of NVIDIA's GPUs";
  }
  return remedy;
}

}  // namespace

std::string text_remedy(const TextCase& text, const TextRow& row) {
  const bool unknown = row.verdict.verdict == Verdict::unknown;
  std::string remedy;
  // The most telling cause first: that a path is staged says less than why.
  std::vector<Cause> causes = row.verdict.causes;
  std::stable_partition(causes.begin(), causes.end(), [](Cause cause) {
    return cause != Cause::rdma_host_buffers && cause != Cause::p2p_shared_memory_transport &&
           cause != Cause::rdma_remote_access_error && cause != Cause::storage_compat_used &&
           cause != Cause::storage_compat_refused && cause != Cause::machine_guest_topology_hidden;
  });
  for (const Cause cause : causes) {
    if (cause == Cause::evidence_capability_only || cause == Cause::evidence_text_incomplete)
      continue;
    remedy = remedy_for(text, cause);
    break;
  }
  if (row.verdict.verdict == Verdict::direct) return {};
  if (!unknown) return remedy;
  return (remedy.empty() ? "" : remedy + ". ") + "What would decide: " + what_decides(text, row);
}

}  // namespace nobounce::judge
