// Judges every precondition of direct storage, in the order of the path: host, file, drive, bus,
// GPU.
#include "judge/storage.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "core/drive_parts.hpp"
#include "judge/file_systems.hpp"
#include "judge/findings.hpp"
#include "judge/gpu_mode.hpp"
#include "judge/path.hpp"

namespace nobounce::judge {
namespace {

constexpr std::uint64_t gpu_page_bytes = 64u << 10;

bool is_layer(std::string_view driver) {
  return driver == "md" || driver == "dm" || driver == "loop";
}

/// Of `1.19`; nothing if it has another form.
std::optional<bool> is_at_least(const std::optional<std::string>& version, int major, int minor) {
  if (!version.has_value()) return std::nullopt;
  int numbers[2] = {0, 0};
  const char* const end = version->data() + version->size();
  const auto first = std::from_chars(version->data(), end, numbers[0]);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '.') return std::nullopt;
  if (std::from_chars(first.ptr + 1, end, numbers[1]).ec != std::errc{}) return std::nullopt;
  return numbers[0] > major || (numbers[0] == major && numbers[1] >= minor);
}

/// `degraded`: the causes for which what is met is slower than it should be.
int badness(const Finding& finding, const std::vector<Cause>& degraded) {
  if (finding.state == FindingState::unmet) return 3;
  if (finding.state == FindingState::unknown) return 2;
  return std::find(degraded.begin(), degraded.end(), finding.cause) != degraded.end() ? 1 : 0;
}

class StorageJudge {
 public:
  explicit StorageJudge(const StorageQuestion& question)
      : question_(question),
        host_(question.host.storage),
        file_(question.file),
        gpu_name_("gpu:" + std::to_string(question.gpu)) {
    if (file_.mount.has_value()) row_ = file_system_row(file_.mount->type);
    if (file_.drive.has_value() && *file_.drive < question.machine.drives.size()) {
      drive_ = DeviceRef{DeviceRef::Kind::drive, static_cast<std::uint16_t>(*file_.drive)};
    }
  }

  StorageJudgement judge() {
    judge_host();
    judge_file();
    judge_drive();
    judge_bus();
    judge_gpu();
    judge_allocation();
    result_.possible = first_unmet(result_.findings) == Cause::none;
    if (!result_.possible) result_.degraded_causes.clear();
    result_.degraded = !result_.degraded_causes.empty();
    return std::move(result_);
  }

 private:
  void add(Finding finding) { result_.findings.push_back(std::move(finding)); }

  // --- host ---

  void judge_host() {
    add(judge_fact({Cause::storage_cufile_absent, "libcufile", "libcufile.so.0 loads"},
                   host_.cufile_library, true));
    judge_nvidia_fs();
    add(judge_fact({Cause::storage_compat_forced, "libcufile", "compatibility mode not forced"},
                   host_.compat_forced, false));
    // Nobody has tried to put it in force before a session opens: then there is nothing to judge.
    if (host_.cufile_config_ours.value.has_value() || !host_.cufile_config_ours.observed.empty()) {
      add(judge_fact({Cause::storage_cufile_config_not_ours, "libcufile",
                      "our configuration in force, with every staging switch off"},
                     host_.cufile_config_ours, true));
    }
  }

  /// PCI P2PDMA would do instead of the module, but our cuFile configuration does not switch it on.
  void judge_nvidia_fs() {
    Finding finding =
        judge_fact({Cause::storage_nvidia_fs_absent, "nvidia_fs", "kernel module nvidia_fs loaded"},
                   host_.nvidia_fs_loaded, true);
    if (finding.state == FindingState::unmet) {
      const bool kernel_can = host_.p2pdma_kernel.value.value_or(false);
      finding.observed += kernel_can && file_.block_driver == "nvme"
                              ? "; PCI P2PDMA is there, but our cuFile configuration leaves it off"
                              : "; PCI P2PDMA is not available either";
    }
    add(std::move(finding));
  }

  // --- file ---

