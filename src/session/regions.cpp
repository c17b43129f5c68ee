// Regions: GPU and host memory that a session may transfer.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "session/check.hpp"
#include "session/region_state.hpp"

namespace nobounce {

using session::RegionState;
using session::SessionState;

namespace session {

namespace {
constexpr std::uint64_t gpu_granularity_bytes = 2u << 20;

bool overflows_granularity(std::uint64_t length_bytes) {
  return length_bytes > UINT64_MAX - gpu_granularity_bytes;
}

/// Memory that is freed when what was given up has ended.
struct GpuFreedLater {
  GpuFreedLater(SessionState& owner, const GpuMemory& left) : session(owner), memory(left) {}
  ~GpuFreedLater() { free_gpu(session, memory); }
  GpuFreedLater(const GpuFreedLater&) = delete;
  GpuFreedLater& operator=(const GpuFreedLater&) = delete;
  SessionState& session;
  GpuMemory memory;
};
struct HostFreedLater {
  HostFreedLater(SessionState& owner, const system::HostBuffer& left)
      : session(owner), buffer(left) {}
  ~HostFreedLater() { free_host(session, buffer); }
  HostFreedLater(const HostFreedLater&) = delete;
  HostFreedLater& operator=(const HostFreedLater&) = delete;
  SessionState& session;
  system::HostBuffer buffer;
};

}  // namespace

RegionEntry* find_region(SessionState& state, const GpuMemory& memory) {
  auto after = state.gpu_regions.upper_bound(memory.address.value);
  if (after == state.gpu_regions.begin()) return nullptr;
  RegionEntry& entry = std::prev(after)->second;
  const std::uint64_t inside = memory.address.value - entry.memory.address.value;
  if (inside > entry.memory.length_bytes ||
      memory.length_bytes > entry.memory.length_bytes - inside)
    return nullptr;
  return entry.memory.gpu == memory.gpu ? &entry : nullptr;
}

std::optional<HostMemory> host_region_of(const SessionState& state, const HostMemory& memory) {
  for (const HostMemory& region : state.host_places) {
    const auto begin = reinterpret_cast<std::uintptr_t>(region.address);
    const auto inside = reinterpret_cast<std::uintptr_t>(memory.address) - begin;
    if (inside <= region.length_bytes && memory.length_bytes <= region.length_bytes - inside)
      return region;
  }
  return std::nullopt;
}

Result<GpuMemory> allocate_gpu(SessionState& state, std::uint32_t gpu, std::uint64_t length_bytes) {
  const std::string attempted =
      "allocate " + std::to_string(length_bytes) + " bytes on gpu:" + std::to_string(gpu);
  if (state.contexts == nullptr) {
    Error error = *state.cuda_error;
    error.attempted = attempted + ": " + error.attempted;
    return error;
  }
  if (gpu >= state.machine.gpus.size()) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = attempted,
                 .detail = "this machine has " + std::to_string(state.machine.gpus.size()) +
                           " GPU(s), counted from 0"};
  }
  Result<system::cuda::CUcontext> context = state.contexts->context(gpu);
  if (!context.ok()) return std::move(context).error();
  system::Cuda& cuda = state.contexts->table();
  const system::ContextGuard guard(cuda, *context);
  if (guard.status() != system::cuda::success) return cuda_error(cuda, guard.status(), attempted);
  std::uint64_t rounded = length_bytes;
  if (!overflows_granularity(length_bytes)) {
    rounded =
        (length_bytes + gpu_granularity_bytes - 1) / gpu_granularity_bytes * gpu_granularity_bytes;
  }
  if (rounded == 0) rounded = gpu_granularity_bytes;
  system::cuda::CUdeviceptr pointer = 0;
  const system::cuda::CUresult code = cuda.mem_alloc(&pointer, rounded);
  if (code == system::cuda::error_out_of_memory) {
    Error error = cuda_error(cuda, code, attempted, Cause::memory_gpu_out_of_memory);
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    if (cuda.mem_get_info(&free_bytes, &total_bytes) == system::cuda::success) {
      error.detail += ", " + std::to_string(free_bytes) + " of " + std::to_string(total_bytes) +
                      " bytes are free";
    }
    return error;
  }
  if (code != system::cuda::success) return cuda_error(cuda, code, attempted);
  return GpuMemory{gpu, DevicePointer{pointer}, length_bytes};
}

