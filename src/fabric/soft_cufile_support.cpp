// The library's own table of file systems, and its checks in the order it makes them.
#include "fabric/soft_cufile_support.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "system/cufile_types.hpp"

namespace nobounce::fabric {
namespace {

namespace cufile = system::cufile;

constexpr CufileFileSystem file_systems[] = {
    {"ext4", "data=ordered", true, false},
    {"xfs", "", true, false},
    {"nfs", "proto=rdma", false, true},
    {"nfs4", "proto=rdma", false, true},
    {"lustre", "", true, true},
    {"beegfs", "", true, true},
    {"scatefs", "", true, true},
    {"wekafs", "", false, true},
    {"gpfs", "", false, true},
};

bool lists_option(std::string_view options, std::string_view wanted) {
  for (std::size_t begin = 0; begin <= options.size();) {
    const std::size_t end = std::min(options.find(',', begin), options.size());
    if (options.substr(begin, end - begin) == wanted) return true;
    begin = end + 1;
  }
  return wanted.empty();
}

bool names(const std::vector<std::string>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool is_denied(const CufileConfig& config, const Mount& mount, const Drive& drive) {
  return names(config.denied_file_systems, mount.type) ||
         names(config.denied_mounts, mount.point) || names(config.denied_drivers, drive.driver) ||
         names(config.denied_devices, "/dev/" + drive.name);
}

// 1.15 cannot register a file whose block device udev does not know; older ones say "internal".
int udev_refusal(const Machine& machine) {
  const bool older =
      machine.libcufile.substr(0, 4) == "1.13" || machine.libcufile.substr(0, 4) == "1.14";
  return older ? cufile::error_internal : cufile::error_handle_not_registered;
}

bool has_udev_record(const Drive& drive, system::Files& files) {
  return files.exists("/run/udev/data/b" + std::to_string(drive.major) + ':' +
                      std::to_string(drive.minor));
}

}  // namespace

const CufileFileSystem* cufile_file_system(std::string_view type) {
  for (const CufileFileSystem& row : file_systems) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

CufileSupport judge_cufile_support(const Machine& machine, const SoftFile* file,
                                   const CufileConfig& config, const NvfsModule& module,
                                   system::Files& files) {
  CufileSupport support;
  const auto impossible = [&](int code) {
    support.reading = code;
    support.writing = code;
    return support;
  };
  const CufileFileSystem* row = file == nullptr ? nullptr : cufile_file_system(file->mount.type);
  const bool network = row != nullptr && row->network;
  const Drive* drive =
      file != nullptr && file->medium.drive ? &machine.drives[*file->medium.drive] : nullptr;
  if (!network &&
      (drive == nullptr ? !files.exists("/run/udev/data") : !has_udev_record(*drive, files))) {
    support.refused = udev_refusal(machine);
    return impossible(support.refused);
  }
  if (config.force_compat()) return impossible(cufile::error_io_disabled);
  if (row == nullptr || drive == nullptr) return impossible(cufile::error_io_not_supported);
  if (is_denied(config, file->mount, *drive)) return impossible(cufile::error_io_disabled);
  if (!lists_option(file->mount.options, row->option)) {
    return impossible(cufile::error_io_not_supported);
  }
  if (!module.loaded()) return impossible(cufile::error_nvfs_setup);
  if (!module.registered(*drive)) return impossible(cufile::error_internal);
  if (!file->mount.direct_io) return impossible(cufile::error_dio_not_set);
  if (machine.kernel.iommu == IommuMode::translated) {
    return impossible(cufile::error_platform_not_supported);
  }
  const bool over_rdma = row->network || drive->driver == "nvme_rdma";
  if (!row->writes) {
    support.writing = cufile::error_io_not_supported;
  } else if (over_rdma && !config.gds_rdma_write_support) {
    support.writing = cufile::error_io_disabled;
    support.stages_writes_in_silence = true;
  }
  return support;
}

}  // namespace nobounce::fabric
