// Lays out the PCI functions of a machine: bus numbers for bridges, paths, ids.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <set>
#include <string_view>
#include <utility>

#include "core/drive_kind.hpp"
#include "fabric/soft_files_pci.hpp"

namespace nobounce::fabric {
namespace {

// Ids as sold; the p2pdma list of the kernel knows 8086:09a2 and does not know 8086:3ec2.
constexpr std::uint16_t intel = 0x8086;
constexpr std::uint16_t listed_host_bridge = 0x09a2;
constexpr std::uint16_t unlisted_host_bridge = 0x3ec2;
constexpr std::uint16_t root_port_device = 0x352a;
constexpr std::uint16_t switch_vendor = 0x1000;
constexpr std::uint16_t switch_device = 0xc030;

// As a description without bus addresses is completed: eight host bridges share a domain.
constexpr std::size_t bridges_per_domain = 8;
constexpr std::uint32_t buses_per_bridge = 32;

struct PortAcs {
  AcsMode mode = AcsMode::off;
  std::uint32_t control = 0;
};

struct EndpointAddress {
  std::uint32_t domain = 0;
  std::uint32_t bus = 0;
};

EndpointAddress pci_address(const std::string& bdf) {
  EndpointAddress address;
  if (bdf.size() >= 7) {
    address.domain =
        static_cast<std::uint32_t>(std::strtoul(bdf.substr(0, 4).c_str(), nullptr, 16));
    address.bus = static_cast<std::uint32_t>(std::strtoul(bdf.substr(5, 2).c_str(), nullptr, 16));
  }
  return address;
}

std::string port_bdf(std::uint32_t domain, std::uint32_t bus, std::uint32_t slot) {
  // More than 32 devices on a bus go on as functions of the first.
  return hex_digits(domain, 4) + ':' + hex_digits(bus, 2) + ':' + hex_digits(slot & 31, 2) + '.' +
         hex_digits((slot >> 5) & 7, 1);
}

DeviceRef endpoint_ref(DeviceRef::Kind kind, std::size_t index) {
  return DeviceRef{kind, static_cast<std::uint16_t>(index)};
}

class PciLayout {
 public:
  explicit PciLayout(const Machine& machine) : machine_(machine) {
    for (const Gpu& gpu : machine.gpus) take(gpu.bdf);
    for (const Nic& nic : machine.nics) take(nic.bdf);
    for (const Drive& drive : machine.drives) {
      if (core::is_pci_drive(drive)) take(drive.bdf);
    }
  }

  std::vector<PciFunction> run() {
    for (const OtherGpu& gpu : machine_.other_gpus) take(gpu.bdf);
    for (std::size_t i = 0; i < machine_.host_bridges.size(); ++i) add_host_bridge(i);
    return std::move(functions_);
  }

 private:
  void take(const std::string& bdf) {
    const EndpointAddress address = pci_address(bdf);
    used_.insert({address.domain, address.bus});
  }

  // A bus number that no endpoint has, in the host bridge's share of its domain if one is left.
  // When all 256 are taken, numbers repeat.
  std::uint32_t free_bus() {
    for (std::uint32_t step = 0; step < 256; ++step) {
      const std::uint32_t bus = (first_bus_ + step) & 255;
      if (used_.insert({domain_, bus}).second) return bus;
    }
    return 255;
  }

  // In a guest the devices sit on the root bus itself, so that bus has their number.
  std::uint32_t root_bus_of(std::size_t host_bridge) {
    const Parent parent{Parent::Kind::host_bridge, static_cast<std::uint32_t>(host_bridge)};
    if (machine_.guest) {
      for (const Gpu& gpu : machine_.gpus) {
        if (gpu.parent == parent) return pci_address(gpu.bdf).bus;
      }
      for (const Drive& drive : machine_.drives) {
        if (drive.parent == parent && core::is_pci_drive(drive)) return pci_address(drive.bdf).bus;
      }
    }
    return free_bus();
  }

  void add_host_bridge(std::size_t index) {
    const HostBridge& bridge = machine_.host_bridges[index];
    numa_ = machine_.guest && machine_.numa_nodes.size() < 2
                ? -1
                : static_cast<std::int32_t>(bridge.numa);
    domain_ = static_cast<std::uint32_t>(index / bridges_per_domain);
    first_bus_ = static_cast<std::uint32_t>(index % bridges_per_domain) * buses_per_bridge;
    const std::uint32_t bus = root_bus_of(index);
    const std::string path = "/sys/devices/pci" + hex_digits(domain_, 4) + ':' + hex_digits(bus, 2);
    if (bridge.peer_forwarding != PeerForwarding::unknown) {
      PciFunction function;
      function.kind = PciFunction::Kind::host_bridge;
      function.vendor = intel;
      function.device = bridge.peer_forwarding == PeerForwarding::allowed ? listed_host_bridge
                                                                          : unlisted_host_bridge;
      function.class_code = 0x060000;
      add(function, path, bus, port_bdf(domain_, bus, 0));
    }
    slots_ = 1;
    for (std::uint32_t i = 0; index == 0 && i < machine_.nvswitches; ++i) {
      PciFunction nvswitch;
      nvswitch.vendor = 0x10de, nvswitch.device = 0x22a3, nvswitch.class_code = 0x068000;
      add(nvswitch, path, bus, port_bdf(domain_, bus, slots_++));
    }
    const Parent parent{Parent::Kind::host_bridge, static_cast<std::uint32_t>(index)};
    add_children(parent, path, bus, bridge.acs, PciFunction::Kind::root_port);
  }