void free_gpu(SessionState& state, const GpuMemory& memory) {
  if (state.contexts == nullptr) return;
  // The driver frees nothing before all that it was told to do has ended: with a copy that hangs it
  // would wait for ever, whosever the copy and the memory are.
  if (state.given_up.copies_hang() || (state.given_up.any() && state.given_up.uses(memory)))
    return state.given_up.keep(std::make_shared<GpuFreedLater>(state, memory));
  Result<system::cuda::CUcontext> context = state.contexts->context(memory.gpu);
  if (!context.ok()) return;
  const system::ContextGuard guard(state.contexts->table(), *context);
  (void)state.contexts->table().mem_free(memory.address.value);
}

void free_host(SessionState& state, const system::HostBuffer& buffer) {
  if (buffer.pinned && state.given_up.copies_hang())
    return state.given_up.keep(std::make_shared<HostFreedLater>(state, buffer));
  state.host.memory().free(buffer);
}

RegionState::RegionState(SessionState& owner, Place covered, AllocationKind memory_kind)
    : session(owner), place(covered), kind(memory_kind) {
  ++session.handles;
  if (const auto* gpu = std::get_if<GpuMemory>(&place)) {
    const std::scoped_lock lock(session.regions_mutex);
    session.gpu_regions[gpu->address.value] = RegionEntry{*gpu, kind, false};
    // The peer provider only remembers the kind: access is asked for when a pair is first used.
    if (session.providers.peer != nullptr) (void)session.providers.peer->attach({place, kind});
  }
  if (const auto* host = std::get_if<HostMemory>(&place)) {
    const std::scoped_lock lock(session.regions_mutex);
    session.host_places.push_back(*host);
  }
}

RegionState::~RegionState() {
  if (session.forked()) return;
  if (const auto* gpu = std::get_if<GpuMemory>(&place)) {
    bool attached = false;
    {
      const std::scoped_lock lock(session.regions_mutex);
      const auto found = session.gpu_regions.find(gpu->address.value);
      if (found != session.gpu_regions.end()) {
        attached = found->second.attached;
        session.gpu_regions.erase(found);
      }
    }
    if (attached) session.providers.storage->detach(core::RegionView{place, kind});
    if (session.providers.peer != nullptr) session.providers.peer->detach({place, kind});
    session.providers.nvme->detach({place, kind});
  }
  if (const auto* host = std::get_if<HostMemory>(&place)) {
    const std::scoped_lock lock(session.regions_mutex);
    const auto found = std::find_if(
        session.host_places.begin(), session.host_places.end(), [&](const HostMemory& one) {
          return one.address == host->address && one.length_bytes == host->length_bytes;
        });
    if (found != session.host_places.end()) session.host_places.erase(found);
  }
  // Adapters know memory of both kinds.
  if (session.providers.rdma != nullptr) session.providers.rdma->detach({place, kind});
  if (const auto* gpu = std::get_if<GpuMemory>(&place)) {
    if (owns_gpu) free_gpu(session, *gpu);
  }
  if (owned_host.address != nullptr) {
    {
      const std::scoped_lock lock(session.regions_mutex);
      session.host_regions.erase(reinterpret_cast<std::uint64_t>(owned_host.address));
    }
    free_host(session, owned_host);
  }
  --session.handles;
}

}  // namespace session

