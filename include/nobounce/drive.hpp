// OwnedDrive: a raw drive that a session has taken, away from the kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <nobounce/place.hpp>

namespace nobounce {

namespace session {
struct OwnedDriveState;
}

struct DriveOptions {
  /// The caller's word that everything on the drive may be read and overwritten. Without it nothing
  /// is taken (nvme.take_needed).
  bool take = false;
};

/// Move-only. While it lives nobody else has the drive; destroying it shuts the drive down.
/// Destroying it with a transfer in flight, or after its Session, is a programming error and
/// aborts. Reading accessors is safe from any thread.
class OwnedDrive {
 public:
  explicit OwnedDrive(std::unique_ptr<session::OwnedDriveState> state);
  OwnedDrive(OwnedDrive&&) noexcept;
  OwnedDrive& operator=(OwnedDrive&&) noexcept;
  ~OwnedDrive();

  [[nodiscard]] const std::string& bdf() const;
  [[nodiscard]] const std::string& model() const;
  [[nodiscard]] std::uint64_t length_bytes() const;
  /// Offsets and lengths of transfers are whole blocks.
  [[nodiscard]] std::uint32_t block_bytes() const;
  /// A part of the drive. Parts must lie inside: asserts.
  [[nodiscard]] Place place(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;

 private:
  std::unique_ptr<session::OwnedDriveState> state_;
};

}  // namespace nobounce
