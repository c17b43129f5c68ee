// What our NVMe driver must do on any controller. The medium holds support::pattern in its first
// 4 MiB; data is compared, never statuses alone.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "provider/nvme/controller.hpp"
#include "support/nvme_rig.hpp"

namespace nobounce::support {

using provider::nvme::Controller;
using provider::nvme::ControllerOptions;
using Opcode = system::nvme::Opcode;
namespace code = system::nvme::code;

inline constexpr std::uint64_t kib = 1024;

inline std::unique_ptr<Controller> opened(NvmeRig& rig, const ControllerOptions& options = {}) {
  Result<std::unique_ptr<Controller>> controller =
      Controller::open(rig.host(), rig.drive(), options);
  EXPECT_TRUE(controller.ok()) << to_string(controller.error());
  return controller.ok() ? std::move(*controller) : nullptr;
}

#define NOBOUNCE_EXPECT_OK(status)                             \
  do {                                                         \
    const auto& outcome_ = (status);                           \
    EXPECT_TRUE(outcome_.ok()) << to_string(outcome_.error()); \
  } while (false)

inline Iova plus(Iova iova, std::uint64_t offset) {
  return Iova{iova.value + offset};
}

inline system::nvme::Command command_of(const Controller& drive, Opcode opcode, std::uint64_t block,
                                        std::uint32_t blocks, Iova memory) {
  system::nvme::Command command;
  command.opcode = static_cast<std::uint8_t>(opcode);
  command.name_space = drive.identity().name_space;
  command.prp1 = memory.value;
  command.dword10 = static_cast<std::uint32_t>(block);
  command.dword11 = static_cast<std::uint32_t>(block >> 32);
  command.dword12 = blocks - 1;
  return command;
}

inline void says_what_it_is(NvmeRig& rig) {
  const auto drive = opened(rig);
  ASSERT_NE(drive, nullptr);
  EXPECT_FALSE(drive->identity().model.empty());
  EXPECT_EQ(drive->identity().block_bytes, 512u);
  EXPECT_GE(drive->identity().length_bytes(), 8u << 20);
  EXPECT_GE(drive->identity().transfer_bytes_max, 128 * kib);
  NOBOUNCE_EXPECT_OK(drive->shut_down());
}

/// Reads of a page, of two, of three by a list, from the middle of a page, and longer than MDTS.
inline void reads_into_the_peer(NvmeRig& rig) {
  const auto drive = opened(rig);
  ASSERT_NE(drive, nullptr);
  struct Piece {
    std::uint64_t block;
    std::uint64_t blocks;
    std::uint64_t target;
  };
  const Piece pieces[] = {{0, 8, 0},
                          {8, 24, 4096},
                          {1, 3, 65536 + 512},
                          {16, 16, 131072 + 512},
                          {0, 4096, 256 * kib},
                          {5, 1, 200704 + 4},
                          {40, 16, 217088}};
  for (const Piece& piece : pieces) {
    const std::size_t length = piece.blocks * 512;
    rig.fill_peer(piece.target, Bytes(length, std::byte{0xee}));
    NOBOUNCE_EXPECT_OK(
        drive->transfer(Opcode::read, piece.block, piece.blocks, plus(rig.peer(), piece.target)));
    EXPECT_TRUE(rig.look_at_peer(piece.target, length) == pattern(piece.block * 512, length))
        << length << " bytes from block " << piece.block;
  }
}

/// Writes the same way, at the end of the medium's first 8 MiB; nothing beside them changes.
inline void writes_from_the_peer(NvmeRig& rig) {
  const auto drive = opened(rig);
  ASSERT_NE(drive, nullptr);
  const std::uint64_t at = 6u << 20;
  const std::size_t length = 1u << 20;
  const Bytes bytes = pattern(at * 3 + 1, length);
  rig.fill_peer(512, bytes);
  NOBOUNCE_EXPECT_OK(drive->transfer(Opcode::write, at / 512, length / 512, plus(rig.peer(), 512)));
  NOBOUNCE_EXPECT_OK(drive->flush());
  if (const auto medium = rig.look_at_medium(at, length)) {
    EXPECT_TRUE(*medium == bytes);
    EXPECT_TRUE(*rig.look_at_medium(0, 4096) == pattern(0, 4096));
  }
  rig.fill_peer(0, Bytes(length + 1024));
  NOBOUNCE_EXPECT_OK(drive->transfer(Opcode::read, at / 512, length / 512, rig.peer()));
  EXPECT_TRUE(rig.look_at_peer(0, length) == bytes);
}

/// Host memory of the driver's own, there and back.
inline void moves_host_memory(NvmeRig& rig) {
  const auto drive = opened(rig);
  ASSERT_NE(drive, nullptr);
  Result<system::DmaBuffer> buffer = rig.drive().allocate_dma(16384);
  ASSERT_TRUE(buffer.ok());
  NOBOUNCE_EXPECT_OK(drive->transfer(Opcode::read, 8, 32, buffer->iova));
  EXPECT_TRUE(Bytes(buffer->address, buffer->address + 16384) == pattern(4096, 16384));
  rig.drive().free_dma(*buffer);
}

/// Both I/O queues inside the peer, four entries: eleven commands turn the phase twice.
inline void keeps_queues_in_the_peer(NvmeRig& rig) {
  ControllerOptions options;
  options.queue_entries = 4;
  options.submission_memory = rig.peer_queue(1u << 20, 4096);
  options.completion_memory = rig.peer_queue((1u << 20) + 4096, 4096);
  const auto drive = opened(rig, options);
  ASSERT_NE(drive, nullptr);
  for (std::uint64_t i = 0; i < 11; ++i) {
    rig.fill_peer(0, Bytes(4096, std::byte{0xee}));
    NOBOUNCE_EXPECT_OK(drive->transfer(Opcode::read, i * 8, 8, rig.peer()));
    EXPECT_TRUE(rig.look_at_peer(0, 4096) == pattern(i * 4096, 4096)) << i;
  }
}

/// Each wrong command gets its own status, and the next one works.
inline void tells_errors(NvmeRig& rig) {
  const auto drive = opened(rig);
  ASSERT_NE(drive, nullptr);
  const std::uint64_t blocks = drive->identity().blocks;
  const Status beyond = drive->transfer(Opcode::read, blocks, 8, rig.peer());
  ASSERT_FALSE(beyond.ok());
  EXPECT_EQ(beyond.error().origin, ErrorOrigin::nvme);
  EXPECT_EQ(beyond.error().cause, Cause::nvme_command_failed);
  EXPECT_EQ(beyond.error().code, code::lba_out_of_range);
  EXPECT_NE(beyond.error().detail.find("LBA out of range"), std::string::npos);
  const Status across = drive->transfer(Opcode::write, blocks - 1, 2, rig.peer());
  ASSERT_FALSE(across.ok());
  EXPECT_EQ(across.error().code, code::lba_out_of_range);

  // More than MDTS in one command: what the driver never sends by itself.
  system::nvme::Command large = command_of(*drive, Opcode::read, 0, 2048 + 1, rig.peer());
  large.prp2 = rig.peer().value + 4096;
  Result<system::nvme::Completion> done = drive->execute(large);
  ASSERT_TRUE(done.ok()) << to_string(done.error());
  EXPECT_EQ(done->code(), code::invalid_field);
  EXPECT_TRUE(done->do_not_retry());

  system::nvme::Command unknown = command_of(*drive, Opcode::read, 0, 1, rig.peer());
  unknown.opcode = 0x7f;
  done = drive->execute(unknown);
  ASSERT_TRUE(done.ok()) << to_string(done.error());
  EXPECT_EQ(done->code(), code::invalid_opcode);

  system::nvme::Command elsewhere = command_of(*drive, Opcode::read, 0, 1, rig.peer());
  elsewhere.name_space = 77;
  done = drive->execute(elsewhere);
  ASSERT_TRUE(done.ok()) << to_string(done.error());
  EXPECT_NE(done->code(), code::success);

  const Status odd = drive->transfer(Opcode::read, 0, 1, plus(rig.peer(), 2));
  ASSERT_FALSE(odd.ok());
  EXPECT_EQ(odd.error().cause, Cause::nvme_unaligned);

  rig.fill_peer(0, Bytes(4096));
  NOBOUNCE_EXPECT_OK(drive->transfer(Opcode::read, 8, 8, rig.peer()));
  EXPECT_TRUE(rig.look_at_peer(0, 4096) == pattern(4096, 4096));
}

/// Nobody tells a drive that a posted write went nowhere: success, and no data.
inline void loses_data_in_silence_where_nobody_answers(NvmeRig& rig, Iova nowhere) {
  const auto drive = opened(rig);
  ASSERT_NE(drive, nullptr);
  rig.fill_peer(0, Bytes(4096, std::byte{0xee}));
  const Result<system::nvme::Completion> done =
      drive->execute(command_of(*drive, Opcode::read, 0, 8, nowhere));
  ASSERT_TRUE(done.ok()) << to_string(done.error());
  EXPECT_EQ(done->code(), code::success);
  EXPECT_TRUE(rig.look_at_peer(0, 4096) == Bytes(4096, std::byte{0xee}));
}

/// After a restart, queues and ids begin anew.
inline void restarts(NvmeRig& rig) {
  const auto drive = opened(rig);
  ASSERT_NE(drive, nullptr);
  for (std::uint64_t i = 0; i < 3; ++i) {
    rig.fill_peer(0, Bytes(4096));
    NOBOUNCE_EXPECT_OK(drive->transfer(Opcode::read, i * 8, 8, rig.peer()));
    EXPECT_TRUE(rig.look_at_peer(0, 4096) == pattern(i * 4096, 4096));
    NOBOUNCE_EXPECT_OK(drive->restart());
  }
}

/// A second driver after the first has shut down, and one after it was merely dropped.
inline void hands_over(NvmeRig& rig) {
  for (int round = 0; round < 3; ++round) {
    const auto drive = opened(rig);
    ASSERT_NE(drive, nullptr);
    rig.fill_peer(0, Bytes(4096));
    NOBOUNCE_EXPECT_OK(drive->transfer(Opcode::read, 8, 8, rig.peer()));
    EXPECT_TRUE(rig.look_at_peer(0, 4096) == pattern(4096, 4096));
    if (round == 0) NOBOUNCE_EXPECT_OK(drive->shut_down());
  }
}

#define NOBOUNCE_NVME_CASES(TEST_OF)               \
  TEST_OF(SaysWhatItIs, says_what_it_is)           \
  TEST_OF(ReadsIntoThePeer, reads_into_the_peer)   \
  TEST_OF(WritesFromThePeer, writes_from_the_peer) \
  TEST_OF(MovesHostMemory, moves_host_memory)      \
  TEST_OF(TellsErrors, tells_errors)               \
  TEST_OF(Restarts, restarts)                      \
  TEST_OF(HandsOver, hands_over)

}  // namespace nobounce::support