  std::size_t add(PciFunction function, const std::string& parent_path, std::uint32_t bus,
                  std::string bdf) {
    function.bdf = std::move(bdf);
    function.path = parent_path + '/' + function.bdf;
    function.bus = bus;
    function.numa = numa_;
    functions_.push_back(std::move(function));
    return functions_.size() - 1;
  }

  // A root port or downstream port with one thing behind it.
  std::size_t add_port(PciFunction::Kind kind, PortAcs acs, const PcieLink& link,
                       const std::string& parent_path, std::uint32_t bus, std::uint32_t slot) {
    PciFunction port;
    port.kind = kind;
    port.vendor = kind == PciFunction::Kind::root_port ? intel : switch_vendor;
    port.device = kind == PciFunction::Kind::root_port ? root_port_device : switch_device;
    port.class_code = 0x060400;
    port.driver = "pcieport";
    port.acs = acs.mode;
    port.acs_control = acs.control;
    port.link = link;
    return add(port, parent_path, bus, port_bdf(domain_, bus, slot));
  }

  void close_bridge(std::size_t index, std::uint32_t bus_below) {
    functions_[index].bus_below = bus_below;
    functions_[index].bus_last = bus_below;
    for (std::size_t i = index + 1; i < functions_.size(); ++i) {
      functions_[index].bus_last = std::max(functions_[index].bus_last, functions_[i].bus);
    }
  }

  PortAcs acs_of(const Parent& parent, AcsMode otherwise, const std::string& device) const {
    const std::vector<SwitchPort>& ports = parent.kind == Parent::Kind::pci_switch
                                               ? machine_.switches[parent.index].ports
                                               : machine_.host_bridges[parent.index].ports;
    for (const SwitchPort& port : ports) {
      if (port.device != device) continue;
      const AcsMode mode = port.acs == AcsMode::inherit ? otherwise : port.acs;
      return {mode, nobounce::acs_control(mode, port.acs_control)};
    }
    return {otherwise, nobounce::acs_control(otherwise)};
  }

  void add_endpoint(const Parent& parent, const PciFunction& endpoint, const std::string& bdf,
                    const std::string& parent_path, std::uint32_t bus, PortAcs acs,
                    PciFunction::Kind port_kind, std::uint32_t slot) {
    const std::uint32_t own_bus = pci_address(bdf).bus;
    if (parent.kind == Parent::Kind::host_bridge && own_bus == bus) {
      add(endpoint, parent_path, bus, bdf);
      return;
    }
    const std::size_t port = add_port(port_kind, acs, endpoint.link, parent_path, bus, slot);
    add(endpoint, std::string(functions_[port].path), own_bus, bdf);
    close_bridge(port, own_bus);
  }

  void add_switch(const Parent& parent, std::size_t index, const std::string& parent_path,
                  std::uint32_t bus, AcsMode acs, PciFunction::Kind port_kind, std::uint32_t slot) {
    const std::string name = "switch:" + std::to_string(index);
    const PcieLink link{5, 16, 5, 16};
    const std::size_t port =
        add_port(port_kind, acs_of(parent, acs, name), link, parent_path, bus, slot);
    const std::uint32_t upstream_bus = free_bus();
    const std::uint32_t inner_bus = free_bus();
    const std::size_t upstream = add_port(PciFunction::Kind::upstream_port, PortAcs{}, link,
                                          std::string(functions_[port].path), upstream_bus, 0);
    const std::uint32_t outer_slots = slots_;
    slots_ = 0;
    add_children(Parent{Parent::Kind::pci_switch, static_cast<std::uint32_t>(index)},
                 std::string(functions_[upstream].path), inner_bus, machine_.switches[index].acs,
                 PciFunction::Kind::downstream_port);
    slots_ = outer_slots;
    close_bridge(upstream, inner_bus);
    close_bridge(port, upstream_bus);
  }

