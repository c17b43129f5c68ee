// The bus at work: finds both ends of a request, routes it, moves the bytes and writes down what
// happened.
#include "fabric/bus.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "fabric/bus_bar1.hpp"
#include "fabric/bus_memory.hpp"
#include "fabric/bus_routes.hpp"
#include "fabric/bus_trap.hpp"

namespace nobounce::fabric {

namespace {

DeviceRef gpu_ref(std::uint32_t gpu) {
  return {DeviceRef::Kind::gpu, static_cast<std::uint16_t>(gpu)};
}

Initiator initiator_of(DeviceRef device) {
  const auto kind =
      device.kind == DeviceRef::Kind::nic ? Initiator::Kind::nic : Initiator::Kind::drive;
  return {kind, device.index};
}

/// pread or pwrite until the length, the end of the file or an error.
struct FileTransfer {
  std::uint64_t bytes = 0;
  int errno_value = 0;
};

FileTransfer move_file(const Medium& medium, FileOffset offset, std::byte* memory,
                       std::uint64_t length_bytes, bool reading) {
  FileTransfer result;
  while (result.bytes < length_bytes) {
    const std::size_t rest = static_cast<std::size_t>(length_bytes - result.bytes);
    const off_t at = static_cast<off_t>(offset.value + result.bytes);
    std::byte* here = memory + result.bytes;
    const ssize_t moved = reading ? ::pread(medium.descriptor, here, rest, at)
                                  : ::pwrite(medium.descriptor, here, rest, at);
    if (moved < 0) {
      if (errno == EINTR) continue;
      result.errno_value = errno;
      return result;
    }
    if (moved == 0) return result;
    result.bytes += static_cast<std::uint64_t>(moved);
    // An O_DIRECT transfer that ends off a block boundary ended at the end of the file.
    if (reading && (moved % 512) != 0) return result;
  }
  return result;
}

Carried bad_address() {
  return {BusOutcome::bad_address, 0, 0, Link::none, false};
}

class SoftBus final : public Bus {
 public:
  SoftBus(const Machine& machine, BusOptions options)
      : machine_(machine),
        options_(std::move(options)),
        trap_(options_.trap_cpu_touches ? std::make_unique<BusTrap>() : nullptr),
        dram_(machine_, trap_.get()),
        routes_(machine_) {}

  Status make_gpus();

  const Machine& machine() const override { return machine_; }
  const Ledger& ledger() const override { return ledger_; }
  Ledger& ledger() override { return ledger_; }

  Result<DramBuffer> allocate_dram(std::uint32_t node, std::uint64_t length_bytes,
                                   DramUse use) override {
    return dram_.allocate(node, length_bytes, use);
  }
  void free_dram(const DramBuffer& buffer) override { dram_.free(buffer); }
  BusAddress address_of(const void* pointer) const override { return dram_.address_of(pointer); }
  std::uint64_t cpu_touches() const override { return trap_ == nullptr ? 0 : trap_->touches(); }

  DevicePointer vram_base(std::uint32_t gpu) const override { return vram_.at(gpu)->base(); }
  std::optional<std::uint32_t> gpu_of(DevicePointer pointer) const override;
  void mark_internal(DevicePointer pointer, std::uint64_t length_bytes, bool internal) override;
  void discard_vram(DevicePointer pointer, std::uint64_t length_bytes) override;

  Result<BusAddress> map_bar1(DevicePointer pointer, std::uint64_t length_bytes) override;
  bool unmap_bar1(BusAddress address) override;
  std::uint64_t bar1_used_bytes(std::uint32_t gpu) const override {
    return bar1_.at(gpu)->used_bytes();
  }
  void map_iommu(BusAddress address, std::uint64_t length_bytes) override;
  void unmap_iommu(BusAddress address) override;

  Carried dma(Initiator initiator, const End& source, const End& target,
              std::uint64_t length_bytes) override;
  Carried read_file(const Medium& medium, FileOffset offset, BusAddress target,
                    std::uint64_t length_bytes, FileIo io) override;
  Carried write_file(const Medium& medium, FileOffset offset, BusAddress source,
                     std::uint64_t length_bytes, FileIo io) override;
  Carried cpu_copy(BusAddress target, BusAddress source, std::uint64_t length_bytes) override;
  Carried fill_vram(DevicePointer target, std::uint8_t value, std::uint64_t length_bytes) override;

  bool inspect(const End& source, std::span<std::byte> target) const override;
  bool plant(const End& target, std::span<const std::byte> source) override;
  Extent extent_of(const End& end) const override;
  std::vector<std::span<const std::byte>> vram_mappings() const override;

