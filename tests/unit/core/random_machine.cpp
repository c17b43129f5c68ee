// Random but valid machines: what the property tests of core run over.
#include "unit/core/random_machine.hpp"

#include <random>
#include <utility>

#include "core/machine_json.hpp"

namespace nobounce::core {

namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::uint32_t below(std::size_t bound) { return static_cast<std::uint32_t>(engine_() % bound); }
  bool coin() { return below(2) == 0; }
  template <typename Enum>
  Enum any(Enum last) {
    return static_cast<Enum>(below(static_cast<std::size_t>(last) + 1));
  }
  std::string text() {
    static const std::string pieces[] = {"",   "a",    "\"", "\\", "/",   "~",   "é",
                                         "\n", "\x7f", "😀",  "=",  "x y", "\xff"};
    // The last piece is no UTF-8 and cannot come back from JSON as it was.
    constexpr std::size_t sound = sizeof(pieces) / sizeof(pieces[0]) - 1;
    std::string text;
    for (std::uint32_t i = below(5); i > 0; --i) text += pieces[below(sound)];
    return text;
  }
  PcieLink link() {
    return coin() ? PcieLink{} : PcieLink{below(7), below(17), below(7), below(17)};
  }

 private:
  std::mt19937_64 engine_;
};

Parent random_parent(Dice& dice, const Machine& machine, std::size_t switches) {
  if (switches > 0 && dice.below(3) > 0) {
    return Parent{Parent::Kind::pci_switch, dice.below(switches)};
  }
  return Parent{Parent::Kind::host_bridge, dice.below(machine.host_bridges.size())};
}

void add_endpoints(Dice& dice, Machine& machine) {
  for (std::uint32_t i = dice.below(5); i > 0; --i) {
    Gpu gpu;
    gpu.parent = random_parent(dice, machine, machine.switches.size());
    gpu.memory_bytes = dice.coin() ? 0 : dice.below(1u << 30) * 977ull;
    gpu.bar1_bytes = dice.coin() ? 0 : dice.below(1u << 30) * 977ull;
    gpu.peer_status = dice.any(PeerStatus::unknown);
    gpu.mode = dice.any(GpuMode::integrated);
    gpu.product = dice.text();
    gpu.gpudirect_rdma = dice.coin();
    gpu.link = dice.link();
    machine.gpus.push_back(gpu);
  }
  for (std::uint32_t i = dice.below(4); i > 0; --i) {
    Nic nic;
    nic.parent = random_parent(dice, machine, machine.switches.size());
    nic.name = "mlx5_" + std::to_string(7 * i);
    nic.link = dice.link();
    machine.nics.push_back(nic);
  }
  for (std::uint32_t i = dice.below(4); i > 0; --i) {
    const bool remote = !machine.nics.empty() && dice.below(3) == 0;
    Drive drive;
    drive.parent = remote ? Parent{Parent::Kind::nic, dice.below(machine.nics.size())}
                          : random_parent(dice, machine, machine.switches.size());
    drive.name = "nvme" + std::to_string(i) + "n1";
    static const char* const drivers[] = {"nvme", "virtio_blk", "nfs", "dm", "nvme_rdma", ""};
    drive.driver = drivers[dice.below(6)];
    drive.nvidia_fs_registered = dice.coin();
    drive.link = dice.link();
    machine.drives.push_back(drive);
  }
}

void add_mounts(Dice& dice, Machine& machine) {
  for (std::uint32_t i = dice.below(3); i > 0; --i) {
    static const char* const points[] = {"/", "/data", "/data/deep", "/mnt/x y", "/mnt"};
    Mount mount;
    mount.point = points[dice.below(5)];
    if (!machine.drives.empty() && dice.coin()) {
      mount.drive = machine.drives[dice.below(machine.drives.size())].name;
    }
    mount.type = dice.coin() ? "ext4" : "xfs";
    mount.options = dice.text();
    mount.direct_io = dice.coin();
    machine.mounts.push_back(mount);
  }
}

void add_switches(Dice& dice, Machine& machine) {
  for (std::uint32_t i = 0, count = dice.below(5); i < count; ++i) {
    Switch item;
    item.parent = random_parent(dice, machine, i);  // only earlier ones: no cycle
    item.acs = dice.any(AcsMode::unknown);
    machine.switches.push_back(item);
  }
}

}  // namespace

Machine random_machine(std::uint64_t seed) {
  Dice dice(seed);
  Machine machine;
  machine.name = "m" + dice.text();  // a machine has a name
  machine.kernel = KernelFacts{dice.text(), dice.coin(), dice.coin(), dice.any(IommuMode::unknown)};
  machine.modules = ModuleFacts{dice.coin(), dice.coin(), dice.coin()};
  machine.libcufile = dice.text();
  machine.udev = dice.coin();
  machine.guest = dice.coin();
  for (std::uint32_t i = 0, count = 1 + dice.below(4); i < count; ++i) {
    machine.numa_nodes.push_back(NumaNode{dice.below(2), dice.below(1u << 30) * 4096ull});
  }
  for (std::uint32_t i = 0, count = 1 + dice.below(4); i < count; ++i) {
    machine.host_bridges.push_back(HostBridge{dice.below(machine.numa_nodes.size()),
                                              dice.any(PeerForwarding::unknown),
                                              dice.any(AcsMode::unknown)});
  }
  add_switches(dice, machine);
  add_endpoints(dice, machine);
  add_mounts(dice, machine);
  for (std::uint32_t i = 1; i < machine.gpus.size(); ++i) {
    if (dice.coin())
      machine.nvlinks.push_back(NvLink{dice.coin() ? i : i - 1, 0, 1 + dice.below(18)});
    if (machine.nvlinks.size() > 0 && machine.nvlinks.back().source_gpu == 0)
      machine.nvlinks.pop_back();
    if (machine.nvlinks.size() > 1 && machine.nvlinks.back().source_gpu ==
                                          machine.nvlinks[machine.nvlinks.size() - 2].source_gpu) {
      machine.nvlinks.pop_back();
    }
  }
  for (std::uint32_t i = dice.below(3); i > 0; --i) machine.environment[dice.text()] = dice.text();
  complete_machine(machine);
  for (Switch& item : machine.switches) {
    for (SwitchPort& port : item.ports) port.acs = dice.any(AcsMode::inherit);
  }
  // What a live machine may not know.
  for (Gpu& gpu : machine.gpus) {
    if (dice.coin()) gpu.uuid.clear();
    if (dice.coin()) gpu.bdf.clear();
    if (dice.coin()) gpu.link = {};
    if (dice.coin()) gpu.bar1_bytes = 0;
  }
  for (Drive& drive : machine.drives) {
    if (dice.coin()) drive.major = drive.minor = 0;
  }
  return machine;
}

}  // namespace nobounce::core
