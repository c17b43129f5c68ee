// The NVMe provider: which drive an operation belongs to, and where its memory lies for that drive.
#include "provider/nvme/nvme_provider.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "provider/nvme/drive.hpp"

namespace nobounce::provider {
namespace {

using nvme::Drive;
using nvme::Job;

constexpr std::uint64_t destructor_patience_ns = 5'000'000'000;
constexpr const char* attempted_move = "move bytes between a drive and memory";

struct Pair {
  BlockRange range;
  const Place* memory = nullptr;
  bool writing = false;  ///< to the drive
};

std::optional<Pair> pair_of(const Segment& segment) {
  const auto is_memory = [](const Place& place) {
    return std::holds_alternative<GpuMemory>(place) || std::holds_alternative<HostMemory>(place);
  };
  if (const auto* source = std::get_if<BlockRange>(&segment.source)) {
    if (is_memory(segment.target)) return Pair{*source, &segment.target, false};
  } else if (const auto* target = std::get_if<BlockRange>(&segment.target)) {
    if (is_memory(segment.source)) return Pair{*target, &segment.source, true};
  }
  return std::nullopt;
}

std::uint64_t address_of(const Place& memory) {
  if (const auto* gpu = std::get_if<GpuMemory>(&memory)) return gpu->address.value;
  return reinterpret_cast<std::uint64_t>(std::get<HostMemory>(memory).address);
}

Finding finding(Cause cause, std::string subject, std::string needed, std::string source) {
  return Finding{.cause = cause,
                 .subject = std::move(subject),
                 .state = FindingState::met,
                 .observed = {},
                 .needed = std::move(needed),
                 .remedy = {},
                 .source = std::move(source)};
}

void refute(Finding& finding, std::string observed, std::string remedy = {}) {
  finding.state = FindingState::unmet;
  finding.observed = std::move(observed);
  finding.remedy =
      remedy.empty() ? std::string(cause_row(finding.cause).remedy) : std::move(remedy);
}

Error error_of(const std::vector<Finding>& findings) {
  Error error{.origin = ErrorOrigin::input, .attempted = attempted_move};
  for (const Finding& each : findings) {
    if (each.state != FindingState::unmet) continue;
    error.cause = each.cause;
    error.detail = each.observed;
    error.remedy = each.remedy;
    break;
  }
  return error;
}

/// A region of GPU memory as one drive sees it.
struct Mapped {
  std::uint64_t length_bytes = 0;
  Iova iova;
};

struct Owned {
  std::unique_ptr<Drive> drive;
  std::map<std::uint64_t, Mapped> windows;  ///< by device address
};

class OwnedDrives final : public NvmeProvider {
 public:
  OwnedDrives(system::Host& host, const nvme::ControllerOptions& options)
      : host_(host), options_(options) {}
  ~OwnedDrives() override {
    if (!closed_) (void)close(host_.clock().now_ns() + destructor_patience_ns);
  }

  [[nodiscard]] ProviderKind kind() const override { return ProviderKind::nvme; }
  [[nodiscard]] Assessment assess(const Segment& segment) override;
  [[nodiscard]] Status attach(const core::RegionView&) override { return {}; }
  void detach(const core::RegionView& region) override;
  void submit(std::span<const core::Operation> operations) override;
  [[nodiscard]] std::size_t poll(std::uint64_t, std::span<core::Completion> completions) override;
  void cancel(core::OperationId operation) override;
  bool close(std::uint64_t deadline_ns) override;

  [[nodiscard]] Result<OwnedDriveFacts> take(std::uint32_t drive, std::string_view bdf) override;
  void release(std::uint32_t drive) override;
  [[nodiscard]] Status map(std::uint32_t drive, const core::RegionView& region) override;
  [[nodiscard]] Result<Iova> mapped_at(std::uint32_t drive, const GpuMemory& memory) override;
  [[nodiscard]] Result<nvme::GuestDoorbells> create_queue(std::uint32_t drive,
                                                          const nvme::Controller::GuestQueue& queue,
                                                          std::function<void()> lost) override;
  [[nodiscard]] nvme::GuestEnd delete_queue(std::uint32_t drive, std::uint16_t id) override;

 private:
  [[nodiscard]] std::vector<Finding> judge(const Pair& pair, std::uint64_t length_bytes);
  [[nodiscard]] Result<Job> job_of(const core::Operation& operation, Owned& owned,
                                   const Pair& pair);
  [[nodiscard]] static Result<Iova> window_of(const Owned& owned, const GpuMemory& gpu);
  [[nodiscard]] Drive* find(std::uint32_t drive);
  void refuse(core::OperationId id, Error error);

