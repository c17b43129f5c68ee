// Peer copies on software machines: bytes by the bus's account, refusals before a byte moves, and
// what happens where the bus loses requests.
#include "provider/peer/peer_provider.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nobounce/software_machine.hpp>
#include "core/machine_json.hpp"
#include "fabric/bus.hpp"
#include "fabric/ledger.hpp"
#include "fabric/soft_host.hpp"
#include "judge/peer.hpp"
#include "preconditions/read_peer_facts.hpp"
#include "support/around_host.hpp"

namespace nobounce {
namespace {

using system::cuda::CUdeviceptr;
using system::cuda::success;

constexpr std::uint64_t mebibyte = 1u << 20;
constexpr std::uint64_t patience_ns = 60'000'000'000;

Machine machine_with(std::string_view name, const std::vector<std::string>& settings) {
  Result<Machine> machine = software_machine_description(name);
  std::vector<core::MachineSetting> parsed;
  for (const std::string& text : settings) parsed.push_back(core::parse_setting(text).value());
  return core::apply_settings(machine.value(), parsed).value();
}

/// A CUDA table that counts peer copies, and lies about memory kinds or access where it is told to.
class WatchedCuda : public support::AroundCuda {
 public:
  explicit WatchedCuda(system::Cuda& inner) : AroundCuda(inner), inner_(inner) {}

  std::vector<std::uint64_t> pieces;
  CUdeviceptr mapping = 0;  ///< the allocation there is a mapping made of physical memory
  CUdeviceptr pooled = 0;   ///< the allocation there comes from a pool
  CUdeviceptr managed = 0;
  bool imports = false;  ///< all memory is of another process now
  CUresult set_answer = success;
  CUresult enable_answer = success;
  bool kinds_fail = false;     ///< the driver fails where it is asked for pools and mappings
  bool grants_hold = true;     ///< false: setting access succeeds and changes nothing
  std::vector<int> reachable;  ///< devices that were granted access
  int sets = 0;

  CUresult memcpy_peer_async(CUdeviceptr target, CUcontext target_context, CUdeviceptr source,
                             CUcontext source_context, std::size_t bytes,
                             CUstream stream) override {
    pieces.push_back(bytes);
    return AroundCuda::memcpy_peer_async(target, target_context, source, source_context, bytes,
                                         stream);
  }
  CUresult memcpy_dtod_async(CUdeviceptr target, CUdeviceptr source, std::size_t bytes,
                             CUstream stream) override {
    pieces.push_back(bytes);
    return AroundCuda::memcpy_dtod_async(target, source, bytes, stream);
  }
  CUresult ctx_enable_peer_access(CUcontext peer, unsigned flags) override {
    if (enable_answer != success) return enable_answer;
    return AroundCuda::ctx_enable_peer_access(peer, flags);
  }
  CUresult pointer_get_attribute(void* data, int attribute, CUdeviceptr pointer) override {
    if (attribute == system::cuda::pointer_is_managed && at(managed, pointer)) {
      *static_cast<unsigned*>(data) = 1;
      return success;
    }
    if (attribute == system::cuda::pointer_is_legacy_cuda_ipc_capable && imports) {
      *static_cast<bool*>(data) = false;
      return success;
    }
    if (attribute == system::cuda::pointer_mempool_handle && kinds_fail) {
      return system::cuda::error_unknown;
    }
    if (attribute == system::cuda::pointer_mempool_handle && at(pooled, pointer)) {
      *static_cast<void**>(data) = &pooled;
      return success;
    }
    return AroundCuda::pointer_get_attribute(data, attribute, pointer);
  }
  CUresult mem_retain_allocation_handle(CUmemGenericAllocationHandle* handle,
                                        void* address) override {
    if (kinds_fail) return system::cuda::error_unknown;
    if (!at(mapping, reinterpret_cast<CUdeviceptr>(address))) {
      return system::cuda::error_invalid_value;
    }
    *handle = 1;
    return success;
  }
  CUresult mem_release(CUmemGenericAllocationHandle) override { return success; }
  CUresult mem_get_access(unsigned long long* flags, const CUmemLocation* location,
                          CUdeviceptr) override {
    *flags = can_reach(location->id) ? 3 : 0;
    return success;
  }
  CUresult mem_set_access(CUdeviceptr, std::size_t, const CUmemAccessDesc* descriptions,
                          std::size_t count) override {
    return set(descriptions, count);
  }
  CUresult mem_pool_get_access(int* flags, CUmemoryPool pool, CUmemLocation* location) override {
    EXPECT_EQ(pool, &pooled);
    *flags = can_reach(location->id) ? 3 : 0;
    return success;
  }
  CUresult mem_pool_set_access(CUmemoryPool, const CUmemAccessDesc* descriptions,
                               std::size_t count) override {
    return set(descriptions, count);
  }

