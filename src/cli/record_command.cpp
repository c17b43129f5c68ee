// `nobounce record`: what the other commands read of this machine, as one file without names,
// addresses and serial numbers.
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "cli/record.hpp"
#include "cli/survey.hpp"
#include "cli/text_file.hpp"
#include "recording/anonymise.hpp"
#include "recording/recorded_tables.hpp"
#include "recording/recording_host.hpp"
#include "report/quantity.hpp"
#include "report/style.hpp"

namespace nobounce::cli {

namespace {

/// Read besides, because it explains differences between machines: settings, versions, counters.
const std::vector<std::string>& further_files() {
  static const std::vector<std::string> files = {
      "/proc/cmdline",
      "/proc/version",
      "/proc/driver/nvidia/params",
      "/proc/driver/nvidia-fs/stats",
      "/proc/driver/nvidia-fs/version",
      "/proc/driver/nvidia-fs/peer_distance",
      "/proc/driver/nvidia-fs/peer_affinity",
      "/sys/module/nvidia_fs/parameters/rw_stats_enabled",
      "/sys/module/nvidia_fs/parameters/peer_stats_enabled",
      "/sys/module/nvme_core/parameters/multipath",
      "/sys/kernel/mm/memory_peers/nv_mem/num_reg_bytes",
      "/proc/sys/kernel/perf_event_paranoid",
      "/etc/os-release"};
  return files;
}

const std::vector<std::string>& variables() {
  static const std::vector<std::string> names = {"CUDA_VISIBLE_DEVICES",
                                                 "CUFILE_ENV_PATH_JSON",
                                                 "CUFILE_FORCE_COMPAT_MODE",
                                                 "CUFILE_ALLOW_COMPAT_MODE",
                                                 "CUFILE_USE_PCIP2PDMA",
                                                 "NCCL_P2P_LEVEL",
                                                 "NCCL_P2P_DISABLE",
                                                 "NCCL_SHM_DISABLE",
                                                 "NCCL_NET_GDR_LEVEL",
                                                 "NCCL_NET_GDR_READ",
                                                 "NCCL_NET_GDR_C2C",
                                                 "NCCL_IB_DISABLE",
                                                 "NCCL_IB_HCA",
                                                 "NCCL_DMABUF_ENABLE",
                                                 "NCCL_CUMEM_ENABLE",
                                                 "NCCL_TOPO_FILE",
                                                 "NCCL_NET",
                                                 "UCX_TLS",
                                                 "UCX_NET_DEVICES",
                                                 "UCX_RNDV_SCHEME",
                                                 "NVSHMEM_IB_ENABLE_IBGDA"};
  return names;
}

std::string list_text(const recording::Recording& recording) {
  std::string text = "files\n";
  for (const auto& [path, content] : recording.files.texts) {
    text += "  " + path + "  " + std::to_string(content.size()) + " bytes\n";
  }
  text += "folders, names only\n";
  for (const auto& [path, names] : recording.files.folders) text += "  " + path + "\n";
  text += "links, where they lead\n";
  for (const auto& [path, target] : recording.files.links) text += "  " + path + "\n";
  text += "variables\n";
  for (const auto& [name, value] : recording.environment) text += "  " + name + "\n";
  text +=
      "calls\n  NVML: devices, memory, windows, NVLinks, peer status\n"
      "  CUDA: devices, attributes, peer access (no context is created)\n"
      "  libcufile: version\n";
  return text;
}

std::string written_text(const std::string& path, std::size_t bytes, const WrittenFile& file) {
  std::string text = "recording  " + report::visible(path) + ", " + report::grouped(bytes) + " B";
  if (file.replaced_bytes.has_value()) {
    text += ", in place of a file of " + report::grouped(*file.replaced_bytes) + " B";
  }
  return text +
         "\n           Read it before you send it: names and addresses that were recognised are "
         "replaced,\n           and nobody knows all of them. nobounce record --list says what is "
         "in it.\n";
}

}  // namespace

Result<recording::Recording> record_machine(system::Host& host, const std::string& name) {
  recording::Recording recording;
  recording.name = name.empty() ? "machine" : name;
  recording.taken_with = NOBOUNCE_VERSION;
  const std::unique_ptr<system::Host> taking = recording::make_recording_host(host, recording);
  Result<Survey> surveyed = survey(*taking);
  if (!surveyed.ok()) return std::move(surveyed).error();
  recording::note_place(host, "/", recording);
  for (const Mount& mount : surveyed->machine.mounts) {
    recording::note_place(host, mount.point, recording);
  }
  const Attempt<std::vector<report::CheckRow>> rows = check_rows(*taking, *surveyed, {});
  if (const auto* problem = std::get_if<Problem>(&rows)) return problem->error;
  for (const std::string& path : further_files()) (void)taking->files().read(path);
  for (const std::string& variable : variables()) (void)taking->environment().get(variable);
  recording.nvml = recording::ask_nvml(host);
  recording.cuda = recording::ask_cuda(host);
  recording.cufile = recording::ask_cufile(host);
  recording.verbs = recording::ask_verbs(host);
  recording::Anonymiser(recording::find_secrets(host)).apply(recording);
  return recording;
}

int run_record(CommandContext& context, const RecordArguments& arguments) {
  Result<recording::Recording> recording = record_machine(*context.machine.host, arguments.name);
  if (!recording.ok()) return context.console.problem({std::move(recording).error()});
  if (arguments.list) {
    context.console.text(list_text(*recording));
    return exit_done;
  }
  const std::string text = core::dump_json(recording::to_json(*recording)) + "\n";
  if (arguments.output.empty()) {
    context.console.text(text);
    return exit_done;
  }
  WrittenFile file;
  const Status written =
      write_text_file(context.console, context.live, arguments.output, text, &file);
  if (!written.ok()) return context.console.problem({written.error()});
  // With --json what is printed is a document, and that is in the file.
  if (!file.printed && !context.console.json())
    context.console.text(written_text(arguments.output, text.size(), file));
  return exit_done;
}

}  // namespace nobounce::cli
