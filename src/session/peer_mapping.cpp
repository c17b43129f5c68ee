// Session::map_peer.
#include "session/pairs.hpp"

namespace nobounce {

Result<DevicePointer> Session::map_peer(const Region& region, std::uint32_t gpu) {
  const std::string attempted = "map memory for kernels of gpu:" + std::to_string(gpu);
  if (state_->forked()) return session::forked_error(attempted);
  const Place place = region.place();
  if (!std::holds_alternative<GpuMemory>(place) || gpu >= state_->machine.gpus.size()) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = attempted,
                 .detail = "a region of GPU memory and a GPU of this machine are needed"};
  }
  if (state_->providers.peer == nullptr) return *state_->cuda_error;
  return state_->providers.peer->map_for(core::RegionView{place, region.kind()}, gpu);
}

}  // namespace nobounce
