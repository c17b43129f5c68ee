// The machine as text: tree, matrices in blocks, best partners, and what is missing.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "core/machine_json.hpp"
#include "report/topology_report.hpp"

namespace nobounce::report {
namespace {

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// GPUs, drive and NIC under one switch.
Machine small_machine(unsigned gpus) {
  Machine machine;
  machine.name = "small";
  machine.numa_nodes = {{0, 64ULL << 30}};
  machine.host_bridges = {{}};
  machine.switches = {{}};
  for (unsigned i = 0; i < gpus; ++i) {
    Gpu gpu;
    gpu.parent = {Parent::Kind::pci_switch, 0};
    gpu.memory_bytes = 48ULL << 30;
    gpu.bar1_bytes = 64ULL << 30;
    machine.gpus.push_back(gpu);
  }
  Nic nic;
  nic.parent = {Parent::Kind::pci_switch, 0};
  machine.nics = {nic};
  Drive drive;
  drive.parent = {Parent::Kind::pci_switch, 0};
  machine.drives = {drive};
  machine.mounts = {{"/", "nvme0n1", "ext4", "rw", true}};
  core::complete_machine(machine);
  return machine;
}

TEST(TopologyText, ShowsNoAcsOfPortsThatAVirtualMachineHides) {
  Machine machine;
  machine.numa_nodes.resize(1);
  machine.host_bridges.resize(1);
  EXPECT_TRUE(topology_text(machine, {}).find("ACS off") != std::string::npos);
  machine.guest = true;
  const std::string text = topology_text(machine, {});
  EXPECT_EQ(text.find("ACS off"), std::string::npos) << text;
  EXPECT_NE(text.find("ACS not visible in a virtual machine"), std::string::npos) << text;
}

TEST(TopologyText, DrawsEveryDeviceUnderItsParent) {
  const std::string text = tree_text(small_machine(2), {});
  EXPECT_TRUE(holds(text, "└─ numa:0  socket 0  64 GiB")) << text;
  EXPECT_TRUE(holds(text, "   └─ host_bridge:0")) << text;
  EXPECT_TRUE(holds(text, "      └─ switch:0")) << text;
  EXPECT_TRUE(holds(text, "         ├─ gpu:0")) << text;
  EXPECT_TRUE(holds(text, "         ├─ nic:mlx5_0")) << text;
  EXPECT_TRUE(holds(text, "         └─ drive:nvme0n1")) << text;
  EXPECT_TRUE(holds(text, "            └─ /  ext4  rw")) << text;
}

TEST(TopologyText, GivesLevelAndLinkOfEveryPair) {
  const std::string text = matrices_text(small_machine(2), {});
  EXPECT_TRUE(holds(text, "GPU x GPU")) << text;
  EXPECT_TRUE(holds(text, "gpu:0  X       PIX sw")) << text;
  EXPECT_TRUE(holds(text, "GPU x drive")) << text;
  EXPECT_TRUE(holds(text, "GPU x NIC")) << text;
  EXPECT_TRUE(holds(text, "sw = pcie_switch")) << text;
}

TEST(TopologyText, MarksPathsThatAcsRedirects) {
  Machine machine = small_machine(2);
  machine.switches[0].acs = AcsMode::redirect;
  for (SwitchPort& port : machine.switches[0].ports) port.acs = AcsMode::inherit;
  const std::string text = matrices_text(machine, {});
  EXPECT_TRUE(holds(text, "!")) << text;
  EXPECT_TRUE(holds(text, "ACS port on the path redirects")) << text;
}

TEST(TopologyText, BreaksWideMatricesIntoBlocks) {
  const std::string text = matrices_text(small_machine(32), {});
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
  EXPECT_TRUE(holds(text, "gpu:31")) << text;
}

TEST(TopologyText, NamesTheNearestPartners) {
  Machine machine = small_machine(3);
  machine.nvlinks = {{0, 2, 18}};
  const std::string text = partners_text(machine, {});
  EXPECT_TRUE(holds(text, "gpu:0   gpu:2 (NV18), drive:nvme0n1 (PIX), nic:mlx5_0 (PIX)")) << text;
  EXPECT_TRUE(holds(text, "gpu:1   gpu:0 gpu:2 (PIX)")) << text;
}

TEST(TopologyText, SaysThatThereIsNoGpuAndWhatToDo) {
  const std::string text = topology_text(small_machine(0), {});
  EXPECT_TRUE(holds(text, "no GPU was found on this machine")) << text;
  EXPECT_TRUE(holds(text, "--machine soft:workstation")) << text;
  EXPECT_FALSE(holds(text, "GPU x")) << text;
}

}  // namespace
}  // namespace nobounce::report
