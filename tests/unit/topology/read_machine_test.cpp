// Reading a machine: the PCI tree, ACS, host bridges, GPUs, and hosts that show little or nothing.
#include "topology/read_machine.hpp"
#include "core/bus_address.hpp"

#include <gtest/gtest.h>

#include <string>

#include "fake_nvml.hpp"
#include "server.hpp"
#include "topology/pci_tree.hpp"
#include "topology/sysfs_text.hpp"

namespace nobounce::topology {
namespace {

Machine read(Server& server) {
  Result<Machine> machine = read_machine(server.host);
  EXPECT_TRUE(machine) << to_string(machine.error());
  const Status valid = validate(*machine);
  EXPECT_TRUE(valid) << to_string(valid.error());
  return *machine;
}

Parent host_bridge(std::uint32_t index) {
  return Parent{Parent::Kind::host_bridge, index};
}
Parent pci_switch(std::uint32_t index) {
  return Parent{Parent::Kind::pci_switch, index};
}

TEST(ReadMachine, OfAHostThatShowsNothingIsAnEmptyMachine) {
  support::MemoryHost host;
  const Result<Machine> machine = read_machine(host);
  ASSERT_TRUE(machine);
  EXPECT_TRUE(validate(*machine));
  EXPECT_TRUE(machine->gpus.empty());
  EXPECT_TRUE(machine->drives.empty());
  EXPECT_EQ(machine->kernel.iommu, IommuMode::unknown);
  ASSERT_EQ(machine->host_bridges.size(), 1u);
  EXPECT_EQ(machine->host_bridges[0].acs, AcsMode::unknown);
  EXPECT_EQ(machine->host_bridges[0].peer_forwarding, PeerForwarding::unknown);
  EXPECT_EQ(machine->libcufile, "");
  EXPECT_FALSE(machine->udev);
}

TEST(ReadMachine, FoldsPortsIntoSwitches) {
  Server server;
  server.two_sockets();
  const Machine machine = read(server);
  ASSERT_EQ(machine.host_bridges.size(), 2u);
  EXPECT_EQ(machine.host_bridges[1].numa, 1u);
  ASSERT_EQ(machine.switches.size(), 2u);
  EXPECT_EQ(machine.switches[0].parent, host_bridge(0));
  EXPECT_EQ(machine.switches[1].parent, pci_switch(0));
  ASSERT_EQ(machine.gpus.size(), 2u);
  EXPECT_EQ(machine.gpus[0].parent, pci_switch(0));
  EXPECT_EQ(machine.gpus[1].parent, host_bridge(1));
  ASSERT_EQ(machine.nics.size(), 1u);
  EXPECT_EQ(machine.nics[0].parent, pci_switch(1));
  EXPECT_EQ(machine.nics[0].bdf, "0000:07:00.0");
  ASSERT_EQ(machine.drives.size(), 1u);
  EXPECT_EQ(machine.drives[0].parent, pci_switch(0));
  EXPECT_EQ(machine.drives[0].bdf, "0000:04:00.0");
  EXPECT_EQ(machine.drives[0].link, (PcieLink{4, 4, 4, 4}));
  ASSERT_EQ(machine.switches[0].ports.size(), 3u);
  EXPECT_EQ(machine.switches[0].ports[0].device, "switch:1");
  EXPECT_EQ(machine.switches[0].ports[1].device, "gpu:0");
  EXPECT_EQ(machine.switches[0].ports[2].device, "drive:0");
  EXPECT_EQ(
      level_text(path_between(machine, {DeviceRef::Kind::gpu, 0}, {DeviceRef::Kind::drive, 0})),
      "PIX");
  EXPECT_EQ(
      level_text(path_between(machine, {DeviceRef::Kind::gpu, 1}, {DeviceRef::Kind::drive, 0})),
      "SYS");
}

TEST(ReadMachine, LeavesOutRootBusesWithoutAnythingToTransfer) {
  Server server;
  server.two_sockets();
  server.function("pci0000:7f/0000:7f:08.0", "0x8086", "0x3450", "0x088000");
  EXPECT_EQ(read(server).host_bridges.size(), 2u);
}

TEST(ReadMachine, KeepsADomainBehindAnEndpointApart) {
  Server server;
  server.two_sockets();
  const std::string vmd = "pci0000:80/0000:80:05.5";
  server.function(vmd, "0x8086", "0x28c0", "0x010400", 1);
  server.port(vmd + "/pci10000:00/10000:00:02.0", 0, 1);
  server.nvme(vmd + "/pci10000:00/10000:00:02.0/10000:01:00.0", 1, "259:4");
  const Machine machine = read(server);
  ASSERT_EQ(machine.host_bridges.size(), 3u);
  ASSERT_EQ(machine.drives.size(), 2u);
  EXPECT_EQ(machine.drives[1].parent, host_bridge(2));
  EXPECT_EQ(machine.drives[1].bdf, "10000:01:00.0");
  EXPECT_EQ(machine.host_bridges[2].numa, 1u);
}

// --- ACS -----------------------------------------------------------------------------------------

TEST(AcsWord, RedirectsByRequestCompletionOrEgress) {
  EXPECT_EQ(acs_mode(0x0000), AcsMode::off);
  EXPECT_EQ(acs_mode(0x0001), AcsMode::source_validation);
  EXPECT_EQ(acs_mode(0x0004), AcsMode::redirect);
  EXPECT_EQ(acs_mode(0x0008), AcsMode::redirect);
  EXPECT_EQ(acs_mode(0x0020), AcsMode::redirect);
  EXPECT_EQ(acs_mode(0x001d), AcsMode::redirect);
  EXPECT_EQ(acs_mode(0x005d), AcsMode::redirect);
  EXPECT_EQ(acs_mode(0x0010), AcsMode::off) << "forwarding alone harms nobody";
  EXPECT_EQ(acs_mode(0x0052), AcsMode::off);
}

TEST(ReadAcs, OfOnePortDiffersFromItsSwitch) {
  Server server;
  server.two_sockets();
  server.port("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0", 0x001d);
  const Machine machine = read(server);
  EXPECT_EQ(machine.switches[0].acs, AcsMode::off);
  EXPECT_EQ(machine.switches[0].ports[1].acs, AcsMode::inherit);
  EXPECT_EQ(machine.switches[0].ports[2].acs, AcsMode::redirect);
  EXPECT_TRUE(
      path_between(machine, {DeviceRef::Kind::gpu, 0}, {DeviceRef::Kind::drive, 0}).redirected);
}

TEST(ReadAcs, OfAWholeSwitchIsTheSwitchs) {
  Server server;
  server.two_sockets();
  for (const char* port : {"0000:02:00.0", "0000:02:01.0", "0000:02:02.0"}) {
    server.port(std::string("pci0000:00/0000:00:01.0/0000:01:00.0/") + port, 0x0001);
  }
  const Machine machine = read(server);
  EXPECT_EQ(machine.switches[0].acs, AcsMode::source_validation);
  for (const SwitchPort& port : machine.switches[0].ports) EXPECT_EQ(port.acs, AcsMode::inherit);
}

TEST(ReadAcs, OfRootPortsIsTheHostBridges) {
  Server server;
  server.two_sockets();
  server.port("pci0000:80/0000:80:01.0", 0x001d, 1);
  const Machine machine = read(server);
  EXPECT_EQ(machine.host_bridges[0].acs, AcsMode::off);
  EXPECT_EQ(machine.host_bridges[1].acs, AcsMode::redirect);
}

TEST(ReadAcs, WithoutRightsIsUnknown) {
  for (const std::size_t length : {std::size_t{0}, std::size_t{64}, std::size_t{256}}) {
    Server server;
    server.two_sockets();
    server.file("/sys/devices/pci0000:80/0000:80:01.0/config",
                config_with_acs(0).substr(0, length));
    EXPECT_EQ(read(server).host_bridges[1].acs, AcsMode::unknown) << length;
  }
}

TEST(ReadAcs, OfAPortWithoutTheCapabilityIsOff) {
  Server server;
  server.two_sockets();
  server.file("/sys/devices/pci0000:80/0000:80:01.0/config", std::string(4096, '\0'));
  EXPECT_EQ(read(server).host_bridges[1].acs, AcsMode::off);
}

TEST(ReadAcs, SurvivesCapabilitiesThatLeadInCircles) {
  Server server;
  server.two_sockets();
  std::string config(4096, '\0');
  config[0x100] = 1;
  config[0x102] = static_cast<char>(0x01);
  config[0x103] = static_cast<char>(0x10);  // next: 0x100
  server.file("/sys/devices/pci0000:80/0000:80:01.0/config", config);
  EXPECT_EQ(read(server).host_bridges[1].acs, AcsMode::off);
}

// --- host bridges
// ----------------------------------------------------------------------------------

struct BridgeCase {
  const char* name;
  const char* cpuinfo;
  const char* device;  ///< of function 00.0; empty: there is none
  PeerForwarding forwarding;
};

class BridgeRule : public ::testing::TestWithParam<BridgeCase> {};

TEST_P(BridgeRule, FollowsTheKernel) {
  Server server;
  server.file("/proc/cpuinfo", GetParam().cpuinfo);
  if (*GetParam().device != '\0') server.root("pci0000:40/0000:40:00.0", GetParam().device);
  server.port("pci0000:40/0000:40:01.0");
  server.gpu("pci0000:40/0000:40:01.0/0000:41:00.0");
  EXPECT_EQ(read(server).host_bridges.at(0).peer_forwarding, GetParam().forwarding);
}

constexpr const char* intel = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nflags\t\t: fpu\n";

INSTANTIATE_TEST_SUITE_P(
    Topology, BridgeRule,
    ::testing::Values(
        BridgeCase{"listed", intel, "0x09a2", PeerForwarding::allowed},
        BridgeCase{"listed_older", intel, "0x2020", PeerForwarding::allowed},
        BridgeCase{"desktop", intel, "0x3ec2", PeerForwarding::refused},
        BridgeCase{"q35", intel, "0x29c0", PeerForwarding::refused},
        BridgeCase{"same_bridge_only", intel, "0x2f00", PeerForwarding::unknown},
        BridgeCase{"without_function_zero", intel, "", PeerForwarding::unknown},
        BridgeCase{"zen", "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nflags\t\t: fpu\n", "0x14a4",
                   PeerForwarding::allowed},
        BridgeCase{"before_zen", "vendor_id\t: AuthenticAMD\ncpu family\t: 21\nflags\t\t: fpu\n",
                   "0x1576", PeerForwarding::refused},
        BridgeCase{"zen_guest",
                   "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nflags\t\t: fpu hypervisor\n",
                   "0x14a4", PeerForwarding::unknown}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(ReadMachine, TellsAGuestByTheHypervisorFlag) {
  Server server;
  EXPECT_FALSE(read(server).guest);
  server.file("/proc/cpuinfo", "vendor_id\t: GenuineIntel\nflags\t\t: fpu hypervisor lm\n");
  EXPECT_TRUE(read(server).guest);
  server.file("/proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 2000\nFeatures\t: fp asimd\n");
  EXPECT_FALSE(read(server).guest);
  server.file("/sys/class/dmi/id/sys_vendor", "QEMU\n");
  EXPECT_TRUE(read(server).guest);
}

// --- IOMMU, kernel, modules, NUMA
// --------------------------------------------------------------------

TEST(ReadIommu, IsTheWorstOfTheDevicesConcerned) {
  Server server;
  server.two_sockets();
  EXPECT_EQ(read(server).kernel.iommu, IommuMode::off);
  const auto group = [&](const std::string& function, const std::string& number, const char* type) {
    const std::string path = "/sys/kernel/iommu_groups/" + number;
    server.host.tree.directory(path);
    if (type != nullptr) server.file(path + "/type", std::string(type) + "\n");
    server.host.tree.link(function + "/iommu_group", path);
  };
  const std::string gpu = "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0";
  const std::string drive =
      "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0";
  group(gpu, "1", "identity");
  EXPECT_EQ(read(server).kernel.iommu, IommuMode::identity);
  group(drive, "2", nullptr);
  EXPECT_EQ(read(server).kernel.iommu, IommuMode::unknown);
  group(drive, "2", "DMA-FQ");
  EXPECT_EQ(read(server).kernel.iommu, IommuMode::translated);
}

TEST(ReadKernel, FindsP2pdmaInTheConfigurationOrTheSymbols) {
  Server server;
  EXPECT_FALSE(read(server).kernel.pci_p2pdma);
  server.file("/proc/kallsyms", "0 T vfs_read\n0 d p2pdma_pgmap_ops\n");
  EXPECT_TRUE(read(server).kernel.pci_p2pdma);
  server.file("/boot/config-6.8.0-45-generic", "CONFIG_PCI=y\n# CONFIG_PCI_P2PDMA is not set\n");
  EXPECT_FALSE(read(server).kernel.pci_p2pdma);
  server.file("/boot/config-6.8.0-45-generic", "CONFIG_PCI=y\nCONFIG_PCI_P2PDMA=y\n");
  EXPECT_TRUE(read(server).kernel.pci_p2pdma);
  EXPECT_EQ(read(server).kernel.release, "6.8.0-45-generic");
}

TEST(ReadModules, KnowsLoadedAndBuiltInOnes) {
  Server server;
  Machine machine = read(server);
  EXPECT_TRUE(machine.modules.nvidia_fs);
  EXPECT_TRUE(machine.modules.nvme);
  EXPECT_FALSE(machine.modules.nvidia_peermem);
  server.file("/proc/modules", "nvidia_fsx 1 0 - Live 0x0\n");
  EXPECT_FALSE(read(server).modules.nvidia_fs);
  EXPECT_FALSE(read(server).modules.nvme);
  server.host.tree.directory("/sys/module/nvme");
  EXPECT_TRUE(read(server).modules.nvme);
}

TEST(ReadNuma, FindsSocketsAndKeepsNumbers) {
  Server server;
  server.file("/sys/devices/system/node/node4/meminfo", "Node 4 MemTotal:       2048 kB\n");
  server.file("/sys/devices/system/node/node4/cpulist", "\n");
  const Machine machine = read(server);
  ASSERT_EQ(machine.numa_nodes.size(), 5u);
  EXPECT_EQ(machine.numa_nodes[0], (NumaNode{0, 1u << 30}));
  EXPECT_EQ(machine.numa_nodes[1], (NumaNode{1, 1u << 30}));
  EXPECT_EQ(machine.numa_nodes[2], (NumaNode{0, 0}));
  EXPECT_EQ(machine.numa_nodes[4].memory_bytes, 2048u * 1024);
}

// --- GPUs
// ------------------------------------------------------------------------------------------

TEST(ReadGpus, WithoutNvmlAreInBusOrderWithWhatTheDriverShows) {
  Server server;
  server.two_sockets();
  server.file("/proc/driver/nvidia/gpus/0000:81:00.0/information",
              "Model: \t\t NVIDIA L4\nGPU UUID: \t GPU-1234\nBus Type: \t PCIe\n");
  const Machine machine = read(server);
  EXPECT_EQ(machine.gpus[0].bdf, "0000:03:00.0");
  EXPECT_EQ(machine.gpus[0].bar1_bytes, 1ull << 32);
  EXPECT_EQ(machine.gpus[0].peer_status, PeerStatus::unknown);
  EXPECT_EQ(machine.gpus[0].product, "");
  EXPECT_EQ(machine.gpus[1].product, "NVIDIA L4");
  EXPECT_EQ(machine.gpus[1].uuid, "GPU-1234");
  EXPECT_EQ(machine.gpus[1].link, (PcieLink{5, 16, 5, 16}));
}

TEST(ReadGpus, FollowNvmlsOrder) {
  Server server;
  server.two_sockets();
  FakeNvml nvml;
  nvml.gpus = {{"00000000:81:00.0", "NVIDIA B", "GPU-b", 2ull << 30, 3ull << 30, 1, {}},
               {"00000000:03:00.0", "NVIDIA A", "GPU-a", 4ull << 30, 5ull << 30, 0, {}}};
  server.host.nvml_table = &nvml;
  const Machine machine = read(server);
  ASSERT_EQ(machine.gpus.size(), 2u);
  EXPECT_EQ(machine.gpus[0].bdf, "0000:81:00.0");
  EXPECT_EQ(machine.gpus[0].parent, host_bridge(1));
  EXPECT_EQ(machine.gpus[0].product, "NVIDIA B");
  EXPECT_EQ(machine.gpus[0].memory_bytes, 2ull << 30);
  EXPECT_EQ(machine.gpus[0].bar1_bytes, 3ull << 30);
  EXPECT_EQ(machine.gpus[0].peer_status, PeerStatus::cns);
  EXPECT_EQ(machine.gpus[1].uuid, "GPU-a");
  EXPECT_EQ(machine.gpus[1].parent, pci_switch(0));
  EXPECT_EQ(nvml.initialised, 0) << "NVML must be shut down as often as it is initialised";
}

TEST(ReadGpus, AreWholeSplitSharedOrIntegrated) {
  Server server;
  server.two_sockets();
  FakeNvml nvml;
  nvml.gpus = {{"00000000:81:00.0", "NVIDIA B", "GPU-b", 2ull << 30, 3ull << 30, 0, {}},
               {"00000000:03:00.0", "NVIDIA A", "GPU-a", 4ull << 30, 5ull << 30, 0, {}}};
  server.host.nvml_table = &nvml;
  EXPECT_EQ(read(server).gpus[0].mode, GpuMode::whole);
  EXPECT_FALSE(read(server).confidential);
  nvml.gpus[0].mig = true;
  nvml.gpus[1].virtualization = 2;
  nvml.confidential = 1;
  EXPECT_EQ(read(server).gpus[0].mode, GpuMode::mig);
  EXPECT_EQ(read(server).gpus[1].mode, GpuMode::vgpu);
  EXPECT_TRUE(read(server).confidential);
  nvml.gpus[1].virtualization = 1;  // passed through whole
  EXPECT_EQ(read(server).gpus[1].mode, GpuMode::whole);
  nvml.gpus[1].frame_buffer = false;
  EXPECT_EQ(read(server).gpus[1].mode, GpuMode::integrated);
  EXPECT_EQ(read(server).gpus[1].memory_bytes, 0u);
}

TEST(ReadGpus, KeepOnesThatNvmlDoesNotShow) {
  Server server;
  server.two_sockets();
  FakeNvml nvml;
  nvml.gpus = {{"00000000:81:00.0", "NVIDIA B", "GPU-b", 1, 1, 0, {}}};
  server.host.nvml_table = &nvml;
  const Machine machine = read(server);
  ASSERT_EQ(machine.gpus.size(), 2u);
  EXPECT_EQ(machine.gpus[0].bdf, "0000:81:00.0");
  EXPECT_EQ(machine.gpus[1].bdf, "0000:03:00.0");
}

TEST(ReadGpus, SurviveAnNvmlThatAnswersNothing) {
  Server server;
  server.two_sockets();
  system::Nvml absent;
  server.host.nvml_table = &absent;
  EXPECT_EQ(read(server).gpus.size(), 2u);
}

TEST(ReadNvlinks, JoinGpusDirectlyOrThroughSwitches) {
  Server server;
  server.two_sockets();
  FakeNvml nvml;
  nvml.gpus = {
      {"00000000:03:00.0", "A", "GPU-a", 1, 1, 0, {"00000000:81:00.0", "00000000:81:00.0"}},
      {"00000000:81:00.0", "B", "GPU-b", 1, 1, 0, {"00000000:03:00.0", "00000000:03:00.0"}}};
  server.host.nvml_table = &nvml;
  EXPECT_EQ(read(server).nvlinks, (std::vector<NvLink>{{0, 1, 2}}));
  const std::string far = "00000000:C7:00.0";
  nvml.gpus[0].links = std::vector<std::string>(18, far);
  nvml.gpus[1].links = std::vector<std::string>(12, far);
  EXPECT_EQ(read(server).nvlinks, (std::vector<NvLink>{{0, 1, 12}}));
  nvml.gpus[1].links.clear();
  EXPECT_TRUE(read(server).nvlinks.empty());
}

// --- robustness
// --------------------------------------------------------------------------------------

TEST(ReadMachine, GoesOnWhereAnyPartIsUnreadable) {
  const char* const parts[] = {"/proc/cpuinfo",
                               "/proc/modules",
                               "/proc/kallsyms",
                               "/proc/self/mountinfo",
                               "/proc/sys/kernel/osrelease",
                               "/sys/devices/system/node",
                               "/sys/devices/system/cpu",
                               "/sys/class/infiniband",
                               "/sys/block",
                               "/sys/bus/pci",
                               "/sys/devices/pci0000:00",
                               "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0",
                               "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"};
  for (const char* part : parts) {
    SCOPED_TRACE(part);
    Server server;
    server.two_sockets();
    server.host.tree.remove(part);
    (void)read(server);
  }
}

TEST(SysfsText, ReadsNumbers) {
  EXPECT_EQ(number_of("0x10de\n"), 0x10de);
  EXPECT_EQ(number_of(" -1 "), -1);
  EXPECT_EQ(number_of("0xffffffffffffffff"), -1);
  EXPECT_EQ(number_of(""), std::nullopt);
  EXPECT_EQ(number_of("12x"), std::nullopt);
  EXPECT_EQ(number_of("99999999999999999999"), std::nullopt);
}

TEST(SysfsText, OrdersNamesByTheirNumbers) {
  EXPECT_TRUE(natural_less("nvme2n1", "nvme10n1"));
  EXPECT_FALSE(natural_less("nvme10n1", "nvme2n1"));
  EXPECT_TRUE(natural_less("nvme2n1", "nvme2n2"));
  EXPECT_TRUE(natural_less("mlx5_0", "mlx5_1"));
  EXPECT_FALSE(natural_less("sda", "sda"));
  EXPECT_TRUE(natural_less("sd", "sda"));
}

TEST(SysfsText, KnowsOneAddressInSeveralSpellings) {
  EXPECT_EQ(core::canonical_bdf("00000000:C1:00.0"), "0000:c1:00.0");
  EXPECT_EQ(core::canonical_bdf("0000:c1:00.0\n"), "0000:c1:00.0");
  EXPECT_EQ(core::canonical_bdf("00010000:01:00.0"), "10000:01:00.0");
}

}  // namespace
}  // namespace nobounce::topology
