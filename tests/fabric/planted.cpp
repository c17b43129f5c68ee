// Between the tests and what they test: every software machine, mover and probe
// of this program is made here, so that a mutant can be planted in it. The
// linker leads the calls of these functions here (settings.cmake); without a
// mutant they do what they always do.
#include "support/planted.hpp"

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "fabric/bus.hpp"
#include "fabric/soft_host.hpp"
#include "provider/host/host_provider.hpp"
#include "provider/peer/peer_provider.hpp"
#include "provider/staged/staged_provider.hpp"
#include "provider/storage/storage_provider.hpp"
#include "session/probe.hpp"

namespace nobounce::test {
namespace {

using core::Completion;
using core::Operation;
using provider::PeerProvider;

/// A mover with a mutant in it. `detour` moves the bytes by way of host memory,
/// where it is one that is to go that way.
class SickProvider final : public PeerProvider {
 public:
  SickProvider(std::unique_ptr<core::Provider> inner, std::unique_ptr<core::Provider> detour)
      : inner_(std::move(inner)), detour_(std::move(detour)) {}
  SickProvider(std::unique_ptr<PeerProvider> inner, std::unique_ptr<core::Provider> detour)
      : inner_(std::move(inner)),
        peer_(static_cast<PeerProvider*>(inner_.get())),
        detour_(std::move(detour)) {}

  [[nodiscard]] ProviderKind kind() const override { return inner_->kind(); }
  [[nodiscard]] Assessment assess(const Segment& segment) override {
    Assessment assessment = inner_->assess(segment);
    if (planted(ProviderMutant::provider_promises_all)) assessment = {.usable = true};
    return assessment;
  }
  [[nodiscard]] Status attach(const core::RegionView& region) override {
    return inner_->attach(region);
  }
  void detach(const core::RegionView& region) override { inner_->detach(region); }
  void forget_file(std::uint32_t file) override { inner_->forget_file(file); }
  void cancel(core::OperationId operation) override { mover().cancel(operation); }
  bool close(std::uint64_t deadline_ns) override {
    if (planted(ProviderMutant::provider_forgets_to_close)) return true;
    const bool left = detour_ == nullptr || detour_->close(deadline_ns);
    return inner_->close(deadline_ns) && left;
  }
  [[nodiscard]] Status open(const GpuMemory& source, const GpuMemory& target) override {
    return peer_->open(source, target);
  }
  [[nodiscard]] Result<DevicePointer> map_for(const core::RegionView& region,
                                              std::uint32_t gpu) override {
    if (planted(ProviderMutant::provider_maps_without_access)) {
      return std::get<GpuMemory>(region.place).address;
    }
    return peer_->map_for(region, gpu);
  }

  void submit(std::span<const Operation> operations) override {
    const std::scoped_lock lock(mutex_);
    for (Operation operation : operations) {
      operations_.push_back(operation);
      if (planted(ProviderMutant::provider_shifts_files)) {
        shift(operation.segment.source);
        shift(operation.segment.target);
      }
      if (planted(ProviderMutant::provider_completes_early)) {
        early_.push_back(whole(operation));
      }
      mover().submit(std::span(&operation, 1));
    }
  }

  [[nodiscard]] std::size_t poll(std::uint64_t now_ns, std::span<Completion> completions) override {
    const std::size_t count = mover().poll(now_ns, completions);
    const std::scoped_lock lock(mutex_);
    if (planted(ProviderMutant::provider_completes_early)) {
      const std::size_t ready = std::min(early_.size(), completions.size());
      std::copy_n(early_.begin(), ready, completions.begin());
      early_.erase(early_.begin(), early_.begin() + static_cast<std::ptrdiff_t>(ready));
      return ready;
    }
    for (Completion& completion : completions.first(count)) spoil(completion);
    return count;
  }

 private:
  [[nodiscard]] core::Provider& mover() const { return detour_ != nullptr ? *detour_ : *inner_; }
  static void shift(Place& place) {
    if (auto* range = std::get_if<FileRange>(&place)) range->offset = range->offset.plus(4096);
  }
  static Completion whole(const Operation& operation) {
    Completion completion{.id = operation.id, .known = Known::counted};
    completion.bytes[operation.segment.expected] = operation.segment.length_bytes;
    return completion;
  }
  void spoil(Completion& completion) {
    CarriageBytes& bytes = completion.bytes;
    const auto operation =
        std::find_if(operations_.begin(), operations_.end(),
                     [&](const Operation& each) { return each.id == completion.id; });
    const bool lies =
        detour_ != nullptr || planted(ProviderMutant::provider_stages_and_claims_direct);
    if (lies && bytes[Carriage::staged] > 0) {
      bytes[Carriage::direct] += std::exchange(bytes[Carriage::staged], 0);
      completion.known = Known::counted;
    }
    if (planted(ProviderMutant::provider_claims_more)) ++bytes[operation->segment.expected];
    if (planted(ProviderMutant::provider_drops_causes)) completion.cause = Cause::none;
    if (planted(ProviderMutant::provider_vouches_for_itself)) completion.known = Known::witnessed;
    if (planted(ProviderMutant::provider_swallows_errors) && completion.error.has_value()) {
      completion = whole(*operation);
    }
    operations_.erase(operation);
  }