  system::Host& host_;
  const nvme::ControllerOptions options_;
  std::mutex mutex_;
  std::map<std::uint32_t, Owned> drives_;
  std::vector<core::Completion> refused_;
  bool closed_ = false;
};

std::vector<Finding> OwnedDrives::judge(const Pair& pair, std::uint64_t length_bytes) {
  const auto found = drives_.find(pair.range.drive);
  const std::string name = "drive:" + std::to_string(pair.range.drive);
  std::vector<Finding> findings;
  findings.push_back(finding(Cause::nvme_take_needed, name, "a drive that this session has taken",
                             "the session's list of drives"));
  if (found == drives_.end()) {
    refute(findings.back(), "the session has not taken the drive");
    return findings;
  }
  Owned& owned = found->second;
  const nvme::Identity& identity = owned.drive->identity();
  findings.push_back(finding(Cause::nvme_controller_fatal, name, "a controller that answers",
                             "the controller's status register"));
  if (const auto failure = owned.drive->failure()) refute(findings.back(), failure->detail);

  const std::uint64_t block = identity.block_bytes;
  const std::uint64_t address = address_of(*pair.memory);
  findings.push_back(finding(Cause::nvme_unaligned, name,
                             "offset and length in whole blocks of " + std::to_string(block) +
                                 " bytes, memory at a multiple of 4",
                             "Identify Namespace"));
  if (pair.range.offset.value % block != 0 || length_bytes % block != 0 || address % 4 != 0) {
    refute(findings.back(), "offset " + std::to_string(pair.range.offset.value) + ", length " +
                                std::to_string(length_bytes) + ", memory at " +
                                std::to_string(address));
  }
  if (const auto* gpu = std::get_if<GpuMemory>(pair.memory)) {
    findings.push_back(
        finding(Cause::nvme_peer_unmapped, name + " -> gpu:" + std::to_string(gpu->gpu),
                "the GPU's window mapped for the drive", "the drive's DMA mappings"));
    if (Status able = owned.drive->can_map_gpu(gpu->gpu); !able.ok()) {
      refute(findings.back(), able.error().detail, std::string(remedy_of(able.error())));
    }
  }
  return findings;
}

Assessment OwnedDrives::assess(const Segment& segment) {
  Assessment assessment;
  const std::optional<Pair> pair = pair_of(segment);
  if (!pair.has_value()) return assessment;
  const std::lock_guard lock(mutex_);
  assessment.findings = judge(*pair, segment.length_bytes);
  assessment.usable = first_unmet(assessment.findings) == Cause::none;
  return assessment;
}

Result<OwnedDriveFacts> OwnedDrives::take(std::uint32_t drive, std::string_view bdf) {
  Result<system::Pci*> pci = host_.pci();
  if (!pci.ok()) return std::move(pci).error();
  const std::lock_guard lock(mutex_);
  if (drives_.count(drive) != 0) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "take nvme:" + std::string(bdf),
                 .detail = "this session has it already"};
  }
  Result<std::unique_ptr<system::PciFunction>> function = (*pci)->open(bdf);
  if (!function.ok()) return std::move(function).error();
  Result<std::unique_ptr<Drive>> started = Drive::start(host_, std::move(*function), options_);
  if (!started.ok()) return std::move(started).error();
  const nvme::Identity& identity = (*started)->identity();
  OwnedDriveFacts facts{identity.length_bytes(), identity.block_bytes, identity.model,
                        identity.name_space, identity.transfer_bytes_max};
  drives_[drive].drive = std::move(*started);
  return facts;
}

void OwnedDrives::release(std::uint32_t drive) {
  std::unique_ptr<Drive> leaving;
  {
    const std::lock_guard lock(mutex_);
    const auto found = drives_.find(drive);
    if (found == drives_.end()) return;
    leaving = std::move(found->second.drive);
    drives_.erase(found);
  }
  (void)leaving->close(host_.clock().now_ns() + destructor_patience_ns);
}

Status OwnedDrives::map(std::uint32_t drive, const core::RegionView& region) {
  const auto& memory = std::get<GpuMemory>(region.place);
  const std::lock_guard lock(mutex_);
  const auto found = drives_.find(drive);
  if (found == drives_.end()) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "map GPU memory for a drive",
                 .cause = Cause::nvme_take_needed,
                 .detail = "the session has not taken the drive"};
  }
  Owned& owned = found->second;
  if (owned.windows.count(memory.address.value) != 0) return {};
  const Result<Iova> iova = owned.drive->map_gpu(memory);
  if (!iova.ok()) return iova.error();
  owned.windows[memory.address.value] = {memory.length_bytes, *iova};
  return {};
}

Drive* OwnedDrives::find(std::uint32_t drive) {
  const std::lock_guard lock(mutex_);
  const auto found = drives_.find(drive);
  return found == drives_.end() ? nullptr : found->second.drive.get();
}

Result<Iova> OwnedDrives::mapped_at(std::uint32_t drive, const GpuMemory& memory) {
  const std::lock_guard lock(mutex_);
  const auto found = drives_.find(drive);
  if (found != drives_.end()) return window_of(found->second, memory);
  return window_of(Owned{}, memory);
}

