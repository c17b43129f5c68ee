// Route: what each policy admits, how storage is cut, and that no choice is without its causes.
#include "route/choose.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace nobounce {
namespace {

using route::choose_route;
using route::RouteRequest;

Finding finding(Cause cause, FindingState state) {
  Finding result;
  result.cause = cause;
  result.state = state;
  return result;
}

Candidate candidate(ProviderKind provider, Carriage carriage, bool usable,
                    std::vector<Finding> findings = {}) {
  Candidate result;
  result.provider = provider;
  result.carriage = carriage;
  result.assessment = Assessment{usable, std::move(findings)};
  return result;
}

Candidate usable_storage() {
  return candidate(ProviderKind::storage, Carriage::direct, true,
                   {finding(Cause::storage_cufile_absent, FindingState::met)});
}

Candidate broken_storage(Cause cause) {
  return candidate(ProviderKind::storage, Carriage::direct, false,
                   {finding(Cause::storage_cufile_absent, FindingState::met),
                    finding(cause, FindingState::unmet),
                    finding(Cause::machine_acs_redirect, FindingState::unmet)});
}

Candidate usable_staged() {
  return candidate(ProviderKind::staged, Carriage::staged, true);
}

RouteRequest file_to_gpu(std::uint64_t offset, std::uint64_t address, std::uint64_t length,
                         std::vector<Candidate> candidates) {
  RouteRequest request;
  request.source = FileRange{3, FileOffset{offset}, length};
  request.target = GpuMemory{0, DevicePointer{address}, length};
  request.direct_link = Link::pcie_switch;
  request.candidates = std::move(candidates);
  return request;
}

std::vector<Cause> causes(std::initializer_list<Cause> list) {
  return list;
}

TEST(RouteCutsStorage, AnAlignedTransferIsOneDirectSegment) {
  const Route route =
      choose_route(file_to_gpu(8192, 1 << 20, 65536, {usable_storage(), usable_staged()}));
  ASSERT_EQ(route.segments.size(), 1u);
  EXPECT_EQ(route.segments[0].expected, Carriage::direct);
  EXPECT_EQ(route.segments[0].length_bytes, 65536u);
  EXPECT_EQ(route.member, Member::storage);
  EXPECT_EQ(route.link, Link::pcie_switch);
  EXPECT_TRUE(route.causes.empty());
  EXPECT_FALSE(route.refused);
  EXPECT_EQ(route.candidates.size(), 2u);
}

TEST(RouteCutsStorage, HeadAndTailAreBouncedInsideTheGpu) {
  const Route route = choose_route(
      file_to_gpu(100, (1 << 20) + 100, 3 * 4096, {usable_storage(), usable_staged()}));
  ASSERT_EQ(route.segments.size(), 3u);
  EXPECT_EQ(route.segments[0].expected, Carriage::device_bounced);
  EXPECT_EQ(route.segments[0].length_bytes, 4096u - 100);
  EXPECT_EQ(route.segments[1].expected, Carriage::direct);
  EXPECT_EQ(route.segments[1].length_bytes, 2u * 4096);
  EXPECT_EQ(std::get<FileRange>(route.segments[1].source).offset.value, 4096u);
  EXPECT_EQ(route.segments[2].expected, Carriage::device_bounced);
  EXPECT_EQ(route.segments[2].length_bytes, 100u);
  EXPECT_TRUE(route.causes.empty());
}

TEST(RouteCutsStorage, TheTailOfA4097ByteFileIsOneByte) {
  const Route route =
      choose_route(file_to_gpu(0, 1 << 20, 4097, {usable_storage(), usable_staged()}));
  ASSERT_EQ(route.segments.size(), 2u);
  EXPECT_EQ(route.segments[0].expected, Carriage::direct);
  EXPECT_EQ(route.segments[1].expected, Carriage::device_bounced);
  EXPECT_EQ(route.segments[1].length_bytes, 1u);
}

TEST(RouteCutsStorage, WithoutAWholeBlockThereIsOneBouncedSegment) {
  const Route route =
      choose_route(file_to_gpu(4095, (1 << 20) + 4095, 2, {usable_storage(), usable_staged()}));
  ASSERT_EQ(route.segments.size(), 1u);
  EXPECT_EQ(route.segments[0].expected, Carriage::device_bounced);
}

TEST(RouteCutsStorage, AddressesThatCannotBeAlignedTogetherAreBouncedAndSaidSo) {
  const Route route =
      choose_route(file_to_gpu(0, (1 << 20) + 512, 1 << 20, {usable_storage(), usable_staged()}));
  ASSERT_EQ(route.segments.size(), 1u);
  EXPECT_EQ(route.segments[0].expected, Carriage::device_bounced);
  EXPECT_EQ(route.causes, causes({Cause::storage_unaligned}));
}

TEST(RouteCutsStorage, OtherProvidersAreNotCut) {
  RouteRequest request;
  request.source = GpuMemory{0, DevicePointer{100}, 9999};
  request.target = GpuMemory{1, DevicePointer{333}, 9999};
  request.candidates = {candidate(ProviderKind::peer, Carriage::direct, true), usable_staged()};
  const Route route = choose_route(request);
  ASSERT_EQ(route.segments.size(), 1u);
  EXPECT_EQ(route.segments[0].expected, Carriage::direct);
  EXPECT_EQ(route.segments[0].provider, ProviderKind::peer);
  EXPECT_EQ(route.member, Member::p2p);
}

TEST(RouteOfNothing, IsOneEmptySegmentOfTheChosenProvider) {
  const Route route =
      choose_route(file_to_gpu(77, 1 << 20, 0, {usable_storage(), usable_staged()}));
  ASSERT_EQ(route.segments.size(), 1u);
  EXPECT_EQ(route.segments[0].length_bytes, 0u);
  EXPECT_EQ(route.segments[0].provider, ProviderKind::storage);
  EXPECT_TRUE(route.causes.empty());
}

TEST(PolicyDirectPreferred, StagesWithTheFirstUnmetCauseOfWhatWasBetter) {
  const Route route = choose_route(file_to_gpu(
      0, 4096, 8192, {broken_storage(Cause::storage_nvidia_fs_absent), usable_staged()}));
  EXPECT_FALSE(route.refused);
  ASSERT_EQ(route.segments.size(), 1u);
  EXPECT_EQ(route.segments[0].provider, ProviderKind::staged);
  EXPECT_EQ(route.segments[0].expected, Carriage::staged);
  EXPECT_EQ(route.causes, causes({Cause::storage_nvidia_fs_absent}));
  EXPECT_EQ(route.link, Link::host_bridge);
}

TEST(PolicyDirectPreferred, NamesTheUnknownThatAProviderRefusedFor) {
  const Candidate refusing =
      candidate(ProviderKind::storage, Carriage::direct, false,
                {finding(Cause::machine_acs_unreadable, FindingState::unknown)});
  const Route route = choose_route(file_to_gpu(0, 4096, 8192, {refusing, usable_staged()}));
  EXPECT_EQ(route.causes, causes({Cause::machine_acs_unreadable}));
}

TEST(PolicyDirectPreferred, SaysThatNobodyOfferedADirectPath) {
  const Route route = choose_route(file_to_gpu(0, 4096, 8192, {usable_staged()}));
  EXPECT_FALSE(route.refused);
  EXPECT_EQ(route.causes, causes({Cause::staged_no_direct_provider}));
}

TEST(PolicyDirectPreferred, KeepsTheCausesOfADegradedPath) {
  Candidate slow = usable_storage();
  slow.degraded = true;
  slow.degraded_causes = {Cause::machine_cross_socket};
  const Route route = choose_route(file_to_gpu(0, 4096, 8192, {slow, usable_staged()}));
  EXPECT_TRUE(route.degraded);
  EXPECT_EQ(route.causes, causes({Cause::machine_cross_socket}));
  EXPECT_EQ(route.segments[0].expected, Carriage::direct);
}

TEST(PolicyDirectPreferred, RefusesWhenNothingIsUsableAndKeepsEveryCause) {
  const Candidate staged = candidate(ProviderKind::staged, Carriage::staged, false,
                                     {finding(Cause::session_pinned_limit, FindingState::unmet)});
  const Route route =
      choose_route(file_to_gpu(0, 0, 4096, {broken_storage(Cause::storage_udev_missing), staged}));
  EXPECT_TRUE(route.refused);
  EXPECT_TRUE(route.segments.empty());
  EXPECT_EQ(route.causes, causes({Cause::storage_udev_missing, Cause::session_pinned_limit}));
}

TEST(PolicyDirectPreferred, RefusesWithoutAnyCandidateAndStillSaysWhy) {
  const Route route = choose_route(file_to_gpu(0, 0, 4096, {}));
  EXPECT_TRUE(route.refused);
  EXPECT_EQ(route.causes, causes({Cause::staged_no_direct_provider}));
}

TEST(PolicyDirectRequired, RefusesWithTheCauseFirstAndThePolicyLast) {
  RouteRequest request = file_to_gpu(
      0, 4096, 8192, {broken_storage(Cause::storage_nvidia_fs_absent), usable_staged()});
  request.policy = Policy::direct_required;
  const Route route = choose_route(request);
  EXPECT_TRUE(route.refused);
  EXPECT_TRUE(route.segments.empty());
  EXPECT_EQ(route.link, Link::none);
  EXPECT_EQ(route.causes, causes({Cause::storage_nvidia_fs_absent, Cause::policy_direct_required}));
}

TEST(PolicyDirectRequired, AdmitsTheBounceInsideTheGpu) {
  RouteRequest request = file_to_gpu(1, 4096, 8192, {usable_storage(), usable_staged()});
  request.policy = Policy::direct_required;
  const Route route = choose_route(request);
  EXPECT_FALSE(route.refused);
  EXPECT_EQ(route.segments[0].expected, Carriage::device_bounced);
}

TEST(PolicyDirectRequired, DoesNotAdmitInPlaceOrCpuMapped) {
  for (const Carriage carriage :
       {Carriage::in_place, Carriage::cpu_mapped, Carriage::unattributed}) {
    RouteRequest request =
        file_to_gpu(0, 4096, 8192, {candidate(ProviderKind::host, carriage, true)});
    request.policy = Policy::direct_required;
    EXPECT_TRUE(choose_route(request).refused) << to_string(carriage);
  }
}

TEST(PolicyStagedOnly, StagesAlthoughDirectIsPossible) {
  RouteRequest request = file_to_gpu(0, 4096, 8192, {usable_storage(), usable_staged()});
  request.policy = Policy::staged_only;
  const Route route = choose_route(request);
  EXPECT_FALSE(route.refused);
  EXPECT_EQ(route.segments[0].provider, ProviderKind::staged);
  EXPECT_EQ(route.causes, causes({Cause::policy_staged_only}));
}

TEST(PolicyStagedOnly, IsRefusedWhereStagingIsImpossible) {
  const Candidate staged = candidate(ProviderKind::staged, Carriage::staged, false,
                                     {finding(Cause::session_pinned_limit, FindingState::unmet)});
  RouteRequest request = file_to_gpu(0, 4096, 8192, {usable_storage(), staged});
  request.policy = Policy::staged_only;
  const Route route = choose_route(request);
  EXPECT_TRUE(route.refused);
  EXPECT_EQ(route.causes, causes({Cause::session_pinned_limit, Cause::policy_staged_only}));
}

// --- properties over random requests ---------------------------------------------------------

class RandomRequest {
 public:
  explicit RandomRequest(unsigned seed) : random_(seed) {}