 private:
  /// What a request goes over, or why it does not.
  struct Way {
    const BusRoute* route = nullptr;  ///< null: it never leaves the device
    BusOutcome outcome = BusOutcome::done;
  };

  [[nodiscard]] std::optional<BusMemory> memory_at(const End& end,
                                                   std::uint64_t length_bytes) const;
  [[nodiscard]] bool iommu_knows(BusAddress address, std::uint64_t length_bytes) const;
  [[nodiscard]] Way peer_way(DeviceRef source, DeviceRef target, const End& claimed,
                             std::uint64_t length_bytes);
  [[nodiscard]] Way way_between(DeviceRef device, const BusMemory& memory, const End& end,
                                bool towards_memory, std::uint64_t length_bytes);
  [[nodiscard]] Extent page_cache_of(const Medium& medium, FileOffset offset) const;
  [[nodiscard]] Carried device_file(Initiator initiator, const End& source, const End& target,
                                    std::uint64_t length_bytes);
  [[nodiscard]] Carried engine_copy(std::uint32_t gpu, const End& source, const End& target,
                                    std::uint64_t length_bytes);
  [[nodiscard]] Carried lose(const Way& way, Request request);
  [[nodiscard]] Carried write_down(const BusRoute* route, Request request);
  void write_links(const BusRoute& route, std::size_t hops, std::uint64_t length_bytes);
  [[nodiscard]] Carried move_by_file(const Medium& medium, FileOffset offset, BusAddress memory,
                                     std::uint64_t length_bytes, FileIo io, bool reading);
  void spend(std::uint64_t length_bytes) {
    if (options_.carried) options_.carried(length_bytes);
  }
  void reseal() {
    if (trap_ != nullptr) trap_->reseal();
  }