  void judge_file() {
    add(judge_fact({Cause::storage_not_a_regular_file, file_.path, "a regular file"},
                   file_.regular_file, true));
    judge_file_system();
    judge_mount_options();
    if (question_.writing) judge_writes();
    add(judge_fact({Cause::storage_direct_io_refused, file_.path, "an open with O_DIRECT"},
                   file_.direct_io, true));
  }

  [[nodiscard]] std::string mount_subject() const {
    return file_.mount.has_value() ? file_.mount->point : file_.path;
  }

  void judge_file_system() {
    const Rule rule{Cause::storage_filesystem_unsupported, mount_subject(),
                    "one of " + std::string(file_system_list())};
    if (!file_.mount.has_value()) {
      add(unknown(rule, "the mount of this path could not be read", file_.mount_source));
    } else if (row_ == nullptr || !row_->reads) {
      add(unmet(rule, file_.mount->type, file_.mount_source));
    } else {
      add(met(rule, file_.mount->type, file_.mount_source));
    }
  }

  void judge_mount_options() {
    if (row_ == nullptr) return;  // said by the file system's own finding
    const std::string& options = file_.mount->options;
    const Rule rule{Cause::storage_mount_options, mount_subject(),
                    row_->option.empty()
                        ? "no particular mount option"
                        : "mount option " + std::string(row_->option) + ", visible"};
    const std::string observed = file_.mount->type + " mounted with " + options;
    if (row_->option.empty() || has_option(options, row_->option)) {
      add(met(rule, observed, file_.mount_source));
    } else {
      add(unmet(rule, observed, file_.mount_source));
    }
  }

  void judge_writes() {
    if (row_ == nullptr) return;
    const Rule rule{Cause::storage_writes_unsupported, mount_subject(),
                    "a file system on the list for direct writes"};
    if (row_->writes) {
      add(met(rule, file_.mount->type + ": reads and writes", file_.mount_source));
    } else {
      add(unmet(rule, file_.mount->type + ": reads only", file_.mount_source));
    }
  }

  // --- drive ---

  [[nodiscard]] bool on_network_file_system() const { return row_ != nullptr && row_->network; }

  [[nodiscard]] std::string drive_subject() const {
    return drive_.has_value() ? device_name(question_.machine, *drive_) : mount_subject();
  }

  void judge_drive() {
    judge_block_driver();
    // A driver that is not on the list cannot register either: said once is enough.
    if (result_.findings.back().state != FindingState::unmet) {
      const std::string driver = file_.block_driver.empty() ? "the driver" : file_.block_driver;
      add(judge_fact({Cause::storage_driver_not_registered, drive_subject(),
                      driver + " registered with nvidia-fs"},
                     file_.driver_registered, true));
    }
    judge_udev();
  }

  void judge_block_driver() {
    const Rule rule{Cause::storage_block_device_unsupported, drive_subject(),
                    "an NVMe drive (local or over RDMA), or a network file system on the list"};
    const std::string source = "/sys/block";
    if (on_network_file_system()) {
      add(met(rule, "no block device: " + file_.mount->type + " comes over the network",
              file_.mount_source));
    } else if (is_layer(file_.block_driver)) {
      judge_layer(source);
    } else if (block_driver_supported(file_.block_driver)) {
      add(met(rule, "block driver " + file_.block_driver, source));
    } else if (!file_.block_driver.empty()) {
      add(unmet(rule, "block driver " + file_.block_driver, source));
    } else if (!file_.mount.has_value() || drive_.has_value()) {
      add(unknown(rule, "the driver of the block device could not be read", source));
    } else {
      add(unmet(rule, "no block device of this machine lies under " + mount_subject(),
                file_.mount_source));
    }
  }

  [[nodiscard]] std::vector<std::uint32_t> moving_drives() const {
    if (!drive_.has_value()) return {};
    return core::moving_drives(question_.machine, drive_->index);
  }

