// Our NVMe driver against QEMU's controller: an implementation that we did not write.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "qtest.hpp"
#include "support/nvme_cases.hpp"
#include "system/live_host.hpp"

namespace nobounce::test {
namespace {

using support::Bytes;
using support::Opcode;
using support::pattern;

void fill_disk(const std::string& path) {
  const Bytes bytes = pattern(0, 4u << 20);
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(::pwrite(file, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  ::close(file);
}

class QemuRig final : public support::NvmeRig {
 public:
  QemuRig() {
    for (unsigned disk = 0; disk < 3; ++disk) fill_disk(machine_.disk_path(disk));
    drive_ = machine_.drive(1);
    gpu_ = machine_.peer();
    peer_ = *drive_->map_peer(*gpu_, 2, 0, Qtest::peer_bytes);
  }

  system::Host& host() override { return *host_; }
  system::PciFunction& drive() override { return *drive_; }
  Iova peer() override { return peer_; }
  std::uint64_t peer_bytes() override { return Qtest::peer_bytes; }
  Bytes look_at_peer(std::uint64_t offset, std::size_t length) override {
    const auto part = machine_.peer_memory().subspan(offset, length);
    return {part.begin(), part.end()};
  }
  void fill_peer(std::uint64_t offset, const Bytes& bytes) override {
    std::copy(bytes.begin(), bytes.end(),
              machine_.peer_memory().begin() + static_cast<std::ptrdiff_t>(offset));
  }
  std::optional<system::DmaBuffer> peer_queue(std::uint64_t offset, std::uint64_t length) override {
    return system::DmaBuffer{machine_.peer_memory().data() + offset, support::plus(peer_, offset),
                             length};
  }
  std::optional<Bytes> look_at_medium(std::uint64_t offset, std::size_t length) override {
    Bytes bytes(length);
    const int file = ::open(machine_.disk_path(1).c_str(), O_RDONLY | O_CLOEXEC);
    EXPECT_EQ(::pread(file, bytes.data(), length, static_cast<off_t>(offset)),
              static_cast<ssize_t>(length));
    ::close(file);
    return bytes;
  }

  Qtest& machine() { return machine_; }

 private:
  std::unique_ptr<system::Host> host_ = system::make_live_host();
  Qtest machine_;
  std::unique_ptr<system::PciFunction> drive_;
  std::unique_ptr<system::PciFunction> gpu_;
  Iova peer_;
};

class QemuNvme : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Qtest::program().empty())
      GTEST_SKIP() << "qemu-system-x86_64 is not installed (tools/setup installs it)";
  }
};

#define NOBOUNCE_TEST(name, run) \
  TEST_F(QemuNvme, name) {       \
    QemuRig rig;                 \
    support::run(rig);           \
  }
NOBOUNCE_NVME_CASES(NOBOUNCE_TEST)
#undef NOBOUNCE_TEST

TEST_F(QemuNvme, LosesDataInSilence) {
  QemuRig rig;
  support::loses_data_in_silence_where_nobody_answers(rig, Iova{Qtest::hole_address});
}

TEST_F(QemuNvme, KeepsQueuesInThePeer) {
  QemuRig rig;
  support::keeps_queues_in_the_peer(rig);
}

TEST_F(QemuNvme, DoesNotReadIntoItsOwnRegisters) {
  QemuRig rig;
  const auto drive = support::opened(rig);
  ASSERT_NE(drive, nullptr);
  const auto done =
      drive->execute(support::command_of(*drive, Opcode::read, 0, 8, Iova{0xc1000000}));
  ASSERT_TRUE(done.ok()) << to_string(done.error());
  EXPECT_EQ(done->code(), support::code::data_transfer_error);
  EXPECT_TRUE(done->do_not_retry());
}

/// A peer that stops to answer: success without data, which only a comparison notices.
TEST_F(QemuNvme, LosesDataInSilenceWhenThePeerStopsDecoding) {
  QemuRig rig;
  const auto drive = support::opened(rig);
  ASSERT_NE(drive, nullptr);
  rig.machine().write(Qtest::config(5, 0, 4), 0, 4);
  rig.fill_peer(0, Bytes(4096, std::byte{0xee}));
  NOBOUNCE_EXPECT_OK(drive->transfer(Opcode::read, 0, 8, rig.peer()));
  EXPECT_TRUE(rig.look_at_peer(0, 4096) == Bytes(4096, std::byte{0xee}));
}

/// The memory buffer of another controller as the target.
TEST_F(QemuNvme, ReadsIntoAnotherControllersMemoryBuffer) {
  QemuRig rig;
  const auto other = rig.machine().drive(0);
  namespace reg = system::nvme::reg;
  other->write64(0, reg::buffer_control, 1);
  ASSERT_NE(other->read32(0, reg::buffer_size), 0u);
  other->write64(0, reg::buffer_control, Qtest::buffer_address | 3);
  const auto drive = support::opened(rig);
  ASSERT_NE(drive, nullptr);
  const Result<Iova> buffer = rig.drive().map_peer(*other, 2, 0, 1u << 20);
  ASSERT_TRUE(buffer.ok());
  NOBOUNCE_EXPECT_OK(drive->transfer(Opcode::read, 8, 24, *buffer));
  EXPECT_TRUE(rig.machine().read_block(buffer->value, 12288) == pattern(4096, 12288));
}

/// A queue that it cannot fetch from is fatal to QEMU's controller; a restart mends it.
TEST_F(QemuNvme, TellsAFatalStatusAndIsRestarted) {
  QemuRig rig;
  support::ControllerOptions options;
  options.command_timeout_ns = 2'000'000'000;
  const auto drive = support::opened(rig, options);
  ASSERT_NE(drive, nullptr);
  ASSERT_TRUE(rig.drive().set_bus_mastering(system::BusMastering::off).ok());
  const auto done = drive->execute(support::command_of(*drive, Opcode::read, 0, 8, rig.peer()));
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().cause, Cause::nvme_controller_fatal) << to_string(done.error());
  ASSERT_TRUE(rig.drive().set_bus_mastering(system::BusMastering::on).ok());
  NOBOUNCE_EXPECT_OK(drive->restart());
  NOBOUNCE_EXPECT_OK(drive->transfer(Opcode::read, 8, 8, rig.peer()));
  EXPECT_TRUE(rig.look_at_peer(0, 4096) == pattern(4096, 4096));
}

/// A command that takes longer than its deadline: an error, and the next one works.
TEST_F(QemuNvme, TimesOutAndGoesOn) {
  QemuRig rig;
  const auto slow = rig.machine().drive(2);
  support::ControllerOptions options;
  options.command_timeout_ns = 300'000'000;
  auto opened = support::Controller::open(rig.host(), *slow, options);
  ASSERT_TRUE(opened.ok()) << to_string(opened.error());
  support::Controller& drive = **opened;
  Status moved;
  // A first burst passes the throttle.
  for (int i = 0; i < 4 && moved.ok(); ++i)
    moved = drive.transfer(Opcode::read, 0, 1024, rig.peer());
  ASSERT_FALSE(moved.ok());
  EXPECT_EQ(moved.error().cause, Cause::nvme_timeout) << to_string(moved.error());
  NOBOUNCE_EXPECT_OK(drive.health());
  NOBOUNCE_EXPECT_OK(drive.restart());
}

}  // namespace
}  // namespace nobounce::test