  std::unique_ptr<core::Provider> inner_;
  PeerProvider* peer_ = nullptr;  ///< inner_, where it is one
  std::unique_ptr<core::Provider> detour_;
  std::mutex mutex_;
  std::deque<Operation> operations_;
  std::deque<Completion> early_;
};

/// Of movers between GPUs, which never ask for one.
class NoFiles final : public system::OpenFiles {
 public:
  [[nodiscard]] const system::OpenFile* find(std::uint32_t) const override { return nullptr; }
};

template <typename Provider>
std::unique_ptr<Provider> sick(std::unique_ptr<Provider> healthy,
                               std::unique_ptr<core::Provider> detour = nullptr) {
  if (planted().provider == ProviderMutant::none) return healthy;
  return std::make_unique<SickProvider>(std::move(healthy), std::move(detour));
}

}  // namespace

// Each pair: the function under its own name, and what its callers reach
// instead.
#define NOBOUNCE_LED_HERE(result, name, parameters, symbol) \
  result real_##name parameters asm("__real_" symbol);      \
  result led_##name parameters asm("__wrap_" symbol);

NOBOUNCE_LED_HERE(Result<std::unique_ptr<fabric::SoftHost>>, soft_host,
                  (const Machine& machine, const fabric::SoftOptions& options),
                  "_ZN8nobounce6fabric8SoftHost6createERKNS_7MachineERKNS0_11SoftOptionsE")
NOBOUNCE_LED_HERE(Result<std::unique_ptr<fabric::Bus>>, bus,
                  (const Machine& machine, fabric::BusOptions options),
                  "_ZN8nobounce6fabric3Bus6createERKNS_7MachineENS0_10BusOptionsE")
NOBOUNCE_LED_HERE(std::unique_ptr<core::Provider>, storage_provider,
                  (system::Host & host, system::CudaContexts& contexts,
                   const system::OpenFiles& files,
                   const provider::CufileConfiguration& configuration),
                  "_ZN8nobounce8provider21make_storage_providerERNS_"
                  "4HostERNS_6system12CudaContextsERKNS3_"
                  "9OpenFilesERKNS0_19CufileConfigurationE")
NOBOUNCE_LED_HERE(std::unique_ptr<PeerProvider>, peer_provider,
                  (system::Host & host, system::CudaContexts& contexts, const Machine& machine),
                  "_ZN8nobounce8provider18make_peer_providerERNS_4HostERNS_6system"
                  "12CudaContextsERKNS_7MachineE")
NOBOUNCE_LED_HERE(std::unique_ptr<core::Provider>, host_provider,
                  (system::Host & host, system::CudaContexts& contexts),
                  "_ZN8nobounce8provider18make_host_providerERNS_4HostERNS_6system"
                  "12CudaContextsE")
NOBOUNCE_LED_HERE(std::unique_ptr<core::Provider>, staged_provider,
                  (system::Host & host, system::CudaContexts* contexts,
                   const system::OpenFiles& files, const provider::StagedOptions& options),
                  "_ZN8nobounce8provider20make_staged_providerERNS_4HostEPNS_6system"
                  "12CudaContextsERKNS3_9OpenFilesERKNS0_13StagedOptionsE")
NOBOUNCE_LED_HERE(bool, probe,
                  (session::SessionState & state, const session::TransferPlan& plan,
                   const Place& source, const Place& target, bool in_own_memory),
                  "_ZN8nobounce7session15probe_disprovesERNS0_"
                  "12SessionStateERKNS0_12TransferPlanERKSt7variantIJ"
                  "NS_9GpuMemoryENS_10HostMemoryENS_9FileRangeENS_"
                  "10BlockRangeENS_12RemoteMemoryEEESE_b")
#undef NOBOUNCE_LED_HERE

Result<std::unique_ptr<fabric::SoftHost>> led_soft_host(const Machine& machine,
                                                        const fabric::SoftOptions& options) {
  fabric::SoftOptions ill = options;
  if (planted().fabric != fabric::Mutant::none) ill.faults.mutant = planted().fabric;
  return real_soft_host(machine, ill);
}

std::unique_ptr<core::Provider> detour_for(system::Host& host, system::CudaContexts& contexts,
                                           const system::OpenFiles& files) {
  if (!planted(ProviderMutant::provider_goes_by_host)) return nullptr;
  return real_staged_provider(host, &contexts, files, {});
}

Result<std::unique_ptr<fabric::Bus>> led_bus(const Machine& machine, fabric::BusOptions options) {
  if (planted().fabric != fabric::Mutant::none) options.mutant = planted().fabric;
  return real_bus(machine, std::move(options));
}

std::unique_ptr<core::Provider> led_storage_provider(
    system::Host& host, system::CudaContexts& contexts, const system::OpenFiles& files,
    const provider::CufileConfiguration& configuration) {
  return sick(real_storage_provider(host, contexts, files, configuration),
              detour_for(host, contexts, files));
}

std::unique_ptr<PeerProvider> led_peer_provider(system::Host& host, system::CudaContexts& contexts,
                                                const Machine& machine) {
  static const NoFiles none;
  return sick(real_peer_provider(host, contexts, machine), detour_for(host, contexts, none));
}

std::unique_ptr<core::Provider> led_host_provider(system::Host& host,
                                                  system::CudaContexts& contexts) {
  return sick(real_host_provider(host, contexts));
}

std::unique_ptr<core::Provider> led_staged_provider(system::Host& host,
                                                    system::CudaContexts* contexts,
                                                    const system::OpenFiles& files,
                                                    const provider::StagedOptions& options) {
  return sick(real_staged_provider(host, contexts, files, options));
}

bool led_probe(session::SessionState& state, const session::TransferPlan& plan, const Place& source,
               const Place& target, bool in_own_memory) {
  if (planted(ProviderMutant::session_probe_skipped)) return false;
  return real_probe(state, plan, source, target, in_own_memory);
}

}  // namespace nobounce::test
