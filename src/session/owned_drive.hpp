// What stands behind an OwnedDrive.
#pragma once

#include <cstdint>
#include <string>

#include <nobounce/drive.hpp>
#include "session/session_state.hpp"

namespace nobounce::session {

struct OwnedDriveState {
  OwnedDriveState(SessionState& owner, std::uint32_t machine_drive, std::string address,
                  provider::OwnedDriveFacts known);
  /// Gives the drive back.
  ~OwnedDriveState();
  OwnedDriveState(const OwnedDriveState&) = delete;
  OwnedDriveState& operator=(const OwnedDriveState&) = delete;

  SessionState& session;
  std::uint32_t drive;
  std::string bdf;
  provider::OwnedDriveFacts facts;
};

/// What a taken drive says of itself; nothing where the session has not taken it.
[[nodiscard]] std::optional<provider::OwnedDriveFacts> owned_drive(SessionState& state,
                                                                   std::uint32_t drive);

}  // namespace nobounce::session
