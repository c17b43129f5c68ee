// What to do about a row of text, and for an unknown one, what would decide.
#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "core/remedy_risk.hpp"
#include "judge/text_advice.hpp"
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
  if (row.status < 0)
    return "a run of the job that ends without errors, with the same lines of this path";
  const std::vector<Cause>& causes = row.verdict.causes;
  if (row.format == "perftest" && !text.amd() &&
      std::find(causes.begin(), causes.end(), Cause::evidence_text_incomplete) != causes.end())
    return "the output from its command line on; or a run that asks for GPU memory: ib_write_bw "
           "-d " +
           (row.target.empty() ? std::string("DEVICE") : row.target) +
           " --use_cuda=0 at both ends, with a perftest that was built with CUDA";
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
      return "the same counters over an idle window, over a run that is forced through host memory "
             "and over the run, of a known number of bytes each: nobounce prove makes such rows";
  }
}

/// What less is safe afterwards, where the remedy says nothing of it.
std::string risk_of(Cause cause, const std::string& remedy) {
  for (const core::RemedyRisk& risk : core::risks_of(cause)) {
    if (!risk.gives_up.empty() && risk.lasting != core::Lasting::this_run &&
        remedy.find(risk.way) != std::string::npos)
      return " (with " + std::string(risk.way) + " " + std::string(risk.gives_up) + ")";
  }
  return {};
}

std::string remedy_for(const TextCase& text, const TextRow& row, Cause cause) {
  const std::string advice = text_advice(text, row, cause);
  if (!advice.empty()) return advice;
  std::string remedy(cause_row(cause).remedy);
  if (text.amd()) {
    for (const std::string_view word : {"nvidia", "NVIDIA", "CUDA", "--use_cuda", "GeForce"}) {
      if (remedy.find(word) != std::string::npos)
        return "nobounce explain " + std::string(to_string(cause)) +
               " says what to look for; its commands are those of NVIDIA's GPUs";
    }
  }
  return remedy + risk_of(cause, remedy);
}

bool is_one_of(Cause cause, std::initializer_list<Cause> list) {
  return std::find(list.begin(), list.end(), cause) != list.end();
}

/// Says that bytes are staged or fail and not why: of use where nothing else is known.
bool says_no_reason(Cause cause) {
  return is_one_of(cause, {Cause::rdma_host_buffers, Cause::p2p_shared_memory_transport,
                           Cause::rdma_socket_transport, Cause::rdma_registration_failed,
                           Cause::storage_compat_used, Cause::storage_compat_refused,
                           Cause::evidence_capability_only, Cause::evidence_text_incomplete});
}

/// The advice for one cause of the row is that for another, too.
bool is_covered(const std::vector<Cause>& causes, Cause cause) {
  const auto has = [&causes](Cause other) {
    return std::find(causes.begin(), causes.end(), other) != causes.end();
  };
  const bool far =
      cause == Cause::machine_cross_socket || cause == Cause::machine_cross_host_bridge;
  return (far && (has(Cause::rdma_distance_over_limit) || has(Cause::rdma_wrong_nic) ||
                  has(Cause::p2p_shared_memory_transport))) ||
         (cause == Cause::machine_iommu_fault && has(Cause::machine_iommu_translated)) ||
         (cause == Cause::rdma_host_buffers && has(Cause::rdma_registration_failed)) ||
         (cause == Cause::async_cpu_proxy && has(Cause::async_doorbell_unmapped));
}

}  // namespace

std::string text_remedy(const TextCase& text, const TextRow& row) {
  if (row.verdict.verdict == Verdict::direct) return {};
  const std::vector<Cause>& causes = row.verdict.causes;
  std::vector<std::string> remedies;
  const auto put = [&](Cause cause) {
    std::string remedy = remedy_for(text, row, cause);
    if (!remedy.empty() && std::find(remedies.begin(), remedies.end(), remedy) == remedies.end())
      remedies.push_back(std::move(remedy));
  };
  // What a machine needs first; then what was seen of it; then what a guest cannot see.
  const auto turn_of = [](Cause cause) {
    if (cause == Cause::machine_guest_topology_hidden) return 2;
    return is_one_of(cause, {Cause::p2p_slower_than_staged, Cause::p2p_no_gain}) ? 1 : 0;
  };
  for (int turn = 0; turn < 3; ++turn) {
    for (const Cause cause : causes) {
      if (!says_no_reason(cause) && !is_covered(causes, cause) && turn_of(cause) == turn)
        put(cause);
    }
  }
  if (remedies.empty()) {
    for (const Cause cause : causes) {
      if (!is_one_of(cause, {Cause::evidence_capability_only, Cause::evidence_text_incomplete}) &&
          !is_covered(causes, cause))
        put(cause);
    }
  }
  if (remedies.empty() && row.verdict.verdict != Verdict::unknown) {
    std::string advice = text_advice(text, row, Cause::none);
    if (!advice.empty()) remedies.push_back(std::move(advice));
  }
  std::string joined;
  for (const std::string& remedy : remedies) joined += (joined.empty() ? "" : ". ") + remedy;
  if (row.verdict.verdict != Verdict::unknown) return joined;
  return (joined.empty() ? "" : joined + ". ") + "What would decide: " + what_decides(text, row);
}

}  // namespace nobounce::judge
