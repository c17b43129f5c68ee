// NvfsModule: what the module's /proc files say; bytes come from the ledger, operations are counted
// here.
#include "fabric/soft_cufile_module.hpp"

#include <algorithm>
#include <vector>

namespace nobounce::fabric {
namespace {

std::uint64_t flow_bytes(const Ledger& ledger, Space::Kind source, Space::Kind target) {
  std::uint64_t bytes = 0;
  for (const auto& [flow, moved] : ledger.flows()) {
    const bool by_device = flow.initiator.kind == Initiator::Kind::drive ||
                           flow.initiator.kind == Initiator::Kind::nic;
    if (by_device && flow.source.kind == source && flow.target.kind == target) bytes += moved;
  }
  return bytes;
}

// Block drivers and network file systems that have hooks for the module.
bool can_register(std::string_view driver) {
  constexpr std::string_view drivers[] = {"nvme",   "nvme_rdma", "nfs",  "nfs4",   "lustre",
                                          "wekafs", "beegfs",    "gpfs", "scatefs"};
  return std::find(std::begin(drivers), std::end(drivers), driver) != std::end(drivers);
}

std::string counted(const char* name, std::uint64_t value) {
  return std::string(" ") + name + '=' + std::to_string(value);
}

}  // namespace

bool NvfsModule::loaded() const {
  const std::uint64_t limit = faults_.module_unloaded_after_requests;
  return machine_.modules.nvidia_fs && (limit == 0 || requests_.load() < limit);
}

bool NvfsModule::registered(const Drive& drive) const {
  if (!loaded()) return false;
  // Stripes are passed through: what lies below them has the hooks.
  const bool stripes = drive.driver == "md" && drive.layer == "raid0" && !drive.parts.empty();
  if (!stripes) return drive.nvidia_fs_registered && can_register(drive.driver);
  return std::all_of(drive.parts.begin(), drive.parts.end(), [this](const std::string& part) {
    return std::any_of(machine_.drives.begin(), machine_.drives.end(), [&part](const Drive& each) {
      return each.name == part && each.nvidia_fs_registered && can_register(each.driver);
    });
  });
}

bool NvfsModule::begin_request() {
  if (!machine_.modules.nvidia_fs) return false;
  const std::uint64_t number = ++requests_;
  const std::uint64_t limit = faults_.module_unloaded_after_requests;
  const bool noticed = faults_.mutant != Mutant::cufile_unload_unnoticed;
  if (limit != 0 && number > limit && noticed) return false;
  ++in_flight_;
  return true;
}

void NvfsModule::end_request(bool writing, bool succeeded) {
  Operations& operations = writing ? writes_ : reads_;
  ++(succeeded ? operations.ok : operations.failed);
  --in_flight_;
}

void NvfsModule::count_mapping(bool succeeded) {
  ++(succeeded ? mappings_.ok : mappings_.failed);
}

void NvfsModule::count_unmapping() {
  ++unmappings_;
}

std::string NvfsModule::version_text() const {
  return "version: 2.26.6\n";
}

std::string NvfsModule::devcount_text() const {
  return "devcount: " + std::to_string(machine_.gpus.size()) + '\n';
}

// One line per registered block driver, as the module lists them.
std::string NvfsModule::modules_text() const {
  std::vector<std::string> names;
  for (const Drive& drive : machine_.drives) {
    if (!drive.nvidia_fs_registered || !can_register(drive.driver)) continue;
    const std::string& name = drive.driver;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  std::string text;
  for (const std::string& name : names) text += name + '\n';
  return text;
}

std::string NvfsModule::stats_text() const {
  const auto operations = [](const Operations& of) {
    const std::uint64_t ok = of.ok.load();
    const std::uint64_t failed = of.failed.load();
    return counted("n", ok + failed) + counted("ok", ok) + counted("err", failed);
  };
  const std::uint64_t read_bytes = flow_bytes(ledger_, Space::Kind::media, Space::Kind::vram);
  const std::uint64_t written_bytes = flow_bytes(ledger_, Space::Kind::vram, Space::Kind::media);
  const std::uint64_t unmapped = unmappings_.load();
  std::string text =
      "GDS Version: 1.15.1.6 \nNVFS statistics(ver: 4.0)\nNVFS Driver(version: 2.26.6)\n"
      "Mellanox PeerDirect Supported: True\nIO stats: Enabled, peer IO stats: Enabled\n"
      "Logging level: info\n\nActive Shadow-Buffer (MiB): 0\nActive Process: 1\n"
      "Batches\t\t\t\t: n=0 ok=0 err=0 Avg-Submit-Latency(usec)=0\n";
  text += "Reads\t\t\t\t:" + operations(reads_) + counted("readMiB", read_bytes >> 20) +
          " io_state_err=0\nReads\t\t\t\t: Bandwidth(MiB/s)=0 Avg-Latency(usec)=0\n"
          "Sparse Reads\t\t\t: n=0 io=0 holes=0 pages=0\n";
  text += "Writes\t\t\t\t:" + operations(writes_) + counted("writeMiB", written_bytes >> 20) +
          " io_state_err=0 pg-cache=0 pg-cache-fail=0 pg-cache-eio=0\n"
          "Writes\t\t\t\t: Bandwidth(MiB/s)=0 Avg-Latency(usec)=0\n";
  text += "Mmap\t\t\t\t:" + operations(mappings_) + counted("munmap", unmapped) + '\n';
  text += "Bar1-map\t\t\t:" + operations(mappings_) + counted("free", unmapped) + " callbacks=0" +
          counted("active", mappings_.ok.load() - unmapped) + " delay-frees=0\n";
  text += "Error\t\t\t\t: cpu-gpu-pages=0 sg-ext=0 dma-map=0 dma-ref=0\n";
  text += "Ops\t\t\t\t:" + counted("Read", in_flight_.load()) + " Write=0 BatchIO=0\n";
  return text;
}

std::string NvfsModule::peer_affinity_text() const {
  std::string text =
      "GPU P2P DMA distribution based on pci-distance\n\n(last column indicates p2p via root "
      "complex)\n";
  for (std::size_t gpu = 0; gpu < machine_.gpus.size(); ++gpu) {
    std::uint64_t by_switch = 0;
    std::uint64_t by_root = 0;
    for (const Request& request : ledger_.requests()) {
      const bool device = request.initiator.kind == Initiator::Kind::drive ||
                          request.initiator.kind == Initiator::Kind::nic;
      const auto is_gpu = [&](const Space& space) {
        return space.kind == Space::Kind::vram && space.index == gpu;
      };
      if (!device || (!is_gpu(request.source.space) && !is_gpu(request.target.space))) continue;
      ++(request.link == Link::pcie_switch ? by_switch : by_root);
    }
    text += "GPU :" + machine_.gpus[gpu].bdf + " :0 0 " + std::to_string(by_switch) + " 0 0 " +
            std::to_string(by_root) + '\n';
  }
  return text;
}

}  // namespace nobounce::fabric
