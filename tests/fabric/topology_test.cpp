// What a software machine shows is read back as that machine: the built-in ones and random ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "core/machine_json.hpp"
#include "fabric/embedded_machines.hpp"
#include "fabric/soft_host.hpp"
#include "topology/read_machine.hpp"

namespace nobounce {
namespace {

/// The worst that NVML can say of a GPU with any other: pairs joined by NVLink are fine whatever
/// the bus.
PeerStatus shown_status(const Machine& machine, std::uint32_t gpu) {
  PeerStatus worst = machine.gpus.size() < 2 ? PeerStatus::unknown : PeerStatus::ok;
  for (std::uint32_t other = 0; other < machine.gpus.size(); ++other) {
    if (other == gpu || worst != PeerStatus::ok) continue;
    const DeviceRef a{DeviceRef::Kind::gpu, static_cast<std::uint16_t>(gpu)};
    const DeviceRef b{DeviceRef::Kind::gpu, static_cast<std::uint16_t>(other)};
    if (path_between(machine, a, b).nvlink_count > 0) continue;
    const PeerStatus own = machine.gpus[gpu].peer_status;
    worst = own == PeerStatus::ok ? machine.gpus[other].peer_status : own;
  }
  return worst;
}

bool has_child(const Machine& machine, std::uint32_t bridge) {
  const Parent parent{Parent::Kind::host_bridge, bridge};
  const auto below = [&](const auto& device) { return device.parent == parent && !machine.guest; };
  return std::any_of(machine.switches.begin(), machine.switches.end(), below) ||
         std::any_of(machine.gpus.begin(), machine.gpus.end(), below) ||
         std::any_of(machine.nics.begin(), machine.nics.end(), below) ||
         std::any_of(machine.drives.begin(), machine.drives.end(),
                     [&](const Drive& drive) { return below(drive) && !drive.bdf.empty(); });
}

/// Says the ACS of every port outright, so that two spellings of one switch compare equal.
void spell_out_ports(Machine& machine) {
  for (Switch& each : machine.switches) {
    for (SwitchPort& port : each.ports) {
      if (port.acs == AcsMode::inherit) port.acs = each.acs;
    }
    each.acs = AcsMode::off;
  }
}

/// The part of a machine that its files, NVML and libcufile can show at all.
Machine visible_part(Machine machine) {
  spell_out_ports(machine);
  const std::size_t patch = machine.libcufile.rfind('.');
  if (patch != machine.libcufile.find('.')) machine.libcufile.resize(patch);
  machine.environment.clear();
  if (machine.gpus.empty()) machine.kernel.dmabuf = false;  // nobody to ask
  if (machine.gpus.empty()) machine.kernel.nvidia_driver.clear();
  for (std::uint32_t i = 0; i < machine.gpus.size(); ++i) {
    machine.gpus[i].gpudirect_rdma = true;  // a CUDA attribute: in the facts
  }
  std::vector<PeerStatus> shown;
  for (std::uint32_t i = 0; i < machine.gpus.size(); ++i) shown.push_back(shown_status(machine, i));
  for (std::uint32_t i = 0; i < machine.gpus.size(); ++i) machine.gpus[i].peer_status = shown[i];
  for (Drive& drive : machine.drives) {
    const bool can = drive.driver == "nvme" || drive.driver == "nvme_rdma" || drive.driver == "nfs";
    drive.nvidia_fs_registered = machine.modules.nvidia_fs && drive.nvidia_fs_registered && can;
  }
  for (Mount& mount : machine.mounts)
    mount.direct_io = true;  // only an open can tell: in the facts
  for (std::uint32_t i = 0; i < machine.host_bridges.size(); ++i) {
    if (!has_child(machine, i)) machine.host_bridges[i].acs = AcsMode::off;
    if (machine.guest) machine.host_bridges[i].peer_forwarding = PeerForwarding::unknown;
  }
  return machine;
}

void expect_read_back(const Machine& machine) {
  ASSERT_TRUE(validate(machine)) << to_string(validate(machine).error());
  Result<std::unique_ptr<fabric::SoftHost>> host =
      fabric::SoftHost::create(machine, {.deterministic = true, .faults = {}});
  ASSERT_TRUE(host) << to_string(host.error());
  Result<Machine> read = topology::read_machine(**host);
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_TRUE(validate(*read)) << to_string(validate(*read).error());
  const Machine expected = visible_part(machine);
  spell_out_ports(*read);
  read->unread.clear();  // a description says what is, not what a reader may see of it
  EXPECT_EQ(core::dump_json(core::machine_to_json(*read)),
            core::dump_json(core::machine_to_json(expected)));
  EXPECT_TRUE(*read == expected);
}

TEST(ReadMachineOfSoftHost, EqualsEveryBuiltInMachine) {
  for (const fabric::EmbeddedMachine& embedded : fabric::embedded_machines()) {
    SCOPED_TRACE(std::string(embedded.name));
    const Result<Machine> machine = core::machine_from_text(embedded.json, embedded.name);
    ASSERT_TRUE(machine) << to_string(machine.error());
    expect_read_back(*machine);
  }
}

class RandomMachine {
 public:
  explicit RandomMachine(unsigned seed) : random_(seed) {
    machine_.name = "random-" + std::to_string(seed);
  }