Result<nvme::GuestDoorbells> OwnedDrives::create_queue(std::uint32_t drive,
                                                       const nvme::Controller::GuestQueue& queue,
                                                       std::function<void()> lost) {
  // Outside the lock: the drive's worker answers, and may have to complete operations first.
  if (Drive* owned = find(drive); owned != nullptr)
    return owned->create_guest(queue, std::move(lost));
  return Error{.origin = ErrorOrigin::input,
               .attempted = "make a queue of a drive",
               .cause = Cause::nvme_take_needed,
               .detail = "the session has not taken the drive"};
}

nvme::GuestEnd OwnedDrives::delete_queue(std::uint32_t drive, std::uint16_t id) {
  if (Drive* owned = find(drive); owned != nullptr) return owned->delete_guest(id);
  return {};
}

void OwnedDrives::detach(const core::RegionView& region) {
  const auto* memory = std::get_if<GpuMemory>(&region.place);
  if (memory == nullptr) return;
  const std::lock_guard lock(mutex_);
  for (auto& [number, owned] : drives_) {
    const auto window = owned.windows.find(memory->address.value);
    if (window == owned.windows.end()) continue;
    owned.drive->unmap(window->second.iova);
    owned.windows.erase(window);
  }
}

Result<Job> OwnedDrives::job_of(const core::Operation& operation, Owned& owned, const Pair& pair) {
  Job job;
  job.operation = operation;
  job.opcode = pair.writing ? system::nvme::Opcode::write : system::nvme::Opcode::read;
  const std::uint64_t block = owned.drive->identity().block_bytes;
  job.first_block = pair.range.offset.value / block;
  job.blocks = operation.segment.length_bytes / block;
  if (job.blocks == 0) return job;  // nothing to map for
  if (const auto* host = std::get_if<HostMemory>(pair.memory)) {
    const Result<Iova> iova =
        owned.drive->map_host({host->address, operation.segment.length_bytes});
    if (!iova.ok()) return iova.error();
    job.memory = *iova;
    job.unmap_at_end = true;
    return job;
  }
  const Result<Iova> iova = window_of(owned, std::get<GpuMemory>(*pair.memory));
  if (!iova.ok()) return iova.error();
  job.memory = *iova;
  return job;
}

/// Where GPU memory lies in the windows that were mapped for a drive.
Result<Iova> OwnedDrives::window_of(const Owned& owned, const GpuMemory& gpu) {
  const auto after = owned.windows.upper_bound(gpu.address.value);
  if (after != owned.windows.begin()) {
    const auto& [base, window] = *std::prev(after);
    const std::uint64_t inside = gpu.address.value - base;
    if (inside <= window.length_bytes && gpu.length_bytes <= window.length_bytes - inside)
      return Iova{window.iova.value + inside};
  }
  return Error{.origin = ErrorOrigin::input,
               .attempted = attempted_move,
               .cause = Cause::nvme_peer_unmapped,
               .detail = "this GPU memory was not mapped for the drive"};
}

void OwnedDrives::refuse(core::OperationId id, Error error) {
  core::Completion completion;
  completion.id = id;
  completion.cause = error.cause;
  completion.error = std::move(error);
  refused_.push_back(std::move(completion));
}

void OwnedDrives::submit(std::span<const core::Operation> operations) {
  const std::lock_guard lock(mutex_);
  for (const core::Operation& operation : operations) {
    const std::optional<Pair> pair = pair_of(operation.segment);
    if (!pair.has_value()) {
      refuse(operation.id, Error{.origin = ErrorOrigin::input,
                                 .attempted = attempted_move,
                                 .detail = "one end must be a drive, the other memory"});
      continue;
    }
    const std::vector<Finding> findings = judge(*pair, operation.segment.length_bytes);
    if (first_unmet(findings) != Cause::none) {
      refuse(operation.id, error_of(findings));
      continue;
    }
    Owned& owned = drives_.at(pair->range.drive);
    Result<Job> job = job_of(operation, owned, *pair);
    if (!job.ok()) {
      refuse(operation.id, std::move(job).error());
      continue;
    }
    owned.drive->submit(std::move(*job));
  }
}

std::size_t OwnedDrives::poll(std::uint64_t, std::span<core::Completion> completions) {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  while (count < completions.size() && !refused_.empty()) {
    completions[count++] = std::move(refused_.back());
    refused_.pop_back();
  }
  for (auto& [number, owned] : drives_) count += owned.drive->poll(completions.subspan(count));
  return count;
}

void OwnedDrives::cancel(core::OperationId operation) {
  const std::lock_guard lock(mutex_);
  for (auto& [number, owned] : drives_) owned.drive->cancel(operation);
}

bool OwnedDrives::close(std::uint64_t deadline_ns) {
  closed_ = true;
  const std::lock_guard lock(mutex_);
  bool all = true;
  for (auto& [number, owned] : drives_) all = owned.drive->close(deadline_ns) && all;
  drives_.clear();
  return all;
}

}  // namespace

std::unique_ptr<NvmeProvider> make_nvme_provider(system::Host& host,
                                                 const nvme::ControllerOptions& options) {
  return std::make_unique<OwnedDrives>(host, options);
}

}  // namespace nobounce::provider
