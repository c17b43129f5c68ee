// Advice by cause. What depends on a version says which, and both forms where no line tells it.
#include "judge/text_advice.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "judge/nccl_level.hpp"
#include "judge/text_path.hpp"

namespace nobounce::judge {

namespace {

using core::CaptureSign;
using core::SignKind;

constexpr const char* refusal_command =
    "nvidia-smi topo -p2p r says why (CNS or TNS: chipset or topology, NS or GNS: product, DR: a "
    "setting of the driver)";
constexpr const char* module_command = "lsmod | grep -E 'nvidia_peermem|nv_peer_mem'";

std::string whole(double value) {
  return std::to_string(static_cast<std::uint64_t>(value));
}

std::string gpu_option(const std::string& gpu) {
  return text_is_gpu(gpu) ? gpu.substr(3) : std::string("0");
}

/// GPUs that may reach adapters still need somebody who gives their memory away.
std::string module_needed(const TextCase& text) {
  if (text.amd() || text.module_loaded("nvidia_peermem") != nullptr ||
      text.module_loaded("nv_peer_mem") != nullptr || text.any(SignKind::gdr_on_adapter))
    return {};
  std::string needed =
      "It also needs nvidia_peermem (nv_peer_mem with drivers before 470), which no line shows: ";
  needed += module_command;
  if (nccl_knows_dmabuf(text.nccl_version()))
    needed += text.nccl_version() == nccl_unknown_version ? "; or dma-buf (NCCL 2.13 and later)"
                                                          : "; or dma-buf";
  return needed;
}

/// How far the adapter of a row is from its GPU: as a matrix says, or the library.
std::string distance_of(const TextCase& text, const TextRow& row) {
  if (const CaptureSign* level = text.level_of(row.source, row.target)) return level->word;
  std::size_t looked_at = 0;
  for (const CaptureSign* sign : text.all(SignKind::gdr_off_distance)) {
    if (++looked_at > 1024) break;
    if (sign->source == row.source && text.name_of_adapter(sign->target) == row.target)
      return sign->word;
  }
  return {};
}

std::string distance_advice(const TextCase& text, const TextRow& row) {
  for (const char* name : {"NCCL_NET_GDR_LEVEL", "NCCL_IB_GDR_LEVEL"}) {
    const CaptureSign* limit = text.setting(name);
    if (limit == nullptr) continue;
    // Even a switch of one's own is beyond these.
    if (limit->other == "LOC" || limit->other == "0")
      return "unset " + std::string(name) + " (it is " + limit->other +
             ", which no adapter is near enough for), after a look at who set it and why; without "
             "it NCCL takes adapters up to PXB";
  }
  const std::string distance = distance_of(text, row);
  const std::string gpu = row.source.empty() ? "the GPU" : row.source;
  const CaptureSign* nearest = text.nearest_adapter(row.source);
  std::string advice;
  if (nearest != nullptr && nearness(distance) > nearness(nearest->word)) {
    advice = text.device_of_adapter(nearest->target) + " is at " + nearest->word + " from " + gpu +
             ": let the library use it (NCCL_IB_HCA names those that it may). Otherwise ";
  } else if (nearest != nullptr && text.adapters_of(row.source) == 1) {
    advice = text.device_of_adapter(nearest->target) + " is the only adapter that is shown. ";
  } else if (nearest != nullptr && nearness(distance) >= 0) {
    advice = "No adapter that is shown is nearer to " + gpu + ". ";
  } else {
    advice =
        "See whether nvidia-smi topo -m has an adapter at PIX or PXB from " + gpu + ". Otherwise ";
  }
  if (nearness(distance) < 0) {
    advice += "raise the limit to the level that it shows there: " +
              nccl_level_setting(NcclReach::adapters, "NODE", text.nccl_version()) +
              " for PHB or NODE, " +
              nccl_level_setting(NcclReach::adapters, "SYS", text.nccl_version()) + " for SYS";
  } else {
    advice += nccl_level_setting(NcclReach::adapters, distance, text.nccl_version()) +
              " lets it use GPU memory at " + distance;
  }
  advice +=
      "; compare the rates with and without: the way through the processor may be slower than host "
      "memory";
  const std::string needed = module_needed(text);
  if (!needed.empty()) advice += ". " + needed;
  return advice;
}

std::string wrong_nic_advice(const TextCase& text, const TextRow& row) {
  const CaptureSign* nearest = text.nearest_adapter(row.source);
  if (nearest == nullptr) return {};
  const std::string name = text.device_of_adapter(nearest->target);
  if (row.format == "ucx_proto")
    return "UCX_NET_DEVICES=" + name + ":1 for the process of " + row.source +
           ", or leave it unset and let UCX choose";
  const CaptureSign* chosen = text.setting("NCCL_IB_HCA");
  if (chosen != nullptr)
    return "Put " + name + " into NCCL_IB_HCA, which is " + chosen->other +
           " now, or unset it: NCCL then chooses by distance";
  return "See what keeps the library from " + name +
         ": NCCL_IB_HCA, a topology file (NCCL_TOPO_FILE), or a port that is down";
}

std::string host_buffers_advice(const TextCase& text, const TextRow& row) {
  if (row.format == "ucx_proto")
    return "See whether UCX can give GPU memory to the adapter: ucx_info -d | grep -A9 'Memory "
           "domain: mlx5' must list cuda among the memory types that it can register. If it does "
           "not, UCX was built without CUDA (ucx_info -v), or the module is missing (" +
           std::string(module_command) +
           "); UCX_IB_GPU_DIRECT_RDMA=yes ends with an error where it would stage";
  for (const char* name : {"NCCL_NET_GDR_LEVEL", "NCCL_IB_GDR_LEVEL", "NCCL_IB_CUDA_SUPPORT"}) {
    const CaptureSign* setting = text.setting(name);
    if (setting == nullptr) continue;
    // A word is 0 to versions that read numbers.
    const bool word = text.nccl_version() != nccl_unknown_version && text.nccl_version() < 20600 &&
                      setting->other.find_first_of("0123456789") == std::string::npos;
    if (setting->other == "0" ||
        !nccl_level_admits(setting->other, "", text.nccl_version()).value_or(true))
      return "unset " + std::string(name) + ": it is " + setting->other +
             (word ? ", which this version reads as 0," : "") +
             " and keeps GPU memory from all adapters";
  }
  // In one direction only: NCCL's rule for reads of GPU memory.
  if (row.verdict.direction == "send" && text.receives_directly(row.host, row.source)) {
    // By the compute capability since v2.19.1-1 (src/graph/paths.cc).
    const char* gpus = text.nccl_version() == nccl_unknown_version
                           ? "GPUs without NVLink (since 2.19 only those before Ampere)"
                       : text.nccl_version() < 21901 ? "GPUs without NVLink"
                                                     : "GPUs before Ampere without NVLink";
    return "Receiving is direct, so module and distance are good: it is NCCL's rule for reads of "
           "memory of " +
           std::string(gpus) +
           ", or NCCL_NET_GDR_READ=0. NCCL_NET_GDR_READ=1 lifts it; compare the rates, many "
           "chipsets are slow at it";
  }
  std::string advice = "Find out why: ";
  advice += module_command;
  advice += " (empty: the module is missing";
  if (nccl_knows_dmabuf(text.nccl_version())) advice += ", and dma-buf is the only other way";
  advice +=
      "), nvidia-smi topo -m (GPU and adapter beyond PXB: NCCL keeps to host buffers), and a "
      "run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET: its lines GPU Direct RDMA "
      "Disabled name the reason";
  return advice;
}

std::string host_memory_advice(const TextRow& row) {
  if (row.format == "ucx_proto")
    return "Print the table of a transfer of GPU memory: UCX_PROTO_INFO=y ucx_perftest -t tag_bw "
           "-m cuda between the two nodes";
  const std::string device = row.target.empty() ? "DEVICE" : row.target;
  return "Measure with GPU memory: ib_write_bw -d " + device +
         " --use_cuda=0 at both ends, with the GPU nearest to the adapter. perftest must be built "
         "with CUDA (./configure CUDA_H_PATH=/usr/local/cuda/include/cuda.h; packages of "
         "distributions mostly are not), and nvidia_peermem loaded, or --use_cuda_dmabuf added";
}

std::string window_advice(const TextCase& text, const TextRow& row) {
  if (const CaptureSign* asked = text.first(SignKind::window_exhausted);
      asked != nullptr && row.verdict.member == Member::storage) {
    std::string advice = "The request wants " + whole(asked->value) + " bytes of BAR1 and " +
                         whole(asked->second) + " are left";
    return advice +
           ": register fewer or smaller buffers (properties.max_device_pinned_mem_size_kb of "
           "cufile.json bounds what cuFile pins), or enlarge the window in the firmware: Above 4G "
           "Decoding and Resizable BAR, where the card has it";
  }
  // The row's own window, else all that are as small as the smallest.
  const CaptureSign* window = text.smallest_bar1();
  if (window == nullptr) return {};
  std::vector<std::string> gpus;
  for (const CaptureSign* each : text.all(SignKind::bar1_size)) {
    if (each->source.empty()) continue;
    if (each->source == row.verdict.subject) {
      window = each;
      gpus = {each->source};
      break;
    }
    if (each->value == window->value && gpus.size() < 4 &&
        std::find(gpus.begin(), gpus.end(), each->source) == gpus.end())
      gpus.push_back(each->source);
  }
  std::string names;
  for (std::size_t i = 0; i < gpus.size(); ++i)
    names += (i == 0 ? "" : i + 1 == gpus.size() ? " and " : ", ") + gpus[i];
  std::string advice = "BAR1 of " + (names.empty() ? std::string("the GPU") : names) + " is " +
                       whole(window->value) + " MiB";
  if (const CaptureSign* memory = text.memory_beside(*window))
    advice += " of " + whole(memory->value) + " MiB of memory";
  advice +=
      ": switch on Above 4G Decoding and Resizable BAR in the firmware, and reboot. sudo "
      "lspci -vvs ";
  advice += window->source.find(':') == std::string::npos ? std::string("ADDRESS") : window->source;
  advice +=
      " shows the sizes that the card has (Physical Resizable BAR; without it nothing helps); "
      "in a virtual machine the host decides";
  if (row.verdict.member == Member::p2p)
    advice += ". Until then keep the pair to host memory (NCCL: NCCL_P2P_DISABLE=1)";
  else
    advice +=
        ". Until then keep what is registered at one time below " + whole(window->value) + " MiB";
  return advice;
}

std::string setpci_of(const std::vector<const CaptureSign*>& signs) {
  std::string ports;
  std::size_t count = 0;
  for (const CaptureSign* sign : signs) {
    if (count == 8) break;
    if (sign->source.empty()) continue;
    ++count;
    ports += (ports.empty() ? "" : " ") + sign->source;
  }
  if (ports.empty()) return {};
  return "for port in " + ports +
         "; do sudo setpci -s $port ECAP_ACS+6.w=0:2c; done (until reboot; devices below are no "
         "longer kept apart, so not where virtual machines have one)";
}

std::string redirect_advice(const TextCase& text, const TextRow& row) {
  if (text.guest())
    return "This is a virtual machine: the bits that count are the host's, where they keep guests "
           "apart and stay. Its administrator needs ATS on the adapter (mlxconfig ATS_ENABLED=1) "
           "and DirectTrans+ on the ports, so that peers are reached in spite of them";
  const std::string between = setpci_of(redirects_between(text, row, OnPath::yes));
  if (!between.empty()) return between;
  const std::string possible = setpci_of(redirects_between(text, row, OnPath::unknown));
  const std::string first =
      "Find out whether the port lies between the two devices: lspci -tv, or readlink -f "
      "/sys/bus/pci/devices/ADDRESS of both (nvidia-smi --query-gpu=index,pci.bus_id has the "
      "GPUs', /sys/class/infiniband/NAME/device an adapter's)";
  if (possible.empty())
    return first + "; sudo lspci -vvv names the ports whose ACSCtl has ReqRedir+. If one does: " +
           std::string(cause_row(Cause::machine_acs_redirect).remedy);
  return first + ". If it does: " + possible;
}

std::string refused_access_advice(const TextCase& text, const TextRow& row) {
  const bool redirects = std::find(row.verdict.causes.begin(), row.verdict.causes.end(),
                                   Cause::machine_acs_redirect) != row.verdict.causes.end();
  if (row.status == 10)
    return "The far side's adapter refused: look there, in its log, in dmesg | grep -iE "
           "'DMAR|AMD-Vi|fault', and for ACS redirect between its GPU and adapter";
  std::string advice =
      "dmesg | grep -iE 'DMAR|AMD-Vi|fault' shows whether the IOMMU refused it "
      "(then boot with iommu=pt, with which every device can reach all memory of the host)";
  if (!redirects)
    advice +=
        "; sudo lspci -vvv | grep -E '^[0-9a-f]|ACSCtl' shows ports that redirect (ReqRedir+ "
        "or CmpltRedir+) between GPU and adapter";
  if (text.guest()) advice += "; in this virtual machine the host has to set ATS up";
  if (row.format == "nccl_log")
    advice += ". Until it is mended NCCL_NET_GDR_LEVEL=0 keeps the job to host memory";
  return advice;
}

std::string completion_advice(const TextRow& row) {
  switch (row.status) {
    case 1:
      return "The far side sent more than the buffer here holds: compare versions and settings of "
             "the library at both ends";
    case 5:
      return "This one is a consequence: look for the first error, in this log and in those of the "
             "other ranks";
    case 9:
    case 11:
      return "The far side's adapter refused the request: look at its log and dmesg, and compare "
             "the versions of the library";
    default:
      return {};
  }
}

std::string retries_advice(const TextRow& row) {
  if (row.status == 13)
    return "The far side had nothing to receive into: its process hangs or is slow; look at its "
           "log";
  std::string advice =
      "The far side did not answer: see that its process runs, ibstat at both "
      "ends (Active), cable and switch";
  advice +=
      "; on RoCE that both use the same kind of GID (show_gids) and that PFC or ECN and the "
      "MTU agree";
  if (row.format == "nccl_log")
    advice += ". NCCL before 2.21 does not look for the GID of RoCE v2: NCCL_IB_GID_INDEX names it";
  return advice;
}

/// Adapters that cannot connect, as ibv_modify_qp says it.
std::string connection_advice() {
  return "Adapters of the two ends do not reach each other: ib_write_bw -d DEVICE -x GID_INDEX "
         "between just those two shows it without the job. On RoCE compare show_gids at both ends "
         "(the same kind, RoCE v2, with an address; NCCL_IB_GID_INDEX), routes and VLANs; where "
         "only adapters of one rail are joined, NCCL_CROSS_NIC=0; adapters that are meant for "
         "something else are left out by NCCL_IB_HCA. On InfiniBand: ibstat Active at both ends, "
         "one subnet";
}

std::string memlock_advice() {
  return "Print ulimit -l from inside the job (mpirun, Slurm and containers have limits of their "
         "own): it must be unlimited: /etc/security/limits.conf and a new login, "
         "LimitMEMLOCK=infinity for slurmd and other services, docker run --ulimit memlock=-1. If "
         "it is, and the memory is a GPU's, its BAR1 may be full: nvidia-smi -q -d MEMORY";
}

std::string hidden_peers_advice() {
  return "Find out why: nvidia-smi topo -p2p r (other than OK: the driver refuses), nvidia-smi "
         "topo "
         "-m (beyond PXB NCCL has rules of its own), env | grep NCCL_P2P, and in containers one "
         "IPC "
         "namespace; NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,P2P names what it decided";
}

std::string shared_memory_advice(const TextCase& text, const TextRow& row) {
  if (row.format == "ucx_proto")
    return "See that cuda_ipc is there (ucx_info -d | grep cuda_ipc) and that UCX_TLS does not "
           "leave "
           "it out; both processes must see both GPUs, in containers with one IPC and one PID "
           "namespace, and the GPUs need peer access (nvidia-smi topo -p2p r)";
  if (text.refusal_of(row.host, row.source, row.target) != nullptr)
    return "The driver offers no peer access for the pair, and the library keeps to that: " +
           std::string(refusal_command) +
           ". NCCL_IGNORE_DISABLED_P2P=1 silences the message and changes nothing";
  const CaptureSign* level = text.level_of(row.source, row.target);
  const CaptureSign* status = text.status_of(row.source, row.target);
  if (level == nullptr && status != nullptr && status->word == "OK")
    return "The driver offers peer access for this pair (OK), so the library keeps from it by its "
           "own rules: nvidia-smi topo -m (beyond PXB NCCL joins GPUs only where it knows the "
           "processor), env | grep NCCL_P2P, and in containers one IPC namespace; "
           "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,P2P names what it decided. Verify the "
           "data first (nobounce prove), then " +
           nccl_level_setting(NcclReach::peers, "SYS", text.nccl_version()) +
           " lets it at any distance";
  if (level == nullptr || nearness(level->word) < 2) return hidden_peers_advice();
  return "Beyond one PCIe switch (here " + level->word +
         ") NCCL joins GPUs by its own rules, whatever the driver offers. Where nvidia-smi topo "
         "-p2p r says OK, verify the data first (nobounce prove), then " +
         nccl_level_setting(NcclReach::peers, level->word, text.nccl_version()) +
         " lets it; compare the rates";
}

std::string slower_advice(const TextRow& row) {
  const bool window = std::find(row.verdict.causes.begin(), row.verdict.causes.end(),
                                Cause::machine_bar1_too_small) != row.verdict.causes.end();
  std::string advice =
      "sudo lspci -vvv | grep -E '^[0-9a-f]|ACSCtl|LnkSta:' shows ports that redirect (ReqRedir+) "
      "and links below their width";
  if (window) return advice;
  return "Until the reason is found keep the pair to host memory (NCCL: NCCL_P2P_DISABLE=1). " +
         advice + "; nvidia-smi -q -d MEMORY shows whether BAR1 is smaller than the memory";
}

std::string load_advice(const TextRow& row) {
  if (row.verdict.subject.find("nv_peer_mem") == std::string::npos) return {};
  return "Build nv_peer_mem anew (package nvidia-peer-memory-dkms) against the RDMA stack and the "
         "NVIDIA driver that run now, then sudo modprobe nv_peer_mem; drivers since 470 bring "
         "nvidia-peermem in its place";
}

std::string refused_files_advice() {
  return "gdscheck -p, and cufile.log with CUFILE_LOGGING_LEVEL=INFO, name what is missing, as "
         "nobounce check --path FILE does. properties.allow_compat_mode true in cufile.json lets "
         "the program run meanwhile, through host memory";
}

std::string kvikio_advice() {
  return "KvikIO leaves cuFile out where KVIKIO_COMPAT_MODE is ON, where libcufile.so cannot be "
         "loaded, where /run/udev cannot be read (in a container: -v /run/udev:/run/udev:ro) and "
         "on WSL. KVIKIO_COMPAT_MODE=OFF makes it fail instead, with the reason; gdscheck -p says "
         "whether cuFile itself has a direct route";
}

std::string emulation_advice(const TextRow& row) {
  const bool tcp = std::find(row.verdict.causes.begin(), row.verdict.causes.end(),
                             Cause::rdma_socket_transport) != row.verdict.causes.end();
  if (row.format != "ucx_proto" || !tcp) return {};
  return "UCX has only TCP for this pair: ucx_info -d | grep -E 'rc_|dc_' shows whether it sees an "
         "RDMA device (in a container it needs /dev/infiniband), UCX_TLS and UCX_NET_DEVICES must "
         "leave it in, and its port must be active (ibv_devinfo)";
}

/// The setting that keeps NCCL from RDMA, if a text shows one.
const CaptureSign* sockets_setting(const TextCase& text) {
  const CaptureSign* off = text.setting("NCCL_IB_DISABLE");
  if (off != nullptr && off->other != "0") return off;
  const CaptureSign* net = text.setting("NCCL_NET");
  return net != nullptr && net->other == "Socket" ? net : nullptr;
}

std::string sockets_advice(const TextCase& text) {
  const CaptureSign* setting = sockets_setting(text);
  if (setting == nullptr) return {};
  return "unset " + setting->word + " (it is " + setting->other +
         "): with it NCCL uses no RDMA adapter. Look first who set it and why: it is the usual way "
         "around adapters that fail";
}

std::string setting_advice(const TextCase& text, const TextRow& row) {
  const CaptureSign* status = text.status_of(row.source, row.target);
  if (status != nullptr && status->word == "DR")
    return "DR is a setting of the driver: look for NVreg_RegistryDwords in /etc/modprobe.d and "
           "/proc/driver/nvidia/params, remove what disables peer access, rebuild the initramfs "
           "and reboot";
  for (const char* name : {"NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"}) {
    const CaptureSign* setting = text.setting(name);
    if (setting == nullptr || (setting->other == "0" && name != std::string_view("NCCL_P2P_LEVEL")))
      continue;
    return "unset " + std::string(name) + " (it is " + setting->other +
           "), after a look at who set it and why: it is the usual way around pairs that hang or "
           "corrupt data";
  }
  return {};
}

std::string module_advice(const TextCase& text) {
  const std::uint32_t version = text.nccl_version();
  std::string advice;
  if (const CaptureSign* off = text.setting("NCCL_DMABUF_ENABLE");
      off != nullptr && off->other == "0")
    advice = "unset NCCL_DMABUF_ENABLE (it is 0): dma-buf needs no module. Otherwise: ";
  if (!text.any(SignKind::module_absent)) {
    advice += std::string("On the host: ") + module_command + ". ";
    if (version != nccl_unknown_version && version < 22304)
      advice +=
          "If it is loaded, this version of NCCL does not see it: update to 2.23.4 or later. "
          "If not: ";
    else
      advice += "If it is empty: ";
  }
  advice +=
      "sudo modprobe nvidia-peermem (drivers since 470, with the RDMA stack of MLNX_OFED or "
      "DOCA-OFED; before, the package nv_peer_mem)";
  if (nccl_knows_dmabuf(version)) {
    advice += ", or dma-buf: ";
    if (version == nccl_unknown_version) advice += "NCCL 2.13, ";
    advice += "NVIDIA's open kernel modules since 515, kernel 5.12 and rdma-core 34 or later";
  } else {
    advice += "; this version of NCCL knows no dma-buf (2.13 and later do)";
  }
  return advice;
}

std::string registration_advice(const TextCase& text, const TextRow& row) {
  if (row.format == "perftest")
    return std::string(module_command) +
           " (without it: sudo modprobe nvidia-peermem, or add --use_cuda_dmabuf), nvidia-smi -q "
           "-d MEMORY (BAR1 must hold the buffer), ulimit -l. Try --use_cuda=" +
           gpu_option(row.source) + " with -s 65536 to tell size from refusal";
  if (row.format == "gdrcopy_dmesg")
    return "The NVIDIA driver refused the pages: -22 (EINVAL) is memory that cannot be pinned "
           "(managed, VMM without gpuDirectRDMACapable, or freed meanwhile) or a GPU without "
           "GPUDirect RDMA (GeForce); -12 (ENOMEM) is a full BAR1 (nvidia-smi -q -d MEMORY). "
           "gdrcopy_sanity tests the set-up";
  if (row.format == "registration")
    return std::string(module_command) +
           " (without it: sudo modprobe nvidia-peermem; or dma-buf, with NVIDIA's open modules), "
           "BAR1 in nvidia-smi -q -d MEMORY must hold what is registered, ulimit -l. Bad address "
           "(EFAULT, 14) says that no module knows the memory as a GPU's; Cannot allocate memory "
           "(12) is the limit of locked memory or a full BAR1";
  if (row.format == "nccl_log" && text.nccl_version() >= 21304)
    return "The module is loaded, and this version looks for it: it was loaded after this run, or "
           "the container does not see the host's /sys/module or /sys/kernel/mm/memory_peers. Run "
           "again; if the same is said, dmesg names what the adapter's driver refuses";
  return {};
}

/// `1.15.1.6` of any text as 115; 0 where none says it.
unsigned gds_release(const TextCase& text) {
  for (const core::CapturePiece& piece : text.captures().pieces) {
    for (const auto& [name, value] : piece.facts) {
      if (name != "gds_version" || value.as_text() == nullptr) continue;
      unsigned major = 0;
      unsigned minor = 0;
      const std::string& version = *value.as_text();
      const char* end = version.data() + version.size();
      const auto read = std::from_chars(version.data(), end, major);
      if (read.ptr == end || *read.ptr != '.' || major > 99) return 0;
      (void)std::from_chars(read.ptr + 1, end, minor);
      return minor > 99 ? 0 : major * 100 + minor;
    }
  }
  return 0;
}

/// UCX without CUDA, which NIXL and others bring along or find.
std::string plugin_advice(const TextRow& row) {
  if (row.format != "ucx") return {};
  return "Find which UCX the program loads (ldd, LD_LIBRARY_PATH, a wheel that brings its own) and "
         "ask that one: ucx_info -v shows --with-cuda, ucx_info -d | grep -i cuda its transports; "
         "its package ucx-cuda may be missing, or libcuda.so.1 in the container (--gpus all). "
         "UCX_TLS must leave cuda_copy and cuda_ipc in";
}

/// A port that is Initializing or Armed.
std::string port_advice(const TextRow& row) {
  if (row.verdict.reason.find("subnet manager") == std::string::npos) return {};
  return "Start a subnet manager, or find why it does not reach this port: sminfo asks for it, "
         "opensm (or the switch's, or UFM) is one; then ibstat says Active. Ports of RoCE need "
         "none";
}

/// A device number `0:71`: what lies below is overlay, tmpfs, btrfs, or a network file system.
std::string file_system_advice(const TextRow& row) {
  if (row.verdict.subject.rfind("0:", 0) != 0) return {};
  return "Device numbers that begin with 0 have no block device: overlay (the container's own "
         "root), tmpfs, btrfs or a network file system. findmnt -T FILE says which; put the data "
         "on ext4 or XFS on an NVMe drive (in a container: a volume of it), or on a network file "
         "system that libcufile supports";
}

std::string block_driver_advice(const TextCase& text) {
  std::string advice(cause_row(Cause::storage_driver_not_registered).remedy);
  const unsigned release = gds_release(text);
  if (release != 0 && release < 113) return advice;
  advice += release == 0 ? ". With GDS 1.13 or later " : ". With this GDS ";
  advice +=
      "PCI P2PDMA is another way, without that driver: kernel 6.2 or later with "
      "CONFIG_PCI_P2PDMA, NVIDIA's open modules (565 or later), and "
      "properties.use_pci_p2pdma true in cufile.json";
  if (release == 0 || release >= 116) {
    advice += release == 0 ? " (from 1.16 on also block.nvme.use_pci_p2pdma)"
                           : ", and block.nvme.use_pci_p2pdma, too";
  }
  return advice;
}

/// Slow, and no text tells why.
std::string degraded_advice(const TextCase& text, const TextRow& row) {
  std::string advice = text.amd() ? "See how far the two are apart (rocm-smi --showtopo)"
                                  : "See how far the two are apart (nvidia-smi topo -m: PIX or PXB "
                                    "is good)";
  if (row.verdict.member == Member::rdma) advice += ", and measure with the nearest of them";
  return advice +
         "; sudo lspci -vvv | grep -E '^[0-9a-f]|ACSCtl|LnkSta:' shows ports that redirect "
         "(ReqRedir+) and links below their width";
}

/// Where no text tells the reason.
std::string advice_without_cause(const TextCase& text, const TextRow& row) {
  if (row.verdict.verdict == Verdict::degraded) return degraded_advice(text, row);
  if (row.format == "gpu_lost")
    return "Take the node out of the job: other errors of the run follow from this one. "
           "Power-cycle "
           "it (a reset of the GPU seldom helps), and look at what the kernel says of AER just "
           "before, at power, temperature and seating of the card; nvidia-bug-report.sh for the "
           "vendor where it comes again";
  if (row.verdict.member == Member::p2p && !text.amd())
    return std::string(refusal_command) + ". Until then copies go through host memory";
  return {};
}

}  // namespace

std::string amd_advice(Cause cause) {
  switch (cause) {
    case Cause::rdma_peermem_not_loaded:
    case Cause::rdma_peermem_load_failed:
    case Cause::rdma_peermem_unseen_by_library:
      return "look for amdkfd in /sys/kernel/mm/memory_peers (the peer-memory client of amdgpu, "
             "with MLNX_OFED or DOCA-OFED); or, where the kernel exports GPU memory as dma-buf, "
             "run with NCCL_DMABUF_ENABLE=1";
    case Cause::rdma_dmabuf_not_supported:
      return "use a kernel and rdma-core with dma-buf for RDMA, or the peer-memory client of "
             "amdgpu";
    case Cause::rdma_registration_failed:
      return "check the peer-memory client of amdgpu or dma-buf, the size of the GPU's window and "
             "ulimit -l; the errno says which";
    case Cause::rdma_host_memory_test:
      return "measure with GPU memory: ib_write_bw --use_rocm=0";
    case Cause::rdma_host_buffers:
      return "look for amdkfd in /sys/kernel/mm/memory_peers, at the distance of GPU and adapter "
             "in rocm-smi --showtopo, and at the lines GPU Direct RDMA of a run with "
             "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET";
    case Cause::rdma_distance_over_limit:
      return "use a nearer adapter where there is one, or NCCL_NET_GDR_LEVEL=SYS, and compare the "
             "rates";
    case Cause::machine_bar1_too_small:
      return "switch on Above 4G Decoding and Resizable BAR in the firmware (on cards that have "
             "it), or use smaller buffers";
    case Cause::machine_nvlink_down:
      return "rocm-smi --showtopo and the kernel's messages of amdgpu show the links of the pair";
    default:
      return {};
  }
}

std::string text_advice(const TextCase& text, const TextRow& row, Cause cause) {
  switch (cause) {
    case Cause::none:
      return advice_without_cause(text, row);
    case Cause::machine_acs_redirect:
      return redirect_advice(text, row);
    case Cause::rdma_remote_access_error:
      return refused_access_advice(text, row);
    case Cause::rdma_completion_error:
      return completion_advice(row);
    case Cause::rdma_retry_exceeded:
    case Cause::rdma_no_gid:
      return row.format == "modify_qp" ? connection_advice() : retries_advice(row);
    default:
      break;
  }
  if (text.amd()) return amd_advice(cause);
  switch (cause) {
    case Cause::rdma_distance_over_limit:
      return distance_advice(text, row);
    case Cause::rdma_wrong_nic:
      return wrong_nic_advice(text, row);
    case Cause::rdma_host_buffers:
      return host_buffers_advice(text, row);
    case Cause::rdma_host_memory_test:
      return host_memory_advice(row);
    case Cause::rdma_peermem_not_loaded:
      return module_advice(text);
    case Cause::rdma_registration_failed:
      return registration_advice(text, row);
    case Cause::machine_bar1_too_small:
      return window_advice(text, row);
    case Cause::p2p_shared_memory_transport:
      return shared_memory_advice(text, row);
    case Cause::p2p_disabled_by_setting:
      return setting_advice(text, row);
    case Cause::p2p_slower_than_staged:
      return slower_advice(row);
    case Cause::rdma_peermem_load_failed:
      return load_advice(row);
    case Cause::rdma_software_emulation:
      return emulation_advice(row);
    case Cause::storage_compat_refused:
      return refused_files_advice();
    case Cause::storage_compat_used:
      return row.format == "kvikio" ? kvikio_advice() : std::string();
    case Cause::async_doorbell_unmapped:
      return "options nvidia NVreg_RegistryDwords=\"PeerMappingOverride=1;\" in "
             "/etc/modprobe.d/nvidia.conf, then rebuild the initramfs (update-initramfs -u, or "
             "dracut -f) and reboot; it lets programs without root map registers of other devices. "
             "Or run as root, or choose the mode in which a CPU thread rings";
    case Cause::async_stream_memory_ops_unavailable:
      return "Drivers before CUDA 12 need NVreg_EnableStreamMemOPs=1 (options nvidia "
             "NVreg_EnableStreamMemOPs=1 in /etc/modprobe.d/nvidia.conf, and a reboot); later ones "
             "have them on: update the driver, or let the host issue the transfers";
    case Cause::storage_filesystem_unsupported:
      return file_system_advice(row);
    case Cause::rdma_memlock_limit:
      return memlock_advice();
    case Cause::rdma_plugin_without_gdr:
      return plugin_advice(row);
    case Cause::rdma_port_down:
      return port_advice(row);
    case Cause::rdma_socket_transport:
      return sockets_advice(text);
    case Cause::storage_driver_not_registered:
      return block_driver_advice(text);
    default:
      return {};
  }
}

}  // namespace nobounce::judge
