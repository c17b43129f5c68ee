// The built-in machines: they parse, and each is what its name promises.
#include <algorithm>
#include <optional>
#include <set>

#include "machine_rig.hpp"

namespace nobounce::fabric {
namespace {

DeviceRef gpu(std::size_t index) {
  return {DeviceRef::Kind::gpu, static_cast<std::uint16_t>(index)};
}
DeviceRef nic(std::size_t index) {
  return {DeviceRef::Kind::nic, static_cast<std::uint16_t>(index)};
}
DeviceRef drive(std::size_t index) {
  return {DeviceRef::Kind::drive, static_cast<std::uint16_t>(index)};
}

TEST(BuiltInMachines, AreTheSevenAndSortedByName) {
  std::vector<std::string> names;
  for (const EmbeddedMachine& machine : embedded_machines()) names.emplace_back(machine.name);
  EXPECT_EQ(names, (std::vector<std::string>{"cloud-guest", "dgx", "nfs-rdma", "nvmeof",
                                             "spare-drive", "two-socket", "workstation"}));
}

TEST(BuiltInMachines, ParseValidateAndCarryTheirFileName) {
  for (const EmbeddedMachine& embedded : embedded_machines()) {
    const Result<Machine> machine = core::machine_from_text(embedded.json, embedded.name);
    ASSERT_TRUE(machine.ok()) << to_string(machine.error());
    EXPECT_EQ(machine->name, embedded.name);
    EXPECT_TRUE(validate(*machine).ok());
    EXPECT_NE(mount_of(*machine, "/anywhere"), nullptr) << embedded.name;
  }
}

TEST(BuiltInMachines, GiveEveryPciDeviceAnAddressOfItsOwn) {
  for (const EmbeddedMachine& embedded : embedded_machines()) {
    const Machine machine = built_in(embedded.name);
    std::set<std::string> seen;
    for (const Gpu& each : machine.gpus) EXPECT_TRUE(seen.insert(each.bdf).second) << each.bdf;
    for (const Nic& each : machine.nics) EXPECT_TRUE(seen.insert(each.bdf).second) << each.bdf;
  }
}

TEST(Workstation, HasEverythingUnderOneSwitchAndARefusingHostBridge) {
  const Machine machine = built_in("workstation");
  EXPECT_EQ(machine.gpus.size(), 2u);
  EXPECT_TRUE(machine.modules.nvidia_fs);
  EXPECT_TRUE(machine.udev);
  EXPECT_EQ(machine.host_bridges.at(0).peer_forwarding, PeerForwarding::refused);
  for (std::size_t i = 0; i < 2; ++i) {
    const Path path = path_between(machine, drive(0), gpu(i));
    EXPECT_EQ(path.level, PathLevel::pix);
    EXPECT_FALSE(path.redirected);
    EXPECT_FALSE(path.crosses_host_bridge);
  }
}

TEST(Dgx, PairsGpuNicAndDriveUnderEachSwitchAndJoinsGpusByNvlink) {
  const Machine machine = built_in("dgx");
  ASSERT_EQ(machine.gpus.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(path_between(machine, gpu(i), nic(i)).level, PathLevel::pix);
    EXPECT_EQ(path_between(machine, gpu(i), drive(i)).level, PathLevel::pix);
    EXPECT_EQ(socket_of(machine, gpu(i)), i / 4);
    for (std::size_t other = 0; other < 8; ++other) {
      if (other == i) continue;
      EXPECT_EQ(path_between(machine, gpu(i), gpu(other)).nvlink_count, 18u);
    }
  }
  EXPECT_EQ(drive_of(machine, *mount_of(machine, "/home/a")), 0u);
  EXPECT_EQ(drive_of(machine, *mount_of(machine, "/data5/a")), 5u);
  EXPECT_GE(machine.gpus[0].bar1_bytes, machine.gpus[0].memory_bytes);
}

TEST(TwoSocket, SetsGpuOneApartFromTheDriveAndDoesNotForward) {
  const Machine machine = built_in("two-socket");
  EXPECT_EQ(path_between(machine, drive(0), gpu(0)).level, PathLevel::pix);
  const Path far = path_between(machine, drive(0), gpu(1));
  EXPECT_TRUE(far.crosses_socket);
  EXPECT_EQ(far.forwarding, PeerForwarding::refused);
}

TEST(CloudGuest, HasNothingThatDirectStorageNeeds) {
  const Machine machine = built_in("cloud-guest");
  EXPECT_TRUE(machine.guest);
  EXPECT_FALSE(machine.udev);
  EXPECT_FALSE(machine.modules.nvidia_fs);
  EXPECT_FALSE(machine.kernel.pci_p2pdma);
  EXPECT_EQ(machine.drives.at(0).driver, "virtio_blk");
  EXPECT_EQ(machine.libcufile, "1.15.1");
  EXPECT_EQ(machine.gpus.size(), 2u);
}

TEST(RemoteMachines, ReachTheirDriveThroughTheNic) {
  const Machine nvmeof = built_in("nvmeof");
  const std::optional<std::uint32_t> remote = drive_of(nvmeof, *mount_of(nvmeof, "/remote/a"));
  ASSERT_EQ(remote, 1u);
  EXPECT_EQ(nvmeof.drives[1].driver, "nvme_rdma");
  EXPECT_EQ(nvmeof.drives[1].parent.kind, Parent::Kind::nic);
  const Machine nfs = built_in("nfs-rdma");
  const Mount* mount = mount_of(nfs, "/nfs/a");
  EXPECT_EQ(mount->type, "nfs");
  EXPECT_NE(mount->options.find("proto=rdma"), std::string::npos);
  EXPECT_NE(mount->options.find("vers=3"), std::string::npos);
}

}  // namespace
}  // namespace nobounce::fabric
