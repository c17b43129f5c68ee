// What the kernel of a software machine says of itself: processors, NUMA, mounts, modules, symbols,
// versions.
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "core/drive_kind.hpp"
#include "core/json.hpp"
#include "fabric/soft_files_parts.hpp"

namespace nobounce::fabric {
namespace {

constexpr std::size_t cpus_per_node = 8;

void add_processors(FileTree& tree, const Machine& machine) {
  const std::size_t nodes = std::max<std::size_t>(machine.numa_nodes.size(), 1);
  const ProcessorFacts& processor = machine.processor;
  std::string cpuinfo;
  for (std::size_t cpu = 0; cpu < nodes * cpus_per_node; ++cpu) {
    const std::size_t node = cpu / cpus_per_node;
    const std::uint32_t socket =
        node < machine.numa_nodes.size() ? machine.numa_nodes[node].socket : 0;
    cpuinfo += "processor\t: " + std::to_string(cpu) + "\nvendor_id\t: " + processor.vendor +
               "\ncpu family\t: " + std::to_string(processor.family) +
               "\nmodel\t\t: " + std::to_string(processor.model) +
               "\nmodel name\t: " + processor.name + "\nphysical id\t: " + std::to_string(socket) +
               "\nflags\t\t: fpu pae msr cx8 sse2" + (machine.guest ? " hypervisor" : "") +
               " lm constant_tsc\n\n";
    const std::string path = "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
    tree.add_text(path + "/topology/physical_package_id", std::to_string(socket) + '\n');
  }
  tree.add_text("/proc/cpuinfo", cpuinfo);
  tree.add_text("/proc/sys/kernel/arch", processor.architecture + '\n');
  const std::string last = std::to_string(nodes * cpus_per_node - 1);
  tree.add_text("/sys/devices/system/cpu/online", "0-" + last + '\n');
}

void add_numa_nodes(FileTree& tree, const Machine& machine) {
  const std::string root = "/sys/devices/system/node";
  const std::size_t count = machine.numa_nodes.size();
  std::uint64_t total_kb = 0;
  for (std::size_t node = 0; node < count; ++node) {
    const std::string number = std::to_string(node);
    const std::string path = root + "/node" + number;
    const std::size_t first = node * cpus_per_node;
    tree.add_text(path + "/cpulist",
                  std::to_string(first) + '-' + std::to_string(first + cpus_per_node - 1) + '\n');
    const std::uint64_t kilobytes = machine.numa_nodes[node].memory_bytes / 1024;
    total_kb += kilobytes;
    tree.add_text(path + "/meminfo",
                  "Node " + number + " MemTotal:       " + std::to_string(kilobytes) + " kB\n");
    std::string distances;
    for (std::size_t other = 0; other < count; ++other) {
      const bool near = machine.numa_nodes[node].socket == machine.numa_nodes[other].socket;
      distances += (other == 0 ? "" : " ");
      distances += other == node ? "10" : near ? "12" : "21";
    }
    tree.add_text(path + "/distance", distances + '\n');
  }
  tree.add_directory(root);
  if (count > 0) {
    tree.add_text(root + "/online", (count == 1 ? "0" : "0-" + std::to_string(count - 1)) + '\n');
  }
  tree.add_text("/proc/meminfo", "MemTotal:       " + std::to_string(total_kb) + " kB\n");
}

// mountinfo writes blanks, tabs, newlines and backslashes in octal.
std::string octal_escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case ' ':
        escaped += "\\040";
        break;
      case '\t':
        escaped += "\\011";
        break;
      case '\n':
        escaped += "\\012";
        break;
      case '\\':
        escaped += "\\134";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

// Options of the mount itself, as opposed to those of the file system.
bool is_per_mount_option(std::string_view option) {
  constexpr std::string_view per_mount[] = {"rw",     "ro",      "nosuid",     "nodev",
                                            "noexec", "noatime", "nodiratime", "relatime"};
  return std::find(std::begin(per_mount), std::end(per_mount), option) != std::end(per_mount);
}

struct SplitOptions {
  std::string mount;
  std::string file_system;
};

SplitOptions split_options(std::string_view options) {
  SplitOptions split;
  bool read_only = false;
  for (std::size_t begin = 0; begin <= options.size();) {
    const std::size_t end = std::min(options.find(',', begin), options.size());
    const std::string_view option = options.substr(begin, end - begin);
    begin = end + 1;
    if (option.empty()) continue;
    if (option == "ro") read_only = true;
    std::string& side = is_per_mount_option(option) ? split.mount : split.file_system;
    if (!side.empty()) side += ',';
    side += option;
  }
  if (split.mount.empty()) split.mount = "rw";
  const std::string access = read_only ? "ro" : "rw";
  split.file_system = split.file_system.empty() ? access : access + ',' + split.file_system;
  return split;
}

void add_mounts(FileTree& tree, const Machine& machine) {
  std::string mountinfo;
  std::string mounts;
  for (std::size_t i = 0; i < machine.mounts.size(); ++i) {
    const Mount& mount = machine.mounts[i];
    std::string device = "0:" + std::to_string(20 + i);
    std::string source = mount.type;
    std::string root = "/";
    if (const std::optional<std::uint32_t> drive = drive_of(machine, mount)) {
      const Drive& under = machine.drives[*drive];
      device = std::to_string(under.major) + ':' + std::to_string(under.minor);
      source = core::is_network_file_system(under.driver) ? under.name + ":/export"
                                                          : "/dev/" + under.name;
    }
    const SplitOptions options = split_options(mount.options);
    const std::string point = octal_escaped(mount.point);
    mountinfo += std::to_string(21 + i) + ' ' + (mount.point == "/" ? "1" : "21") + ' ' + device +
                 ' ' + root + ' ' + point + ' ' + options.mount + " - " + mount.type + ' ' +
                 octal_escaped(source) + ' ' + options.file_system + '\n';
    mounts +=
        octal_escaped(source) + ' ' + point + ' ' + mount.type + ' ' + mount.options + " 0 0\n";
  }
  tree.add_text("/proc/self/mountinfo", mountinfo);
  tree.add_text("/proc/self/mounts", mounts);
  tree.add_text("/proc/mounts", mounts);
}

std::string module_line(std::string_view name) {
  return std::string(name) + " 65536 0 - Live 0x0000000000000000\n";
}

std::string modules_file(const Machine& machine, bool nvidia_fs) {
  std::string text;
  if (!machine.gpus.empty()) {
    text += module_line("nvidia_uvm") + module_line("nvidia");
  }
  if (nvidia_fs) text += module_line("nvidia_fs");
  if (machine.modules.nvidia_peermem) text += module_line("nvidia_peermem");
  if (machine.modules.nvme) text += module_line("nvme") + module_line("nvme_core");
  if (!machine.nics.empty()) {
    text += module_line("mlx5_ib") + module_line("mlx5_core") + module_line("ib_uverbs");
  }
  for (const std::string_view driver : {"nvme_rdma", "virtio_blk"}) {
    if (std::any_of(machine.drives.begin(), machine.drives.end(),
                    [&](const Drive& drive) { return drive.driver == driver; })) {
      text += module_line(driver);
    }
  }
  return text;
}

std::string command_line(const Machine& machine) {
  std::string text = "root=/dev/root ro";
  if (machine.kernel.iommu == IommuMode::translated) text += " intel_iommu=on";
  if (machine.kernel.iommu == IommuMode::identity) text += " intel_iommu=on iommu=pt";
  return text + '\n';
}

// libcufile's file as it is installed: comments, and the library's own defaults.
std::string_view installed_cufile_json() {
  return R"({
    // Defaults of libcufile 1.15, as installed
    "logging": { "level": "ERROR" },
    "profile": { "nvtx": false, "cufile_stats": 0 },
    "execution": { "max_io_queue_depth": 128, "max_io_threads": 4, "parallel_io": true },
    "properties": {
        "max_direct_io_size_kb": 16384,
        "per_buffer_cache_size_kb": 1024,
        "use_pci_p2pdma": false,
        // staging without a word is allowed
        "allow_compat_mode": true,
        "force_compat_mode": false,
        "gds_rdma_write_support": true
    },
    "fs": { "generic": { "posix_unaligned_writes": false } }
}
)";
}