 private:
  [[nodiscard]] bool at(CUdeviceptr base, CUdeviceptr pointer) {
    CUdeviceptr start = 0;
    return base != 0 &&
           AroundCuda::pointer_get_attribute(&start, system::cuda::pointer_range_start, pointer) ==
               success &&
           start == base;
  }
  [[nodiscard]] bool can_reach(int device) const {
    for (const int each : reachable) {
      if (each == device) return true;
    }
    return false;
  }
  CUresult set(const CUmemAccessDesc* descriptions, std::size_t count) {
    ++sets;
    if (set_answer != success) return set_answer;
    for (std::size_t i = 0; grants_hold && i < count; ++i) {
      EXPECT_EQ(descriptions[i].flags, system::cuda::memory_access_read_write);
      reachable.push_back(descriptions[i].location.id);
    }
    return success;
  }

  system::Cuda& inner_;
};

/// A software machine with a peer provider on it and one buffer per GPU.
class Rig {
 public:
  explicit Rig(std::string_view name, const std::vector<std::string>& settings = {},
               fabric::SoftOptions options = {.deterministic = true})
      : machine_(machine_with(name, settings)) {
    soft_ = std::move(fabric::SoftHost::create(machine_, options)).value();
    machine_ = soft_->machine();
    cuda_.emplace(*soft_->cuda().value());
    host_.emplace(*soft_);
    host_->cuda_table = &*cuda_;
    contexts_ = std::move(system::CudaContexts::open(*host_, machine_)).value();
    provider_ = provider::make_peer_provider(*host_, *contexts_, machine_);
  }
  ~Rig() {
    if (provider_ != nullptr) {
      EXPECT_TRUE(provider_->close(host_->clock().now_ns() + patience_ns));
    }
  }

  GpuMemory allocate(std::uint32_t gpu, std::uint64_t length) {
    const system::ContextGuard guard(*cuda_, contexts_->context(gpu).value());
    CUdeviceptr pointer = 0;
    EXPECT_EQ(cuda_->mem_alloc(&pointer, length), success);
    return GpuMemory{gpu, DevicePointer{pointer}, length};
  }
  void plant(const GpuMemory& memory, const std::vector<std::byte>& bytes) {
    EXPECT_TRUE(soft_->bus().plant(fabric::End::of(memory.address), bytes));
  }
  [[nodiscard]] std::vector<std::byte> owner_reads(const GpuMemory& memory) {
    std::vector<std::byte> bytes(memory.length_bytes);
    EXPECT_TRUE(soft_->bus().inspect(fabric::End::of(memory.address), bytes));
    return bytes;
  }
  [[nodiscard]] CarriageBytes arrived(const GpuMemory& memory) {
    const fabric::Extent extent = soft_->bus().extent_of(fabric::End::of(memory.address));
    return soft_->ledger().arrivals(extent, memory.length_bytes).bytes;
  }

  [[nodiscard]] static Segment segment(const Place& source, const Place& target) {
    return Segment{.offset_bytes = 0,
                   .length_bytes = length_bytes(source),
                   .source = source,
                   .target = target,
                   .provider = ProviderKind::peer,
                   .expected = Carriage::direct};
  }
  void submit(const Place& source, const Place& target, std::uint64_t deadline_ns = 0) {
    const core::Operation operation{
        .id = ++next_, .segment = segment(source, target), .deadline_ns = deadline_ns};
    provider_->submit(std::span(&operation, 1));
  }
  core::Completion wait() {
    core::Completion completion;
    EXPECT_TRUE(host_->workers().wait(
        [&] { return provider_->poll(host_->clock().now_ns(), std::span(&completion, 1)) == 1; },
        host_->clock().now_ns() + patience_ns));
    EXPECT_EQ(completion.id, next_);
    return completion;
  }
  core::Completion copy(const Place& source, const Place& target) {
    submit(source, target);
    return wait();
  }

