// The table of what remedies cost, by cause.
#include "core/remedy_risk.hpp"

#include <algorithm>

namespace nobounce::core {

namespace {

struct RiskRow {
  Cause cause;
  RemedyRisk risk;
};

constexpr std::string_view no_isolation =
    "devices below these ports are no longer kept apart, so no virtual machine or container may "
    "have one of its own";
constexpr std::string_view open_memory =
    "every device can reach all memory of the host; interrupts stay checked";
constexpr std::string_view no_iommu =
    "every device can reach all memory of the host and raise any interrupt; no device can be given "
    "to a virtual machine";
constexpr std::string_view all_memory = "its processes may lock all memory of the host";
constexpr std::string_view all_rights = "the command runs with all rights, once";

constexpr RiskRow risk_rows[] = {
    {Cause::machine_acs_redirect, {"setpci", Lasting::until_reboot, false, no_isolation}},
    {Cause::machine_acs_redirect, {"pci=disable_acs_redir", Lasting::always, true, no_isolation}},
    {Cause::machine_acs_unreadable, {"root", Lasting::this_run, false, all_rights}},
    {Cause::machine_needs_root, {"sudo", Lasting::this_run, false, all_rights}},
    {Cause::machine_iommu_translated, {"iommu=pt", Lasting::always, true, open_memory}},
    {Cause::machine_iommu_translated,
     {"intel_iommu=off, amd_iommu=off", Lasting::always, true, no_iommu}},
    {Cause::machine_iommu_fault, {"iommu=pt", Lasting::always, true, open_memory}},
    {Cause::machine_bar1_too_small, {"firmware settings", Lasting::always, true, ""}},
    {Cause::machine_link_downtrained, {"reseating the card", Lasting::always, true, ""}},
    {Cause::machine_confidential_computing,
     {"switching the mode off", Lasting::always, true,
      "the host can read the GPU's memory and what goes to it"}},
    {Cause::machine_fabric_manager_absent, {"systemctl start", Lasting::until_reboot, false, ""}},
    {Cause::p2p_chipset_not_supported, {"another driver", Lasting::always, true, ""}},
    {Cause::p2p_mig_enabled,
     {"nvidia-smi -mig 0", Lasting::always, false,
      "whoever uses the GPU is no longer kept apart, and what runs on it ends"}},
    {Cause::p2p_disabled_by_setting, {"the variable", Lasting::this_run, false, ""}},
    {Cause::rdma_distance_over_limit, {"the variable", Lasting::this_run, false, ""}},
    {Cause::rdma_peermem_not_loaded, {"modprobe", Lasting::until_reboot, false, ""}},
    {Cause::rdma_dmabuf_not_supported, {"kernel and driver", Lasting::always, true, ""}},
    {Cause::rdma_dmabuf_not_supported, {"nvidia-peermem", Lasting::until_reboot, false, ""}},
    {Cause::rdma_port_down, {"ip link set up", Lasting::until_reboot, false, ""}},
    {Cause::rdma_verbs_absent, {"apt-get install", Lasting::always, false, ""}},
    {Cause::rdma_memlock_limit, {"ulimit -l", Lasting::this_run, false, all_memory}},
    {Cause::rdma_memlock_limit, {"LimitMEMLOCK", Lasting::always, false, all_memory}},
    {Cause::container_memlock, {"--ulimit memlock", Lasting::this_run, false, all_memory}},
    {Cause::container_no_infiniband,
     {"--device=/dev/infiniband", Lasting::this_run, false,
      "the container uses the host's adapters, and may lock all memory of the host"}},
    {Cause::container_no_udev,
     {"-v /run/udev", Lasting::this_run, false, "the container sees which devices the host has"}},
    {Cause::container_seccomp,
     {"--cap-add", Lasting::this_run, false,
      "the container may set priorities, and with PERFMON read counters of the whole host"}},
    {Cause::storage_udev_missing,
     {"-v /run/udev", Lasting::this_run, false, "the container sees which devices the host has"}},
    {Cause::storage_udev_missing, {"udevadm trigger", Lasting::until_reboot, false, ""}},
    {Cause::storage_nvidia_fs_absent, {"modprobe", Lasting::until_reboot, false, ""}},
    {Cause::storage_nvidia_fs_absent, {"the package", Lasting::always, false, ""}},
    {Cause::storage_module_vanished, {"modprobe", Lasting::until_reboot, false, ""}},
    {Cause::evidence_dram_counters_absent, {"modprobe", Lasting::until_reboot, false, ""}},
    {Cause::evidence_dram_counters_refused,
     {"sysctl", Lasting::until_reboot, false,
      "every user may count what the whole machine does, which tells of others' work"}},
    {Cause::evidence_dram_counters_refused,
     {"CAP_PERFMON", Lasting::this_run, false,
      "the program may count what the whole machine does"}},
    {Cause::storage_driver_not_registered, {"another nvme driver", Lasting::always, true, ""}},
    {Cause::storage_mount_options, {"mount", Lasting::until_reboot, false, ""}},
    {Cause::storage_mount_options, {"/etc/fstab", Lasting::always, false, ""}},
    {Cause::storage_compat_forced, {"the variable", Lasting::this_run, false, ""}},
    {Cause::storage_compat_forced, {"cufile.json", Lasting::always, false, ""}},
    {Cause::storage_cufile_json_invalid, {"cufile.json", Lasting::always, false, ""}},
    {Cause::storage_cufile_absent, {"the package", Lasting::always, false, ""}},
    {Cause::nvme_in_use, {"umount", Lasting::until_reboot, false, ""}},
    {Cause::nvme_not_vfio,
     {"vfio-pci", Lasting::until_reboot, false,
      "a program drives the drive itself; without an IOMMU it could reach all memory"}},
    {Cause::nvme_take_needed,
     {"--take", Lasting::this_run, false, "everything on the drive may be overwritten"}},
};

}  // namespace

std::string_view to_string(Lasting lasting) {
  switch (lasting) {
    case Lasting::this_run:
      return "this_run";
    case Lasting::until_reboot:
      return "until_reboot";
    case Lasting::always:
      break;
  }
  return "always";
}

std::vector<RemedyRisk> risks_of(Cause cause) {
  std::vector<RemedyRisk> risks;
  for (const RiskRow& row : risk_rows) {
    if (row.cause == cause) risks.push_back(row.risk);
  }
  return risks;
}

std::vector<RemedyRisk> risks_of(const Finding& finding) {
  if (finding.remedy.empty() || finding.remedy == cause_row(finding.cause).remedy)
    return risks_of(finding.cause);
  // What is shown may be another cause's remedy: how to find out what is not known.
  const std::span<const CauseRow> rows = cause_table();
  const auto other = std::find_if(rows.begin(), rows.end(), [&finding](const CauseRow& row) {
    return row.remedy == finding.remedy;
  });
  return risks_of(other != rows.end() ? other->cause : finding.cause);
}

std::string risk_text(const RemedyRisk& risk) {
  std::string text(risk.way);
  switch (risk.lasting) {
    case Lasting::this_run:
      text += ": for this run";
      break;
    case Lasting::until_reboot:
      text += ": until the next reboot";
      break;
    case Lasting::always:
      text += ": for good";
      break;
  }
  if (risk.needs_reboot) text += ", after a reboot";
  if (!risk.gives_up.empty()) text += "; " + std::string(risk.gives_up);
  return text;
}

}  // namespace nobounce::core
