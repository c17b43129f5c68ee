// Text about who issues a transfer and who rings the doorbell.
#include "judge/text_case.hpp"

namespace nobounce::judge {

void judge_text_async(TextCase& text) {
  using core::SignKind;
  const auto leave = [&text](SignKind kind, Verdict verdict, Cause cause, const char* reason) {
    const core::CaptureSign* sign = text.first(kind);
    if (sign == nullptr) return;
    TextRow& row = text.add(Member::async, verdict, "GPU", "both", reason);
    if (verdict == Verdict::unknown) row.weight = RowWeight::pair_only;
    blame(row, cause);
    cite(row, *sign);
    if (kind != SignKind::cpu_rings) return;
    if (const core::CaptureSign* unmapped = text.first(SignKind::doorbell_unmapped)) {
      blame(row, Cause::async_doorbell_unmapped);
      cite(row, *unmapped);
    }
  };
  leave(SignKind::cpu_rings, Verdict::degraded, Cause::async_cpu_proxy,
        "a thread of the CPU rings the adapter's doorbell for the GPU");
  leave(SignKind::device_fallback, Verdict::degraded, Cause::async_host_fallback,
        "the library left the mode in which the GPU issues transfers");
  leave(SignKind::memops_absent, Verdict::unknown, Cause::async_stream_memory_ops_unavailable,
        "stream memory operations are not available; what is used instead is not shown");
  if (!text.any(SignKind::cpu_rings))
    leave(SignKind::doorbell_unmapped, Verdict::unknown, Cause::async_doorbell_unmapped,
          "the GPU cannot reach the doorbell; which path is taken instead is not shown");
  for (const core::CaptureSign* sign : text.all(SignKind::graph_shown)) {
    if (sign->word != "nic handler" || text.any(SignKind::cpu_rings)) continue;
    TextRow& row =
        text.add(Member::async, Verdict::unknown, "GPU", "both",
                 "the library means to let the GPU ring the doorbell; no transfer is shown");
    row.weight = RowWeight::pair_only;
    blame(row, Cause::evidence_capability_only);
    cite(row, *sign);
    return;
  }
}

}  // namespace nobounce::judge
