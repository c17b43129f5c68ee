// Puts the parts of a machine together: bridges and switches, then what hangs below them.
#include "topology/read_machine.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "topology/block_devices.hpp"
#include "topology/gpus.hpp"
#include "topology/kernel.hpp"
#include "topology/nics.hpp"
#include "topology/pci_tree.hpp"
#include "topology/surroundings.hpp"
#include "topology/sysfs_text.hpp"

namespace nobounce::topology {
namespace {

/// What a driver folds several devices into: translated if any is, else identity, unknown or off.
int severity(IommuMode mode) {
  switch (mode) {
    case IommuMode::translated:
      return 3;
    case IommuMode::unknown:
      return 2;
    case IommuMode::identity:
      return 1;
    case IommuMode::off:
    case IommuMode::inherit:
      break;
  }
  return 0;
}

class MachineReader {
 public:
  explicit MachineReader(system::Host& host)
      : host_(host), files_(host.files()), tree_(PciTree::read(files_)) {}

  Machine read() {
    machine_.name = std::string(host_.name());
    machine_.kernel = read_kernel(files_);
    machine_.modules = read_modules(files_);
    machine_.numa_nodes = read_numa_nodes(files_);
    machine_.udev = files_.exists("/run/udev/data");
    machine_.container = read_container(files_);
    machine_.process = read_process(files_);
    machine_.libraries = read_libraries(files_);
    machine_.cufile_settings = read_cufile_settings(host_);
    read_module_details(files_, machine_.modules);
    read_bridges();
    read_endpoints();
    read_acs();
    read_iommu();
    machine_.libcufile = read_libcufile();
    read_fabric_manager();
    note_unread();
    complete();
    return std::move(machine_);
  }

 private:
  void read_bridges() {
    const Processor processor = read_processor(files_);
    machine_.guest = processor.guest;
    machine_.processor = processor.facts;
    for (const std::string& root : tree_.roots()) {
      bridge_index_[root] = static_cast<std::uint32_t>(machine_.host_bridges.size());
      HostBridge bridge;
      bridge.numa = numa_of_root(root);
      bridge.peer_forwarding = forwarding_of(tree_, root, processor);
      machine_.host_bridges.push_back(bridge);
    }
    for (const PciFunction& function : tree_.functions()) {
      if (function.is_upstream_port() && bridge_index_.count(function.root) != 0) {
        switch_index_.emplace(function.bdf, 0);
        upstream_ports_.push_back(&function);
      }
    }
    // A switch comes after the one it hangs under.
    std::stable_sort(upstream_ports_.begin(), upstream_ports_.end(),
                     [this](const PciFunction* a, const PciFunction* b) {
                       return std::pair(bridge_index_[a->root], a->bridges.size()) <
                              std::pair(bridge_index_[b->root], b->bridges.size());
                     });
    for (std::size_t i = 0; i < upstream_ports_.size(); ++i) {
      switch_index_[upstream_ports_[i]->bdf] = static_cast<std::uint32_t>(i);
    }
    for (const PciFunction* port : upstream_ports_) {
      Switch found;
      found.parent = parent_of(*port);
      machine_.switches.push_back(found);
    }
  }

  [[nodiscard]] std::uint32_t numa_of_root(const std::string& root) const {
    for (const PciFunction& function : tree_.functions()) {
      if (function.root != root) continue;
      const auto node = tree_.numa_of(function);
      if (node.has_value() && *node >= 0 &&
          *node < static_cast<std::int64_t>(machine_.numa_nodes.size())) {
        return static_cast<std::uint32_t>(*node);
      }
    }
    return 0;
  }

  /// The innermost switch above a function, else its host bridge.
  [[nodiscard]] Parent parent_of(const PciFunction& function) const {
    for (std::size_t i = function.bridges.size(); i-- > 0;) {
      const auto found = switch_index_.find(function.bridges[i]);
      if (i % 2 == 1 && found != switch_index_.end())
        return Parent{Parent::Kind::pci_switch, found->second};
    }
    const auto bridge = bridge_index_.find(function.root);
    return Parent{Parent::Kind::host_bridge, bridge == bridge_index_.end() ? 0 : bridge->second};
  }

