// Reads what concerns the whole host: libraries, modules, settings, counters, GPUs.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "core/cufile_flag.hpp"
#include "core/cufile_settings.hpp"
#include "core/json.hpp"
#include "preconditions/gpu_facts.hpp"
#include "preconditions/read_facts.hpp"

namespace nobounce::preconditions {
namespace {

using core::Fact;
using core::TextFact;

bool has_module(std::string_view modules, std::string_view name) {
  const std::string line_start = std::string(name) + " ";
  return modules.substr(0, line_start.size()) == line_start ||
         modules.find("\n" + line_start) != std::string_view::npos;
}

void read_libcufile(system::Host& host, core::StorageHostFacts& facts) {
  const std::string source = "dlopen libcufile.so.0";
  Result<system::Cufile*> table = host.cufile();
  if (!table) {
    facts.cufile_library = Fact{false, to_string(table.error()), source};
    facts.cufile_version.source = source;
    return;
  }
  facts.cufile_library = Fact{true, "libcufile is loaded", source};
  facts.cufile_version.source = "cuFileGetVersion";
  int version = 0;
  if ((*table)->get_version(&version).err == system::cufile::success && version > 0) {
    facts.cufile_version.value =
        std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  }
}

Fact read_nvidia_fs(system::Files& files) {
  const std::string source = "/proc/modules";
  const Result<std::string> modules = files.read(source);
  if (modules) {
    const bool loaded = has_module(*modules, "nvidia_fs");
    return Fact{
        loaded,
        loaded ? "kernel module nvidia_fs is loaded" : "kernel module nvidia_fs is not loaded",
        source};
  }
  if (files.exists("/proc/driver/nvidia-fs/version")) {
    return Fact{true, "kernel module nvidia_fs is loaded", "/proc/driver/nvidia-fs/version"};
  }
  // The rest of /proc is there, this file is not: the kernel was built without loadable modules.
  if (modules.error().code == ENOENT && files.exists("/proc/sys/kernel/osrelease")) {
    return Fact{false, "this kernel has no loadable modules, and nvidia_fs is one", source};
  }
  return Fact{std::nullopt, to_string(modules.error()), source};
}

Fact read_p2pdma(system::Files& files, const Machine& machine) {
  const std::string source = "/boot/config-" + machine.kernel.release + " or /proc/kallsyms";
  if (machine.kernel.pci_p2pdma) return Fact{true, "the kernel has CONFIG_PCI_P2PDMA", source};
  const bool readable =
      files.exists("/boot/config-" + machine.kernel.release) || files.exists("/proc/kallsyms");
  if (readable) return Fact{false, "the kernel has no CONFIG_PCI_P2PDMA", source};
  return Fact{std::nullopt, "neither the kernel's configuration nor its symbols can be read",
              source};
}

Fact read_udev_database(system::Files& files) {
  const std::string source = "/run/udev/data";
  const bool there = files.exists(source);
  return Fact{there, there ? "the udev database is there" : "there is no udev database", source};
}

/// A file of the distribution, or one of this process (our own configuration lies in memory).
Result<std::string> read_configuration(system::Host& host, const std::string& path) {
  Result<std::string> text = host.files().read(path);
  if (text) return text;
  const Result<system::FileHandle> file = host.storage().open(path, {});
  if (!file) return text;
  constexpr std::size_t length_max = 1u << 20;
  std::string content(length_max, '\0');
  std::size_t length = 0;
  while (length < length_max) {
    const Result<std::size_t> got =
        host.storage().read(*file, reinterpret_cast<std::byte*>(content.data() + length),
                            length_max - length, FileOffset{length});
    if (!got || *got == 0) break;
    length += *got;
  }
  (void)host.storage().close(*file);
  content.resize(length);
  return content;
}

/// The configuration that libcufile would read: the first of its three places that exists.
core::CufileFacts read_cufile_configuration(system::Host& host) {
  core::CufileFacts facts;
  const std::array<std::string, 3> paths = {
      host.environment().get("CUFILE_ENV_PATH_JSON").value_or(""), "/etc/cufile.json",
      "/usr/local/cuda/gds/cufile.json"};
  for (const std::string& path : paths) {
    if (path.empty()) continue;
    const Result<std::string> text = read_configuration(host, path);
    if (!text) continue;
    facts.path = path;
    facts.chosen_by = &path == &paths[0] ? "CUFILE_ENV_PATH_JSON" : "first that exists";
    const Result<core::Json> document =
        core::parse_json(*text, path, core::JsonOptions{.allow_comments = true});
    if (!document) {
      facts.error = to_string(document.error());
      return facts;
    }
    facts.staging = core::staging_settings(*document);
    return facts;
  }
  return facts;
}

Fact read_compat_in_configuration(const core::CufileFacts& facts) {
  if (facts.path.empty()) {
    return Fact{false, "no configuration file of libcufile, and its default is not to force it",
                "/etc/cufile.json"};
  }
  if (!facts.error.empty()) return Fact{std::nullopt, facts.error, facts.path};
  const bool on = std::any_of(facts.staging.begin(), facts.staging.end(), [](const auto& setting) {
    return setting.first == "/properties/force_compat_mode";
  });
  return Fact{on,
              on ? "properties.force_compat_mode is true"
                 : "properties.force_compat_mode is not set to true",
              facts.path};
}

/// The environment wins over the configuration file.
Fact read_compat_forced(system::Host& host, const core::CufileFacts& configuration) {
  const std::string name = "CUFILE_FORCE_COMPAT_MODE";
  if (const std::optional<std::string> text = host.environment().get(name)) {
    if (const std::optional<bool> forced = core::cufile_flag(*text)) {
      return Fact{forced, name + "=" + *text, "environment variable " + name};
    }
  }
  return read_compat_in_configuration(configuration);
}

Fact read_counters(system::Files& files) {
  const std::string source = "/proc/driver/nvidia-fs/stats";
  const Result<std::string> stats = files.read(source);
  if (!stats) return Fact{std::nullopt, to_string(stats.error()), source};
  // At the start of a line: the same words follow in it for peer statistics.
  for (const bool enabled : {true, false}) {
    const std::string words = enabled ? "IO stats: Enabled" : "IO stats: Disabled";
    if (stats->rfind(words, 0) == 0 || stats->find("\n" + words) != std::string::npos) {
      return Fact{enabled, words, source};
    }
  }
  return Fact{std::nullopt, "the file does not say whether counters are on", source};
}

/// Loading it tells nothing of adapters: a machine may have the library and none of them.
Fact read_libibverbs(system::Host& host) {
  const auto table = host.verbs();
  if (table.ok()) return Fact{true, "libibverbs is loaded", "dlopen"};
  const bool absent = table.error().cause != Cause::rdma_no_rdma_device;
  return Fact{absent ? std::optional<bool>(false) : std::nullopt, to_string(table.error()),
              "dlopen"};
}

TextFact read_iommu(const Machine& machine) {
  TextFact fact;
  fact.source = "/sys/bus/pci/devices/*/iommu_group/type";
  if (machine.kernel.iommu != IommuMode::unknown)
    fact.value = std::string(to_string(machine.kernel.iommu));
  return fact;
}

}  // namespace

core::HostFacts read_host_facts(system::Host& host, const Machine& machine, bool may_ask_cuda) {
  core::HostFacts facts;
  core::StorageHostFacts& storage = facts.storage;
  read_libcufile(host, storage);
  storage.nvidia_fs_loaded = read_nvidia_fs(host.files());
  storage.p2pdma_kernel = read_p2pdma(host.files(), machine);
  storage.udev_database = read_udev_database(host.files());
  facts.cufile = read_cufile_configuration(host);
  storage.compat_forced = read_compat_forced(host, facts.cufile);
  if (Result<std::vector<std::string>> peers = host.files().list("/sys/kernel/mm/memory_peers")) {
    facts.rdma.memory_peers = *std::move(peers);
  }
  storage.nvidia_fs_counters_enabled = read_counters(host.files());
  storage.iommu = read_iommu(machine);
  // Without an adapter nobody asks, and the library is left alone.
  if (!machine.nics.empty()) facts.rdma.verbs_library = read_libibverbs(host);
  facts.gpus = read_gpu_facts(host, machine, may_ask_cuda);
  return facts;
}

}  // namespace nobounce::preconditions
