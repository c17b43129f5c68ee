// Seeded runs over random machines, files, offsets, lengths and faults: the bytes arrive intact or
// there is an honest error, the receipt never claims more than the bus did, and a seed reproduces
// its run exactly.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "fabric/oracle.hpp"
#include "support/soft_session.hpp"

namespace nobounce {
namespace {

using test::machine_with;
using test::random_bytes;
using test::read_file;
using test::SoftSession;
using test::TemporaryDirectory;
using test::write_file;

/// Draws for the test itself, apart from the machine's.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 77) {}
  std::uint64_t below(std::uint64_t limit) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return (state_ >> 11) % limit;
  }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

Machine random_machine(Draw& draw) {
  static const char* const names[] = {"workstation", "workstation", "dgx", "two-socket",
                                      "cloud-guest"};
  Machine machine = machine_with(names[draw.below(5)]);
  if (draw.one_in(6)) machine.modules.nvidia_fs = false;
  if (draw.one_in(8)) machine.udev = false;
  if (draw.one_in(8)) machine.libcufile.clear();
  if (draw.one_in(4)) {
    for (Switch& one : machine.switches) one.acs = AcsMode::redirect;
  }
  if (draw.one_in(2)) {
    for (HostBridge& one : machine.host_bridges) one.peer_forwarding = PeerForwarding::allowed;
  }
  if (draw.one_in(8))
    machine.kernel.iommu = draw.one_in(2) ? IommuMode::identity : IommuMode::translated;
  if (draw.one_in(6)) machine.gpus[0].bar1_bytes = (draw.below(8) + 1) << 20;
  if (draw.one_in(8)) machine.mounts[0].options = "rw";
  if (draw.one_in(8)) machine.mounts[0].type = "xfs";
  if (draw.one_in(8)) machine.mounts[0].direct_io = false;
  return machine;
}

fabric::SoftFaults random_faults(Draw& draw) {
  fabric::SoftFaults faults;
  if (draw.one_in(2)) return faults;
  const double some[] = {0.02, 0.2, 1.0};
  if (draw.one_in(5)) faults.read_error = some[draw.below(3)];
  if (draw.one_in(5)) faults.write_error = some[draw.below(3)];
  if (draw.one_in(4)) faults.short_read = 0.3;
  if (draw.one_in(5)) faults.dma_fault = some[draw.below(3)];
  if (draw.one_in(6)) faults.cuda_error = some[draw.below(2)];
  if (draw.one_in(5)) faults.cufile_refusal = some[draw.below(3)];
  if (draw.one_in(5)) faults.pin_failure = some[draw.below(3)];
  if (draw.one_in(6)) faults.compat_in_silence = true;
  if (draw.one_in(6)) faults.statistics_stuck = true;
  if (draw.one_in(6)) faults.statistics_missing = true;
  if (draw.one_in(8)) faults.cufile_opened_before = true;
  if (draw.one_in(6)) faults.module_unloaded_after_requests = 1 + draw.below(6);
  return faults;
}

std::string text_of(const Receipt& receipt) {
  std::string text = test::show(receipt.bytes) + std::string(to_string(receipt.state)) + " " +
                     std::string(to_string(receipt.known)) + " " +
                     std::string(to_string(receipt.link));
  for (std::uint8_t i = 0; i < receipt.cause_count; ++i)
    text += " " + std::string(to_string(receipt.causes[i]));
  return text + " after " + std::to_string(receipt.elapsed_ns);
}

/// What the runs reached, so that a suite that never gets anywhere fails.
struct Marks {
  std::map<std::string, int> seen;
  void add(const Receipt& receipt) {
    ++seen[std::string(to_string(receipt.member)) + " " + std::string(to_string(receipt.state))];
    for (std::size_t i = 0; i < carriage_count; ++i) {
      if (receipt.bytes.by[i] > 0) ++seen[std::string(to_string(static_cast<Carriage>(i)))];
    }
    if (receipt.degraded) ++seen["degraded"];
    if (receipt.known == Known::counted) ++seen["counted"];
  }
};

/// One run: a few transfers of random parts in random directions. Returns everything that could be
/// seen.
std::string run_seed(std::uint64_t seed, const TemporaryDirectory& directory, bool sweep,
                     Marks& marks) {
  Draw draw(seed);
  const Machine machine = random_machine(draw);
  fabric::SoftOptions options;
  options.deterministic = true;
  options.seed = seed;
  options.faults = random_faults(draw);
  options.trap_cpu_touches = true;
  SoftSession soft(machine, options);
  std::string seen;
  const std::uint64_t length =
      draw.one_in(8) ? draw.below(3) : 1 + draw.below(draw.one_in(6) ? 3000000 : 200000);
  const std::vector<std::byte> bytes = random_bytes(length, seed + 1000);
  const std::string source_path = directory.file("source-" + std::to_string(seed));
  write_file(source_path, bytes);
  const auto gpu = static_cast<std::uint32_t>(draw.below(machine.gpus.size()));
  Result<Region> region = soft->allocate(gpu, length + 8192);
  if (!region.ok()) return "no region: " + to_string(region.error());
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t offset = length == 0 ? 0 : draw.one_in(2) ? 0 : draw.below(length);
    const std::uint64_t part = draw.one_in(2) ? length - offset : draw.below(length - offset + 1);
    const std::uint64_t inside = draw.one_in(2) ? 0 : draw.below(8193);
    const auto policy = static_cast<Policy>(draw.below(3));
    const Place memory = region->place(inside, part);
    const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(offset);
    const std::vector<std::byte> expected(first, first + static_cast<std::ptrdiff_t>(part));
    CarriageBytes truth;
    Outcome outcome;
    std::vector<std::byte> arrived;
    if (machine.gpus.size() > 1 && draw.one_in(4)) {  // GPU -> another GPU
      const auto other = static_cast<std::uint32_t>(
          (gpu + 1 + draw.below(machine.gpus.size() - 1)) % machine.gpus.size());
      Result<Region> far = soft->allocate(other, part + 512);
      if (!far.ok()) {
        seen += "no far region\n";
        continue;
      }
      const Place target = far->place(draw.below(513), part);
      soft.plant(memory, expected);
      soft.plant(target, std::vector<std::byte>(part));
      soft.begin_account();
      outcome = soft->transfer(memory, target, {.policy = policy});
      truth = soft.arrived(target);
      arrived = soft.look_at(target);
    } else if (draw.one_in(3)) {  // GPU -> new file
      const std::string target_path = directory.file("target-" + std::to_string(seed));
      soft.plant(memory, expected);
      Result<File> file =
          soft->open_file(target_path, {.mode = FileMode::replace, .length_bytes = part});
      if (!file.ok()) {
        seen += "cannot open: " + std::string(to_string(file.error().origin)) + "\n";
        continue;
      }
      soft.begin_account();
      outcome = soft->transfer(memory, file->place(), {.policy = policy});
      if (outcome.ok() && file->commit(false).ok()) {
        arrived = read_file(target_path);
        truth = soft.arrived_in_file(target_path, part);
      } else {
        outcome.receipt.bytes = {};  // no file to hold it against
        EXPECT_FALSE(std::filesystem::exists(target_path));
      }
      file = Error{};
      std::filesystem::remove(target_path);
    } else {
      soft.plant(memory, std::vector<std::byte>(part));
      Result<File> file = soft->open_file(source_path);
      if (!file.ok()) {
        seen += "cannot open: " + std::string(to_string(file.error().origin)) + "\n";
        continue;
      }
      soft.begin_account();
      outcome = soft->transfer(file->place(offset, part), memory, {.policy = policy});
      truth = soft.arrived(memory);
      arrived = soft.look_at(memory);
    }
    const Receipt& receipt = outcome.receipt;
    marks.add(receipt);
    EXPECT_TRUE(test::claims_no_more(receipt, truth));
    if (outcome.ok()) {
      EXPECT_EQ(receipt.bytes.total(), part);
      EXPECT_EQ(arrived, expected);
      if (receipt.bytes[Carriage::unattributed] == 0) {
        EXPECT_TRUE(test::equals_ledger(receipt, truth));
      }
      if (policy == Policy::direct_preferred && receipt.bytes[Carriage::staged] > 0) {
        EXPECT_GT(receipt.cause_count, 0);
      }
      if (policy == Policy::staged_only) {
        EXPECT_EQ(receipt.bytes[Carriage::staged], part);
      }
      if (sweep && i == 0 && part >= 4096 &&
          truth[Carriage::direct] + truth[Carriage::device_bounced] == part) {
        // The process still holds `bytes`, `expected` and `arrived`: the oracle is told to leave
        // them out.
        const fabric::SweepResult found =
            fabric::sweep_for(expected,
                              {std::as_bytes(std::span(bytes)), std::as_bytes(std::span(expected)),
                               std::as_bytes(std::span(arrived))},
                              soft.host());
        EXPECT_EQ(found.found, 0u) << "payload of a direct transfer lies in host memory";
      }
    } else {
      EXPECT_GT(to_string(*outcome.error).size(), 10u);
      EXPECT_NE(receipt.state, TransferState::done);
    }
    seen += text_of(receipt) + (outcome.ok() ? "" : " error " + to_string(*outcome.error)) + "\n";
  }
  EXPECT_EQ(soft.host().cpu_touches(), 0u) << "bounce memory was touched outside the seam";
  std::filesystem::remove(source_path);
  return seen;
}

std::uint64_t seed_count() {
  const char* wanted = std::getenv("NOBOUNCE_SEEDS");
  return wanted == nullptr ? 500 : std::strtoull(wanted, nullptr, 10);
}

TEST(Seeds, ReceiptsNeverClaimMoreThanTheBusDid) {
  const TemporaryDirectory directory;
  Marks marks;
  for (std::uint64_t seed = 1; seed <= seed_count(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    (void)run_seed(seed, directory, seed % 25 == 0, marks);
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_TRUE(directory.names().empty());
  if (seed_count() >= 500) {
    for (const char* mark :
         {"storage done", "storage refused", "storage failed", "p2p done", "p2p refused", "direct",
          "device_bounced", "staged", "unattributed", "degraded", "counted"}) {
      EXPECT_GE(marks.seen[mark], 5) << mark << " was hardly reached";
    }
  }
}

TEST(Seeds, ReproduceTheirRunExactly) {
  const TemporaryDirectory directory;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Marks marks;
    EXPECT_EQ(run_seed(seed, directory, false, marks), run_seed(seed, directory, false, marks))
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace nobounce