  [[nodiscard]] Assessment assess(const Place& source, const Place& target) {
    return provider_->assess(segment(source, target));
  }
  [[nodiscard]] judge::PeerJudgement judge(std::uint32_t source, std::uint32_t target) {
    core::HostFacts facts;
    facts.storage.iommu = {std::string(to_string(machine_.kernel.iommu)), "/sys"};
    facts.peers = preconditions::read_peer_facts(*host_, machine_, true);
    return judge::judge_peer({machine_, facts, source, target});
  }

  WatchedCuda& cuda() { return *cuda_; }
  provider::PeerProvider& provider() { return *provider_; }
  fabric::SoftHost& soft() { return *soft_; }
  system::Host& host() { return *host_; }
  system::CudaContexts& contexts() { return *contexts_; }
  void drop_provider() { provider_.reset(); }

 private:
  Machine machine_;
  std::unique_ptr<fabric::SoftHost> soft_;
  std::optional<WatchedCuda> cuda_;
  std::optional<support::AroundHost> host_;
  std::unique_ptr<system::CudaContexts> contexts_;
  std::unique_ptr<provider::PeerProvider> provider_;
  core::OperationId next_ = 0;
};

std::vector<std::byte> pattern(std::uint64_t length, unsigned seed) {
  std::vector<std::byte> bytes(length);
  std::uint32_t state = seed * 2654435761u + 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

const Finding* find(const std::vector<Finding>& findings, Cause cause) {
  for (const Finding& finding : findings) {
    if (finding.cause == cause) return &finding;
  }
  return nullptr;
}

FindingState access_state(const Assessment& assessment) {
  const Finding* finding = find(assessment.findings, Cause::p2p_peer_access_not_enabled);
  EXPECT_NE(finding, nullptr);
  return finding == nullptr ? FindingState::unmet : finding->state;
}

// --- it arrives, directly ----------------------------------------------------------------------

struct Travel {
  const char* name;
  const char* machine;
  std::vector<std::string> settings;
  std::uint32_t source;
  std::uint32_t target;
  Link link;
};

void PrintTo(const Travel& travel, std::ostream* out) {
  *out << travel.name;
}

class PeerCopy : public ::testing::TestWithParam<Travel> {};

TEST_P(PeerCopy, ArrivesIntactAndDirectByTheLedger) {
  const Travel& travel = GetParam();
  Rig rig(travel.machine, travel.settings);
  const std::uint64_t length = 3 * mebibyte + 17;
  const GpuMemory source = rig.allocate(travel.source, length);
  const GpuMemory target = rig.allocate(travel.target, length);
  const auto bytes = pattern(length, 1);
  rig.plant(source, bytes);
  rig.soft().bus().ledger().clear_requests();
  const std::uint64_t dram_before = rig.soft().ledger().dram_bytes();
  const core::Completion ended = rig.copy(source, target);
  ASSERT_FALSE(ended.error.has_value()) << to_string(*ended.error);
  EXPECT_EQ(ended.bytes, rig.arrived(target));
  EXPECT_EQ(ended.bytes[Carriage::direct], length);
  EXPECT_EQ(ended.bytes[Carriage::staged], 0u);
  EXPECT_EQ(ended.pinned_bytes, 0u);
  EXPECT_EQ(ended.link, travel.link);
  EXPECT_EQ(ended.known, Known::claimed);
  EXPECT_EQ(rig.soft().ledger().dram_bytes(), dram_before);
  EXPECT_EQ(rig.owner_reads(target), bytes);
  EXPECT_TRUE(rig.judge(travel.source, travel.target).possible);
}

INSTANTIATE_TEST_SUITE_P(
    Soft, PeerCopy,
    ::testing::Values(Travel{"under_one_switch", "workstation", {}, 0, 1, Link::pcie_switch},
                      Travel{"and_back", "workstation", {}, 1, 0, Link::pcie_switch},
                      Travel{"over_nvlink", "dgx", {}, 0, 7, Link::nvlink},
                      Travel{
                          "redirected_and_forwarded",
                          "workstation",
                          {"/switches/0/acs=redirect", "/host_bridges/0/peer_forwarding=allowed"},
                          0,
                          1,
                          Link::host_bridge},
                      Travel{"across_sockets",
                             "two-socket",
                             {"/host_bridges/0/peer_forwarding=allowed",
                              "/host_bridges/1/peer_forwarding=allowed"},
                             0,
                             1,
                             Link::inter_socket}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(PeerCopyOnThreads, ArrivesIntactAndDirect) {
  Rig rig("workstation", {}, {.deterministic = false});
  const GpuMemory source = rig.allocate(0, 5 * mebibyte);
  const GpuMemory target = rig.allocate(1, 5 * mebibyte);
  const auto bytes = pattern(source.length_bytes, 2);
  rig.plant(source, bytes);
  rig.soft().bus().ledger().clear_requests();
  const core::Completion ended = rig.copy(source, target);
  ASSERT_FALSE(ended.error.has_value()) << to_string(*ended.error);
  EXPECT_EQ(ended.bytes, rig.arrived(target));
  EXPECT_EQ(rig.owner_reads(target), bytes);
}

TEST(PeerPieces, AreAtMost256MiBAndAllOfThemCount) {
  Rig rig("workstation");
  const std::uint64_t length = 513 * mebibyte;
  const GpuMemory source = rig.allocate(0, length);
  const GpuMemory target = rig.allocate(1, length);
  const core::Completion ended = rig.copy(source, target);
  ASSERT_FALSE(ended.error.has_value()) << to_string(*ended.error);
  EXPECT_EQ(ended.bytes[Carriage::direct], length);
  EXPECT_EQ(rig.cuda().pieces,
            (std::vector<std::uint64_t>{256 * mebibyte, 256 * mebibyte, mebibyte}));
}

TEST(PeerPieces, OfNothingAreNone) {
  Rig rig("workstation");
  GpuMemory source = rig.allocate(0, mebibyte);
  GpuMemory target = rig.allocate(1, mebibyte);
  source.length_bytes = target.length_bytes = 0;
  const core::Completion ended = rig.copy(source, target);
  EXPECT_FALSE(ended.error.has_value());
  EXPECT_EQ(ended.bytes.total(), 0u);
  EXPECT_EQ(ended.link, Link::none);
  EXPECT_TRUE(rig.cuda().pieces.empty());
}

// --- the driver says done and nothing arrives: why pairs are probed --------------------------

TEST(PeerCopy, WhoseRequestsTheBusLosesIsSeenByTheOwnerAloneAndDoubtedBeforehand) {
  Rig rig("workstation", {"/switches/0/acs=redirect"});
  const GpuMemory source = rig.allocate(0, mebibyte);
  const GpuMemory target = rig.allocate(1, mebibyte);
  const auto before = pattern(mebibyte, 3);
  rig.plant(source, pattern(mebibyte, 4));
  rig.plant(target, before);
  rig.soft().bus().ledger().clear_requests();
  const core::Completion ended = rig.copy(source, target);
  EXPECT_FALSE(ended.error.has_value());  // the driver ignores ACS, and a lost write has no answer
  EXPECT_EQ(rig.owner_reads(target), before);
  EXPECT_EQ(rig.arrived(target).total(), 0u);
  EXPECT_EQ(rig.soft().ledger().lost_bytes(), mebibyte);
  const judge::PeerJudgement judgement = rig.judge(0, 1);
  EXPECT_TRUE(judgement.possible) << "the kernel's list of host bridges is not the driver's";
  EXPECT_EQ(judgement.suspect, Cause::machine_acs_redirect);
}

// --- access -----------------------------------------------------------------------------------

TEST(PeerAccess, IsUnknownBeforeTheFirstCopyAndMetAfterIt) {
  Rig rig("workstation");
  const GpuMemory source = rig.allocate(0, mebibyte);
  const GpuMemory target = rig.allocate(1, mebibyte);
  const Assessment before = rig.assess(source, target);
  EXPECT_TRUE(before.usable);
  EXPECT_EQ(access_state(before), FindingState::unknown);
  EXPECT_EQ(access_state(rig.assess(source, target)), FindingState::unknown);  // no side effect
  (void)rig.copy(source, target);
  EXPECT_TRUE(rig.assess(source, target).usable);
  EXPECT_EQ(access_state(rig.assess(source, target)), FindingState::met);
  EXPECT_EQ(access_state(rig.assess(target, source)), FindingState::met);
}

TEST(PeerAccess, ThatIsRefusedMovesNothingAndIsRemembered) {
  Rig rig("cloud-guest");
  const GpuMemory source = rig.allocate(0, mebibyte);
  const GpuMemory target = rig.allocate(1, mebibyte);
  rig.soft().bus().ledger().clear_requests();
  const core::Completion ended = rig.copy(source, target);
  ASSERT_TRUE(ended.error.has_value());
  EXPECT_EQ(ended.error->cause, Cause::p2p_peer_access_not_enabled);
  EXPECT_EQ(ended.cause, Cause::p2p_peer_access_not_enabled);
  EXPECT_EQ(ended.error->origin, ErrorOrigin::cuda);
  EXPECT_EQ(ended.error->code, system::cuda::error_peer_access_unsupported);
  EXPECT_EQ(ended.bytes.total(), 0u);
  EXPECT_TRUE(rig.cuda().pieces.empty());
  EXPECT_EQ(rig.arrived(target).total(), 0u);
  EXPECT_FALSE(rig.assess(source, target).usable);
  EXPECT_EQ(access_state(rig.assess(source, target)), FindingState::unmet);
  EXPECT_EQ(first_unmet(rig.judge(0, 1).findings), Cause::p2p_chipset_not_supported);
}

TEST(PeerAccess, ThatFailsInPassingIsTriedAgain) {
  Rig rig("workstation");
  const GpuMemory source = rig.allocate(0, mebibyte);
  const GpuMemory target = rig.allocate(1, mebibyte);
  rig.cuda().enable_answer = system::cuda::error_out_of_memory;
  const core::Completion failed = rig.copy(source, target);
  ASSERT_TRUE(failed.error.has_value());
  EXPECT_EQ(failed.error->code, system::cuda::error_out_of_memory);
  EXPECT_TRUE(rig.cuda().pieces.empty());
  EXPECT_TRUE(rig.assess(source, target).usable);
  EXPECT_EQ(access_state(rig.assess(source, target)), FindingState::unknown);
  rig.cuda().enable_answer = success;
  EXPECT_FALSE(rig.copy(source, target).error.has_value());
}

TEST(PeerAccess, ThatSomebodyEnabledBeforeIsAsGood) {
  Rig rig("workstation");
  const GpuMemory source = rig.allocate(0, mebibyte);
  const GpuMemory target = rig.allocate(1, mebibyte);
  {
    const system::ContextGuard guard(rig.cuda(), rig.contexts().context(0).value());
    ASSERT_EQ(rig.cuda().ctx_enable_peer_access(rig.contexts().context(1).value(), 0), success);
  }
  EXPECT_FALSE(rig.copy(source, target).error.has_value());
}

TEST(PeerAccess, ThatSomebodyDisabledIsEnabledAgainRatherThanStagedInSilence) {
  Rig rig("workstation");
  const GpuMemory source = rig.allocate(0, mebibyte);
  const GpuMemory target = rig.allocate(1, mebibyte);
  EXPECT_FALSE(rig.copy(source, target).error.has_value());
  {
    const system::ContextGuard guard(rig.cuda(), rig.contexts().context(0).value());
    ASSERT_EQ(rig.cuda().ctx_disable_peer_access(rig.contexts().context(1).value()), success);
  }
  rig.soft().bus().ledger().clear_requests();
  const core::Completion ended = rig.copy(source, target);
  EXPECT_EQ(ended.bytes, rig.arrived(target));
  EXPECT_EQ(ended.bytes[Carriage::direct], mebibyte);
}

// --- kinds of memory ---------------------------------------------------------------------------

struct OwnAccess {
  const char* name;
  CUdeviceptr WatchedCuda::*allocation;
  Cause cause;
};

class MemoryWithAccessOfItsOwn : public ::testing::TestWithParam<OwnAccess> {
 protected:
  Rig rig{"workstation"};
  GpuMemory source = rig.allocate(0, 4 * mebibyte);
  GpuMemory target = rig.allocate(1, 4 * mebibyte);
  void SetUp() override { rig.cuda().*GetParam().allocation = target.address.value; }
  [[nodiscard]] FindingState state() {
    const Assessment assessment = rig.assess(source, target);
    const Finding* finding = find(assessment.findings, GetParam().cause);
    EXPECT_NE(finding, nullptr);
    return finding == nullptr ? FindingState::met : finding->state;
  }
};

TEST_P(MemoryWithAccessOfItsOwn, IsGrantedOnceAndThenCopied) {
  EXPECT_EQ(state(), FindingState::unknown);
  EXPECT_TRUE(rig.assess(source, target).usable);
  EXPECT_EQ(rig.cuda().sets, 0);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(rig.copy(source, target).error.has_value());
  EXPECT_EQ(rig.cuda().sets, 1);
  EXPECT_EQ(rig.cuda().reachable, std::vector<int>{0});  // the source's GPU
  EXPECT_EQ(state(), FindingState::met);
}

TEST_P(MemoryWithAccessOfItsOwn, ThatIsNotOursToGrantIsRefusedAndRemembered) {
  rig.cuda().set_answer = system::cuda::error_not_permitted;
  const core::Completion ended = rig.copy(source, target);
  ASSERT_TRUE(ended.error.has_value());
  EXPECT_EQ(ended.error->cause, GetParam().cause);
  EXPECT_EQ(ended.error->code, system::cuda::error_not_permitted);
  EXPECT_TRUE(rig.cuda().pieces.empty());
  EXPECT_EQ(state(), FindingState::unmet);
  EXPECT_FALSE(rig.assess(source, target).usable);
}

TEST_P(MemoryWithAccessOfItsOwn, ThatWasGrantedInWordsOnlyIsRefused) {
  rig.cuda().grants_hold = false;
  const core::Completion ended = rig.copy(source, target);
  ASSERT_TRUE(ended.error.has_value());
  EXPECT_EQ(ended.error->cause, GetParam().cause);
  EXPECT_TRUE(rig.cuda().pieces.empty());
}

TEST_P(MemoryWithAccessOfItsOwn, IsNotTakenForPlainMemoryWhereTheDriverFailsToAnswer) {
  rig.cuda().kinds_fail = true;
  const core::Completion ended = rig.copy(source, target);
  ASSERT_TRUE(ended.error.has_value());
  EXPECT_EQ(ended.error->cause, Cause::memory_kind_unknown);
  EXPECT_EQ(ended.error->origin, ErrorOrigin::cuda);
  EXPECT_TRUE(rig.cuda().pieces.empty()) << "the driver would have staged it in silence";
  EXPECT_FALSE(rig.assess(source, target).usable);
}

TEST_P(MemoryWithAccessOfItsOwn, IsForgottenWithItsRegion) {
  rig.cuda().set_answer = system::cuda::error_not_permitted;
  const core::RegionView region{target, AllocationKind::vmm};
  ASSERT_TRUE(rig.provider().attach(region).ok());
  (void)rig.copy(source, target);
  EXPECT_EQ(state(), FindingState::unmet);
  rig.provider().detach(region);
  EXPECT_EQ(state(), FindingState::unknown);
}

INSTANTIATE_TEST_SUITE_P(
    Soft, MemoryWithAccessOfItsOwn,
    ::testing::Values(OwnAccess{"mapping", &WatchedCuda::mapping, Cause::memory_kind_vmm},
                      OwnAccess{"pool", &WatchedCuda::pooled, Cause::memory_kind_pool}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(PeerMemory, ThatMigratesIsRefused) {
  Rig rig("workstation");
  const GpuMemory source = rig.allocate(0, mebibyte);
  const GpuMemory target = rig.allocate(1, mebibyte);
  rig.cuda().managed = source.address.value;
  EXPECT_FALSE(rig.assess(source, target).usable);
  const core::Completion ended = rig.copy(source, target);
  ASSERT_TRUE(ended.error.has_value());
  EXPECT_EQ(ended.error->cause, Cause::memory_kind_managed);
  EXPECT_TRUE(rig.cuda().pieces.empty());
}

TEST(PeerMemory, ThatWasImportedIsUnknownUntilACopyIsVerified) {
  Rig rig("workstation");
  const GpuMemory source = rig.allocate(0, mebibyte);
  const GpuMemory target = rig.allocate(1, mebibyte);
  ASSERT_TRUE(rig.provider().attach({source, AllocationKind::ipc_import}).ok());
  const Assessment assessment = rig.assess(source, target);
  EXPECT_TRUE(assessment.usable);
  ASSERT_NE(find(assessment.findings, Cause::memory_kind_ipc_import), nullptr);
  EXPECT_FALSE(rig.copy(source, target).error.has_value());
}

/// Its owner may free adopted memory and open imports at the same addresses: between two of them
/// neither GPU reaches the other end, and the driver would stage in silence.
TEST(PeerMemory, WhereImportsLieNowIsNotTakenForWhatWasThere) {
  Rig rig("workstation");
  const GpuMemory source = rig.allocate(0, mebibyte);
  const GpuMemory target = rig.allocate(1, mebibyte);
  for (const GpuMemory& memory : {source, target})
    ASSERT_TRUE(rig.provider().attach({memory, AllocationKind::device}).ok());
  rig.cuda().imports = true;
  const core::Completion ended = rig.copy(source, target);
  ASSERT_TRUE(ended.error.has_value());
  EXPECT_EQ(ended.error->cause, Cause::memory_kind_ipc_import);
  EXPECT_TRUE(rig.cuda().pieces.empty());
}

TEST(PeerMemory, ThatNobodyKnowsIsRefused) {
  Rig rig("workstation");
  const GpuMemory source = rig.allocate(0, mebibyte);
  const GpuMemory nowhere{1, DevicePointer{0x1000}, mebibyte};
  const core::Completion ended = rig.copy(source, nowhere);
  ASSERT_TRUE(ended.error.has_value());
  EXPECT_EQ(ended.error->cause, Cause::memory_kind_unknown);
  EXPECT_TRUE(rig.cuda().pieces.empty());
}

// --- what is no pair ---------------------------------------------------------------------------

TEST(PeerProvider, RefusesWhatIsNoPairOfGpus) {
  Rig rig("workstation");
  const GpuMemory source = rig.allocate(0, mebibyte);
  const GpuMemory beside = rig.allocate(0, mebibyte);
  std::vector<std::byte> bytes(mebibyte);
  const HostMemory host{bytes.data(), bytes.size()};
  const GpuMemory nowhere{9, DevicePointer{0x1000}, mebibyte};
  for (const Place& target : {Place{beside}, Place{host}, Place{nowhere}}) {
    EXPECT_FALSE(rig.assess(source, target).usable);
    const core::Completion ended = rig.copy(source, target);
    ASSERT_TRUE(ended.error.has_value());
    EXPECT_EQ(ended.error->origin, ErrorOrigin::input);
  }
}

TEST(PeerProvider, RefusesATargetThatIsTooSmall) {
  Rig rig("workstation");
  const core::Completion ended = rig.copy(rig.allocate(0, 2 * mebibyte), rig.allocate(1, mebibyte));
  ASSERT_TRUE(ended.error.has_value());
  EXPECT_EQ(ended.error->cause, Cause::memory_too_small);
}

// --- ends before its time ----------------------------------------------------------------------

TEST(PeerProvider, CountsWhatArrivedBeforeACancel) {
  Rig rig("workstation");
  const std::uint64_t length = 600 * mebibyte;
  const GpuMemory source = rig.allocate(0, length);
  const GpuMemory target = rig.allocate(1, length);
  rig.soft().bus().ledger().clear_requests();
  rig.submit(source, target);
  rig.provider().cancel(1);
  const core::Completion ended = rig.wait();
  ASSERT_TRUE(ended.error.has_value());
  EXPECT_EQ(ended.error->cause, Cause::session_cancelled);
  EXPECT_EQ(ended.bytes, rig.arrived(target));
  EXPECT_LT(ended.bytes.total(), length);
}

TEST(PeerProvider, StartsNothingAfterTheDeadline) {
  Rig rig("workstation");
  const GpuMemory source = rig.allocate(0, mebibyte);
  const GpuMemory target = rig.allocate(1, mebibyte);
  rig.soft().bus().ledger().clear_requests();
  (void)rig.copy(source, target);  // the virtual clock has moved
  rig.cuda().pieces.clear();
  rig.submit(source, target, 1);
  const core::Completion ended = rig.wait();
  ASSERT_TRUE(ended.error.has_value());
  EXPECT_EQ(ended.error->cause, Cause::session_deadline_passed);
  EXPECT_EQ(ended.bytes.total(), 0u);
  EXPECT_TRUE(rig.cuda().pieces.empty());
}

TEST(PeerProvider, ReportsACopyThatFailed) {
  Rig rig("workstation");
  const GpuMemory source = rig.allocate(0, mebibyte);
  const GpuMemory target = rig.allocate(1, mebibyte);
  rig.soft().faults().cuda_error = 1;
  const core::Completion ended = rig.copy(source, target);
  ASSERT_TRUE(ended.error.has_value());
  EXPECT_EQ(ended.error->origin, ErrorOrigin::cuda);
  EXPECT_EQ(ended.bytes.total(), 0u);
}

TEST(PeerProvider, ClosesWithCopiesInFlight) {
  Rig rig("workstation");
  const std::uint64_t length = 600 * mebibyte;
  const GpuMemory source = rig.allocate(0, length);
  const GpuMemory target = rig.allocate(1, length);
  rig.submit(source, target);
  EXPECT_TRUE(rig.provider().close(rig.host().clock().now_ns() + patience_ns));
  core::Completion completion;
  ASSERT_EQ(rig.provider().poll(rig.host().clock().now_ns(), std::span(&completion, 1)), 1u);
  EXPECT_EQ(completion.error.has_value() ? completion.error->cause : Cause::none,
            Cause::session_cancelled);
  rig.drop_provider();
}

// --- pointers for kernels ----------------------------------------------------------------------

TEST(MapFor, AnswersThePointerOnceThereIsAccess) {
  Rig rig("workstation");
  const GpuMemory memory = rig.allocate(1, mebibyte);
  const auto mapped = rig.provider().map_for({memory, AllocationKind::device}, 0);
  ASSERT_TRUE(mapped.ok()) << to_string(mapped.error());
  EXPECT_EQ(*mapped, memory.address);
  // The kernel's GPU reaches the memory now; nobody asked for the other way.
  const system::ContextGuard guard(rig.cuda(), rig.contexts().context(0).value());
  EXPECT_EQ(rig.cuda().ctx_enable_peer_access(rig.contexts().context(1).value(), 0),
            system::cuda::error_peer_access_already_enabled);
  const system::ContextGuard other(rig.cuda(), rig.contexts().context(1).value());
  EXPECT_EQ(rig.cuda().ctx_enable_peer_access(rig.contexts().context(0).value(), 0), success);
}

TEST(MapFor, TheOwnerNeedsNoAccess) {
  Rig rig("cloud-guest");
  const GpuMemory memory = rig.allocate(1, mebibyte);
  EXPECT_EQ(rig.provider().map_for({memory, AllocationKind::device}, 1).value(), memory.address);
}

template <typename T>
Cause cause_of(const Result<T>& result) {
  EXPECT_FALSE(result.ok());
  return result.ok() ? Cause::none : result.error().cause;
}

TEST(MapFor, IsRefusedWithItsCause) {
  Rig guest("cloud-guest");
  const GpuMemory memory = guest.allocate(1, mebibyte);
  EXPECT_EQ(cause_of(guest.provider().map_for({memory, AllocationKind::device}, 0)),
            Cause::p2p_peer_access_not_enabled);
  Rig rig("workstation");
  const GpuMemory mapped = rig.allocate(1, mebibyte);
  rig.cuda().mapping = mapped.address.value;
  rig.cuda().set_answer = system::cuda::error_not_permitted;
  EXPECT_EQ(cause_of(rig.provider().map_for({mapped, AllocationKind::vmm}, 0)),
            Cause::memory_kind_vmm);
  std::byte byte{};
  EXPECT_FALSE(
      rig.provider().map_for({HostMemory{&byte, 1}, AllocationKind::host_pageable}, 0).ok());
  EXPECT_FALSE(rig.provider().map_for({mapped, AllocationKind::device}, 9).ok());
}

// --- what the drivers say of pairs ---------------------------------------------------------------

TEST(PeerFacts, AreReadForEveryOrderedPair) {
  Rig rig("workstation", {"/gpus/1/peer_status=gns"});
  const auto facts = preconditions::read_peer_facts(rig.host(), rig.soft().machine(), true);
  ASSERT_EQ(facts.size(), 2u);
  for (const core::PeerFacts& pair : facts) {
    EXPECT_EQ(pair.can_access.value, false);
    EXPECT_EQ(pair.read, PeerStatus::gns);
    EXPECT_EQ(pair.write, PeerStatus::gns);
  }
  EXPECT_EQ(first_unmet(rig.judge(0, 1).findings), Cause::p2p_product_not_supported);
}

TEST(PeerFacts, OfAMachineThatOffersPeerAccessAreOk) {
  Rig rig("workstation");
  const auto facts = preconditions::read_peer_facts(rig.host(), rig.soft().machine(), true);
  ASSERT_EQ(facts.size(), 2u);
  EXPECT_EQ(facts[0].can_access.value, true);
  EXPECT_EQ(facts[0].read, PeerStatus::ok);
  EXPECT_EQ(facts[1].write, PeerStatus::ok);
}

TEST(PeerFacts, WithoutCudaSayWhyThereIsNoAnswer) {
  Rig rig("workstation");
  const auto facts = preconditions::read_peer_facts(rig.host(), rig.soft().machine(), false);
  ASSERT_EQ(facts.size(), 2u);
  EXPECT_FALSE(facts[0].can_access.value.has_value());
  EXPECT_FALSE(facts[0].can_access.observed.empty());
  EXPECT_EQ(facts[0].read, PeerStatus::ok);
}

}  // namespace
}  // namespace nobounce
