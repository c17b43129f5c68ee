// Who carries out what running kernels ask for. The session makes one for a place; async brings the
// requests.
#pragma once

#include <cstddef>
#include <cstdint>

#include <nobounce/device/queue.hpp>

namespace nobounce::core {

/// The end of a kernel's request.
struct KernelAnswer {
  std::uint16_t code = device::code_ok;
  std::uint64_t arrived_bytes = 0;
  std::uint32_t system_calls = 0;
};

class KernelConsumer {
 public:
  virtual ~KernelConsumer() = default;
  /// Carries it out at once, on the calling worker; any number of workers may call at a time. Bytes
  /// go to or come from `buffer`. While kernels run nothing may be allocated, registered or loaded
  /// with the driver, which could wait for them.
  [[nodiscard]] virtual KernelAnswer carry_out(const device::Request& request, std::byte* buffer,
                                               std::uint64_t buffer_bytes) = 0;
};

}  // namespace nobounce::core