/// The installed file with the machine's own settings in it.
std::string cufile_json(const Machine& machine) {
  std::string text(installed_cufile_json());
  if (machine.cufile_settings.empty()) return text;
  Result<core::Json> document =
      core::parse_json(text, "cufile.json", core::JsonOptions{.allow_comments = true});
  if (!document) return text;
  for (const auto& [pointer, value] : machine.cufile_settings) {
    core::Json* at = &*document;
    for (std::size_t begin = 1; begin <= pointer.size();) {
      const std::size_t end = std::min(pointer.find('/', begin), pointer.size());
      const std::string key = pointer.substr(begin, end - begin);
      if (at->as_object() == nullptr) *at = core::JsonObject{};
      if (at->find(key) == nullptr) at->as_object()->emplace_back(key, core::Json());
      at = at->find(key);
      begin = end + 1;
    }
    const Result<core::Json> parsed = core::parse_json(value, pointer);
    *at = parsed ? *parsed : core::Json(value);
    if (at->as_array() != nullptr) {  // an order of routes counts where dynamic routing is on
      core::Json* properties = document->find("properties");
      if (properties != nullptr && properties->as_object() != nullptr) {
        properties->as_object()->emplace_back("rdma_dynamic_routing", core::Json(true));
      }
    }
  }
  return core::dump_json(*document) + '\n';
}

