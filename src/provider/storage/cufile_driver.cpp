// The cuFile driver as this provider uses it.
#include "provider/storage/cufile_driver.hpp"

#include <memory>
#include <utility>

#include "provider/storage/cufile_errors.hpp"

namespace nobounce::provider::storage {

namespace {

constexpr const char* module_directory = "/proc/driver/nvidia-fs";
constexpr int statistics_level = 3;

}  // namespace

Result<system::Cufile*> CufileDriver::open() {
  const std::lock_guard lock(mutex_);
  if (!opened_.has_value()) opened_ = open_now();
  return *opened_;
}

Result<system::Cufile*> CufileDriver::open_now() {
  const Result<system::Cufile*> cufile = host_.cufile();
  if (!cufile.ok()) {
    Error error = cufile.error();
    if (error.cause == Cause::none) error.cause = Cause::storage_cufile_absent;
    return error;
  }
  const int code = (*cufile)->driver_open().err;
  if (code != system::cufile::success) {
    Error error = error_of_code(code, "open the cuFile driver (cuFileDriverOpen)",
                                Cause::storage_cufile_driver_failed);
    error.cause = Cause::storage_cufile_driver_failed;
    return error;
  }
  module_was_there_ = host_.files().exists(module_directory);
  verify_configuration(**cufile);
  start_statistics(**cufile);
  return *cufile;
}

void CufileDriver::verify_configuration(system::Cufile& cufile) {
  if (!configuration_ours_.value.value_or(false)) return;
  bool compat = false;
  const int code =
      cufile.get_parameter_bool(system::cufile::parameter_bool_allow_compat_mode, &compat).err;
  if (code != system::cufile::success) {
    configuration_ours_.observed += "; this libcufile cannot confirm it";
    return;
  }
  if (!compat) {
    configuration_ours_.observed = "cuFile confirms that compatibility mode is off";
  } else {
    configuration_ours_.value = false;
    configuration_ours_.observed =
        "cuFile allows compatibility mode although our configuration forbids it";
  }
  configuration_ours_.source = "cuFileGetParameterBool";
}

void CufileDriver::start_statistics(system::Cufile& cufile) {
  int level = 0;
  const bool known = cufile.get_stats_level(&level).err == system::cufile::success;
  if (!known || level < statistics_level) (void)cufile.set_stats_level(statistics_level);
  statistics_started_ = cufile.stats_start().err == system::cufile::success;
  const auto statistics = std::make_unique<system::cufile::CUfileStatsLevel3_t>();
  statistics_readable_ = cufile.get_stats_l3(statistics.get()).err == system::cufile::success;
}

std::optional<Status> CufileDriver::opened() const {
  const std::lock_guard lock(mutex_);
  if (!opened_.has_value()) return std::nullopt;
  return opened_->ok() ? Status{} : Status{opened_->error()};
}

unsigned CufileDriver::standing() const {
  const std::lock_guard lock(mutex_);
  const unsigned opened = !opened_.has_value() ? 0u : opened_->ok() ? 1u : 2u;
  const bool vanished = module_was_there_ && !host_.files().exists(module_directory);
  return opened | (configuration_ours_.value.value_or(true) ? 4u : 0u) | (vanished ? 8u : 0u);
}

core::Fact CufileDriver::configuration_ours() const {
  const std::lock_guard lock(mutex_);
  return configuration_ours_;
}

bool CufileDriver::module_vanished() const {
  const std::lock_guard lock(mutex_);
  return module_was_there_ && !host_.files().exists(module_directory);
}

std::optional<PathCounters> CufileDriver::read_counters(bool writing) const {
  system::Cufile* cufile = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!statistics_readable_ || !opened_.has_value() || !opened_->ok()) return std::nullopt;
    cufile = opened_->value();
  }
  system::cufile::CUfileStatsLevel3_t statistics{};
  if (cufile->get_stats_l3(&statistics).err != system::cufile::success) return std::nullopt;
  return path_counters(statistics, writing);
}

void CufileDriver::close() {
  const std::lock_guard lock(mutex_);
  if (!opened_.has_value() || !opened_->ok()) return;
  system::Cufile& cufile = *opened_->value();
  // libcufile crashes at exit when it is unloaded with its statistics running.
  if (statistics_started_) (void)cufile.stats_stop();
  (void)cufile.driver_close();
  opened_ = Error{
      .origin = ErrorOrigin::session, .attempted = "use cuFile", .cause = Cause::session_closed};
}

}  // namespace nobounce::provider::storage
