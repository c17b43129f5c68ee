// What the libcufile model says of itself: version, properties, parameters, statistics.
#include "fabric/soft_cufile_table.hpp"

namespace nobounce::fabric {

namespace cufile = system::cufile;

namespace {

constexpr std::size_t poll_threshold_kb = 4;

}  // namespace

cufile::CUfileError_t SoftCufile::get_version(int* version) {
  if (version == nullptr) return cufile_answer(cufile::error_invalid_value);
  *version = version_;
  return cufile_answer(cufile::success);
}

cufile::CUfileError_t SoftCufile::driver_get_properties(CUfileDrvProps_t* properties) {
  if (properties == nullptr) return cufile_answer(cufile::error_invalid_value);
  const std::lock_guard lock(mutex_);
  *properties = CUfileDrvProps_t{};
  if (parts_.module.loaded()) {
    properties->nvfs.major_version = 2;
    properties->nvfs.minor_version = 26;
    for (const Drive& drive : parts_.machine.drives) {
      if (!parts_.module.registered(drive)) continue;
      const unsigned bit = drive.driver == "nvme" ? 4 : drive.driver == "nvme_rdma" ? 5 : 2;
      properties->nvfs.dstatusflags |= 1u << bit;
    }
  }
  properties->nvfs.poll_thresh_size = poll_threshold_kb;
  properties->nvfs.max_direct_io_size = config_.max_direct_io_size_kb;
  properties->nvfs.dcontrolflags = config_.allow_compat() ? 2 : 0;
  properties->fflags = 0xf;
  properties->max_device_cache_size = static_cast<unsigned>(config_.max_device_cache_size_kb);
  // Without the module there is no such cache, and the library says so.
  properties->per_buffer_cache_size =
      parts_.module.loaded() ? static_cast<unsigned>(config_.per_buffer_cache_size_kb) : 0;
  properties->max_device_pinned_mem_size =
      static_cast<unsigned>(config_.max_device_pinned_mem_size_kb);
  properties->max_batch_io_size = 128;
  properties->max_batch_io_timeout_msecs = 5;
  return cufile_answer(cufile::success);
}

cufile::CUfileError_t SoftCufile::get_parameter_bool(int parameter, bool* value) {
  if (version_ < first_version_with_parameters) return cufile_answer(cufile::error_absent);
  if (value == nullptr || parameter < 0 || parameter >= static_cast<int>(cufile_bool_count)) {
    return cufile_answer(cufile::error_invalid_value);
  }
  const auto index = static_cast<std::size_t>(parameter);
  const std::lock_guard lock(mutex_);
  // Nothing is read from environment or files before opening: all are off then but those set.
  *value = staged_bools_[index].value_or(use_count_ > 0 && config_.bools[index]);
  return cufile_answer(cufile::success);
}

cufile::CUfileError_t SoftCufile::set_parameter_bool(int parameter, bool value) {
  if (version_ < first_version_with_parameters) return cufile_answer(cufile::error_absent);
  if (parameter < 0 || parameter >= static_cast<int>(cufile_bool_count)) {
    return cufile_answer(cufile::error_invalid_value);
  }
  const std::lock_guard lock(mutex_);
  // While the driver is open a switch can be turned off, for the next opening, but not on: the rule
  // that all answers of live machines fit, which asked of two switches only.
  if (use_count_ > 0 && value) return cufile_answer(cufile::error_driver_already_open);
  staged_bools_[static_cast<std::size_t>(parameter)] = value;
  return cufile_answer(cufile::success);
}

cufile::CUfileError_t SoftCufile::set_stats_level(int level) {
  if (!has_statistics()) return cufile_answer(cufile::error_absent);
  if (level < 0 || level > 3) return cufile_answer(cufile::error_invalid_value);
  const std::lock_guard lock(mutex_);
  statistics_.set_level(level);
  if (use_count_ == 0) staged_level_ = level;
  return cufile_answer(cufile::success);
}

cufile::CUfileError_t SoftCufile::get_stats_level(int* level) {
  if (!has_statistics()) return cufile_answer(cufile::error_absent);
  if (level == nullptr) return cufile_answer(cufile::error_invalid_value);
  const std::lock_guard lock(mutex_);
  *level = statistics_.level();
  return cufile_answer(cufile::success);
}

cufile::CUfileError_t SoftCufile::stats_start() {
  if (!has_statistics()) return cufile_answer(cufile::error_absent);
  const std::lock_guard lock(mutex_);
  if (use_count_ == 0) return cufile_answer(cufile::error_driver_not_initialized);
  statistics_.start();
  return cufile_answer(cufile::success);
}

cufile::CUfileError_t SoftCufile::stats_stop() {
  if (!has_statistics()) return cufile_answer(cufile::error_absent);
  const std::lock_guard lock(mutex_);
  if (use_count_ == 0) return cufile_answer(cufile::error_driver_not_initialized);
  statistics_.stop();
  return cufile_answer(cufile::success);
}

cufile::CUfileError_t SoftCufile::get_stats_l3(CUfileStatsLevel3_t* stats) {
  if (!has_statistics()) return cufile_answer(cufile::error_absent);
  const std::lock_guard lock(mutex_);
  if (use_count_ == 0) return cufile_answer(cufile::error_driver_not_initialized);
  if (stats == nullptr || statistics_.level() < 3)
    return cufile_answer(cufile::error_invalid_value);
  statistics_.read_out(*stats);
  return cufile_answer(cufile::success);
}

cufile::CUfileError_t SoftCufile::get_bar_size_in_kb(int gpu, std::size_t* kilobytes) {
  if (kilobytes == nullptr || gpu < 0 ||
      static_cast<std::size_t>(gpu) >= parts_.machine.gpus.size()) {
    return cufile_answer(cufile::error_invalid_value);
  }
  const std::uint64_t bytes = parts_.machine.gpus[static_cast<std::size_t>(gpu)].bar1_bytes;
  *kilobytes = static_cast<std::size_t>(bytes / 1024);
  return cufile_answer(cufile::success);
}

}  // namespace nobounce::fabric