  void read_endpoints() {
    GpuList gpus = read_gpus(host_, tree_);
    machine_.gpus = std::move(gpus.gpus);
    machine_.nvlinks = std::move(gpus.nvlinks);
    machine_.confidential = gpus.confidential;
    for (std::size_t i = 0; i < machine_.gpus.size(); ++i) {
      Gpu& gpu = machine_.gpus[i];
      gpu.parent = Parent{};
      if (const PciFunction* function = tree_.find(gpu.bdf)) {
        gpu.parent = parent_of(*function);
        place("gpu:" + std::to_string(i), *function);
      }
    }
    read_other_gpus();
    std::vector<FoundNic> nics = read_nics(files_, tree_);
    StorageTree storage = read_storage(files_, tree_, nics);
    for (std::size_t i = 0; i < nics.size(); ++i) {
      Nic nic = std::move(nics[i].nic);
      nic.parent = Parent{};
      if (nics[i].function != nullptr) {
        nic.parent = parent_of(*nics[i].function);
        place("nic:" + std::to_string(i), *nics[i].function);
      }
      machine_.nics.push_back(std::move(nic));
    }
    for (std::size_t i = 0; i < storage.drives.size(); ++i) {
      Drive drive = std::move(storage.drives[i].drive);
      if (storage.drives[i].function != nullptr) {
        drive.parent = parent_of(*storage.drives[i].function);
        place("drive:" + std::to_string(i), *storage.drives[i].function);
      }
      machine_.drives.push_back(std::move(drive));
    }
    machine_.mounts = std::move(storage.mounts);
  }

  void read_other_gpus() {
    for (const PciFunction& function : tree_.functions()) {
      const std::string vendor = function.other_gpu_vendor();
      if (vendor.empty()) continue;
      machine_.other_gpus.push_back({parent_of(function), vendor, function.id(), function.bdf,
                                     tree_.driver_of(function), tree_.link_of(function)});
    }
  }

  /// NVSwitches carry nothing before the service has set them up.
  void read_fabric_manager() {
    for (const PciFunction& function : tree_.functions()) {
      machine_.nvswitches += function.is_nvswitch() ? 1 : 0;
    }
    if (machine_.nvswitches == 0) return;
    const bool works = !machine_.nvlinks.empty();
    if (works || files_.exists("/run/nvidia-fabricmanager/nv-fabricmanager.pid")) {
      machine_.fabric_manager = FabricManager::running;
    } else {
      machine_.fabric_manager =
          machine_.container.inside ? FabricManager::unknown : FabricManager::absent;
    }
  }

  void note_unread() {
    const bool root_helps = !machine_.process.root;
    std::size_t hidden = 0;
    for (const auto& [port, acs] : acs_) hidden += acs.mode == AcsMode::unknown ? 1 : 0;
    if (hidden > 0) {
      machine_.unread.push_back(
          {"ACS of " + std::to_string(hidden) + (hidden == 1 ? " port" : " ports"),
           "/sys/bus/pci/devices/*/config", root_helps});
    }
    const bool hidden_ats = std::any_of(machine_.nics.begin(), machine_.nics.end(),
                                        [](const Nic& nic) { return nic.ats == Answer::unknown; });
    if (hidden_ats) {
      machine_.unread.push_back({"whether adapters use address translation service (ATS)",
                                 "/sys/bus/pci/devices/*/config", root_helps});
    }
    const bool nvidia = !machine_.gpus.empty();
    if (nvidia && !host_.nvml().ok()) {
      machine_.unread.push_back(
          {"memory, NVLinks and peer status of GPUs", "libnvidia-ml.so.1", false});
    }
    const std::string config = "/boot/config-" + machine_.kernel.release;
    if (!files_.read(config).ok() && !files_.read("/proc/kallsyms").ok()) {
      machine_.unread.push_back({"whether the kernel was built with CONFIG_PCI_P2PDMA",
                                 config + ", /proc/kallsyms", root_helps});
    }
  }

  /// Remembers which port a device hangs under.
  void place(std::string device, const PciFunction& function) {
    placed_.push_back(&function);
    if (!function.bridges.empty())
      port_devices_.emplace_back(std::move(device), tree_.find(function.bridges.back()));
  }