  Machine draw() {
    machine_.kernel.pci_p2pdma = chance();
    machine_.kernel.iommu = static_cast<IommuMode>(pick(4));
    machine_.modules = ModuleFacts{chance(), chance(), true};
    machine_.udev = chance();
    if (chance()) machine_.libcufile.clear();
    draw_bridges();
    draw_devices();
    machine_.mounts = {
        Mount{"/", machine_.drives.front().name, "ext4", "rw,relatime,data=ordered", true},
        Mount{"/my data", machine_.drives.back().name, "xfs", "rw,noatime,attr2", true},
        Mount{"/ram", "", "tmpfs", "rw,nosuid,size=1024k", true}};
    core::complete_machine(machine_);
    for (std::uint32_t i = 0; i < machine_.host_bridges.size(); ++i) {
      HostBridge& bridge = machine_.host_bridges[i];
      // With nothing below it and no function of its own nobody would see it.
      const bool hidden =
          bridge.peer_forwarding == PeerForwarding::unknown && !has_child(machine_, i);
      if (hidden) bridge.peer_forwarding = PeerForwarding::refused;
    }
    return machine_;
  }

 private:
  std::uint32_t pick(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
  bool chance() { return pick(2) == 0; }
  AcsMode acs() { return static_cast<AcsMode>(pick(4)); }

  void draw_bridges() {
    const std::uint32_t nodes = 1 + pick(2);
    for (std::uint32_t i = 0; i < nodes; ++i)
      machine_.numa_nodes.push_back(NumaNode{i, (1ull + pick(64)) << 30});
    const std::uint32_t bridges = 1 + pick(3);
    for (std::uint32_t i = 0; i < bridges; ++i) {
      const auto forwarding = static_cast<PeerForwarding>(pick(3));
      machine_.host_bridges.push_back(HostBridge{pick(nodes), forwarding, acs()});
    }
    // In the order in which they are read: by host bridge, then by depth.
    for (std::uint32_t bridge = 0; bridge < bridges; ++bridge) {
      const std::uint32_t switches = pick(3);
      const auto first = static_cast<std::uint32_t>(machine_.switches.size());
      for (std::uint32_t i = 0; i < switches; ++i)
        add_switch(Parent{Parent::Kind::host_bridge, bridge});
      for (std::uint32_t i = 0; i < switches; ++i) {
        if (chance()) add_switch(Parent{Parent::Kind::pci_switch, first + i});
      }
    }
  }

  void add_switch(Parent parent) {
    Switch drawn;
    drawn.parent = parent;
    drawn.acs = acs();
    machine_.switches.push_back(drawn);
  }

  Parent place() {
    const auto switches = static_cast<std::uint32_t>(machine_.switches.size());
    const auto bridges = static_cast<std::uint32_t>(machine_.host_bridges.size());
    const std::uint32_t at = pick(switches * 2 + bridges);
    if (at < switches * 2) return Parent{Parent::Kind::pci_switch, at % switches};
    return Parent{Parent::Kind::host_bridge, at - switches * 2};
  }

  void draw_devices() {
    const std::uint32_t gpus = pick(5);
    for (std::uint32_t i = 0; i < gpus; ++i) {
      Gpu gpu;
      gpu.parent = place();
      gpu.memory_bytes = (1ull + pick(80)) << 30;
      gpu.bar1_bytes = chance() ? gpu.memory_bytes : 256u << 20;
      gpu.peer_status = static_cast<PeerStatus>(pick(6));
      gpu.link = PcieLink{1 + pick(5), 1u << pick(5), 5, 16};
      machine_.gpus.push_back(gpu);
    }
    for (std::uint32_t i = 0; i < gpus; ++i) {
      for (std::uint32_t j = i + 1; j < gpus; ++j) {
        if (pick(3) == 0) machine_.nvlinks.push_back(NvLink{i, j, 1 + pick(6)});
      }
    }
    const std::uint32_t nics = pick(3);
    for (std::uint32_t i = 0; i < nics; ++i) {
      Nic nic;
      nic.parent = place();
      nic.name = "mlx5_" + std::to_string(i);
      machine_.nics.push_back(nic);
    }
    const bool nvme_registered = chance();
    const bool rdma_registered = chance();
    const std::uint32_t drives = 1 + pick(12);
    for (std::uint32_t i = 0; i < drives; ++i) {
      Drive drive;
      drive.parent = place();
      drive.name = "nvme" + std::to_string(i) + "n1";
      if (nics > 0 && pick(4) == 0) {
        drive.driver = "nvme_rdma";
        drive.parent = Parent{Parent::Kind::nic, pick(nics)};
      }
      // Drivers register, not drives.
      drive.nvidia_fs_registered = drive.driver == "nvme" ? nvme_registered : rdma_registered;
      machine_.drives.push_back(drive);
    }
    for (Switch& each : machine_.switches) each.ports.clear();
    core::complete_machine(machine_);  // lists a port per device
    for (Switch& each : machine_.switches) {
      for (SwitchPort& port : each.ports) {
        if (pick(4) == 0) port.acs = acs();
      }
    }
    machine_.mounts.clear();
  }

  std::mt19937_64 random_;
  Machine machine_;
};

TEST(ReadMachineOfSoftHost, EqualsRandomMachines) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_read_back(RandomMachine(seed).draw());
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace nobounce
