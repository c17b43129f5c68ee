// Reading drives and mounts: partitions, multipath, mappings, remote media, and mountinfo's
// spelling.
#include <gtest/gtest.h>

#include <string>

#include "core/mount_table.hpp"
#include "server.hpp"
#include "topology/read_machine.hpp"

namespace nobounce::topology {
namespace {

Machine read(Server& server) {
  Result<Machine> machine = read_machine(server.host);
  EXPECT_TRUE(machine) << to_string(machine.error());
  const Status valid = validate(*machine);
  EXPECT_TRUE(valid) << to_string(valid.error());
  return *machine;
}

std::vector<std::string> names(const Machine& machine) {
  std::vector<std::string> result;
  for (const Drive& drive : machine.drives) result.push_back(drive.name);
  return result;
}

const Drive& drive(const Machine& machine, const std::string& name) {
  for (const Drive& each : machine.drives) {
    if (each.name == name) return each;
  }
  ADD_FAILURE() << "no drive " << name;
  return machine.drives.front();
}

constexpr const char* inner_port = "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:0";

/// Two more drives below the switch, with numbers that sort badly as text.
void add_drives(Server& server) {
  server.port(std::string(inner_port) + "3.0");
  server.nvme(std::string(inner_port) + "3.0/0000:08:00.0", 10, "259:10");
  server.port(std::string(inner_port) + "4.0");
  server.nvme(std::string(inner_port) + "4.0/0000:09:00.0", 2, "259:2");
}

TEST(ReadDrives, AreInOrderOfTheirNumbers) {
  Server server;
  server.two_sockets();
  add_drives(server);
  EXPECT_EQ(names(read(server)), (std::vector<std::string>{"nvme0n1", "nvme2n1", "nvme10n1"}));
}

TEST(ReadDrives, KnowWhatRegisteredWithNvidiaFs) {
  Server server;
  server.two_sockets();
  EXPECT_FALSE(drive(read(server), "nvme0n1").nvidia_fs_registered);
  server.file("/proc/driver/nvidia-fs/modules", "lustre\nnvme\n");
  EXPECT_TRUE(drive(read(server), "nvme0n1").nvidia_fs_registered);
  server.file("/proc/driver/nvidia-fs/modules", "nvme_rdma\n");
  EXPECT_FALSE(drive(read(server), "nvme0n1").nvidia_fs_registered);
}

TEST(ReadDrives, OfVirtioAndScsiHaveTheirDriversName) {
  Server server;
  server.two_sockets();
  const std::string virtio =
      server.function("pci0000:80/0000:80:04.0", "0x1af4", "0x1042", "0x010000", 1);
  server.block(virtio + "/virtio0/block/vda", "254:0");
  server.host.tree.directory("/sys/bus/virtio/drivers/virtio_blk");
  server.host.tree.link(virtio + "/virtio0/driver", "/sys/bus/virtio/drivers/virtio_blk");
  server.host.tree.link(virtio + "/virtio0/block/vda/device", virtio + "/virtio0");
  const std::string sata =
      server.function("pci0000:80/0000:80:05.0", "0x8086", "0xa352", "0x010601", 1);
  const std::string disk = sata + "/ata1/host0/target0:0:0/0:0:0:0";
  server.block(disk + "/block/sda", "8:0");
  server.host.tree.directory("/sys/bus/scsi/drivers/sd");
  server.host.tree.link(disk + "/driver", "/sys/bus/scsi/drivers/sd");
  server.host.tree.link(disk + "/block/sda/device", disk);
  const Machine machine = read(server);
  EXPECT_EQ(drive(machine, "vda").driver, "virtio_blk");
  EXPECT_EQ(drive(machine, "vda").parent, (Parent{Parent::Kind::host_bridge, 1}));
  EXPECT_EQ(drive(machine, "sda").driver, "sd");
  EXPECT_EQ(drive(machine, "sda").bdf, "0000:80:05.0");
  EXPECT_EQ(drive(machine, "sda").major, 8u);
}

TEST(ReadDrives, OfMultipathSitWhereTheirControllerSits) {
  Server server;
  server.two_sockets();
  const std::string subsystem = "/sys/devices/virtual/nvme-subsystem/nvme-subsys3";
  server.port(std::string(inner_port) + "3.0");
  const std::string function =
      server.function(std::string(inner_port) + "3.0/0000:08:00.0", "0x144d", "0xa80a", "0x010802");
  server.file(function + "/nvme/nvme3/transport", "pcie\n");
  server.host.tree.link(subsystem + "/nvme3", function + "/nvme/nvme3");
  server.block(subsystem + "/nvme3n1", "259:3");
  server.host.tree.link(subsystem + "/nvme3n1/device", subsystem);
  const Machine machine = read(server);
  EXPECT_EQ(drive(machine, "nvme3n1").driver, "nvme");
  EXPECT_EQ(drive(machine, "nvme3n1").bdf, "0000:08:00.0");
  EXPECT_EQ(drive(machine, "nvme3n1").parent, (Parent{Parent::Kind::pci_switch, 0}));
}

TEST(ReadDrives, OfMappingsHangWhereTheFirstDeviceBelowHangs) {
  Server server;
  server.two_sockets();
  const std::string disk =
      "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0/nvme/nvme0/"
      "nvme0n1";
  server.partition(disk, "nvme0n1p2", "259:2");
  const std::string mapping = "/sys/devices/virtual/block/dm-0";
  server.block(mapping, "253:0");
  server.file(mapping + "/dm/name", "vg-data\n");
  server.host.tree.link(mapping + "/slaves/nvme0n1p2", disk + "/nvme0n1p2");
  const std::string array = "/sys/devices/virtual/block/md0";
  server.block(array, "9:0");
  server.file(array + "/md/level", "raid0\n");
  const Machine machine = read(server);
  EXPECT_EQ(drive(machine, "dm-0").driver, "dm");
  EXPECT_EQ(drive(machine, "dm-0").parent, (Parent{Parent::Kind::pci_switch, 0}));
  EXPECT_EQ(drive(machine, "dm-0").bdf, "");
  EXPECT_EQ(drive(machine, "md0").driver, "md");
}

TEST(ReadDrives, BehindAnAdapterAreFoundByItsInterface) {
  Server server;
  server.two_sockets();
  server.port("pci0000:80/0000:80:02.0", 0, 1);
  server.nic("pci0000:80/0000:80:02.0/0000:82:00.0", "mlx5_1");
  const std::string controller = "/sys/devices/virtual/nvme-fabrics/ctl/nvme1";
  server.file(controller + "/transport", "rdma\n");
  server.file(controller + "/address", "traddr=192.0.2.10,trsvcid=4420,host_iface=mlx5_1_net\n");
  server.block(controller + "/nvme1n1", "259:1");
  server.host.tree.link(controller + "/nvme1n1/device", controller);
  EXPECT_EQ(drive(read(server), "nvme1n1").driver, "nvme_rdma");
  EXPECT_EQ(drive(read(server), "nvme1n1").parent, (Parent{Parent::Kind::nic, 1}));
  server.file(controller + "/address", "traddr=192.0.2.10,trsvcid=4420\n");
  EXPECT_EQ(drive(read(server), "nvme1n1").parent, (Parent{Parent::Kind::host_bridge, 0}))
      << "which of two adapters carries it must not be guessed";
  server.host.tree.remove("/sys/class/infiniband/mlx5_1");
  EXPECT_EQ(drive(read(server), "nvme1n1").parent, (Parent{Parent::Kind::nic, 0}));
}

TEST(ReadDrives, ThatNobodyUsesAreLeftOut) {
  Server server;
  server.two_sockets();
  server.block("/sys/devices/virtual/block/loop0", "7:0");
  server.block("/sys/devices/virtual/block/loop1", "7:1");
  server.block("/sys/devices/virtual/block/zram0", "251:0");
  server.block("/sys/devices/virtual/block/sdq", "65:0");
  server.file("/sys/devices/virtual/block/sdq/size", "0\n");
  server.file(
      "/proc/self/mountinfo",
      "21 1 259:0 / / rw - ext4 /dev/nvme0n1 rw\n22 21 7:1 / /snap ro - squashfs /dev/loop1 ro\n");
  const Machine machine = read(server);
  EXPECT_EQ(names(machine), (std::vector<std::string>{"loop1", "nvme0n1"}));
  EXPECT_EQ(drive(machine, "loop1").driver, "loop");
}

// --- mounts --------------------------------------------------------------------------------------

TEST(ReadMounts, OfPartitionsLieOnTheirDrive) {
  Server server;
  server.two_sockets();
  server.partition(
      "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0/nvme/nvme0/"
      "nvme0n1",
      "nvme0n1p1", "259:1");
  server.file("/proc/self/mountinfo",
              "21 1 259:1 / / rw,relatime - ext4 /dev/root rw,data=ordered\n");
  const Machine machine = read(server);
  ASSERT_EQ(machine.mounts.size(), 1u);
  EXPECT_EQ(machine.mounts[0].drive, "nvme0n1");
  EXPECT_EQ(machine.mounts[0].options, "rw,relatime,data=ordered");
}

TEST(ReadMounts, OfFileSystemsWithNumbersOfTheirOwnAreFoundByTheirSource) {
  Server server;
  server.two_sockets();
  server.file("/dev/nvme0n1", "");
  server.host.tree.link("/dev/mapper/data", "/dev/nvme0n1");
  server.file("/proc/self/mountinfo",
              "21 1 0:30 / / rw - btrfs /dev/nvme0n1 rw\n22 21 0:31 / /data rw - btrfs "
              "/dev/mapper/data rw\n"
              "23 21 0:32 / /ram rw - tmpfs tmpfs rw\n");
  const Machine machine = read(server);
  ASSERT_EQ(machine.mounts.size(), 3u);
  EXPECT_EQ(machine.mounts[0].drive, "nvme0n1");
  EXPECT_EQ(machine.mounts[1].drive, "nvme0n1");
  EXPECT_EQ(machine.mounts[2].drive, "");
}

TEST(ReadMounts, OfServersBecomeDrivesBehindTheOnlyAdapter) {
  Server server;
  server.two_sockets();
  server.file("/proc/driver/nvidia-fs/modules", "nvme\nrpcrdma\n");
  server.file("/proc/self/mountinfo",
              "21 1 259:0 / / rw - ext4 /dev/nvme0n1 rw,data=ordered\n"
              "22 21 0:52 / /a rw,relatime shared:3 - nfs4 store:/a rw,vers=4.2,proto=rdma\n"
              "23 21 0:53 / /b rw - nfs4 store:/b rw,proto=rdma\n");
  const Machine machine = read(server);
  ASSERT_EQ(names(machine), (std::vector<std::string>{"nvme0n1", "store"}));
  EXPECT_EQ(machine.drives[1].driver, "nfs");
  EXPECT_EQ(machine.drives[1].parent, (Parent{Parent::Kind::nic, 0}));
  EXPECT_EQ(machine.drives[1].minor, 52u);
  EXPECT_TRUE(machine.drives[1].nvidia_fs_registered);
  EXPECT_EQ(machine.mounts[1].drive, "store");
  EXPECT_EQ(machine.mounts[1].options, "rw,relatime,vers=4.2,proto=rdma");
  EXPECT_EQ(machine.mounts[2].drive, "store");
}

TEST(ReadMounts, LaterOnTheSamePointWin) {
  Server server;
  server.file("/proc/self/mountinfo",
              "21 1 0:1 / / rw - overlay overlay rw\n22 21 0:2 / /data rw - tmpfs a rw\n"
              "23 21 0:3 / /data ro - ramfs b rw\n");
  const Machine machine = read(server);
  ASSERT_EQ(machine.mounts.size(), 2u);
  EXPECT_EQ(machine.mounts[1].type, "ramfs");
  EXPECT_EQ(machine.mounts[1].options, "ro");
}

TEST(ReadMounts, InsideKernelMadeTreesAreLeftOutUnlessTheyHoldData) {
  Server server;
  server.file(
      "/proc/self/mountinfo",
      "21 1 0:1 / / rw - ext4 /dev/x rw\n22 21 0:2 / /sys rw - sysfs sysfs rw\n"
      "23 22 0:3 / /sys/kernel/debug rw - debugfs debugfs rw\n24 21 0:4 / /dev rw - devtmpfs u rw\n"
      "25 24 0:5 / /dev/shm rw - tmpfs tmpfs rw\n26 21 0:6 net:[1] /run/netns/a rw - nsfs nsfs "
      "rw\n");
  std::vector<std::string> points;
  for (const Mount& mount : read(server).mounts) points.push_back(mount.point);
  EXPECT_EQ(points, (std::vector<std::string>{"/", "/sys", "/dev", "/dev/shm"}));
}

TEST(MountTable, DecodesOctalEscapes) {
  EXPECT_EQ(core::without_octal_escapes("/my\\040data\\011\\134x"), "/my data\t\\x");
  EXPECT_EQ(core::without_octal_escapes("\\04"), "\\04");
  EXPECT_EQ(core::without_octal_escapes("\\999"), "\\999");
  EXPECT_EQ(core::without_octal_escapes("a\\"), "a\\");
  EXPECT_EQ(core::without_octal_escapes("\\303\\244"), "\xc3\xa4");
}

TEST(MountTable, SkipsLinesThatItCannotRead) {
  const auto lines = core::parse_mount_table(
      "\nrubbish\n21 1 0:1 / / rw\n - ext4 x rw\n22 1 0:2 / /a\\040b rw,noatime master:1 shared:2 "
      "- ext4 /dev/a ro,x\n");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].point, "/a b");
  EXPECT_EQ(lines[0].device, "0:2");
  EXPECT_EQ(lines[0].options, "ro,noatime,x");
}

}  // namespace
}  // namespace nobounce::topology
