// What each witness can tell apart, as one table.
#include "evidence/witness.hpp"

#include <array>

namespace nobounce::evidence {

namespace {

constexpr std::array<WitnessRow, witness_count> table{{
    {WitnessKind::cpu_time, false, false, false, false,
     "a copy engine stages without the CPU, so no CPU time does not exclude staging"},
    {WitnessKind::host_dram, true, true, true, true,
     "staged bytes are written to and read from host DRAM; direct ones are not"},
    {WitnessKind::gpu_pcie, false, false, true, true,
     "a payload over NVLink leaves PCIe still; over PCIe it passes once, staged or not"},
    {WitnessKind::gpu_nvlink, false, false, true, true,
     "a payload that NVLink did not carry went another way"},
    {WitnessKind::nvidia_fs, false, false, false, true,
     "it counts operations of every process, and belongs to the mover's own driver"},
    {WitnessKind::cufile, false, false, false, false,
     "it counts requests, and belongs to the mover's own library"},
    {WitnessKind::host_copies, false, false, false, false,
     "many prove staging; none prove nothing, since libraries and drivers stage behind one call"},
    {WitnessKind::cpu_touched, false, false, false, false,
     "the CPU's part of the copies that the session makes itself"},
    {WitnessKind::drive, false, false, false, true,
     "the drive gives its bytes once, to whoever takes them; none mean that a cache gave them"},
    {WitnessKind::page_cache, false, false, false, true,
     "buffered staging fills it; staging with O_DIRECT does not"},
    {WitnessKind::seam_calls, false, false, false, false,
     "the cost of a transfer in calls; it tells nothing of the way the bytes took"},
}};

}  // namespace

std::string_view to_string(WitnessKind kind) {
  switch (kind) {
    case WitnessKind::cpu_time:
      return "cpu_time";
    case WitnessKind::host_dram:
      return "host_dram";
    case WitnessKind::gpu_pcie:
      return "gpu_pcie";
    case WitnessKind::gpu_nvlink:
      return "gpu_nvlink";
    case WitnessKind::nvidia_fs:
      return "nvidia_fs";
    case WitnessKind::cufile:
      return "cufile";
    case WitnessKind::host_copies:
      return "host_copies";
    case WitnessKind::cpu_touched:
      return "cpu_touched";
    case WitnessKind::drive:
      return "drive";
    case WitnessKind::page_cache:
      return "page_cache";
    case WitnessKind::seam_calls:
      return "seam_calls";
  }
  return "unknown";
}

const WitnessRow& witness_row(WitnessKind kind) {
  return table[static_cast<std::size_t>(kind)];
}

bool separates(WitnessKind kind, Member member, Link link) {
  const WitnessRow& row = witness_row(kind);
  // Between two machines this end's counters see this end: its host DRAM tells, as for a drive.
  if (member == Member::rdma)
    return kind == WitnessKind::host_dram && row.direct_from_staged_storage;
  if (member == Member::storage) return row.direct_from_staged_storage;
  if (member != Member::p2p) return false;
  return link == Link::nvlink ? row.direct_from_staged_peer_nvlink
                              : row.direct_from_staged_peer_pcie;
}

WitnessValue moved(const WitnessValue& before, const WitnessValue& after) {
  if (!before.value.has_value()) return before;
  if (!after.value.has_value()) return after;
  if (before.gaps != after.gaps) {
    return WitnessValue::none(Cause::evidence_gpu_counters_gap,
                              "the 32-bit counters may have wrapped between two readings");
  }
  return WitnessValue::counted(*after.value - *before.value);
}

}  // namespace nobounce::evidence
