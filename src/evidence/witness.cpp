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
  }
  return "unknown";
}

const WitnessRow& witness_row(WitnessKind kind) {
  return table[static_cast<std::size_t>(kind)];
}

}  // namespace nobounce::evidence
