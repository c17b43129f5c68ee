// Seeded proofs over random machines, some of them with a liar below the session: what a proof
// calls direct was direct by the bus's own account, and a receipt that claims more is contradicted.
#include <gtest/gtest.h>

#include "evidence/witness.hpp"
#include "proof/prove.hpp"
#include "support/around_host.hpp"
#include "support/planted.hpp"
#include "support/seeded_world.hpp"
#include "system/counted_host.hpp"

namespace nobounce {
namespace {

using test::Draw;
using test::Marks;
using test::ProviderMutant;
using test::TemporaryDirectory;

/// Says that peer access is enabled and does nothing, so that the driver stages in silence.
class SilentlyStagingCuda : public support::AroundCuda {
 public:
  using AroundCuda::AroundCuda;
  system::cuda::CUresult ctx_enable_peer_access(system::cuda::CUcontext, unsigned) override {
    return system::cuda::success;
  }
};

/// Bytes that went from one end of the subject to the other without host memory, probes included.
std::uint64_t carried_directly(const fabric::Ledger& ledger, const proof::Subject& subject) {
  using Kind = fabric::Space::Kind;
  std::uint64_t sum = 0;
  for (const auto& [flow, bytes] : ledger.flows()) {
    const fabric::Space from = flow.source;
    const fabric::Space to = flow.target;
    const bool is_target = to == fabric::Space{Kind::vram, subject.target_gpu};
    const bool is_source = from == fabric::Space{Kind::vram, subject.source_gpu};
    const bool counts = subject.member == Member::p2p ? is_source && is_target
                        : subject.writing             ? is_source && to.kind == Kind::media
                                                      : from.kind == Kind::media && is_target;
    if (counts) sum += bytes;
  }
  return sum;
}

/// Memory controllers that stand still, where they are to.
class StillCounters : public system::Counters {
 public:
  Result<std::uint64_t> cpu_time_ns() override { return std::uint64_t{1}; }
  Result<double> perf_event(std::string_view, std::string_view) override { return 4711.0; }
};

class OddHost : public support::AroundHost {
 public:
  using AroundHost::AroundHost;
  bool still = false;
  system::Counters& counters() override { return still ? counters_ : AroundHost::counters(); }

 private:
  StillCounters counters_;
};

struct Liar {
  fabric::SoftFaults faults;
  bool counters = false;
  ProviderMutant mover = ProviderMutant::none;
  bool driver = false;
};

Liar some_liar(Draw& draw) {
  Liar liar;
  switch (draw.below(7)) {
    case 0:
      liar.faults.compat_in_silence = true;
      break;
    case 1:
      liar.faults.compat_in_silence = true;
      liar.faults.mutant = fabric::Mutant::cufile_staged_counted_direct;
      break;
    case 2:
      liar.mover = ProviderMutant::provider_goes_by_host;
      break;
    case 3:
      liar.driver = true;
      break;
    default:
      break;
  }
  if (draw.one_in(5)) liar.faults.statistics_stuck = true;
  liar.counters = draw.one_in(5);
  return liar;
}

proof::Subject some_subject(Draw& draw, const Machine& machine,
                            const TemporaryDirectory& directory) {
  proof::Subject subject;
  const std::uint64_t gpus = machine.gpus.size();
  subject.source_gpu = static_cast<std::uint32_t>(draw.below(gpus));
  subject.target_gpu = subject.source_gpu;
  if (gpus > 1 && draw.one_in(2)) {
    subject.member = Member::p2p;
    subject.target_gpu =
        static_cast<std::uint32_t>((subject.source_gpu + 1 + draw.below(gpus - 1)) % gpus);
    return subject;
  }
  subject.member = Member::storage;
  subject.writing = draw.one_in(2);
  subject.path = directory.file("scratch");
  subject.medium = "drive:nvme0n1";
  return subject;
}

void run_seed(std::uint64_t seed, Marks& marks) {
  const TemporaryDirectory directory;
  Draw draw(seed + 5000);
  const Machine machine = test::random_machine(draw);
  const Liar liar = some_liar(draw);
  const test::Planting planting(liar.mover);
  const Result<std::unique_ptr<fabric::SoftHost>> soft = fabric::SoftHost::create(
      machine, {.deterministic = true, .seed = seed, .faults = liar.faults});
  ASSERT_TRUE(soft.ok());
  OddHost around(**soft);
  around.still = liar.counters;
  SilentlyStagingCuda cuda(*(*soft)->cuda().value());
  if (liar.driver) around.cuda_table = &cuda;
  const auto counted = system::CountedHost::wrap(around);
  Result<Session> session = Session::open(*counted, test::SoftSession::quiet());
  ASSERT_TRUE(session.ok());
  evidence::Witnesses witnesses(around, counted.get());
  const proof::Subject subject = some_subject(draw, machine, directory);
  proof::ProveOptions options;
  options.volumes_bytes = {128 << 10, 256 << 10, 384 << 10};
  options.rounds = 1;
  options.force = draw.one_in(3);
  const ProofRow row = proof::prove_row(*session, *counted, witnesses, subject, options);

  const CarriageBytes& told = row.runtime.bytes;
  const std::uint64_t claimed = told[Carriage::direct] + told[Carriage::device_bounced];
  const std::uint64_t truth = carried_directly((*soft)->ledger(), subject);
  const bool direct = row.verdict == Verdict::direct || row.verdict == Verdict::degraded;
  marks.add(std::string(to_string(row.verdict)));
  EXPECT_NE(row.verdict, Verdict::broken) << "no byte was lost";
  if (direct) {
    EXPECT_EQ(row.known, Known::witnessed);
    EXPECT_GE(truth, told.total()) << "not direct by the bus's account";
  }
  if (claimed > truth) {
    marks.add("lie told");
    EXPECT_FALSE(direct);
    if (!machine.guest && !liar.counters) {
      EXPECT_FALSE(row.contradictions.empty()) << "a receipt claimed more than the bus did";
    }
    if (!row.contradictions.empty()) marks.add("lie contradicted");
  }
  if (row.verdict == Verdict::staged) {
    EXPECT_LT(truth, told.total() + 64 * 1024) << "direct by the bus's account";
  }
}

TEST(ProofSeeds, CallDirectOnlyWhatTheBusCarriedDirectly) {
#ifdef __OPTIMIZE__
  constexpr std::uint64_t seeds = 200;
#else
  constexpr std::uint64_t seeds = 60;
#endif
  Marks marks;
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run_seed(seed, marks);
  }
  for (const char* mark : {"direct", "staged", "unknown", "lie told", "lie contradicted"}) {
    EXPECT_GE(marks.seen[mark], 2) << mark << " was hardly reached";
  }
}

}  // namespace
}  // namespace nobounce
