// Judges every precondition of direct storage, in the order of the path: host, file, drive, bus,
// GPU.
#include "judge/storage.hpp"

#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "judge/file_systems.hpp"
#include "judge/findings.hpp"
#include "judge/gpu_mode.hpp"
#include "judge/path.hpp"

namespace nobounce::judge {
namespace {

constexpr std::uint64_t gpu_page_bytes = 64u << 10;

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
    PathJudgement path = judge_path(machine, *drive_, question_.gpu, host_.iommu);
    std::move(path.findings.begin(), path.findings.end(), std::back_inserter(result_.findings));
    result_.degraded_causes = std::move(path.degraded_causes);
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
