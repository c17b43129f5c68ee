// Reads /proc/self, the marks that container runtimes leave, module and library versions.
#include "topology/surroundings.hpp"

#include <array>
#include <optional>
#include <string_view>

#include "core/cufile_settings.hpp"
#include "topology/sysfs_text.hpp"

namespace nobounce::topology {
namespace {

/// The value after `name:` in a file of such lines.
std::string line_value(std::string_view text, std::string_view name) {
  for (const std::string_view line : split(text, '\n')) {
    if (line.substr(0, name.size()) != name || line.size() <= name.size()) continue;
    if (line[name.size()] != ':') continue;
    return std::string(trimmed(line.substr(name.size() + 1)));
  }
  return {};
}

std::uint64_t hex_of(std::string_view text) {
  std::uint64_t value = 0;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && (c < 'a' || c > 'f')) return 0;
    value = value << 4 | static_cast<std::uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  return value;
}

/// The soft limit of `Max locked memory       8388608              8388608              bytes`.
std::string locked_memory(std::string_view limits) {
  constexpr std::string_view name = "Max locked memory";
  for (const std::string_view line : split(limits, '\n')) {
    if (line.substr(0, name.size()) != name) continue;
    const std::vector<std::string_view> words = split(line.substr(name.size()), ' ');
    if (!words.empty()) return std::string(words.front());
  }
  return "unknown";
}

std::string runtime_in(std::string_view cgroup) {
  for (const std::string_view word : {"kubepods", "docker", "libpod", "lxc", "containerd"}) {
    if (cgroup.find(word) == std::string_view::npos) continue;
    if (word == "kubepods") return "kubernetes";
    return word == "libpod" ? "podman" : std::string(word);
  }
  return {};
}

/// The root of a container is a layered file system as a rule, of a host next to never.
bool root_is_layered(std::string_view mounts) {
  for (const std::string_view line : split(mounts, '\n')) {
    const std::vector<std::string_view> words = split(line, ' ');
    if (words.size() > 4 && words[4] == "/") {
      return line.find(" - overlay ") != std::string_view::npos ||
             line.find(" - fuse.overlayfs ") != std::string_view::npos;
    }
  }
  return false;
}

}  // namespace

ContainerFacts read_container(system::Files& files) {
  ContainerFacts facts;
  if (files.exists("/.dockerenv")) facts.runtime = "docker";
  if (files.exists("/run/.containerenv")) facts.runtime = "podman";
  if (facts.runtime.empty()) facts.runtime = text_at(files, "/run/systemd/container");
  if (const std::string by_group = runtime_in(text_at(files, "/proc/self/cgroup"));
      !by_group.empty()) {
    facts.runtime = by_group;
  }
  facts.inside = !facts.runtime.empty() || root_is_layered(text_at(files, "/proc/self/mountinfo"));
  if (facts.runtime == "oci") facts.runtime.clear();
  facts.infiniband_hidden =
      !names_in(files, "/sys/class/infiniband").empty() && !files.exists("/dev/infiniband");
  return facts;
}

ProcessFacts read_process(system::Files& files) {
  ProcessFacts facts;
  const std::string status = text_at(files, "/proc/self/status");
  constexpr std::uint64_t administrates = 1u << 21;  // CAP_SYS_ADMIN
  facts.root = (hex_of(line_value(status, "CapEff")) & administrates) != 0;
  facts.memlock = locked_memory(text_at(files, "/proc/self/limits"));
  const std::string seccomp = line_value(status, "Seccomp");
  facts.seccomp = seccomp == "0" ? "off" : seccomp == "1" ? "strict" : "unknown";
  if (seccomp == "2") facts.seccomp = "filter";
  return facts;
}

void read_module_details(system::Files& files, ModuleFacts& modules) {
  for (const std::string name :
       {"nvidia_fs", "nvidia_peermem", "nv_peer_mem", "nvme", "nvme_core", "nvme_rdma", "mlx5_core",
        "ib_core", "irdma", "bnxt_re", "efa", "gdrdrv", "amdgpu"}) {
    std::string version = text_at(files, "/sys/module/" + name + "/version");
    if (!version.empty()) modules.versions[name] = std::move(version);
  }
  for (const std::string name :
       {"nvidia_peermem/parameters/peerdirect_support",
        "nvidia_peermem/parameters/persistent_api_support", "nvme_core/parameters/multipath"}) {
    const std::string value = text_at(files, "/sys/module/" + name);
    if (value.empty()) continue;
    modules.parameters[name.substr(0, name.find('/')) + "." + std::string(last_part(name))] = value;
  }
  const std::string params = text_at(files, "/proc/driver/nvidia/params");
  for (const char* name :
       {"RegistryDwords", "DmaRemapPeerMmio", "EnableResizableBar", "GrdmaPciTopoCheckOverride"}) {
    std::string value = line_value(params, name);
    if (value.size() > 1 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    if (!value.empty()) modules.parameters[std::string("nvidia.") + name] = value;
  }
}

std::map<std::string, std::string> read_libraries(system::Files& files) {
  std::map<std::string, std::string> libraries;
  for (const std::string folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                                   "/usr/lib64", "/usr/local/lib", "/usr/lib"}) {
    constexpr std::string_view stem = "libnccl.so.";
    const Result<std::string> nccl = files.real_path(folder + "/libnccl.so.2");
    if (nccl && libraries.count("nccl") == 0) {
      const std::string_view name = last_part(*nccl);
      if (name.substr(0, stem.size()) == stem && name.size() > stem.size() + 1) {
        libraries["nccl"] = name.substr(stem.size());
      }
    }
    const std::string ucx = line_value(text_at(files, folder + "/pkgconfig/ucx.pc"), "Version");
    if (!ucx.empty()) libraries.try_emplace("ucx", ucx);
  }
  return libraries;
}

std::map<std::string, std::string> read_cufile_settings(system::Host& host) {
  std::map<std::string, std::string> settings;
  for (const std::string& path :
       {host.environment().get("CUFILE_ENV_PATH_JSON").value_or(""),
        std::string("/etc/cufile.json"), std::string("/usr/local/cuda/gds/cufile.json")}) {
    if (path.empty()) continue;
    const Result<std::string> text = host.files().read(path);
    if (!text) continue;
    const Result<core::Json> document =
        core::parse_json(*text, path, core::JsonOptions{.allow_comments = true});
    if (!document) return settings;
    for (const auto& [pointer, value] : core::staging_settings(*document)) {
      // To allow it is the library's own default.
      if (pointer != "/properties/allow_compat_mode") settings[pointer] = value;
    }
    return settings;
  }
  return settings;
}

}  // namespace nobounce::topology
