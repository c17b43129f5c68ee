// What a GPU's mode (split, shared, integrated) and confidential computing forbid. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include <nobounce/finding.hpp>
#include <nobounce/machine.hpp>

namespace nobounce::judge {

/// For a pair of GPUs: MIG instances have no peer access (MIG user guide), vGPUs have it over
/// NVLink only (NVIDIA AI Enterprise, "Peer-to-Peer CUDA transfers"), and confidential computing
/// leaves NVLink at most (protected PCIe mode; release notes of NVIDIA confidential computing).
void judge_pair_mode(const Machine& machine, std::uint32_t source, std::uint32_t target,
                     bool by_nvlink, std::vector<Finding>& findings);

/// For storage and one GPU: an integrated GPU has no memory of its own that a drive could reach
/// instead of host DRAM; under confidential computing devices do not reach each other.
void judge_storage_mode(const Machine& machine, std::uint32_t gpu, std::vector<Finding>& findings);

}  // namespace nobounce::judge
