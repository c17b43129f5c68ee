// Ledgers that are read while they are written: a reader never sees a count go
// back, and at the end everything is there. Run under TSan too.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/soft_session.hpp"

namespace nobounce {
namespace {

using test::machine_with;
using test::random_bytes;
using test::SoftSession;
using test::TemporaryDirectory;
using test::write_file;

TEST(LedgerThreads, OfTheBusAddsUpWhoeverWritesAndReads) {
  fabric::Ledger ledger;
  constexpr std::uint64_t writers = 3;
  constexpr std::uint64_t rounds = 400;
  constexpr std::uint64_t length = 4096;
  std::atomic<int> wrong{0};
  std::atomic<std::uint64_t> writing{writers};
  {
    std::vector<std::jthread> running;
    for (std::uint64_t writer = 0; writer < writers; ++writer) {
      running.emplace_back([&, writer] {
        for (std::uint64_t round = 0; round < rounds; ++round) {
          const std::uint64_t at = (writer * rounds + round) * length;
          fabric::Request request;
          request.initiator = {fabric::Initiator::Kind::copy_engine, 0};
          request.source = {{fabric::Space::Kind::dram, 0}, at, 0, false};
          request.target = {{fabric::Space::Kind::vram, 0}, at, 0, false};
          request.length_bytes = length;
          ledger.record_request(request);
          ledger.record_link("host_bridge:0/gpu:0", length, 0);
        }
        --writing;
      });
    }
    running.emplace_back([&] {
      std::uint64_t seen = 0;
      while (writing > 0) {
        const std::uint64_t now = ledger.dram_bytes();
        if (now < seen || now % length != 0) ++wrong;
        seen = now;
        if (ledger.requests().size() > writers * rounds) ++wrong;
        for (const auto& [flow, bytes] : ledger.flows()) wrong += bytes % length == 0 ? 0 : 1;
        const fabric::Extent all{{fabric::Space::Kind::vram, 0}, 0, 0, false};
        if (ledger.arrivals(all, writers * rounds * length).bytes.total() < seen) ++wrong;
      }
    });
  }
  EXPECT_EQ(wrong, 0);
  const std::uint64_t total = writers * rounds * length;
  EXPECT_EQ(ledger.dram_bytes(), total);
  EXPECT_EQ(ledger.links().at("host_bridge:0/gpu:0").towards_device, total);
  const fabric::Extent all{{fabric::Space::Kind::vram, 0}, 0, 0, false};
  EXPECT_EQ(ledger.arrivals(all, total).bytes[Carriage::staged], total);
}

TEST(LedgerThreads, OfSessionsAreReadByStatWhileTransfersRun) {
  const TemporaryDirectory directory;
  constexpr std::uint64_t length = 300001;
  constexpr int rounds = 8;
  write_file(directory.file("data"), random_bytes(length, 1));
  SessionOptions options = SoftSession::quiet();
  options.publish_ledger = true;
  SoftSession soft(machine_with("workstation"), {}, options);
  const std::uint64_t session = soft->ledger().session;
  const std::uint64_t process = soft->ledger().process_id;
  std::atomic<int> wrong{0};
  std::atomic<int> writing{2};
  std::atomic<int> looked{0};
  {
    std::vector<std::jthread> running;
    for (int writer = 0; writer < 2; ++writer) {
      running.emplace_back([&, writer] {
        for (int round = 0; round < rounds; ++round) {
          Result<File> file = soft->open_file(directory.file("data"));
          Result<Region> region = soft->allocate(static_cast<std::uint32_t>(writer), length);
          if (!file.ok() || !region.ok()) {
            ++wrong;
            break;
          }
          const Policy policy = round % 2 == 0 ? Policy::staged_only : Policy::direct_preferred;
          wrong += soft->transfer(file->place(), region->place(), {.policy = policy}).ok() ? 0 : 1;
        }
        --writing;
      });
    }
    running.emplace_back([&] {
      LedgerSnapshot last;
      while (writing > 0) {
        const Result<std::vector<LedgerSnapshot>> all = read_ledgers(soft.host(), process);
        if (!all.ok()) {
          ++wrong;
          continue;
        }
        for (const LedgerSnapshot& now : *all) {
          if (now.session != session) continue;
          ++looked;
          if (!now.alive || now.bytes.total() < last.bytes.total() ||
              now.transfers_done < last.transfers_done || now.transfers_running > 2 ||
              now.transfers_done > 2 * rounds || now.bytes.total() > 2 * rounds * length ||
              now.bytes.total() < now.transfers_done * length) {
            ++wrong;
          }
          last = now;
        }
      }
    });
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(looked, 0) << "the session's ledger was not to be found";
  const LedgerSnapshot end = soft->ledger();
  EXPECT_EQ(end.transfers_done, 2u * rounds);
  EXPECT_EQ(end.transfers_running, 0u);
  EXPECT_EQ(end.bytes.total(), 2 * rounds * length);
}

}  // namespace
}  // namespace nobounce
