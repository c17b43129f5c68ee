// Allocations of GPU memory by first fit, and the host ranges that CUDA knows.
#include "fabric/soft_gpu.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <utility>
#include <vector>

namespace nobounce::fabric {

/// Named, because GpuAllocations::State is made of it.
namespace gpu_arena {

constexpr std::uint64_t slab_bytes = 2u << 20;
constexpr std::uint64_t small_limit_bytes = 1u << 20;
constexpr std::uint64_t small_alignment_bytes = 512;

inline std::uint64_t round_up(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) / to * to;
}

/// First fit in [0, limit) between occupied ranges (begin -> length), at a multiple of `alignment`;
/// nothing where no gap is long enough.
inline std::optional<std::uint64_t> first_fit(
    const std::map<std::uint64_t, std::uint64_t>& occupied, std::uint64_t length,
    std::uint64_t limit, std::uint64_t alignment = 1) {
  std::uint64_t at = 0;
  for (const auto& [begin, taken] : occupied) {
    if (begin >= at && begin - at >= length) break;
    at = round_up(begin + taken, alignment);
  }
  if (length > limit || at > limit - length) return std::nullopt;
  return at;
}

/// One GPU's memory, as offsets.
class Arena {
 public:
  explicit Arena(std::uint64_t size_bytes) : size_bytes_(size_bytes / slab_bytes * slab_bytes) {}

  std::optional<std::uint64_t> allocate(std::uint64_t length_bytes) {
    if (length_bytes >= small_limit_bytes) return take_slabs(round_up(length_bytes, slab_bytes));
    const std::uint64_t length = round_up(length_bytes, small_alignment_bytes);
    for (auto& [begin, blocks] : slabs_) {
      if (const auto at = first_fit(blocks, length, slab_bytes)) {
        blocks.emplace(*at, length);
        return begin + *at;
      }
    }
    const auto slab = take_slabs(slab_bytes);
    if (slab) slabs_[*slab].emplace(0, length);
    return slab;
  }

  /// Whole slabs at a multiple of `alignment`.
  std::optional<std::uint64_t> take_slabs(std::uint64_t length, std::uint64_t alignment = 1) {
    const auto at = first_fit(taken_, length, size_bytes_, alignment);
    if (at) {
      taken_.emplace(*at, length);
      used_bytes_ += length;
    }
    return at;
  }

  /// Answers the range of whole slabs that became free, if any.
  std::pair<std::uint64_t, std::uint64_t> free(std::uint64_t offset) {
    const std::uint64_t begin = offset / slab_bytes * slab_bytes;
    if (const auto slab = slabs_.find(begin); slab != slabs_.end()) {
      slab->second.erase(offset - begin);
      if (!slab->second.empty()) return {0, 0};
      slabs_.erase(slab);
    }
    const auto taken = taken_.find(begin);
    const std::uint64_t length = taken->second;
    taken_.erase(taken);
    used_bytes_ -= length;
    return {begin, length};
  }

  [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_; }

 private:
  std::uint64_t size_bytes_;
  std::uint64_t used_bytes_ = 0;
  std::map<std::uint64_t, std::uint64_t> taken_;
  std::map<std::uint64_t, std::map<std::uint64_t, std::uint64_t>> slabs_;
};

using ByAddress = std::map<std::uint64_t, GpuAllocation>;

inline std::optional<GpuAllocation> holder_of(const ByAddress& all, std::uint64_t address) {
  const auto next = all.upper_bound(address);
  if (next == all.begin()) return std::nullopt;
  const GpuAllocation& candidate = std::prev(next)->second;
  if (address - candidate.base.value >= candidate.length_bytes) return std::nullopt;
  return candidate;
}

}  // namespace gpu_arena

using gpu_arena::Arena;
using gpu_arena::ByAddress;
using gpu_arena::holder_of;

struct GpuAllocations::State {
  explicit State(Bus& of) : bus(of) {}
  Bus& bus;
  mutable std::shared_mutex mutex;
  std::vector<Arena> arenas;
  ByAddress device;
  ByAddress host;
  Arena window{std::uint64_t{1} << 44};  ///< device addresses that stand for memory elsewhere
  std::uint64_t next_id = 1;
  std::set<std::uint64_t> alive;  ///< ids
};

GpuAllocations::GpuAllocations(Bus& bus) : state_(new State(bus)) {
  for (const Gpu& gpu : bus.machine().gpus) state_->arenas.emplace_back(gpu.memory_bytes);
}

GpuAllocations::~GpuAllocations() = default;

std::optional<DevicePointer> GpuAllocations::allocate(std::uint32_t gpu, std::uint64_t length_bytes,
                                                      bool internal) {
  GpuAllocation wanted;
  wanted.gpu = gpu;
  wanted.length_bytes = length_bytes;
  wanted.internal = internal;
  return take(wanted);
}

std::optional<DevicePointer> GpuAllocations::allocate_hidden(std::uint32_t gpu,
                                                             std::uint64_t length_bytes) {
  GpuAllocation wanted;
  wanted.gpu = gpu;
  wanted.length_bytes = length_bytes;
  wanted.hidden = true;
  return take(wanted);
}

std::optional<DevicePointer> GpuAllocations::allocate_pooled(std::uint32_t gpu,
                                                             std::uint64_t length_bytes,
                                                             std::uint64_t pool) {
  GpuAllocation wanted;
  wanted.gpu = gpu;
  wanted.length_bytes = length_bytes;
  wanted.kind = AllocationKind::pool;
  wanted.source = pool;
  return take(wanted);
}

