// From findings to rows with a verdict, and from rows to an exit code. Pure.
#pragma once

#include <string>
#include <vector>

#include <nobounce/finding.hpp>
#include "report/check_report.hpp"

namespace nobounce::cli {

/// What a row is about.
struct StorageRowSubject {
  std::string medium;  ///< `drive:nvme0n1`
  std::string gpu;     ///< `gpu:0`
  std::string path;
  bool writing = false;
};

/// Unmet: `staged` (the bytes can still go through host memory). Unknown: `unknown`. Else `direct`
/// or `degraded`.
[[nodiscard]] report::CheckRow storage_row(const StorageRowSubject& subject,
                                           std::vector<Finding> findings,
                                           std::vector<Cause> degraded_causes);

/// A path that is not there and cannot be read, or lies in a directory that is not there:
/// `impossible`.
[[nodiscard]] report::CheckRow missing_path_row(const StorageRowSubject& subject,
                                                std::string observed);

/// The same for an ordered pair of GPUs.
[[nodiscard]] report::CheckRow peer_row(const std::string& source, const std::string& target,
                                        std::vector<Finding> findings,
                                        std::vector<Cause> degraded_causes);

/// The same for what a stream or a kernel of a GPU orders.
[[nodiscard]] report::CheckRow async_row(const std::string& issuer, const std::string& gpu,
                                         std::vector<Finding> findings,
                                         std::vector<Cause> degraded_causes);

/// The same for a GPU and an adapter that is to reach its memory, in both directions.
[[nodiscard]] report::CheckRow rdma_row(const std::string& gpu, const std::string& adapter,
                                        std::vector<Finding> findings,
                                        std::vector<Cause> degraded_causes);

/// The one row of a machine without any GPU: `impossible`.
[[nodiscard]] report::CheckRow no_gpu_row();

/// The worst row's: 1 broken or impossible, 3 unmet, staged or degraded, 4 unknown, 0.
[[nodiscard]] int check_exit_code(const std::vector<report::CheckRow>& rows);

}  // namespace nobounce::cli