  void add_children(const Parent& parent, const std::string& path, std::uint32_t bus, AcsMode acs,
                    PciFunction::Kind port_kind) {
    for (std::size_t i = 0; i < machine_.switches.size(); ++i) {
      if (machine_.switches[i].parent == parent) {
        add_switch(parent, i, path, bus, acs, port_kind, slots_++);
      }
    }
    for (std::size_t i = 0; i < machine_.gpus.size(); ++i) {
      const Gpu& gpu = machine_.gpus[i];
      if (gpu.parent == parent) {
        add_device(parent, DeviceRef::Kind::gpu, i, gpu.bdf, gpu.link, path, bus, acs, port_kind);
      }
    }
    for (const OtherGpu& gpu : machine_.other_gpus) {
      if (gpu.parent != parent) continue;
      PciFunction endpoint;
      endpoint.link = gpu.link;
      set_id(endpoint, gpu.pci_id);
      endpoint.class_code = 0x030000;
      endpoint.driver = gpu.driver;
      add_endpoint(parent, endpoint, gpu.bdf, path, bus, {acs, nobounce::acs_control(acs)},
                   port_kind, slots_++);
    }
    for (std::size_t i = 0; i < machine_.nics.size(); ++i) {
      const Nic& nic = machine_.nics[i];
      if (nic.parent == parent) {
        add_device(parent, DeviceRef::Kind::nic, i, nic.bdf, nic.link, path, bus, acs, port_kind);
      }
    }
    for (std::size_t i = 0; i < machine_.drives.size(); ++i) {
      const Drive& drive = machine_.drives[i];
      if (drive.parent == parent && core::is_pci_drive(drive) &&
          drives_seen_.insert(drive.bdf).second) {
        add_device(parent, DeviceRef::Kind::drive, i, drive.bdf, drive.link, path, bus, acs,
                   port_kind);
      }
    }
  }

  void add_device(const Parent& parent, DeviceRef::Kind kind, std::size_t index,
                  const std::string& bdf, const PcieLink& link, const std::string& path,
                  std::uint32_t bus, AcsMode acs, PciFunction::Kind port_kind) {
    PciFunction endpoint;
    endpoint.endpoint = endpoint_ref(kind, index);
    endpoint.link = link;
    set_ids(endpoint, kind, index);
    const std::string word = kind == DeviceRef::Kind::gpu   ? "gpu:"
                             : kind == DeviceRef::Kind::nic ? "nic:"
                                                            : "drive:";
    const PortAcs port_acs = acs_of(parent, acs, word + std::to_string(index));
    add_endpoint(parent, endpoint, bdf, path, bus, port_acs, port_kind, slots_++);
  }

  void set_ids(PciFunction& endpoint, DeviceRef::Kind kind, std::size_t index) const {
    if (kind == DeviceRef::Kind::gpu) {
      const Gpu& gpu = machine_.gpus[index];
      set_id(endpoint, gpu.pci_id);
      endpoint.class_code = 0x030200;
      endpoint.driver = gpu.driver;
    } else if (kind == DeviceRef::Kind::nic) {
      const Nic& nic = machine_.nics[index];
      set_id(endpoint, nic.pci_id);
      endpoint.class_code = nic.link_layer == LinkLayer::ethernet ? 0x020000 : 0x020700;
      endpoint.driver = nic.driver;
      endpoint.ats = nic.ats == Answer::yes;
    } else {
      const Drive& drive = machine_.drives[index];
      set_id(endpoint, drive.pci_id);
      const bool nvme = drive.driver == "nvme" || drive.driver == "vfio-pci";
      const bool virtio = drive.driver == "virtio_blk";
      endpoint.class_code = nvme ? 0x010802 : virtio ? 0x010000 : 0x010400;
      endpoint.driver = virtio ? "virtio-pci" : drive.driver;
    }
  }

  /// `10de:2330`
  static void set_id(PciFunction& endpoint, const std::string& id) {
    if (id.size() != 9) return;
    endpoint.vendor = static_cast<std::uint16_t>(std::strtoul(id.c_str(), nullptr, 16));
    endpoint.device = static_cast<std::uint16_t>(std::strtoul(id.c_str() + 5, nullptr, 16));
  }

  const Machine& machine_;
  std::vector<PciFunction> functions_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> used_;  ///< domain and bus
  std::set<std::string> drives_seen_;  ///< addresses: namespaces of one controller share one
  std::uint32_t slots_ = 1;
  std::int32_t numa_ = 0;
  std::uint32_t domain_ = 0;
  std::uint32_t first_bus_ = 0;
};

}  // namespace

std::string hex_digits(std::uint64_t value, std::size_t digits) {
  constexpr std::string_view alphabet = "0123456789abcdef";
  std::string text(digits, '0');
  for (std::size_t i = digits; i-- > 0; value >>= 4) text[i] = alphabet[value & 15];
  return text;
}

std::vector<PciFunction> lay_out_pci(const Machine& machine) {
  return PciLayout(machine).run();
}

const PciFunction* function_of(const std::vector<PciFunction>& functions, DeviceRef device) {
  for (const PciFunction& function : functions) {
    if (function.kind == PciFunction::Kind::endpoint && function.endpoint == device) {
      return &function;
    }
  }
  return nullptr;
}

}  // namespace nobounce::fabric
