// NVMe: drives that this process owns <-> GPU memory through its window, and <-> host memory;
// direct only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/provider.hpp"
#include "provider/nvme/drive.hpp"
#include "system/host.hpp"

namespace nobounce::provider {

struct OwnedDriveFacts {
  std::uint64_t length_bytes = 0;
  std::uint32_t block_bytes = 512;
  std::string model;
  std::uint32_t name_space = 1;
  std::uint64_t transfer_bytes_max = 0;  ///< of one command
};

/// A Provider of drives that were taken, by their number in the machine. Thread-safe.
class NvmeProvider : public core::Provider {
 public:
  /// Opens the function and brings its controller up. Whether the drive may be taken is judged
  /// before. Causes nvme.not_vfio, nvme.controller_fatal, nvme.timeout.
  [[nodiscard]] virtual Result<OwnedDriveFacts> take(std::uint32_t drive, std::string_view bdf) = 0;
  /// Shuts the drive down and gives the function back. No operation on it may be under way.
  virtual void release(std::uint32_t drive) = 0;

  /// Maps a region of GPU memory for a drive; does nothing where it is mapped already. Until then
  /// the pair moves nothing. Cause nvme.peer_unmapped.
  [[nodiscard]] virtual Status map(std::uint32_t drive, const core::RegionView& region) = 0;
  /// Where mapped GPU memory lies for the drive. Cause nvme.peer_unmapped.
  [[nodiscard]] virtual Result<Iova> mapped_at(std::uint32_t drive, const GpuMemory& memory) = 0;

  /// A pair of queues in memory of others, who ring for it themselves; `id` is chosen here. `lost`
  /// as for Drive::create_guest.
  [[nodiscard]] virtual Result<nvme::GuestDoorbells> create_queue(
      std::uint32_t drive, const nvme::Controller::GuestQueue& queue,
      std::function<void()> lost) = 0;
  [[nodiscard]] virtual nvme::GuestEnd delete_queue(std::uint32_t drive, std::uint16_t id) = 0;
};

/// `options` are those of every controller. The host must outlive the provider.
[[nodiscard]] std::unique_ptr<NvmeProvider> make_nvme_provider(
    system::Host& host, const nvme::ControllerOptions& options = {});

}  // namespace nobounce::provider
