// Peer: GPU memory -> another GPU's memory by a copy engine that writes the peer's memory itself
// (direct).
#pragma once

#include <cstdint>
#include <memory>

#include <nobounce/machine.hpp>
#include <nobounce/result.hpp>
#include <nobounce/units.hpp>
#include "core/provider.hpp"
#include "system/cuda_contexts.hpp"
#include "system/host.hpp"

namespace nobounce::provider {

/// Never issues a copy without access, since the driver would stage it in silence.
class PeerProvider : public core::Provider {
 public:
  /// Gets all access that a copy needs, both ways, and moves nothing. Each operation does it by
  /// itself; asking before shows a refusal while another path can still be chosen.
  [[nodiscard]] virtual Status open(const GpuMemory& source, const GpuMemory& target) = 0;

  /// The pointer by which a kernel on `gpu` may load and store a region of any GPU. Valid as long
  /// as the memory is, and as nobody disables the access.
  [[nodiscard]] virtual Result<DevicePointer> map_for(const core::RegionView& region,
                                                      std::uint32_t gpu) = 0;
};

/// All references must outlive the provider. Thread-safe.
[[nodiscard]] std::unique_ptr<PeerProvider> make_peer_provider(system::Host& host,
                                                               system::CudaContexts& contexts,
                                                               const Machine& machine);

}  // namespace nobounce::provider
