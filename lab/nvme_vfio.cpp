// Inside the guest: our NVMe driver through vfio-pci with an IOMMU, and the BAR of ivshmem, which
// is ours too, as its peer. The kernel's own driver fills the disk before and reads it afterwards.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "support/nvme_cases.hpp"
#include "system/live_host.hpp"

namespace nobounce::lab {
namespace {

using support::Bytes;
using support::Opcode;
using support::pattern;

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

// --- By the kernel's driver

class KernelDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    disk_ = ::open(setting("LAB_DISK").c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(disk_, 0) << "LAB_DISK: " << setting("LAB_DISK");
  }
  void TearDown() override { ::close(disk_); }
  int disk_ = -1;
};

TEST_F(KernelDisk, IsFilled) {
  const Bytes bytes = pattern(0, 4u << 20);
  ASSERT_EQ(::pwrite(disk_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  ASSERT_EQ(::fsync(disk_), 0);
}

TEST_F(KernelDisk, HoldsWhatOurDriverWrote) {
  const std::uint64_t at = 6u << 20;
  Bytes bytes(1u << 20);
  ASSERT_EQ(::pread(disk_, bytes.data(), bytes.size(), static_cast<off_t>(at)),
            static_cast<ssize_t>(bytes.size()));
  EXPECT_TRUE(bytes == pattern(at * 3 + 1, bytes.size()));
  ASSERT_EQ(::pread(disk_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  EXPECT_TRUE(bytes == pattern(0, bytes.size()));
}

// --- By ours

class VfioRig final : public support::NvmeRig {
 public:
  VfioRig() {
    system::Pci& pci = **host_->pci();
    auto drive = pci.open(setting("LAB_DRIVE"));
    auto peer = pci.open(setting("LAB_PEER"));
    if (!drive.ok()) ADD_FAILURE() << to_string(drive.error());
    if (!peer.ok()) ADD_FAILURE() << to_string(peer.error());
    drive_ = std::move(*drive);
    peer_function_ = std::move(*peer);
    const Result<Iova> iova = drive_->map_peer(*peer_function_, 2, 0, peer_function_->bar_bytes(2));
    if (!iova.ok()) ADD_FAILURE() << to_string(iova.error());
    peer_ = *iova;
  }

  system::Host& host() override { return *host_; }
  system::PciFunction& drive() override { return *drive_; }
  Iova peer() override { return peer_; }
  std::uint64_t peer_bytes() override { return memory().size(); }
  Bytes look_at_peer(std::uint64_t offset, std::size_t length) override {
    const auto part = memory().subspan(offset, length);
    return {part.begin(), part.end()};
  }
  void fill_peer(std::uint64_t offset, const Bytes& bytes) override {
    std::copy(bytes.begin(), bytes.end(), memory().begin() + static_cast<std::ptrdiff_t>(offset));
  }
  std::optional<system::DmaBuffer> peer_queue(std::uint64_t offset, std::uint64_t length) override {
    return system::DmaBuffer{memory().data() + offset, support::plus(peer_, offset), length};
  }
  std::optional<Bytes> look_at_medium(std::uint64_t, std::size_t) override { return std::nullopt; }
  void unmap_peer() { drive_->unmap(peer_); }

 private:
  [[nodiscard]] std::span<std::byte> memory() { return peer_function_->bar_mapping(2); }

  std::unique_ptr<system::Host> host_ = system::make_live_host();
  std::unique_ptr<system::PciFunction> drive_;
  std::unique_ptr<system::PciFunction> peer_function_;
  Iova peer_;
};

#define NOBOUNCE_TEST(name, run) \
  TEST(VfioNvme, name) {         \
    VfioRig rig;                 \
    support::run(rig);           \
  }
NOBOUNCE_NVME_CASES(NOBOUNCE_TEST)
#undef NOBOUNCE_TEST

TEST(VfioNvme, KeepsQueuesInThePeer) {
  VfioRig rig;
  support::keeps_queues_in_the_peer(rig);
}

/// What the IOMMU does not know does not arrive, whatever the drive answers.
TEST(VfioNvme, ReachesNothingThatWasUnmapped) {
  VfioRig rig;
  const auto drive = support::opened(rig);
  ASSERT_NE(drive, nullptr);
  rig.fill_peer(0, Bytes(4096, std::byte{0xee}));
  rig.unmap_peer();
  const Result<system::nvme::Completion> done =
      drive->execute(support::command_of(*drive, Opcode::read, 0, 8, rig.peer()));
  (void)done;  // some controllers notice, some do not
  EXPECT_TRUE(rig.look_at_peer(0, 4096) == Bytes(4096, std::byte{0xee}));
}

TEST(VfioNvme, IsResetByItsFunction) {
  VfioRig rig;
  {
    const auto drive = support::opened(rig);
    ASSERT_NE(drive, nullptr);
    NOBOUNCE_EXPECT_OK(rig.drive().reset());
    EXPECT_EQ(rig.drive().read32(0, system::nvme::reg::configuration) & 1u, 0u);
  }
  const auto again = support::opened(rig);
  ASSERT_NE(again, nullptr);
  NOBOUNCE_EXPECT_OK(again->transfer(Opcode::read, 8, 8, rig.peer()));
  EXPECT_TRUE(rig.look_at_peer(0, 4096) == pattern(4096, 4096));
}

TEST(VfioNvme, MapsNoGpuAndSaysWhy) {
  VfioRig rig;
  const Status able = rig.drive().can_map_gpu(0);
  ASSERT_FALSE(able.ok());
  EXPECT_EQ(able.error().cause, Cause::nvme_peer_unmapped);
  EXPECT_FALSE(rig.drive().map_gpu({}).ok());
}

TEST(VfioNvme, MapsHostMemoryAtAnyByte) {
  VfioRig rig;
  const auto drive = support::opened(rig);
  ASSERT_NE(drive, nullptr);
  Bytes memory(3 * 4096);
  const Result<Iova> iova = rig.drive().map_host(memory.data() + 512, 4096);
  ASSERT_TRUE(iova.ok()) << to_string(iova.error());
  const auto shift = reinterpret_cast<std::uintptr_t>(memory.data() + 512) % 4;
  ASSERT_EQ(shift, 0u);
  NOBOUNCE_EXPECT_OK(drive->transfer(Opcode::read, 8, 8, *iova));
  EXPECT_TRUE(Bytes(memory.begin() + 512, memory.begin() + 512 + 4096) == pattern(4096, 4096));
  rig.drive().unmap(*iova);
}

}  // namespace
}  // namespace nobounce::lab