  /// libcufile passes through md's stripes over NVMe drives, since 1.19 through its mirrors too;
  /// through parity, device mapper and loop devices never: there it stages.
  void judge_layer(const std::string& source) {
    const Rule rule{Cause::storage_mount_is_layered, drive_subject(),
                    "no layer, or md RAID 0 over NVMe drives (RAID 1 and 10 from libcufile 1.19)"};
    if (file_.block_driver != "md") {
      add(unmet(rule,
                file_.block_driver == "dm" ? "device mapper, which libcufile refuses"
                                           : "a loop device, which libcufile refuses",
                source));
      return;
    }
    if (!drive_.has_value()) {
      add(unknown(rule, "md; what lies below it is not known", source));
      return;
    }
    const Drive& drive = question_.machine.drives[drive_->index];
    const std::string level = drive.layer.empty() ? "md of unknown level" : "md " + drive.layer;
    if (!drive.layer.empty() && drive.layer != "raid0" && drive.layer != "raid1" &&
        drive.layer != "raid10") {
      add(unmet(rule, level + ", which libcufile does not pass through", source));
      return;
    }
    for (const std::string& part : drive.parts) {
      const std::vector<Drive>& drives = question_.machine.drives;
      const auto below = std::find_if(drives.begin(), drives.end(),
                                      [&part](const Drive& each) { return each.name == part; });
      if (below == drives.end() || block_driver_supported(below->driver)) continue;
      add(unmet(rule, level + " over " + part + ", whose driver is " + below->driver, source));
      return;
    }
    std::string parts;
    for (const std::string& part : drive.parts) parts += ' ' + part;
    if (drive.layer.empty() || drive.parts.empty()) {
      add(unknown(rule, level + (parts.empty() ? "; its parts could not be read" : " over" + parts),
                  source));
    } else if (drive.layer == "raid0") {
      add(met(rule, level + " over" + parts, source));
    } else {
      judge_mirror(rule, level + " over" + parts, source);
    }
  }

  void judge_mirror(const Rule& rule, const std::string& observed, const std::string& source) {
    const core::TextFact& version = host_.cufile_version;
    const std::optional<bool> able = is_at_least(version.value, 1, 19);
    if (!able.has_value()) {
      add(unknown(rule, observed + "; the version of libcufile could not be read", source));
    } else if (*able) {
      add(met(rule, observed + ", and libcufile is " + *version.value, source));
    } else {
      add(unmet(rule, observed + ", and libcufile is " + *version.value, source));
    }
  }

  void judge_udev() {
    const Rule rule{Cause::storage_udev_missing, drive_subject(), "a udev record of the device"};
    if (on_network_file_system()) {
      add(met(rule, "no block device, so none is needed", file_.mount_source));
    } else if (!file_.udev_record.value.has_value() && host_.udev_database.value == false) {
      add(judge_fact(rule, host_.udev_database, true));
    } else {
      add(judge_fact(rule, file_.udev_record, true));
    }
  }

  // --- bus ---

  void judge_bus() {
    const Machine& machine = question_.machine;
    if (question_.gpu >= machine.gpus.size()) return;  // said by the GPU's own finding
    const std::string subject = drive_subject() + " -> " + gpu_name_;
    const bool network = on_network_file_system() || network_driver(file_.block_driver);
    if (!drive_.has_value()) {
      add(path_unknown(subject,
                       network ? "nothing says which network adapter carries this file system"
                               : "no device of this machine is known to lie under the file",
                       file_.mount_source));
      return;
    }
    if (network && machine.drives[drive_->index].parent.kind != Parent::Kind::nic) {
      add(path_unknown(subject, "nothing says which network adapter carries this drive",
                       "/sys/class/nvme"));
      return;
    }
    for (const std::uint32_t part : moving_drives()) {
      take_path(judge_path(machine, {DeviceRef::Kind::drive, static_cast<std::uint16_t>(part)},
                           question_.gpu, host_.iommu));
    }
  }

  /// Of several parts of one drive the worst stands for all; links have a finding each.
  void take_path(PathJudgement path) {
    for (Finding& finding : path.findings) {
      const bool link = finding.cause == Cause::machine_link_downtrained;
      const auto present =
          std::find_if(result_.findings.begin(), result_.findings.end(), [&](const Finding& each) {
            return each.cause == finding.cause && (!link || each.subject == finding.subject);
          });
      if (present == result_.findings.end()) {
        add(std::move(finding));
      } else if (badness(finding, path.degraded_causes) >
                 badness(*present, result_.degraded_causes)) {
        *present = std::move(finding);
      }
    }
    for (const Cause cause : path.degraded_causes) {
      auto& causes = result_.degraded_causes;
      if (std::find(causes.begin(), causes.end(), cause) == causes.end()) causes.push_back(cause);
    }
  }

