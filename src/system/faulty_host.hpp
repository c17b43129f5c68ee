// FaultyHost: fails the n-th call of any other Host, for the tests that no error path leaks, hangs
// or lies.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "system/host.hpp"

namespace nobounce::system {

struct FaultPlan {
  std::uint64_t fail_call = 0;  ///< which counted call fails, from 1; 0: none
  bool fail_all_after = false;  ///< every counted call from fail_call on fails
  std::string
      only;  ///< count only calls whose name starts with this ("cuda.", "storage.read"); empty: all
  int cuda_code = cuda::error_unknown;
  int nvml_code = 999;
  int cufile_code = cufile::error_internal;
  int errno_value = 5;  ///< EIO
};

/// Wraps `inner`, which must outlive it. Calls that cannot fail (clock, frees, closes, wake,
/// notify) are passed through uncounted. Names are `part.method`. Thread-safe.
class FaultyHost : public Host {
 public:
  static std::unique_ptr<FaultyHost> wrap(Host& inner, FaultPlan plan);
  [[nodiscard]] virtual std::uint64_t calls() const = 0;  ///< counted so far
  [[nodiscard]] virtual std::string failed_call()
      const = 0;  ///< name of the (first) call that was failed, or empty
};

}  // namespace nobounce::system
