// Files on drives that md and dm put together: stripes are passed through, all else stages with its
// cause, and a path that only a probe could settle is not believed of several drives.
#include <gtest/gtest.h>

#include "support/soft_session.hpp"

namespace nobounce {
namespace {

using test::SoftSession;

constexpr std::uint64_t length = 3 * 1000 * 1000 + 7;

/// The workstation, its files on `layer` over two drives.
Machine over_two_drives(const char* driver, const char* layer) {
  Machine machine = test::machine_with("workstation");
  Drive second = machine.drives[0];
  second.name = "nvme1n1";
  second.bdf.clear();
  second.major = second.minor = 0;
  Drive whole;
  whole.name = "md0";
  whole.driver = driver;
  whole.layer = layer;
  whole.parent = machine.drives[0].parent;
  whole.parts = {"nvme0n1", "nvme1n1"};
  whole.nvidia_fs_registered = false;
  whole.major = 9;
  machine.drives.push_back(second);
  machine.drives.push_back(whole);
  machine.mounts[0].drive = "md0";
  core::complete_machine(machine);
  return machine;
}

/// Of a file into GPU memory: the receipt, which the bus agrees with and whose bytes are right.
Receipt read_file_on(const Machine& machine) {
  const test::TemporaryDirectory directory;
  const std::vector<std::byte> bytes = test::random_bytes(length, 5);
  test::write_file(directory.file("source"), bytes);
  SoftSession soft(machine);
  Result<File> file = soft->open_file(directory.file("source"));
  Result<Region> region = soft->allocate(0, length);
  if (!file.ok() || !region.ok()) throw std::runtime_error("no places");
  soft.begin_account();
  const Outcome outcome = soft->transfer(file->place(), region->place());
  EXPECT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_TRUE(test::equals_ledger(outcome.receipt, soft.arrived(region->place())));
  EXPECT_EQ(soft.look_at(region->place()), bytes);
  return outcome.receipt;
}

TEST(LayeredDrives, StripesArePassedThrough) {
  const Receipt receipt = read_file_on(over_two_drives("md", "raid0"));
  EXPECT_EQ(receipt.bytes[Carriage::staged], 0u);
  EXPECT_EQ(receipt.known, Known::counted);
  EXPECT_EQ(receipt.link, Link::pcie_switch);
}

TEST(LayeredDrives, AllOthersStage) {
  for (const auto& [driver, layer] :
       {std::pair{"md", "raid5"}, std::pair{"md", "raid1"}, std::pair{"dm", "lvm"}}) {
    const Receipt receipt = read_file_on(over_two_drives(driver, layer));
    EXPECT_EQ(receipt.bytes[Carriage::staged], length) << layer;
    EXPECT_EQ(receipt.causes[0], Cause::storage_mount_is_layered) << layer;
  }
}

TEST(LayeredDrives, OfOneDriveWithoutItsHooksStage) {
  Machine machine = over_two_drives("md", "raid0");
  machine.drives[1].nvidia_fs_registered = false;
  machine.drives[1].driver = "nvme_rdma";  // a drive of another kind, whose driver has no hooks
  const Receipt receipt = read_file_on(machine);
  EXPECT_EQ(receipt.bytes[Carriage::staged], length);
}

TEST(LayeredDrives, WhoseBusNobodyKnowsAreNotBelievedAfterOneProbe) {
  Machine machine = over_two_drives("md", "raid0");
  for (SwitchPort& port : machine.switches[0].ports) {
    if (port.device == "drive:1") port.acs = AcsMode::unknown;
  }
  const Receipt receipt = read_file_on(machine);
  EXPECT_EQ(receipt.bytes[Carriage::staged], length);
  EXPECT_EQ(receipt.causes[0], Cause::storage_mount_is_layered);
  machine.mounts[0].drive = "nvme1n1";  // alone it can be probed
  EXPECT_EQ(read_file_on(machine).bytes[Carriage::staged], 0u);
}

}  // namespace
}  // namespace nobounce
