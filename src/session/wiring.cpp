// Where a session's stages are wired together, and taken apart again.
#include <utility>

#include "provider/host/host_provider.hpp"
#include "provider/staged/staged_provider.hpp"
#include "session/check.hpp"
#include "session/remotes.hpp"
#include "session/session_state.hpp"

namespace nobounce::session {

namespace {
constexpr std::uint64_t close_deadline_ns = 30'000'000'000;
}

std::vector<core::Provider*> Providers::all() const {
  std::vector<core::Provider*> list;
  for (core::Provider* provider :
       std::initializer_list<core::Provider*>{storage.get(), peer.get(), nvme.get(), host.get(),
                                              staged.get(), rdma.get(), relay.get()}) {
    if (provider != nullptr) list.push_back(provider);
  }
  return list;
}

core::Provider* Providers::of(ProviderKind kind) const {
  switch (kind) {
    case ProviderKind::storage:
      return storage.get();
    case ProviderKind::host:
      return host.get();
    case ProviderKind::staged:
      return staged.get();
    case ProviderKind::peer:
      return peer.get();
    case ProviderKind::rdma:
      return rdma.get();
    case ProviderKind::nvme:
      return nvme.get();
  }
  return nullptr;
}

core::Provider* Providers::of(const Segment& segment) const {
  const bool remote = std::holds_alternative<RemoteMemory>(segment.source) ||
                      std::holds_alternative<RemoteMemory>(segment.target);
  if (segment.provider == ProviderKind::staged && remote) return relay.get();
  return of(segment.provider);
}

SessionState::SessionState(system::Host& opened_on, const SessionOptions& chosen)
    : host(opened_on), options(chosen), remotes(std::make_unique<Remotes>()) {}

SessionState::~SessionState() = default;

Providers make_providers(SessionState& state) {
  Providers providers;
  if (state.contexts != nullptr) {
    providers.storage = provider::make_storage_provider(state.host, *state.contexts, state.files,
                                                        *state.cufile_configuration);
    providers.peer = provider::make_peer_provider(state.host, *state.contexts, state.machine);
    providers.host = provider::make_host_provider(state.host, *state.contexts);
  }
  providers.nvme = provider::make_nvme_provider(state.host);
  providers.staged = provider::make_staged_provider(
      state.host, state.contexts.get(), state.files,
      provider::StagedOptions{.pinned_bytes_max = state.options.pinned_bytes_max,
                              .slot_bytes = state.options.slot_bytes,
                              .readers = state.options.readers,
                              .rotate_slots = state.options.rotate_slots});
  providers.rdma = provider::make_rdma_provider(state.host, state.contexts.get(), state.machine);
  providers.relay = provider::make_relay_provider(state.host, state.contexts.get());
  return providers;
}

Error forked_error(std::string attempted) {
  return Error{.origin = ErrorOrigin::session,
               .attempted = std::move(attempted),
               .cause = Cause::session_forked,
               .detail = "this process is a fork of the one that opened the session",
               .remedy = "open a session after the fork, in the child"};
}

void close_session(SessionState& state) {
  check(state.handles == 0, "a Session was destroyed before its Regions, Files and Transfers");
  const std::uint64_t deadline_ns = state.host.clock().now_ns() + close_deadline_ns;
  for (const auto& [gpu, memory] : state.probe_memory) {
    state.providers.nvme->detach(core::RegionView{memory, AllocationKind::device});
    if (state.providers.storage != nullptr) {
      state.providers.storage->detach(core::RegionView{memory, AllocationKind::device});
    }
  }
  for (core::Provider* provider : state.providers.all()) (void)provider->close(deadline_ns);
  for (const auto& [gpu, memory] : state.probe_memory) free_gpu(state, memory);
  state.probe_memory.clear();
}

}  // namespace nobounce::session