  // --- GPU ---

  void judge_gpu() {
    if (question_.gpu >= question_.machine.gpus.size()) {
      add(unmet({Cause::machine_no_gpu, gpu_name_, "a GPU of that number"},
                std::to_string(question_.machine.gpus.size()) + " GPUs on this machine",
                "/sys/bus/pci/devices"));
      return;
    }
    judge_storage_mode(question_.machine, question_.gpu, result_.findings);
    const core::GpuFacts* facts = nullptr;
    for (const core::GpuFacts& each : question_.host.gpus) {
      if (each.gpu == question_.gpu) facts = &each;
    }
    const core::GpuFacts nothing;
    if (facts == nullptr) facts = &nothing;
    add(judge_fact({Cause::storage_gpu_not_supported, gpu_name_,
                    "GPU memory that the driver pins for other devices"},
                   facts->gpudirect_rdma, true));
    judge_bar1(*facts);
  }

  void judge_bar1(const core::GpuFacts& facts) {
    const Rule rule{Cause::machine_bar1_too_small, gpu_name_,
                    "a BAR1 window of at least one 64 KiB page"};
    const std::string source =
        facts.bar1_source.empty() ? "nvmlDeviceGetBAR1MemoryInfo" : facts.bar1_source;
    if (!facts.bar1_total_bytes.has_value()) {
      add(unknown(rule, "the size of BAR1 could not be read", source));
      return;
    }
    const std::uint64_t total = *facts.bar1_total_bytes;
    std::string observed = "BAR1 of " + std::to_string(total) + " bytes";
    if (facts.bar1_free_bytes.has_value()) {
      observed += ", " + std::to_string(*facts.bar1_free_bytes) + " free";
    }
    if (total < question_.machine.gpus[question_.gpu].memory_bytes) {
      observed += ": smaller than the GPU's memory, so large buffers go through pieces of it";
    }
    add(total < gpu_page_bytes ? unmet(rule, std::move(observed), source)
                               : met(rule, std::move(observed), source));
  }

  void judge_allocation() {
    const std::string needed = "GPU memory that stays where it is";
    const std::string observed = "allocation kind: " + std::string(to_string(question_.allocation));
    const std::string source = "cuPointerGetAttribute";
    switch (question_.allocation) {
      case AllocationKind::device:
      case AllocationKind::vmm:
        add(met({Cause::memory_kind_managed, gpu_name_, needed}, observed, source));
        return;
      case AllocationKind::managed:
        add(unmet({Cause::memory_kind_managed, gpu_name_, needed}, observed, source));
        return;
      case AllocationKind::ipc_import:
        add(unmet({Cause::memory_kind_ipc_import, gpu_name_, needed}, observed, source));
        return;
      case AllocationKind::host_pageable:
        add(unmet({Cause::memory_kind_pageable, gpu_name_, needed}, observed, source));
        return;
      case AllocationKind::host_pinned:
        add(unmet({Cause::memory_kind_unknown, gpu_name_, needed}, observed + ": not GPU memory",
                  source));
        return;
      case AllocationKind::pool:
        add(unknown({Cause::memory_kind_pool, gpu_name_, needed},
                    observed + ": whether it can be pinned depends on the pool", source));
        return;
      case AllocationKind::unknown:
        add(unknown({Cause::memory_kind_unknown, gpu_name_, needed}, observed, source));
        return;
    }
  }

  const StorageQuestion& question_;
  const core::StorageHostFacts& host_;
  const core::StorageFileFacts& file_;
  std::string gpu_name_;
  const FileSystemRow* row_ = nullptr;
  std::optional<DeviceRef> drive_;
  StorageJudgement result_;
};

}  // namespace

StorageJudgement judge_storage(const StorageQuestion& question) {
  return StorageJudge(question).judge();
}

}  // namespace nobounce::judge
