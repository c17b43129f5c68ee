// `nobounce diff A B`: what differs between two machines that can matter to a member, worst first.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "cli/survey.hpp"
#include "core/machine_json.hpp"
#include "report/diff_report.hpp"

namespace nobounce::cli {

namespace {

using report::DiffLine;
using report::DiffWeight;

/// A machine with the rows that check prints of it.
struct Side {
  OpenMachine opened;
  Survey surveyed;
  std::vector<report::CheckRow> rows;
};

/// What a field of a machine can matter to, by the end or middle of its pointer; first match wins.
struct FieldRule {
  std::string_view part;
  DiffWeight weight = DiffWeight::other;
  std::string_view members;
  Cause cause = Cause::none;
};

constexpr FieldRule field_rules[] = {
    {"/unread", DiffWeight::other, "", Cause::machine_needs_root},
    {"/name", DiffWeight::other, "", Cause::none},
    {"/uuid", DiffWeight::other, "", Cause::none},
    {"/bdf", DiffWeight::other, "", Cause::none},
    {"/iommu_group", DiffWeight::other, "", Cause::none},
    {"/netdev", DiffWeight::other, "", Cause::none},
    {"/kernel/iommu", DiffWeight::setting, "storage, rdma, p2p", Cause::machine_iommu_translated},
    {"/kernel/dmabuf", DiffWeight::setting, "rdma", Cause::rdma_dmabuf_not_supported},
    {"/kernel/pci_p2pdma", DiffWeight::setting, "storage", Cause::storage_p2pdma_off},
    {"/kernel/nvidia_driver", DiffWeight::detail, "p2p, storage, rdma, async", Cause::none},
    {"/kernel/release", DiffWeight::detail, "storage, rdma", Cause::none},
    {"/modules/nvidia_fs", DiffWeight::setting, "storage", Cause::storage_nvidia_fs_absent},
    {"/modules/nvidia_peermem", DiffWeight::setting, "rdma", Cause::rdma_peermem_not_loaded},
    {"/modules/nvme", DiffWeight::setting, "storage", Cause::storage_driver_not_registered},
    {"/modules/parameters", DiffWeight::setting, "p2p, async", Cause::none},
    {"/modules/versions", DiffWeight::detail, "storage, rdma", Cause::none},
    {"/libraries", DiffWeight::detail, "rdma", Cause::none},
    {"/libcufile", DiffWeight::setting, "storage", Cause::storage_cufile_absent},
    {"/cufile_settings", DiffWeight::setting, "storage", Cause::storage_compat_forced},
    {"/udev", DiffWeight::setting, "storage", Cause::storage_udev_missing},
    {"/guest", DiffWeight::setting, "p2p, storage, rdma", Cause::machine_guest_topology_hidden},
    {"/confidential", DiffWeight::setting, "p2p, storage, rdma",
     Cause::machine_confidential_computing},
    {"/container/infiniband_hidden", DiffWeight::setting, "rdma", Cause::container_no_infiniband},
    {"/process/memlock", DiffWeight::setting, "rdma", Cause::rdma_memlock_limit},
    {"/process/seccomp", DiffWeight::detail, "storage", Cause::container_seccomp},
    {"/fabric_manager", DiffWeight::setting, "p2p", Cause::machine_fabric_manager_absent},
    {"/nvlinks_down", DiffWeight::setting, "p2p", Cause::machine_nvlink_down},
    {"/nvlinks", DiffWeight::setting, "p2p", Cause::machine_nvlink_down},
    {"/acs", DiffWeight::setting, "p2p, storage, rdma", Cause::machine_acs_redirect},
    {"/peer_forwarding", DiffWeight::setting, "p2p, storage, rdma",
     Cause::machine_cross_host_bridge},
    {"/link/", DiffWeight::detail, "p2p, storage, rdma", Cause::machine_link_downtrained},
    {"/bar1_bytes", DiffWeight::setting, "rdma, storage, p2p", Cause::machine_bar1_too_small},
    {"/peer_status", DiffWeight::setting, "p2p", Cause::none},
    {"/mode", DiffWeight::setting, "p2p, storage", Cause::none},
    {"/active", DiffWeight::setting, "rdma", Cause::rdma_port_down},
    {"/rate_gbps", DiffWeight::detail, "rdma", Cause::none},
    {"/link_layer", DiffWeight::detail, "rdma", Cause::none},
    {"/firmware", DiffWeight::detail, "rdma, storage", Cause::none},
    {"/ats", DiffWeight::setting, "rdma", Cause::machine_acs_redirect},
    {"/iommu", DiffWeight::setting, "storage, rdma, p2p", Cause::machine_iommu_translated},
    {"/nvidia_fs_registered", DiffWeight::setting, "storage", Cause::storage_driver_not_registered},
    {"/options", DiffWeight::setting, "storage", Cause::storage_mount_options},
    {"/direct_io", DiffWeight::setting, "storage", Cause::storage_direct_io_refused},
    {"/driver", DiffWeight::setting, "p2p, storage, rdma", Cause::none},
    {"/parent", DiffWeight::setting, "p2p, storage, rdma", Cause::none},
    {"/product", DiffWeight::detail, "p2p", Cause::none},
    {"/environment", DiffWeight::detail, "p2p, rdma, storage", Cause::none},
};

const FieldRule& rule_of(std::string_view pointer) {
  for (const FieldRule& rule : field_rules) {
    if (pointer.find(rule.part) != std::string_view::npos) return rule;
  }
  static constexpr FieldRule nothing{};
  return nothing;
}

std::string text_of(const core::Json& json) {
  const std::string* text = json.as_text();
  return text != nullptr ? *text : core::dump_json(json, true);
}

/// Lists of devices are compared by what they are called, so that one more moves none of the
/// others.
void flatten(const core::Json& json, const std::string& pointer,
             std::map<std::string, std::string>& fields) {
  if (const core::JsonObject* members = json.as_object()) {
    for (const auto& [key, value] : *members) {
      flatten(value, pointer + core::pointer_step(key), fields);
    }
    return;
  }
  const core::JsonArray* items = json.as_array();
  if (items == nullptr) {
    fields[pointer] = text_of(json);
    return;
  }
  for (std::size_t i = 0; i < items->size(); ++i) {
    std::string step = std::to_string(i);
    for (const char* key : {"name", "point", "device"}) {
      const core::Json* named = (*items)[i].find(key);
      if (named != nullptr && named->as_text() != nullptr) {
        step = *named->as_text();
        break;
      }
    }
    flatten((*items)[i], pointer + core::pointer_step(step), fields);
  }
}

std::string row_key(const report::CheckRow& row) {
  std::string key = std::string(to_string(row.member)) + " " + row.source + " -> " + row.target +
                    " " + row.direction;
  if (!row.path.empty()) key += " " + row.path;
  return key;
}

std::string verdict_text(const report::CheckRow& row) {
  std::string text(to_string(row.verdict));
  for (const Cause cause : row.causes)
    text += (text.find(':') == std::string::npos ? ": " : ", ") + std::string(to_string(cause));
  return text;
}

void compare_rows(const Side& before, const Side& after, std::vector<DiffLine>& lines) {
  std::map<std::string, std::pair<const report::CheckRow*, const report::CheckRow*>> rows;
  for (const report::CheckRow& row : before.rows) rows[row_key(row)].first = &row;
  for (const report::CheckRow& row : after.rows) rows[row_key(row)].second = &row;
  for (const auto& [key, pair] : rows) {
    const std::string one = pair.first == nullptr ? "" : verdict_text(*pair.first);
    const std::string other = pair.second == nullptr ? "" : verdict_text(*pair.second);
    if (one == other) continue;
    const report::CheckRow& row = pair.second != nullptr ? *pair.second : *pair.first;
    lines.push_back(
        {DiffWeight::verdict, key, one, other, std::string(to_string(row.member)),
         pair.second == nullptr || row.causes.empty() ? Cause::none : row.causes.front()});
  }
}

void compare_fields(const Side& before, const Side& after, std::vector<DiffLine>& lines) {
  std::map<std::string, std::string> one;
  std::map<std::string, std::string> other;
  flatten(core::machine_to_json(before.surveyed.machine), "", one);
  flatten(core::machine_to_json(after.surveyed.machine), "", other);
  std::map<std::string, std::pair<std::string, std::string>> all;
  for (const auto& [pointer, value] : one) all[pointer].first = value;
  for (const auto& [pointer, value] : other) all[pointer].second = value;
  for (const auto& [pointer, values] : all) {
    if (values.first == values.second) continue;
    const FieldRule& rule = rule_of(pointer);
    lines.push_back({rule.weight, pointer, values.first, values.second, std::string(rule.members),
                     rule.weight == DiffWeight::setting ? rule.cause : Cause::none});
  }
}

Attempt<Side> open_side(const std::string& text, system::Host& live) {
  MachineSelection selection;
  // A file is a recording; all else is as of --machine.
  const bool word =
      text == "live" || text.compare(0, 5, "soft:") == 0 || text.compare(0, 9, "recorded:") == 0;
  selection.machine = word ? text : "recorded:" + text;
  Attempt<OpenMachine> opened = open_machine(selection, live);
  if (auto* problem = std::get_if<Problem>(&opened)) return std::move(*problem);
  Side side{std::get<OpenMachine>(std::move(opened)), {}, {}};
  Result<Survey> surveyed = survey(*side.opened.host);
  if (!surveyed.ok()) return Problem{std::move(surveyed).error()};
  side.surveyed = *std::move(surveyed);
  CheckArguments everything;
  everything.all = true;
  Attempt<std::vector<report::CheckRow>> rows =
      check_rows(*side.opened.host, side.surveyed, everything);
  if (auto* problem = std::get_if<Problem>(&rows)) return std::move(*problem);
  side.rows = std::get<std::vector<report::CheckRow>>(std::move(rows));
  return side;
}

}  // namespace

int run_diff(Console& console, const DiffArguments& arguments, system::Host& live) {
  Attempt<Side> before = open_side(arguments.before, live);
  if (const auto* problem = std::get_if<Problem>(&before)) return console.problem(*problem);
  Attempt<Side> after = open_side(arguments.after, live);
  if (const auto* problem = std::get_if<Problem>(&after)) return console.problem(*problem);
  const Side& one = std::get<Side>(before);
  const Side& other = std::get<Side>(after);
  report::DiffReport report{one.opened.label, other.opened.label, {}};
  compare_rows(one, other, report.lines);
  compare_fields(one, other, report.lines);
  std::stable_sort(report.lines.begin(), report.lines.end(),
                   [](const DiffLine& a, const DiffLine& b) { return a.weight < b.weight; });
  if (console.json()) {
    console.document(report::diff_json(report));
  } else {
    console.text(report::diff_text(report, console.style()));
  }
  const bool matters = !report.lines.empty() && report.lines.front().weight <= DiffWeight::setting;
  return matters ? exit_refused : exit_done;
}

}  // namespace nobounce::cli
