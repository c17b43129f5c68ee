// What check says of the machine as a whole, beside its rows.
#include <string>
#include <utility>

#include "cli/survey.hpp"
#include "core/cufile_settings.hpp"
#include "judge/library_view.hpp"

namespace nobounce::cli {

namespace {

using report::CheckNote;

void note_cufile(const core::CufileFacts& facts, std::vector<CheckNote>& notes) {
  if (facts.path.empty()) return;
  std::string where = facts.path;
  where += facts.chosen_by == "CUFILE_ENV_PATH_JSON" ? " (named by CUFILE_ENV_PATH_JSON)"
                                                     : " (the first that exists)";
  if (!facts.error.empty()) {
    notes.push_back({Cause::storage_cufile_json_invalid, "cufile.json",
                     where + ": " + facts.error + "; libcufile then uses its defaults"});
    return;
  }
  notes.push_back({Cause::none, "cufile.json", "in force for other programs: " + where});
  for (const auto& [pointer, value] : facts.staging) {
    // To allow it is the library's own default: to be known, and nothing to be mended.
    const bool allows = pointer == "/properties/allow_compat_mode";
    const bool forces = pointer == "/properties/force_compat_mode";
    notes.push_back({allows   ? Cause::none
                     : forces ? Cause::storage_compat_forced
                              : Cause::storage_compat_used,
                     "cufile.json",
                     pointer + " = " + value + ": " + std::string(core::staging_effect(pointer))});
  }
}

void note_driver(const Machine& machine, std::vector<CheckNote>& notes) {
  if (machine.fabric_manager == FabricManager::absent) {
    notes.push_back({Cause::machine_fabric_manager_absent, "NVSwitch",
                     std::to_string(machine.nvswitches) +
                         " NVSwitches, and the fabric manager is not running"});
  }
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    const std::string name = "gpu:" + std::to_string(i);
    const Gpu& gpu = machine.gpus[i];
    if (gpu.nvlinks_down != 0) {
      notes.push_back({Cause::machine_nvlink_down, name,
                       std::to_string(gpu.nvlinks_down) + " of its NVLinks are not active"});
    }
    if (gpu.driver != "nvidia") {
      notes.push_back({Cause::machine_no_gpu, name,
                       gpu.driver.empty() ? "no driver is bound to it"
                                          : "the driver bound to it is " + gpu.driver});
    }
  }
  if (!machine.other_gpus.empty()) {
    notes.push_back({Cause::none, "GPUs",
                     std::to_string(machine.other_gpus.size()) +
                         " of other vendors, which nobounce moves nothing of"});
  }
}

void note_container(const Machine& machine, std::vector<CheckNote>& notes) {
  if (!machine.container.inside) return;
  const std::string runtime =
      machine.container.runtime.empty() ? "a container" : machine.container.runtime;
  notes.push_back({Cause::none, "container", "this is " + runtime});
  if (!machine.udev) {
    notes.push_back({Cause::container_no_udev, "container", "/run/udev/data is not there"});
  }
  if (machine.process.seccomp == "filter" && !machine.process.root) {
    notes.push_back(
        {Cause::container_seccomp, "container", "a seccomp filter is on: io_uring may be refused"});
  }
}

}  // namespace

std::vector<CheckNote> check_notes(const Survey& surveyed) {
  std::vector<CheckNote> notes;
  const Machine& machine = surveyed.machine;
  note_driver(machine, notes);
  note_container(machine, notes);
  note_cufile(surveyed.facts.cufile, notes);
  for (judge::LibraryView& view : judge::library_views(machine, surveyed.facts)) {
    notes.push_back({view.cause, view.library, std::move(view.sentence)});
  }
  for (const Unread& unread : machine.unread) {
    notes.push_back({unread.needs_root ? Cause::machine_needs_root : Cause::none, "not read",
                     unread.what + " (" + unread.path + ")"});
  }
  return notes;
}

}  // namespace nobounce::cli