  RouteRequest draw() {
    const std::uint64_t length = pick(4) == 0 ? pick(3) : pick(1 << 20);
    RouteRequest request = file_to_gpu(pick(1 << 16), pick(1 << 16), length, {});
    if (pick(3) == 0)
      std::get<GpuMemory>(request.target).address.value =
          std::get<FileRange>(request.source).offset.value + 4096 * pick(64);
    if (pick(2) == 0) std::swap(request.source, request.target);
    if (pick(5) == 0)
      request.target = request.source = GpuMemory{0, DevicePointer{pick(999)}, length};
    request.policy = static_cast<Policy>(pick(3));
    request.storage_alignment_bytes = pick(4) == 0 ? 512 : 4096;
    const std::uint64_t count = pick(5);
    for (std::uint64_t i = 0; i < count; ++i) request.candidates.push_back(draw_candidate());
    return request;
  }

 private:
  std::uint64_t pick(std::uint64_t bound) { return random_() % bound; }

  Candidate draw_candidate() {
    std::vector<Finding> findings;
    const bool usable = pick(2) == 0;
    if (!usable && pick(4) != 0) {
      // Findings never carry the policy's own causes.
      const std::uint64_t cause_count =
          static_cast<std::uint64_t>(Cause::policy_direct_required) - 1;
      findings.push_back(finding(static_cast<Cause>(1 + pick(cause_count)), FindingState::unmet));
    }
    Candidate result = candidate(static_cast<ProviderKind>(pick(6)),
                                 static_cast<Carriage>(pick(carriage_count)), usable, findings);
    result.degraded = pick(3) == 0;
    if (result.degraded) result.degraded_causes = {Cause::machine_cross_socket};
    return result;
  }

