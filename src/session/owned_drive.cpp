// Session::take_drive: judged, opened, and given back.
#include "session/owned_drive.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "judge/drive.hpp"
#include "preconditions/read_drive_facts.hpp"
#include "session/check.hpp"
#include "session/transfer_state.hpp"

namespace nobounce {

using session::OwnedDriveState;

namespace session {

OwnedDriveState::OwnedDriveState(SessionState& owner, std::uint32_t machine_drive,
                                 std::string address, provider::OwnedDriveFacts known)
    : session(owner), drive(machine_drive), bdf(std::move(address)), facts(std::move(known)) {
  ++session.handles;
  const std::scoped_lock lock(session.regions_mutex);
  session.drives[drive] = facts;
}

OwnedDriveState::~OwnedDriveState() {
  if (session.forked()) return;
  {
    const std::scoped_lock lock(session.regions_mutex);
    session.drives.erase(drive);
  }
  session.providers.nvme->release(drive);
  --session.handles;
}

std::optional<provider::OwnedDriveFacts> owned_drive(SessionState& state, std::uint32_t drive) {
  const std::scoped_lock lock(state.regions_mutex);
  const auto found = state.drives.find(drive);
  if (found == state.drives.end()) return std::nullopt;
  return found->second;
}

}  // namespace session

OwnedDrive::OwnedDrive(std::unique_ptr<OwnedDriveState> state) : state_(std::move(state)) {}
OwnedDrive::OwnedDrive(OwnedDrive&&) noexcept = default;
OwnedDrive& OwnedDrive::operator=(OwnedDrive&& other) noexcept {
  if (this != &other) {
    const OwnedDrive ended(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}
OwnedDrive::~OwnedDrive() {
  if (state_ == nullptr) return;
  const Place whole = BlockRange{state_->drive, FileOffset{0}, 0};
  session::drop(std::move(state_), whole,
                "an OwnedDrive was destroyed while a transfer or kernels used it");
}

const std::string& OwnedDrive::bdf() const {
  return state_->bdf;
}
const std::string& OwnedDrive::model() const {
  return state_->facts.model;
}
std::uint64_t OwnedDrive::length_bytes() const {
  return state_->facts.length_bytes;
}
std::uint32_t OwnedDrive::block_bytes() const {
  return state_->facts.block_bytes;
}
Place OwnedDrive::place(std::uint64_t offset_bytes, std::uint64_t length_bytes) const {
  const BlockRange whole{state_->drive, FileOffset{0}, state_->facts.length_bytes};
  return part_of(whole, offset_bytes, length_bytes);
}

Result<OwnedDrive> Session::take_drive(std::string_view bdf, const DriveOptions& options) {
  if (state_->forked()) return session::forked_error("take a drive");
  const std::string attempted = "take nvme:" + std::string(bdf);
  const core::DriveFacts facts = preconditions::read_drive_facts(state_->host.files(), bdf);
  if (!facts.exists || !facts.is_nvme) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = attempted,
                 .detail = facts.exists ? "that function is no NVMe controller"
                                        : "this machine has no such PCI function",
                 .remedy = "nobounce topo shows the drives and their addresses"};
  }
  const auto consent = options.take ? judge::Consent::given : judge::Consent::not_given;
  for (const Finding& finding : judge::judge_drive(facts, consent)) {
    if (finding.state != FindingState::unmet) continue;
    return Error{.origin = ErrorOrigin::input,
                 .attempted = attempted,
                 .cause = finding.cause,
                 .detail = finding.observed,
                 .remedy = finding.remedy};
  }
  const auto& drives = state_->machine.drives;
  const auto known = std::find_if(drives.begin(), drives.end(),
                                  [&](const Drive& drive) { return drive.bdf == bdf; });
  if (known == drives.end()) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = attempted,
                 .detail = "it was bound to vfio-pci after this session had looked at the machine",
                 .remedy = "open a session after binding it"};
  }
  const auto index = static_cast<std::uint32_t>(known - drives.begin());
  Result<provider::OwnedDriveFacts> taken = state_->providers.nvme->take(index, bdf);
  if (!taken.ok()) return std::move(taken).error();
  return OwnedDrive(
      std::make_unique<OwnedDriveState>(*state_, index, std::string(bdf), std::move(*taken)));
}

}  // namespace nobounce
