// Who has a drive, by the files of sysfs and /proc.
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <string>

#include "preconditions/read_drive_facts.hpp"
#include "support/memory_files.hpp"

namespace nobounce::preconditions {
namespace {

using support::MemoryFiles;

constexpr const char* bdf = "0000:05:00.0";
const std::string function = "/sys/devices/pci0000:00/0000:00:01.0/0000:05:00.0";
const std::string controller = function + "/nvme/nvme0";
const std::string disk = controller + "/nvme0n1";

/// A drive with one partition that nobody uses.
MemoryFiles idle_drive() {
  MemoryFiles files;
  files.link(std::string("/sys/bus/pci/devices/") + bdf, function);
  files.text(function + "/class", "0x010802\n");
  files.link(function + "/driver", "/sys/bus/pci/drivers/nvme");
  files.directory("/sys/bus/pci/drivers/nvme");
  files.text(disk + "/dev", "259:0\n");
  files.directory(disk + "/holders");
  files.text(disk + "/nvme0n1p1/dev", "259:1\n");
  files.text(disk + "/nvme0n1p1/partition", "1\n");
  files.directory(disk + "/nvme0n1p1/holders");
  files.text("/proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
  files.text("/proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n");
  return files;
}

struct Use {
  const char* name;
  void (*begin)(MemoryFiles&);
  const char* said;
};

class DriveUses : public ::testing::TestWithParam<Use> {};

TEST_P(DriveUses, AreFound) {
  MemoryFiles files = idle_drive();
  ASSERT_TRUE(read_drive_facts(files, bdf).uses.empty());
  GetParam().begin(files);
  const core::DriveFacts facts = read_drive_facts(files, bdf);
  ASSERT_EQ(facts.uses.size(), 1u);
  EXPECT_EQ(facts.uses[0].what, GetParam().said);
}

INSTANTIATE_TEST_SUITE_P(
    Each, DriveUses,
    ::testing::Values(
        Use{"MountedWhole",
            [](MemoryFiles& files) {
              files.text("/proc/self/mountinfo", "1 0 259:0 / /data rw - xfs /dev/nvme0n1 rw\n");
            },
            "/dev/nvme0n1 is mounted on /data"},
        Use{"MountedPartition",
            [](MemoryFiles& files) {
              files.text("/proc/self/mountinfo", "1 0 259:1 / /home rw - ext4 /dev/mapper/x rw\n");
            },
            "/dev/nvme0n1p1 is mounted on /home"},
        // btrfs and zfs give every mount a number of its own.
        Use{"MountedByName",
            [](MemoryFiles& files) {
              files.text("/proc/self/mountinfo", "1 0 0:45 / /b rw - btrfs /dev/nvme0n1p1 rw\n");
            },
            "/dev/nvme0n1p1 is mounted on /b"},
        Use{"Swap",
            [](MemoryFiles& files) {
              files.text("/proc/swaps",
                         "Filename\tType\n/dev/nvme0n1p1                partition\n");
            },
            "/dev/nvme0n1p1 holds swap"},
        Use{"Holder", [](MemoryFiles& files) { files.directory(disk + "/nvme0n1p1/holders/dm-0"); },
            "/dev/dm-0 is built on /dev/nvme0n1p1"},
        Use{"Multipath",
            [](MemoryFiles& files) {
              const std::string heads = "/sys/class/nvme-subsystem/nvme-subsys0";
              files.directory(heads + "/nvme0");
              files.text(heads + "/nvme0n2/dev", "259:7\n");
              files.directory(heads + "/nvme0n2/holders/md0");
            },
            "/dev/md0 is built on /dev/nvme0n2"},
        Use{"Unreadable", [](MemoryFiles& files) { files.refuse(disk, EACCES); },
            "the partitions of nvme0n1 cannot be read"}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(DriveFacts, CountAnUnreadableMountTableAsUse) {
  MemoryFiles files = idle_drive();
  files.refuse("/proc/self/mountinfo", EACCES);
  EXPECT_FALSE(read_drive_facts(files, bdf).uses.empty());
}

TEST(DriveFacts, CountWhateverCannotBeReadAsUse) {
  for (const std::string& path :
       {disk + "/holders", disk + "/nvme0n1p1/holders", std::string("/proc/swaps"),
        function + "/nvme", std::string("/sys/class/nvme-subsystem")}) {
    MemoryFiles files = idle_drive();
    files.directory("/sys/class/nvme-subsystem");
    ASSERT_TRUE(read_drive_facts(files, bdf).uses.empty());
    files.refuse(path, EACCES);
    EXPECT_FALSE(read_drive_facts(files, bdf).uses.empty()) << path;
  }
}

TEST(DriveFacts, NameTheDriverAndTheClass) {
  MemoryFiles files = idle_drive();
  core::DriveFacts facts = read_drive_facts(files, bdf);
  EXPECT_TRUE(facts.exists);
  EXPECT_TRUE(facts.is_nvme);
  EXPECT_EQ(facts.driver, "nvme");
  files.remove(function + "/driver");
  EXPECT_EQ(read_drive_facts(files, bdf).driver, "");
  files.text(function + "/class", "0x030000\n");
  EXPECT_FALSE(read_drive_facts(files, bdf).is_nvme);
  EXPECT_FALSE(read_drive_facts(files, "0000:06:00.0").exists);
}

}  // namespace
}  // namespace nobounce::preconditions