  std::mt19937_64 random_;
};

std::uint64_t position(const Place& place) {
  if (const auto* file = std::get_if<FileRange>(&place)) return file->offset.value;
  return std::get<GpuMemory>(place).address.value;
}

void expect_tiles(const RouteRequest& request, const Route& route) {
  std::uint64_t next = 0;
  for (const Segment& segment : route.segments) {
    EXPECT_EQ(segment.offset_bytes, next);
    EXPECT_EQ(length_bytes(segment.source), segment.length_bytes);
    EXPECT_EQ(length_bytes(segment.target), segment.length_bytes);
    EXPECT_EQ(position(segment.source), position(request.source) + segment.offset_bytes);
    EXPECT_EQ(position(segment.target), position(request.target) + segment.offset_bytes);
    if (segment.length_bytes == 0) {
      EXPECT_EQ(route.segments.size(), 1u);
    }
    next += segment.length_bytes;
  }
  EXPECT_EQ(next, length_bytes(request.source));
}

void expect_admitted(const RouteRequest& request, const Route& route) {
  for (const Segment& segment : route.segments) {
    const bool direct =
        segment.expected == Carriage::direct || segment.expected == Carriage::device_bounced;
    if (request.policy == Policy::direct_required) {
      EXPECT_TRUE(direct);
    }
    if (request.policy == Policy::staged_only) {
      EXPECT_EQ(segment.expected, Carriage::staged);
    }
    if (!direct) {
      EXPECT_FALSE(route.causes.empty()) << "staged in silence";
    }
    if (segment.provider == ProviderKind::storage && segment.expected == Carriage::direct &&
        segment.length_bytes != 0 &&
        std::holds_alternative<FileRange>(segment.source) !=
            std::holds_alternative<FileRange>(segment.target)) {
      EXPECT_EQ(position(segment.source) % request.storage_alignment_bytes, 0u);
      EXPECT_EQ(position(segment.target) % request.storage_alignment_bytes, 0u);
      EXPECT_EQ(segment.length_bytes % request.storage_alignment_bytes, 0u);
    }
  }
}

std::string text(const Route& route) {
  std::string result = std::string(to_string(route.member)) + (route.refused ? " refused" : "");
  for (const Segment& segment : route.segments) {
    result += " " + std::to_string(segment.offset_bytes) + "+" +
              std::to_string(segment.length_bytes) + std::string(to_string(segment.provider)) +
              std::string(to_string(segment.expected));
  }
  for (const Cause cause : route.causes) result += " " + std::string(to_string(cause));
  return result;
}

TEST(RouteProperties, SegmentsTileTheTransferAndThePolicyHolds) {
  int routed = 0;
  int refused = 0;
  for (unsigned seed = 1; seed <= 5000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RouteRequest request = RandomRequest(seed).draw();
    const Route route = choose_route(request);
    EXPECT_EQ(text(route), text(choose_route(request)));
    EXPECT_EQ(route.candidates.size(), request.candidates.size());
    EXPECT_EQ(route.refused, route.segments.empty());
    if (route.refused) {
      ++refused;
      ASSERT_FALSE(route.causes.empty());
      if (request.policy == Policy::direct_required) {
        EXPECT_EQ(route.causes.back(), Cause::policy_direct_required);
        EXPECT_GE(route.causes.size(), 2u);
      }
    } else {
      ++routed;
      expect_tiles(request, route);
      expect_admitted(request, route);
    }
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(routed, 1000);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace nobounce