  const Machine machine_;
  const BusOptions options_;
  std::unique_ptr<BusTrap> trap_;
  BusDram dram_;
  BusRoutes routes_;
  Ledger ledger_;
  std::vector<std::unique_ptr<BusVram>> vram_;
  std::vector<std::unique_ptr<BusBar1>> bar1_;
  mutable std::shared_mutex iommu_mutex_;
  std::map<std::uint64_t, std::uint64_t> iommu_;  ///< begin -> end
};

Status SoftBus::make_gpus() {
  for (std::uint32_t gpu = 0; gpu < machine_.gpus.size(); ++gpu) {
    Result<std::unique_ptr<BusVram>> vram = BusVram::create(gpu, machine_.gpus[gpu].memory_bytes);
    if (!vram.ok()) return std::move(vram).error();
    vram_.push_back(std::move(vram).value());
    const std::uint64_t window_max = std::uint64_t{1} << layout::gpu_shift;
    bar1_.push_back(std::make_unique<BusBar1>(std::min(machine_.gpus[gpu].bar1_bytes, window_max)));
  }
  return {};
}

std::optional<std::uint32_t> SoftBus::gpu_of(DevicePointer pointer) const {
  if (pointer.value < layout::vram_base) return std::nullopt;
  const std::uint64_t gpu = (pointer.value - layout::vram_base) >> layout::gpu_shift;
  if (gpu >= vram_.size()) return std::nullopt;
  if (pointer.value - vram_[gpu]->base().value > vram_[gpu]->size_bytes()) return std::nullopt;
  return static_cast<std::uint32_t>(gpu);
}

void SoftBus::mark_internal(DevicePointer pointer, std::uint64_t length_bytes, bool internal) {
  const auto gpu = gpu_of(pointer);
  if (!gpu) return;
  BusVram& vram = *vram_[*gpu];
  vram.mark_internal(pointer.value - vram.base().value, length_bytes, internal);
}

void SoftBus::discard_vram(DevicePointer pointer, std::uint64_t length_bytes) {
  const auto gpu = gpu_of(pointer);
  if (!gpu) return;
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
  const auto offset = bar1_[gpu]->map(pointer.value - vram_[gpu]->base().value, length_bytes);
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
    const auto gpu = gpu_of(end.pointer);
    if (!gpu) return std::nullopt;
    return vram_[*gpu]->at(end.pointer.value - vram_[*gpu]->base().value, length_bytes);
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

SoftBus::Way SoftBus::peer_way(DeviceRef source, DeviceRef target, const End& claimed,
                               std::uint64_t length_bytes) {
  Way way;
  // Behind a translating IOMMU an address means something only to the IOMMU: every peer request
  // goes up to it.
  const bool translated = machine_.kernel.iommu == IommuMode::translated;
  way.route = translated ? &routes_.peer_upwards(source, target) : &routes_.peer(source, target);
  const bool unknown = translated && !(claimed.kind == End::Kind::address &&
                                       iommu_knows(claimed.address, length_bytes));
  if (unknown || !way.route->allowed) {
    way.outcome = BusOutcome::lost;
  } else if (options_.dma_fault && options_.dma_fault()) {
    way.outcome = BusOutcome::faulted;
  }
  return way;
}

SoftBus::Way SoftBus::way_between(DeviceRef device, const BusMemory& memory, const End& end,
                                  bool towards_memory, std::uint64_t length_bytes) {
  if (!memory.gpu) {
    const std::uint32_t node = memory.extent.space.index;
    return {towards_memory ? &routes_.to_dram(device, node) : &routes_.from_dram(node, device),
            BusOutcome::done};
  }
  const DeviceRef gpu = gpu_ref(*memory.gpu);
  if (gpu == device) return {};
  return towards_memory ? peer_way(device, gpu, end, length_bytes)
                        : peer_way(gpu, device, end, length_bytes);
}

void SoftBus::write_links(const BusRoute& route, std::size_t hops, std::uint64_t length_bytes) {
  for (std::size_t i = 0; i < hops; ++i) {
    const BusHop& hop = route.hops[i];
    ledger_.record_link(hop.link, hop.towards_device ? length_bytes : 0,
                        hop.towards_device ? 0 : length_bytes);
  }
}

Carried SoftBus::lose(const Way& way, Request request) {
  request.link = way.route->link;
  request.redirected = way.route->redirected;
  write_links(*way.route, way.route->hops_if_lost, request.length_bytes);
  ledger_.record_lost(request);
  spend(request.length_bytes);
  return {way.outcome, 0, 0, request.link, request.redirected};
}

Carried SoftBus::write_down(const BusRoute* route, Request request) {
  if (route != nullptr) {
    request.link = route->link;
    request.redirected = route->redirected;
    if (request.length_bytes > 0) write_links(*route, route->hops.size(), request.length_bytes);
  }
  ledger_.record_request(request);
  spend(request.length_bytes);
  return {BusOutcome::done, request.length_bytes, 0, request.link, request.redirected};
}

Carried SoftBus::dma(Initiator initiator, const End& source, const End& target,
                     std::uint64_t length_bytes) {
  if (length_bytes == 0) return {};
  reseal();
  switch (initiator.kind) {
    case Initiator::Kind::drive:
    case Initiator::Kind::nic:
      return device_file(initiator, source, target, length_bytes);
    case Initiator::Kind::copy_engine:
      return initiator.index < vram_.size()
                 ? engine_copy(initiator.index, source, target, length_bytes)
                 : bad_address();
    default:
      return bad_address();
  }
}

Carried SoftBus::device_file(Initiator initiator, const End& source, const End& target,
                             std::uint64_t length_bytes) {
  const bool reading = source.kind == End::Kind::medium;
  const End& file = reading ? source : target;
  const End& other = reading ? target : source;
  const Medium& medium = file.medium;
  if (file.kind != End::Kind::medium || other.kind != End::Kind::address || !medium.drive ||
      *medium.drive >= machine_.drives.size()) {
    return bad_address();
  }
  const DeviceRef mover = routes_.mover_of_drive(*medium.drive);
  const bool is_drive = initiator == Initiator{Initiator::Kind::drive, *medium.drive};
  if (!is_drive && initiator != initiator_of(mover)) return bad_address();
  const auto memory = memory_at(other, length_bytes);
  if (!memory) return bad_address();

  Request request{initiator_of(mover), extent_of(file), memory->extent,
                  length_bytes,        Link::none,      false};
  if (!reading) std::swap(request.source, request.target);
  const Way way = way_between(mover, *memory, other, reading, length_bytes);
  if (way.outcome != BusOutcome::done) return lose(way, request);
  const FileTransfer moved = move_file(medium, file.offset, memory->pointer, length_bytes, reading);
  request.length_bytes = moved.bytes;
  Carried carried = write_down(way.route, request);
  if (moved.errno_value != 0) carried.outcome = BusOutcome::io_error;
  carried.errno_value = moved.errno_value;
  return carried;
}

Carried SoftBus::engine_copy(std::uint32_t gpu, const End& source, const End& target,
                             std::uint64_t length_bytes) {
  const auto from = memory_at(source, length_bytes);
  const auto to = memory_at(target, length_bytes);
  if (!from || !to) return bad_address();
  const bool owns = (from->gpu == gpu) || (to->gpu == gpu);
  if (!owns) return bad_address();
  const Initiator engine{Initiator::Kind::copy_engine, gpu};
  const Request request{engine, from->extent, to->extent, length_bytes, Link::none, false};

  Way way;
  if (from->gpu && to->gpu && *from->gpu != *to->gpu) {
    way.route = routes_.nvlink(*from->gpu, *to->gpu);
    if (way.route == nullptr) {
      const End& foreign = *from->gpu == gpu ? target : source;
      way = peer_way(gpu_ref(*from->gpu), gpu_ref(*to->gpu), foreign, length_bytes);
    } else if (options_.dma_fault && options_.dma_fault()) {
      way.outcome = BusOutcome::faulted;
    }
  } else if (from->gpu != to->gpu) {
    const BusMemory& memory = from->gpu ? *to : *from;
    way = way_between(gpu_ref(gpu), memory, from->gpu ? target : source, from->gpu.has_value(),
                      length_bytes);
  }
  if (way.outcome != BusOutcome::done) return lose(way, request);
  std::memmove(to->pointer, from->pointer, static_cast<std::size_t>(length_bytes));
  return write_down(way.route, request);
}

Extent SoftBus::page_cache_of(const Medium& medium, FileOffset offset) const {
  const std::uint32_t node =
      medium.drive ? routes_.node_of(routes_.mover_of_drive(*medium.drive)) : 0;
  return {Space{Space::Kind::dram, node}, offset.value, medium.inode, true};
}

Carried SoftBus::read_file(const Medium& medium, FileOffset offset, BusAddress target,
                           std::uint64_t length_bytes, FileIo io) {
  return move_by_file(medium, offset, target, length_bytes, io, true);
}

Carried SoftBus::write_file(const Medium& medium, FileOffset offset, BusAddress source,
                            std::uint64_t length_bytes, FileIo io) {
  return move_by_file(medium, offset, source, length_bytes, io, false);
}

Carried SoftBus::move_by_file(const Medium& medium, FileOffset offset, BusAddress address,
                              std::uint64_t length_bytes, FileIo io, bool reading) {
  if (length_bytes == 0) return {};
  if (medium.drive && *medium.drive >= machine_.drives.size()) return bad_address();
  reseal();
  const auto memory = memory_at(End::at(address), length_bytes);
  if (!memory || memory->gpu) return bad_address();
  const FileTransfer moved = move_file(medium, offset, memory->pointer, length_bytes, reading);

  const Extent file = extent_of(End::of(medium, offset));
  const Extent cache = page_cache_of(medium, offset);
  // By the device: between the medium and the page cache, or the buffer itself with O_DIRECT. A
  // medium on no drive is the page cache.
  const auto by_device = [&](const Extent& host) {
    const DeviceRef mover = routes_.mover_of_drive(*medium.drive);
    Request request{initiator_of(mover), file, host, moved.bytes, Link::none, false};
    if (!reading) std::swap(request.source, request.target);
    const std::uint32_t node = host.space.index;
    return write_down(reading ? &routes_.to_dram(mover, node) : &routes_.from_dram(node, mover),
                      request);
  };
  const auto by_cpu = [&] {
    Request request{Initiator{}, cache, memory->extent, moved.bytes, Link::none, false};
    if (!reading) std::swap(request.source, request.target);
    return write_down(nullptr, request);
  };
  Carried carried;
  if (!medium.drive) {
    carried = by_cpu();
  } else if (io == FileIo::direct) {
    carried = by_device(memory->extent);
  } else if (reading) {
    carried = by_device(cache);
    (void)by_cpu();
  } else {
    (void)by_cpu();
    carried = by_device(cache);
  }
  if (moved.errno_value != 0) carried.outcome = BusOutcome::io_error;
  carried.errno_value = moved.errno_value;
  return carried;
}

Carried SoftBus::cpu_copy(BusAddress target, BusAddress source, std::uint64_t length_bytes) {
  if (length_bytes == 0) return {};
  reseal();
  const auto from = memory_at(End::at(source), length_bytes);
  const auto to = memory_at(End::at(target), length_bytes);
  if (!from || !to || from->gpu || to->gpu) return bad_address();
  std::memmove(to->pointer, from->pointer, static_cast<std::size_t>(length_bytes));
  return write_down(nullptr,
                    {Initiator{}, from->extent, to->extent, length_bytes, Link::none, false});
}

Carried SoftBus::fill_vram(DevicePointer target, std::uint8_t value, std::uint64_t length_bytes) {
  if (length_bytes == 0) return {};
  const auto memory = memory_at(End::of(target), length_bytes);
  if (!memory) return bad_address();
  std::memset(memory->pointer, value, static_cast<std::size_t>(length_bytes));
  // Nothing was read: the memory itself stands as the source.
  Extent source = memory->extent;
  source.internal = false;
  const Initiator engine{Initiator::Kind::copy_engine, *memory->gpu};
  return write_down(nullptr, {engine, source, memory->extent, length_bytes, Link::none, false});
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

}  // namespace

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
