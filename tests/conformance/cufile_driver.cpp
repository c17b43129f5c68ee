// cuFile's driver: opening and closing, its use count, properties, parameters, statistics'
// switches.
#include "conformance/cufile_rig.hpp"

namespace nobounce::conformance {

namespace {

void use_count(Run& run) {
  start_cuda(run);
  (void)run.cufile().use_count();
  (void)run.cufile().driver_open();
  (void)run.cufile().use_count();
  (void)run.cufile().driver_open();
  (void)run.cufile().use_count();
  (void)run.cufile().driver_close();
  (void)run.cufile().use_count();
  (void)run.cufile().driver_close();
  (void)run.cufile().use_count();
  (void)run.cufile().driver_close();
}

void opened_again(Run& run) {
  start_cuda(run);
  (void)run.cufile().driver_open();
  (void)run.cufile().driver_close();
  (void)run.cufile().driver_open();
  (void)run.cufile().use_count();
  (void)run.cufile().driver_close();
}

void properties(Run& run) {
  start_cuda(run);
  cufile::CUfileDrvProps_t props{};
  (void)run.cufile().driver_get_properties(&props);
  (void)run.cufile().driver_open();
  (void)run.cufile().driver_get_properties(nullptr);
  (void)run.cufile().driver_get_properties(&props);
  run.number("nvfs major", props.nvfs.major_version);
  run.number("nvfs minor", props.nvfs.minor_version);
  run.number("poll threshold", props.nvfs.poll_thresh_size);
  run.number("max direct", props.nvfs.max_direct_io_size);
  run.number("dstatusflags", props.nvfs.dstatusflags);
  run.number("dcontrolflags", props.nvfs.dcontrolflags);
  run.number("fflags", props.fflags);
  run.number("device cache", props.max_device_cache_size);
  run.number("per buffer cache", props.per_buffer_cache_size);
  run.number("pinned", props.max_device_pinned_mem_size);
  run.number("batch", props.max_batch_io_size);
  run.number("batch timeout", props.max_batch_io_timeout_msecs);
  (void)run.cufile().driver_close();
  (void)run.cufile().driver_get_properties(&props);
}

void parameters(Run& run, bool open) {
  start_cuda(run);
  if (open) (void)run.cufile().driver_open();
  for (int parameter = 0; parameter < 12; ++parameter) {
    bool value = false;
    run.note("parameter " + std::to_string(parameter));
    if (run.cufile().get_parameter_bool(parameter, &value).err == 0) run.yes("value", value);
  }
}

void wrong_parameters(Run& run) {
  start_cuda(run);
  bool value = false;
  for (const int parameter : {-1, 12, 13, 4711}) {
    run.note("parameter " + std::to_string(parameter));
    (void)run.cufile().get_parameter_bool(parameter, &value);
    (void)run.cufile().set_parameter_bool(parameter, true);
  }
  (void)run.cufile().get_parameter_bool(1, nullptr);
}

void parameter_set_before(Run& run) {
  start_cuda(run);
  bool value = true;
  (void)run.cufile().set_parameter_bool(cufile::parameter_bool_force_compat_mode, true);
  (void)run.cufile().get_parameter_bool(cufile::parameter_bool_force_compat_mode, &value);
  run.yes("before opening", value);
  (void)run.cufile().driver_open();
  (void)run.cufile().get_parameter_bool(cufile::parameter_bool_force_compat_mode, &value);
  run.yes("open", value);
  (void)run.cufile().set_parameter_bool(cufile::parameter_bool_force_compat_mode, false);
  (void)run.cufile().driver_close();
  (void)run.cufile().get_parameter_bool(cufile::parameter_bool_force_compat_mode, &value);
  run.yes("closed again", value);
  (void)run.cufile().set_parameter_bool(cufile::parameter_bool_force_compat_mode, false);
}

void parameter_set_while_open(Run& run) {
  start_cuda(run);
  bool value = false;
  (void)run.cufile().driver_open();
  (void)run.cufile().set_parameter_bool(cufile::parameter_bool_force_compat_mode, true);
  (void)run.cufile().get_parameter_bool(cufile::parameter_bool_force_compat_mode, &value);
  run.yes("open", value);
  (void)run.cufile().driver_close();
  (void)run.cufile().driver_open();
  (void)run.cufile().get_parameter_bool(cufile::parameter_bool_force_compat_mode, &value);
  run.yes("opened again", value);
  (void)run.cufile().driver_close();
}

void statistics_levels(Run& run) {
  start_cuda(run);
  int level = -7;
  run.note("not open");
  (void)run.cufile().set_stats_level(1);
  (void)run.cufile().get_stats_level(&level);
  (void)run.cufile().stats_start();
  (void)run.cufile().stats_stop();
  (void)run.cufile().driver_open();
  run.note("open");
  (void)run.cufile().get_stats_level(&level);
  run.note("level " + std::to_string(level));
  for (const int wanted : {-1, 0, 1, 2, 3, 4}) {
    run.note("wanted " + std::to_string(wanted));
    (void)run.cufile().set_stats_level(wanted);
    (void)run.cufile().get_stats_level(&level);
    run.note("level " + std::to_string(level));
  }
  (void)run.cufile().get_stats_level(nullptr);
  (void)run.cufile().stats_stop();
  (void)run.cufile().set_stats_level(0);
  (void)run.cufile().driver_close();
}

void statistics_reading(Run& run) {
  start_cuda(run);
  static cufile::CUfileStatsLevel3_t stats{};
  run.note("not open");
  (void)run.cufile().get_stats_l3(&stats);
  (void)run.cufile().driver_open();
  for (const int level : {0, 1, 2, 3}) {
    run.note("level " + std::to_string(level));
    (void)run.cufile().set_stats_level(level);
    (void)run.cufile().get_stats_l3(&stats);
  }
  (void)run.cufile().get_stats_l3(nullptr);
  (void)run.cufile().stats_start();
  (void)run.cufile().stats_start();
  (void)run.cufile().get_stats_l3(&stats);
  run.number("GPUs", stats.num_gpus);
  run.number("reads", stats.detailed.basic.read_ops.ok);
  (void)run.cufile().stats_stop();
  (void)run.cufile().stats_stop();
  (void)run.cufile().set_stats_level(0);
  (void)run.cufile().driver_close();
}

void bar_sizes(Run& run, bool open) {
  start_cuda(run);
  if (open) (void)run.cufile().driver_open();
  for (const int gpu : {0, -1, 16, 4711}) {
    std::size_t kilobytes = 7;
    run.note("GPU " + std::to_string(gpu));
    if (run.cufile().get_bar_size_in_kb(gpu, &kilobytes).err == 0) {
      run.number("kilobytes", kilobytes);
    }
  }
  (void)run.cufile().get_bar_size_in_kb(0, nullptr);
}

void compat_forbidden(Run& run) {
  start_cuda(run);
  bool value = false;
  (void)run.cufile().driver_open();
  (void)run.cufile().use_count();
  (void)run.cufile().get_parameter_bool(cufile::parameter_bool_allow_compat_mode, &value);
  run.yes("compat allowed", value);
}

}  // namespace

void add_cufile_driver(Catalogue& all) {
  const Needs needs = cufile_needs();
  all.add("cufile.driver.use_count", use_count, needs);
  all.add("cufile.driver.opened_again", opened_again, needs);
  all.add(
      "cufile.driver.close_unopened",
      [](Run& run) {
        start_cuda(run);
        (void)run.cufile().driver_close();
      },
      needs);
  all.add(
      "cufile.driver.open_without_cuda",
      [](Run& run) {
        (void)run.cufile().driver_open();
        (void)run.cufile().use_count();
      },
      needs);
  all.add(
      "cufile.driver.open_without_context",
      [](Run& run) {
        (void)run.quiet().init(0);
        (void)run.cufile().driver_open();
        (void)run.cufile().use_count();
      },
      needs);
  all.add(
      "cufile.driver.version",
      [](Run& run) {
        int version = 0;
        (void)run.cufile().get_version(&version);
        run.number("version", static_cast<std::uint64_t>(version));
        (void)run.cufile().get_version(nullptr);
      },
      needs);
  all.add("cufile.driver.properties", properties, needs);
  all.add(
      "cufile.driver.properties.unopened",
      [](Run& run) {
        start_cuda(run);
        cufile::CUfileDrvProps_t props{};
        (void)run.cufile().driver_get_properties(&props);
        (void)run.cufile().use_count();
      },
      needs);
  all.add(
      "cufile.parameters.before_open", [](Run& run) { parameters(run, false); }, needs);
  all.add(
      "cufile.parameters.open", [](Run& run) { parameters(run, true); }, needs);
  all.add("cufile.parameters.wrong", wrong_parameters, needs);
  all.add("cufile.parameters.set_before", parameter_set_before, needs);
  all.add("cufile.parameters.set_while_open", parameter_set_while_open, needs);
  Needs forced = needs;
  forced.environment = {{"CUFILE_FORCE_COMPAT_MODE", "true"}};
  all.add(
      "cufile.parameters.by_environment", [](Run& run) { parameters(run, true); }, forced);
  all.add("cufile.parameters.over_environment", parameter_set_before, forced);
  Needs forbidden = needs;
  forbidden.environment = {{"CUFILE_ALLOW_COMPAT_MODE", "false"}};
  all.add("cufile.driver.compat_forbidden", compat_forbidden, forbidden);
  all.add("cufile.statistics.levels", statistics_levels, needs);
  all.add("cufile.statistics.reading", statistics_reading, needs);
  all.add(
      "cufile.bar_size.before_open", [](Run& run) { bar_sizes(run, false); }, needs);
  all.add(
      "cufile.bar_size.open", [](Run& run) { bar_sizes(run, true); }, needs);
}

}  // namespace nobounce::conformance