void add_process_files(FileTree& tree, const Machine& machine) {
  const ProcessFacts& process = machine.process;
  const char* seccomp = process.seccomp == "filter" ? "2" : process.seccomp == "strict" ? "1" : "0";
  std::string status = "Name:\tnobounce\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t";
  status += process.root ? "000001ffffffffff" : "0000000000000000";
  if (process.seccomp != "unknown") status += std::string("\nSeccomp:\t") + seccomp;
  tree.add_text("/proc/self/status", status + '\n');
  if (process.memlock != "unknown") {
    tree.add_text("/proc/self/limits",
                  "Limit                     Soft Limit           Hard Limit           Units\n"
                  "Max locked memory         " +
                      process.memlock + "            " + process.memlock + "            bytes\n");
  }
  const ContainerFacts& container = machine.container;
  if (!container.inside) return;
  if (container.runtime == "docker") {
    tree.add_text("/.dockerenv", "");
  } else if (container.runtime == "podman") {
    tree.add_text("/run/.containerenv", "");
  } else {
    tree.add_text("/run/systemd/container",
                  (container.runtime.empty() ? std::string("oci") : container.runtime) + '\n');
  }
}

void add_module_details(FileTree& tree, const Machine& machine) {
  for (const auto& [name, version] : machine.modules.versions) {
    tree.add_text("/sys/module/" + name + "/version", version + '\n');
  }
  for (const auto& [name, value] : machine.modules.parameters) {
    const std::size_t dot = name.find('.');
    if (dot == std::string::npos || name.substr(0, dot) == "nvidia") continue;
    tree.add_text("/sys/module/" + name.substr(0, dot) + "/parameters/" + name.substr(dot + 1),
                  value + '\n');
  }
  const std::string folder = "/usr/lib/x86_64-linux-gnu";
  for (const auto& [name, version] : machine.libraries) {
    if (name == "nccl") {
      tree.add_text(folder + "/libnccl.so." + version, "");
      tree.add_link(folder + "/libnccl.so.2", folder + "/libnccl.so." + version);
    } else if (name == "ucx") {
      tree.add_text(folder + "/pkgconfig/ucx.pc", "Name: ucx\nVersion: " + version + '\n');
    }
  }
}

/// A memory controller per NUMA node, as Intel servers show theirs. Virtual machines show none.
void add_memory_controllers(FileTree& tree, const Machine& machine) {
  const std::string devices = "/sys/bus/event_source/devices";
  tree.add_directory(devices);
  for (std::size_t node = 0; !machine.guest && node < machine.numa_nodes.size(); ++node) {
    const std::string path = devices + "/uncore_imc_" + std::to_string(node);
    tree.add_text(path + "/type", std::to_string(20 + node) + '\n');
    tree.add_text(path + "/cpumask", "0\n");
    for (const std::string event : {"cas_count_read", "cas_count_write"}) {
      const bool reads = event == "cas_count_read";
      tree.add_text(path + "/events/" + event,
                    reads ? "event=0x04,umask=0x03\n" : "event=0x04,umask=0x0c\n");
      tree.add_text(path + "/events/" + event + ".scale", "6.103515625e-5\n");
      tree.add_text(path + "/events/" + event + ".unit", "MiB\n");
    }
  }
}

}  // namespace

void add_kernel_files(FileTree& tree, const Machine& machine, const NvfsModule& module) {
  add_processors(tree, machine);
  add_numa_nodes(tree, machine);
  add_mounts(tree, machine);
  add_memory_controllers(tree, machine);
  const std::string& release = machine.kernel.release;
  tree.add_text("/proc/sys/kernel/osrelease", release + '\n');
  tree.add_text("/proc/version", "Linux version " + release + " (software machine)\n");
  tree.add_text("/proc/cmdline", command_line(machine));
  std::string symbols = "0000000000000000 T vfs_read\n0000000000000000 T dma_buf_export\n";
  if (machine.kernel.pci_p2pdma) symbols += "0000000000000000 d p2pdma_pgmap_ops\n";
  tree.add_text("/proc/kallsyms", symbols);
  tree.add_made_text("/proc/modules", [&] { return modules_file(machine, module.loaded()); });
  tree.add_text("/proc/sys/kernel/perf_event_paranoid", "0\n");
  tree.add_text("/proc/self/cgroup", "0::/\n");
  tree.add_text("/sys/class/dmi/id/sys_vendor", machine.guest ? "QEMU\n" : "software machine\n");
  tree.add_text("/etc/os-release", "NAME=\"software machine\"\nID=soft\n");
  if (!machine.libcufile.empty()) {
    tree.add_text("/etc/cufile.json", cufile_json(machine));
  }
  add_process_files(tree, machine);
  add_module_details(tree, machine);
}

}  // namespace nobounce::fabric