  void read_acs() {
    std::vector<std::pair<std::string, const PciFunction*>> ports;
    for (std::size_t i = 0; i < upstream_ports_.size(); ++i) {
      ports.emplace_back("switch:" + std::to_string(i),
                         tree_.find(upstream_ports_[i]->bridges.back()));
    }
    ports.insert(ports.end(), port_devices_.begin(), port_devices_.end());
    for (const auto& [device, port] : ports) {
      if (port == nullptr) continue;
      const PortAcs& acs = acs_of(*port);
      const Parent parent = port->is_root_port() ? Parent{} : parent_of(*port);
      if (parent.kind == Parent::Kind::pci_switch) {
        machine_.switches[parent.index].ports.push_back({device, acs.mode, acs.control});
      } else if (const auto bridge = bridge_index_.find(port->root);
                 bridge != bridge_index_.end()) {
        machine_.host_bridges[bridge->second].ports.push_back({device, acs.mode, acs.control});
      }
    }
    for (Switch& each : machine_.switches) each.acs = fold_ports(each.ports);
    for (HostBridge& each : machine_.host_bridges) {
      each.acs = fold_ports(each.ports);
      // Of root ports only those are listed that differ.
      each.ports.erase(std::remove_if(each.ports.begin(), each.ports.end(),
                                      [](const SwitchPort& port) {
                                        return port.acs == AcsMode::inherit &&
                                               port.acs_control.empty();
                                      }),
                       each.ports.end());
    }
  }

  const PortAcs& acs_of(const PciFunction& port) {
    const auto known = acs_.find(port.bdf);
    if (known != acs_.end()) return known->second;
    return acs_.emplace(port.bdf, tree_.acs_of(port)).first->second;
  }

  /// What most of the ports have; those inherit it.
  static AcsMode fold_ports(std::vector<SwitchPort>& ports) {
    std::map<AcsMode, std::size_t> counts;
    for (const SwitchPort& port : ports) ++counts[port.acs];
    std::size_t most = 0;
    AcsMode usual = AcsMode::off;
    for (const auto& [mode, count] : counts) {
      if (count <= most) continue;
      most = count;
      usual = mode;
    }
    for (SwitchPort& port : ports) {
      if (port.acs == usual) port.acs = AcsMode::inherit;
    }
    return usual;
  }

  /// The worst of all devices, and of each device where it differs.
  void read_iommu() {
    machine_.kernel.iommu = worst_iommu();
    const auto read = [this](const std::string& bdf, IommuMode& mode, std::string& group) {
      const PciFunction* function = tree_.find(bdf);
      if (function == nullptr) return;
      mode = tree_.iommu_of(*function);
      if (mode == machine_.kernel.iommu) mode = IommuMode::inherit;
      group = tree_.iommu_group_of(*function);
    };
    for (Gpu& gpu : machine_.gpus) read(gpu.bdf, gpu.iommu, gpu.iommu_group);
    for (Nic& nic : machine_.nics) read(nic.bdf, nic.iommu, nic.iommu_group);
    for (Drive& drive : machine_.drives) read(drive.bdf, drive.iommu, drive.iommu_group);
  }

  [[nodiscard]] IommuMode worst_iommu() const {
    if (tree_.functions().empty()) return IommuMode::unknown;
    IommuMode worst = IommuMode::off;
    const auto look_at = [&](const PciFunction& function) {
      const IommuMode mode = tree_.iommu_of(function);
      if (severity(mode) > severity(worst)) worst = mode;
    };
    for (const PciFunction* function : placed_) look_at(*function);
    if (placed_.empty()) {
      for (const PciFunction& function : tree_.functions()) look_at(function);
    }
    return worst;
  }

  /// Empty: not installed. Libraries before 1.8 do not tell their version.
  std::string read_libcufile() {
    Result<system::Cufile*> table = host_.cufile();
    if (!table) return {};
    int version = 0;
    if ((*table)->get_version(&version).err != system::cufile::success || version <= 0)
      return "unknown";
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  }

  /// What every machine has, even where nobody can read it.
  void complete() {
    if (machine_.host_bridges.empty()) {
      machine_.host_bridges.push_back(HostBridge{0, PeerForwarding::unknown, AcsMode::unknown, {}});
    }
    const bool has_root = std::any_of(machine_.mounts.begin(), machine_.mounts.end(),
                                      [](const Mount& mount) { return mount.point == "/"; });
    if (!has_root)
      machine_.mounts.insert(machine_.mounts.begin(), Mount{"/", "", "unknown", "", true});
  }

  system::Host& host_;
  system::Files& files_;
  PciTree tree_;
  Machine machine_;
  std::map<std::string, std::uint32_t, std::less<>> bridge_index_;
  std::map<std::string, std::uint32_t, std::less<>> switch_index_;
  std::vector<const PciFunction*> upstream_ports_;
  std::vector<const PciFunction*> placed_;
  std::vector<std::pair<std::string, const PciFunction*>> port_devices_;
  std::map<std::string, PortAcs> acs_;
};

}  // namespace

Result<Machine> read_machine(system::Host& host) {
  return MachineReader(host).read();
}

}  // namespace nobounce::topology
