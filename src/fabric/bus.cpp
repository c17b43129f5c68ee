// The bus: what lies where in the one address space, and who may see it.
#include "fabric/bus.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>

#include "fabric/bus_soft.hpp"

namespace nobounce::fabric {

Status SoftBus::make_gpus() {
  for (std::uint32_t gpu = 0; gpu < machine_.gpus.size(); ++gpu) {
    Result<std::unique_ptr<BusVram>> vram = BusVram::create(gpu, machine_.gpus[gpu].memory_bytes);
    if (!vram.ok()) return std::move(vram).error();
    vram_.push_back(std::move(vram).value());
    const std::uint64_t window_max = std::uint64_t{1} << layout::gpu_shift;
    const std::uint64_t more = planted(Mutant::bus_bar1_too_large) ? bar1_window_bytes : 0;
    bar1_.push_back(
        std::make_unique<BusBar1>(std::min(machine_.gpus[gpu].bar1_bytes, window_max) + more));
  }
  return {};
}

std::optional<DevicePointer> SoftBus::own_address(DevicePointer pointer,
                                                  std::uint64_t length_bytes) const {
  if (pointer.value < layout::device_window_base) return pointer;
  return device_map_.memory_at(pointer, length_bytes);
}

std::optional<std::uint32_t> SoftBus::gpu_of(DevicePointer pointer) const {
  if (pointer.value >= layout::device_window_base) {
    const auto own = device_map_.memory_at(pointer, 0);
    return own ? gpu_of(*own) : std::nullopt;
  }
  if (pointer.value < layout::vram_base) return std::nullopt;
  const std::uint64_t gpu = (pointer.value - layout::vram_base) >> layout::gpu_shift;
  if (gpu >= vram_.size()) return std::nullopt;
  if (pointer.value - vram_[gpu]->base().value > vram_[gpu]->size_bytes()) return std::nullopt;
  return static_cast<std::uint32_t>(gpu);
}

void SoftBus::mark_internal(DevicePointer pointer, std::uint64_t length_bytes, bool internal) {
  const auto gpu = gpu_of(pointer);
  if (!gpu || planted(Mutant::ledger_internal_forgotten)) return;
  BusVram& vram = *vram_[*gpu];
  vram.mark_internal(pointer.value - vram.base().value, length_bytes, internal);
}

void SoftBus::discard_vram(DevicePointer pointer, std::uint64_t length_bytes) {
  const auto gpu = gpu_of(pointer);
  if (!gpu || planted(Mutant::bus_memory_kept)) return;
  vram_[*gpu]->discard(pointer.value - vram_[*gpu]->base().value, length_bytes);
}

Result<BusAddress> SoftBus::map_bar1(DevicePointer pointer, std::uint64_t length_bytes) {
  Error error;
  error.origin = ErrorOrigin::fabric;
  error.attempted = "map " + std::to_string(length_bytes) + " bytes of GPU memory into BAR1";
  const auto memory = memory_at(End::of(pointer), length_bytes);
  if (!memory || length_bytes == 0) {
    error.detail = "not GPU memory";
    return error;
  }
  const std::uint32_t gpu = *memory->gpu;
  const std::uint64_t own = own_address(pointer, length_bytes)->value;
  const auto offset = bar1_[gpu]->map(own - vram_[gpu]->base().value, length_bytes);
  if (!offset) {
    error.detail = "BAR1 exhausted";
    return error;
  }
  return BusAddress{layout::bar1_base + (std::uint64_t{gpu} << layout::gpu_shift) + *offset};
}

bool SoftBus::unmap_bar1(BusAddress address) {
  if (address.value < layout::bar1_base || address.value >= layout::process_base) return false;
  const std::uint64_t inside = address.value - layout::bar1_base;
  const std::uint64_t gpu = inside >> layout::gpu_shift;
  if (gpu >= bar1_.size()) return false;
  if (planted(Mutant::bus_bar1_stale)) return true;
  return bar1_[gpu]->unmap(inside & ((std::uint64_t{1} << layout::gpu_shift) - 1));
}

void SoftBus::map_iommu(BusAddress address, std::uint64_t length_bytes) {
  const std::unique_lock lock(iommu_mutex_);
  iommu_[address.value] = address.value + length_bytes;
}

void SoftBus::unmap_iommu(BusAddress address) {
  const std::unique_lock lock(iommu_mutex_);
  iommu_.erase(address.value);
}

bool SoftBus::iommu_knows(BusAddress address, std::uint64_t length_bytes) const {
  const std::shared_lock lock(iommu_mutex_);
  const auto next = iommu_.upper_bound(address.value);
  return next != iommu_.begin() && std::prev(next)->second >= address.value + length_bytes;
}

std::optional<BusMemory> SoftBus::memory_at(const End& end, std::uint64_t length_bytes) const {
  if (end.kind == End::Kind::medium) return std::nullopt;
  if (end.kind == End::Kind::vram) {
    const auto own = own_address(end.pointer, length_bytes);
    const auto gpu = own ? gpu_of(*own) : std::nullopt;
    if (!gpu) return std::nullopt;
    return vram_[*gpu]->at(own->value - vram_[*gpu]->base().value, length_bytes);
  }
  const std::uint64_t address = end.address.value;
  if (address < layout::bar1_base || address >= layout::process_base) {
    return dram_.at(end.address, length_bytes);
  }
  const std::uint64_t gpu = (address - layout::bar1_base) >> layout::gpu_shift;
  if (gpu >= bar1_.size()) return std::nullopt;
  const std::uint64_t mask = (std::uint64_t{1} << layout::gpu_shift) - 1;
  const auto offset = bar1_[gpu]->memory_at((address - layout::bar1_base) & mask, length_bytes);
  if (!offset) return std::nullopt;
  return vram_[gpu]->at(*offset, length_bytes);
}

Extent SoftBus::page_cache_of(const Medium& medium, FileOffset offset) const {
  const std::uint32_t node =
      medium.drive ? routes_.node_of(routes_.mover_of_drive(*medium.drive)) : 0;
  return {Space{Space::Kind::dram, node}, offset.value, medium.inode, true};
}

bool SoftBus::inspect(const End& source, std::span<std::byte> target) const {
  const auto memory = memory_at(source, target.size());
  if (!memory) return false;
  std::memmove(target.data(), memory->pointer, target.size());
  return true;
}

bool SoftBus::plant(const End& target, std::span<const std::byte> source) {
  const auto memory = memory_at(target, source.size());
  if (!memory) return false;
  std::memmove(memory->pointer, source.data(), source.size());
  return true;
}

Extent SoftBus::extent_of(const End& end) const {
  if (end.kind == End::Kind::medium) {
    if (!end.medium.drive) return page_cache_of(end.medium, end.offset);
    return {Space{Space::Kind::media, *end.medium.drive}, end.offset.value, end.medium.inode,
            false};
  }
  const auto memory = memory_at(end, 0);
  return memory ? memory->extent : Extent{};
}

std::vector<std::span<const std::byte>> SoftBus::vram_mappings() const {
  std::vector<std::span<const std::byte>> mappings;
  for (const auto& vram : vram_) mappings.push_back(vram->mapping());
  return mappings;
}

Result<std::unique_ptr<Bus>> Bus::create(const Machine& machine, BusOptions options) {
  if (Status valid = validate(machine); !valid.ok()) return valid.error();
  if (machine.numa_nodes.empty() || machine.numa_nodes.size() > layout::nodes_max) {
    Error error;
    error.origin = ErrorOrigin::fabric;
    error.attempted = "build software machine " + machine.name;
    error.detail = "it needs 1 to 31 NUMA nodes";
    return error;
  }
  auto bus = std::make_unique<SoftBus>(machine, std::move(options));
  if (Status made = bus->make_gpus(); !made.ok()) return made.error();
  return std::unique_ptr<Bus>(std::move(bus));
}

}  // namespace nobounce::fabric