Region::Region(std::unique_ptr<RegionState> state) : state_(std::move(state)) {}
Region::Region(Region&&) noexcept = default;
Region& Region::operator=(Region&& other) noexcept {
  if (this != &other) {
    const Region ended(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}
Region::~Region() {
  if (state_ == nullptr) return;
  session::check(!state_->exported(), "a Region was destroyed before its Export");
  const Place covered = state_->place;
  session::drop(std::move(state_), covered, "a Region was destroyed while a transfer used it");
}

Place Region::place() const {
  return state_->place;
}
Place Region::place(std::uint64_t offset_bytes, std::uint64_t length) const {
  return part_of(state_->place, offset_bytes, length);
}
std::uint64_t Region::length_bytes() const {
  return nobounce::length_bytes(state_->place);
}
AllocationKind Region::kind() const {
  return state_->kind;
}
std::byte* Region::host_address() const {
  const auto* host = std::get_if<HostMemory>(&state_->place);
  return host == nullptr ? nullptr : host->address;
}

Result<Region> Session::allocate(std::uint32_t gpu, std::uint64_t length_bytes) {
  if (state_->forked()) return session::forked_error("allocate GPU memory");
  Result<GpuMemory> memory = session::allocate_gpu(*state_, gpu, length_bytes);
  if (!memory.ok()) return std::move(memory).error();
  auto region = std::make_unique<RegionState>(*state_, Place{*memory}, AllocationKind::device);
  region->owns_gpu = true;
  return Region(std::move(region));
}

Result<Region> Session::allocate_host(std::uint64_t length_bytes, std::uint32_t numa) {
  if (state_->forked()) return session::forked_error("allocate host memory");
  system::Memory& memory = state_->host.memory();
  const std::uint64_t reserved = length_bytes == 0 ? 1 : length_bytes;
  Result<system::HostBuffer> buffer =
      state_->contexts != nullptr ? memory.allocate_pinned(reserved, numa, system::MemoryUse::user)
                                  : memory.allocate_plain(reserved, numa);
  if (!buffer.ok()) return std::move(buffer).error();
  auto region = std::make_unique<RegionState>(
      *state_, Place{HostMemory{buffer->address, length_bytes}},
      buffer->pinned ? AllocationKind::host_pinned : AllocationKind::host_pageable);
  region->owned_host = *buffer;
  const std::scoped_lock lock(state_->regions_mutex);
  state_->host_regions[reinterpret_cast<std::uint64_t>(buffer->address)] = *buffer;
  return Region(std::move(region));
}

Result<Region> Session::adopt(DevicePointer address, std::uint64_t length_bytes) {
  if (state_->forked()) return session::forked_error("adopt GPU memory");
  Result<session::PointerFacts> facts = session::ask_pointer(*state_, address);
  if (!facts.ok()) return std::move(facts).error();
  const std::string attempted = "adopt " + std::to_string(length_bytes) + " bytes of GPU memory";
  const std::uint64_t inside = address.value - facts->range_start;
  if (facts->range_bytes != 0 &&
      (inside > facts->range_bytes || length_bytes > facts->range_bytes - inside)) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = attempted,
                 .cause = Cause::memory_too_small,
                 .detail = "the allocation ends after " +
                           std::to_string(facts->range_bytes - inside) + " bytes"};
  }
  if (facts->kind == AllocationKind::vmm) {
    // A reservation may be mapped in part only, or mapped and not yet given to its own GPU.
    const Result<std::uint64_t> mapped =
        session::mapped_bytes(*state_, facts->gpu, address, length_bytes);
    if (!mapped.ok()) return mapped.error();
    if (*mapped < length_bytes) {
      return Error{.origin = ErrorOrigin::input,
                   .attempted = attempted,
                   .cause = Cause::memory_kind_vmm,
                   .detail = "after " + std::to_string(*mapped) +
                             " bytes gpu:" + std::to_string(facts->gpu) +
                             " itself does not reach it: nothing is mapped there, or its own "
                             "access is not set"};
    }
  }
  return Region(std::make_unique<RegionState>(
      *state_, Place{GpuMemory{facts->gpu, address, length_bytes}}, facts->kind));
}

Result<Region> Session::adopt_host(std::byte* address, std::uint64_t length_bytes) {
  if (state_->forked()) return session::forked_error("adopt host memory");
  if (address == nullptr && length_bytes > 0) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "adopt " + std::to_string(length_bytes) + " bytes of host memory",
                 .detail = "the address is null"};
  }
  AllocationKind kind = AllocationKind::host_pageable;
  if (state_->contexts != nullptr) {
    const Result<session::PointerFacts> facts =
        session::ask_pointer(*state_, DevicePointer{reinterpret_cast<std::uint64_t>(address)});
    if (facts.ok()) kind = facts->kind;
  }
  return Region(
      std::make_unique<RegionState>(*state_, Place{HostMemory{address, length_bytes}}, kind));
}

}  // namespace nobounce