std::optional<DevicePointer> GpuAllocations::take(GpuAllocation wanted) {
  const std::uint32_t gpu = wanted.gpu;
  const std::uint64_t length_bytes = wanted.length_bytes;
  const std::unique_lock lock(state_->mutex);
  if (gpu >= state_->arenas.size() || length_bytes == 0 ||
      length_bytes > state_->bus.machine().gpus[gpu].memory_bytes) {
    return std::nullopt;
  }
  const auto offset = state_->arenas[gpu].allocate(length_bytes);
  if (!offset) return std::nullopt;
  const DevicePointer base = state_->bus.vram_base(gpu).plus(*offset);
  wanted.base = base;
  wanted.memory = base;
  wanted.id = state_->next_id++;
  state_->alive.insert(wanted.id);
  state_->device[base.value] = wanted;
  if (wanted.internal) state_->bus.mark_internal(base, length_bytes, true);
  return base;
}

bool GpuAllocations::free(DevicePointer base) {
  const std::unique_lock lock(state_->mutex);
  const auto found = state_->device.find(base.value);
  if (found == state_->device.end()) return false;
  const GpuAllocation old = found->second;
  state_->device.erase(found);
  state_->alive.erase(old.id);
  if (old.internal) state_->bus.mark_internal(base, old.length_bytes, false);
  const DevicePointer memory = state_->bus.vram_base(old.gpu);
  const auto [begin, length] = state_->arenas[old.gpu].free(base.value - memory.value);
  if (length > 0) state_->bus.discard_vram(memory.plus(begin), length);
  return true;
}

void GpuAllocations::free_all(std::uint32_t gpu) {
  std::vector<DevicePointer> bases;
  {
    const std::shared_lock lock(state_->mutex);
    for (const auto& [address, allocation] : state_->device) {
      const bool of_context = allocation.kind == AllocationKind::device && !allocation.hidden;
      if (allocation.gpu == gpu && !allocation.internal && of_context) {
        bases.push_back(allocation.base);
      }
    }
  }
  for (const DevicePointer base : bases) free(base);
}

void GpuAllocations::hide(DevicePointer base) {
  const std::unique_lock lock(state_->mutex);
  const auto found = state_->device.find(base.value);
  if (found != state_->device.end()) found->second.hidden = true;
}

std::optional<GpuAllocation> GpuAllocations::find(DevicePointer address) const {
  const std::shared_lock lock(state_->mutex);
  std::optional<GpuAllocation> holder = holder_of(state_->device, address.value);
  return holder && !holder->hidden ? holder : std::nullopt;
}

bool GpuAllocations::alive(std::uint64_t id) const {
  const std::shared_lock lock(state_->mutex);
  return state_->alive.count(id) > 0;
}

std::optional<DevicePointer> GpuAllocations::reserve_addresses(std::uint64_t length_bytes,
                                                               std::uint64_t alignment) {
  // The window itself is aligned to more than anybody asks for.
  if (alignment > 1 && state_->bus.device_window().value % alignment != 0) return std::nullopt;
  const std::unique_lock lock(state_->mutex);
  // Whole slabs, so that a small range does not share one.
  const auto at =
      state_->window.take_slabs(gpu_arena::round_up(length_bytes, gpu_arena::slab_bytes),
                                std::max<std::uint64_t>(alignment, 1));
  if (!at) return std::nullopt;
  return state_->bus.device_window().plus(*at);
}

void GpuAllocations::release_addresses(DevicePointer base) {
  const std::unique_lock lock(state_->mutex);
  (void)state_->window.free(base.value - state_->bus.device_window().value);
}

void GpuAllocations::add_mapping(const GpuAllocation& mapping) {
  const std::unique_lock lock(state_->mutex);
  GpuAllocation& added = state_->device[mapping.base.value];
  added = mapping;
  added.id = state_->next_id++;
  state_->alive.insert(added.id);
  state_->bus.map_device(mapping.base, mapping.length_bytes, mapping.memory);
}

void GpuAllocations::remove_mapping(DevicePointer base) {
  const std::unique_lock lock(state_->mutex);
  if (const auto found = state_->device.find(base.value); found != state_->device.end()) {
    state_->alive.erase(found->second.id);
    state_->device.erase(found);
  }
  state_->bus.unmap_device(base);
}

std::uint64_t GpuAllocations::used_bytes(std::uint32_t gpu) const {
  const std::shared_lock lock(state_->mutex);
  return state_->arenas.at(gpu).used_bytes();
}

bool GpuAllocations::add_host(const void* base, std::uint64_t length_bytes, AllocationKind kind,
                              std::uint32_t gpu) {
  const auto begin = reinterpret_cast<std::uintptr_t>(base);
  const std::unique_lock lock(state_->mutex);
  const auto next = state_->host.lower_bound(begin);
  if (next != state_->host.end() && next->first - begin < length_bytes) return false;
  if (holder_of(state_->host, begin)) return false;
  state_->host[begin] = {DevicePointer{begin}, length_bytes, gpu, kind, false};
  return true;
}

bool GpuAllocations::remove_host(const void* base) {
  const std::unique_lock lock(state_->mutex);
  return state_->host.erase(reinterpret_cast<std::uintptr_t>(base)) > 0;
}

std::optional<GpuAllocation> GpuAllocations::find_host(const void* address) const {
  const std::shared_lock lock(state_->mutex);
  return holder_of(state_->host, reinterpret_cast<std::uintptr_t>(address));
}

}  // namespace nobounce::fabric
