// The user's files on a software machine: which drive moves them, by which way, and what O_DIRECT
// demands.
#include <sys/stat.h>

#include <cstring>

#include "machine_rig.hpp"

namespace nobounce::fabric {
namespace {

using system::FileAccess;
using system::FileHandle;
using system::OpenOptions;

constexpr OpenOptions direct_read{.direct = true};
constexpr std::size_t block = SoftStorage::direct_io_alignment;

/// Page-aligned memory of the caller's.
class Pages {
 public:
  explicit Pages(std::size_t length) : bytes_(length + block) {}
  std::byte* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    return bytes_.data() + (block - address % block) % block;
  }

 private:
  std::vector<std::byte> bytes_;
};

std::uint64_t flow_bytes(const Ledger& ledger, Initiator::Kind by, Space::Kind from,
                         Space::Kind to) {
  std::uint64_t bytes = 0;
  for (const auto& [flow, moved] : ledger.flows()) {
    if (flow.initiator.kind == by && flow.source.kind == from && flow.target.kind == to) {
      bytes += moved;
    }
  }
  return bytes;
}

class StorageTest : public ::testing::Test {
 protected:
  Machine machine_with_mount(Mount mount) {
    Machine machine = built_in("dgx");
    mount.point = folder.path();
    machine.mounts.push_back(std::move(mount));
    return machine;
  }
  Folder folder;
};

TEST_F(StorageTest, BufferedReadsGoThroughThePageCacheAndTheCpu) {
  const auto content = pattern(3 * block + 17);
  const std::string path = folder.add_file("a", content);
  MachineRig rig(built_in("workstation"));
  const FileHandle file = rig.open(path);
  std::vector<std::byte> got(content.size());
  EXPECT_EQ(*rig.storage->read(file, got.data(), got.size(), {}), content.size());
  EXPECT_EQ(got, content);
  const Ledger& ledger = rig.bus->ledger();
  EXPECT_EQ(flow_bytes(ledger, Initiator::Kind::drive, Space::Kind::media, Space::Kind::dram),
            content.size());
  EXPECT_EQ(flow_bytes(ledger, Initiator::Kind::cpu, Space::Kind::dram, Space::Kind::dram),
            content.size());
  EXPECT_TRUE(rig.storage->close(file).ok());
}

TEST_F(StorageTest, DirectReadsReachTheBufferWithoutTheCpu) {
  const auto content = pattern(4 * block);
  const std::string path = folder.add_file("a", content);
  MachineRig rig(built_in("workstation"));
  const FileHandle file = rig.open(path, direct_read);
  Pages pages(content.size());
  EXPECT_EQ(*rig.storage->read(file, pages.data(), content.size(), {}), content.size());
  EXPECT_EQ(std::memcmp(pages.data(), content.data(), content.size()), 0);
  EXPECT_EQ(
      flow_bytes(rig.bus->ledger(), Initiator::Kind::drive, Space::Kind::media, Space::Kind::dram),
      content.size());
  EXPECT_EQ(rig.bus->ledger().cpu_touched_bytes(), 0u);
  (void)rig.storage->close(file);
}

TEST_F(StorageTest, DirectIoDemandsAlignmentOfOffsetLengthAndMemory) {
  const std::string path = folder.add_file("a", pattern(4 * block));
  MachineRig rig(built_in("workstation"));
  const FileHandle file = rig.open(path, {.access = FileAccess::read_write, .direct = true});
  Pages pages(4 * block);
  const struct {
    std::size_t memory, length, offset;
  } wrong[] = {{512, block, 0}, {0, block - 512, 0}, {0, block, 512}, {1, 1, 1}};
  for (const auto& each : wrong) {
    std::byte* memory = pages.data() + each.memory;
    EXPECT_EQ(rig.storage->read(file, memory, each.length, {each.offset}).error().code, EINVAL);
    EXPECT_EQ(rig.storage->write(file, memory, each.length, {each.offset}).error().code, EINVAL);
  }
  EXPECT_TRUE(rig.bus->ledger().flows().empty());
  EXPECT_EQ(*rig.storage->read(file, pages.data(), 2 * block, {3 * block}), block);
  EXPECT_EQ(*rig.storage->read(file, pages.data(), block, {4 * block}), 0u);
  (void)rig.storage->close(file);
}

TEST_F(StorageTest, DirectIoIsRefusedWhereTheMountRefusesIt) {
  const std::string path = folder.add_file("a", pattern(10));
  MachineRig rig(machine_with_mount({"", "nvme2n1", "ext4", "rw", false}));
  EXPECT_EQ(rig.storage->open(path, direct_read).error().code, EINVAL);
  EXPECT_TRUE(rig.storage->close(rig.open(path)).ok());
  EXPECT_EQ(rig.storage->status_of(path)->direct_io_offset_alignment, 0u);
}

TEST_F(StorageTest, TheLongestMountDecidesTheDrive) {
  const auto content = pattern(2 * block);
  const std::string path = folder.add_file("a", content);
  MachineRig rig(machine_with_mount({"", "nvme6n1", "xfs", "rw", true}));
  const FileHandle file = rig.open(path);
  std::vector<std::byte> got(content.size());
  ASSERT_TRUE(rig.storage->read(file, got.data(), got.size(), {}).ok());
  for (const auto& [flow, moved] : rig.bus->ledger().flows()) {
    if (flow.source.kind == Space::Kind::media) {
      EXPECT_EQ(flow.source.index, 6u);
      EXPECT_EQ(flow.initiator.index, 6u);
    }
  }
  const auto status = rig.storage->status(file);
  EXPECT_EQ(status->device_major, rig.machine.drives[6].major);
  EXPECT_EQ(status->device_minor, rig.machine.drives[6].minor);
  EXPECT_EQ(status->direct_io_memory_alignment, block);
  EXPECT_EQ(status->size_bytes, content.size());
  (void)rig.storage->close(file);
}

TEST_F(StorageTest, SymbolicLinksLeadToTheMountOfTheirTarget) {
  const std::string path = folder.add_file("a", pattern(10));
  Folder elsewhere;
  std::filesystem::create_symlink(path, elsewhere / "link");
  MachineRig rig(machine_with_mount({"", "nvme3n1", "xfs", "rw", true}));
  const FileHandle file = rig.open(elsewhere / "link");
  EXPECT_EQ(rig.storage->find(file.descriptor)->medium.drive, 3u);
  EXPECT_EQ(rig.storage->find(file.descriptor)->path, path);
  (void)rig.storage->close(file);
  EXPECT_EQ(rig.storage->find(file.descriptor), nullptr);
}

TEST_F(StorageTest, FilesOnNoDriveLiveInThePageCache) {
  const auto content = pattern(5000);
  const std::string path = folder.add_file("a", content);
  MachineRig rig(machine_with_mount({"", "", "tmpfs", "rw", false}));
  const FileHandle file = rig.open(path);
  std::vector<std::byte> got(content.size());
  ASSERT_EQ(*rig.storage->read(file, got.data(), got.size(), {}), content.size());
  EXPECT_EQ(got, content);
  EXPECT_EQ(
      flow_bytes(rig.bus->ledger(), Initiator::Kind::drive, Space::Kind::media, Space::Kind::dram),
      0u);
  EXPECT_EQ(*rig.storage->resident_bytes(file, {1000}, 1u << 20), 4000u);
  (void)rig.storage->close(file);
}

TEST_F(StorageTest, WritesArriveInTheRealFile) {
  const auto content = pattern(2 * block);
  Pages pages(content.size());
  std::memcpy(pages.data(), content.data(), content.size());
  MachineRig rig(built_in("workstation"));
  for (const bool direct : {false, true}) {
    const std::string path = folder / (direct ? "direct" : "buffered");
    const FileHandle file =
        rig.open(path, {.access = FileAccess::write, .create = true, .direct = direct});
    EXPECT_EQ(*rig.storage->write(file, pages.data(), content.size(), {}), content.size());
    EXPECT_EQ(Folder::content(path), content);
    EXPECT_EQ(rig.storage->read(file, pages.data(), block, {}).error().code, EBADF);
    EXPECT_TRUE(rig.storage->close(file).ok());
  }
  EXPECT_EQ(rig.bus->ledger().cpu_touched_bytes(), content.size());
}

TEST_F(StorageTest, AnswersWhatTheRealFileSystemAnswers) {
  MachineRig rig(built_in("workstation"));
  EXPECT_EQ(rig.storage->open(folder / "none", {}).error().code, ENOENT);
  const std::string path = folder.add_file("a", pattern(10));
  EXPECT_EQ(
      rig.storage->open(path, {.access = FileAccess::write, .create = true, .exclusive = true})
          .error()
          .code,
      EEXIST);
  const FileHandle file = rig.open(path);
  std::byte byte{};
  EXPECT_EQ(rig.storage->write(file, &byte, 1, {}).error().code, EBADF);
  (void)rig.storage->close(file);
}

TEST_F(StorageTest, AReadOnlyMountOfTheMachineRefusesWriters) {
  const std::string path = folder.add_file("a", pattern(10));
  MachineRig rig(machine_with_mount({"", "nvme1n1", "ext4", "ro,data=ordered", true}));
  EXPECT_EQ(rig.storage->open(path, {.access = FileAccess::write}).error().code, EROFS);
  EXPECT_TRUE(rig.storage->close(rig.open(path)).ok());
}

TEST_F(StorageTest, FaultsStrikeAsConfigured) {
  const auto content = pattern(8 * block);
  const std::string path = folder.add_file("a", content);
  SoftFaults faults;
  faults.read_error = 1;
  faults.write_error = 1;
  MachineRig rig(built_in("workstation"), faults);
  const FileHandle file = rig.open(path, {.access = FileAccess::read_write, .direct = true});
  Pages pages(content.size());
  EXPECT_EQ(rig.storage->read(file, pages.data(), block, {}).error().code, EIO);
  EXPECT_EQ(rig.storage->write(file, pages.data(), block, {}).error().code, EIO);
  EXPECT_EQ(Folder::content(path), content);
  rig.faults = {};
  rig.faults.short_read = 1;
  for (int i = 0; i < 20; ++i) {
    const std::size_t got = *rig.storage->read(file, pages.data(), content.size(), {});
    EXPECT_GT(got, 0u);
    EXPECT_LT(got, content.size());
    EXPECT_EQ(got % block, 0u);
    EXPECT_EQ(std::memcmp(pages.data(), content.data(), got), 0);
  }
  (void)rig.storage->close(file);
}

TEST_F(StorageTest, NothingOfADriveStaysInThePageCache) {
  const std::string path = folder.add_file("a", pattern(8 * block));
  MachineRig rig(built_in("workstation"));
  const FileHandle file = rig.open(path);
  std::vector<std::byte> got(block);
  ASSERT_TRUE(rig.storage->read(file, got.data(), got.size(), {}).ok());
  EXPECT_EQ(*rig.storage->resident_bytes(file, {}, 8 * block), 0u);
  (void)rig.storage->close(file);
}

TEST_F(StorageTest, MemoryFilesAreNotOnTheMachine) {
  MachineRig rig(built_in("workstation"));
  const auto memory = rig.storage->memory_file("x.json", "{\"a\": 1}");
  ASSERT_TRUE(memory.ok());
  const FileHandle again = rig.open(memory->path);
  std::vector<std::byte> got(8);
  EXPECT_EQ(*rig.storage->read(again, got.data(), got.size(), {}), 8u);
  EXPECT_EQ(std::memcmp(got.data(), "{\"a\": 1}", 8), 0);
  EXPECT_TRUE(rig.bus->ledger().flows().empty());
  (void)rig.storage->close(again);
  (void)rig.storage->close(memory->file);
}

}  // namespace
}  // namespace nobounce::fabric
