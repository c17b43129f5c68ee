// The bus at work: finds both ends of a request, routes it, moves the bytes and writes down what
// happened.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/device_refs.hpp"
#include "fabric/bus_soft.hpp"

namespace nobounce::fabric {

namespace {

using core::gpu_ref;

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

}  // namespace

SoftBus::Way SoftBus::peer_way(DeviceRef source, DeviceRef target, const End& claimed,
                               std::uint64_t length_bytes) {
  Way way;
  // Behind a translating IOMMU an address means something only to the IOMMU: every peer request
  // goes up to it.
  const bool translated = machine_.kernel.iommu == IommuMode::translated;
  way.route = translated ? &routes_.peer_upwards(source, target) : &routes_.peer(source, target);
  const bool asked = translated && !planted(Mutant::bus_iommu_ignored);
  const bool unknown =
      asked && !(claimed.kind == End::Kind::address && iommu_knows(claimed.address, length_bytes));
  if (unknown || !way.route->allowed) {
    way.outcome = BusOutcome::lost;
  } else if (options_.dma_fault && options_.dma_fault()) {
    if (!planted(Mutant::bus_fault_unheard)) way.outcome = BusOutcome::faulted;
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
  if (planted(Mutant::bus_lost_called_done)) return write_down(way.route, request);
  write_links(*way.route, way.route->hops_if_lost, request.length_bytes);
  ledger_.record_lost(request);
  spend(request.length_bytes);
  return {way.outcome, 0, 0, request.link, request.redirected};
}

Carried SoftBus::write_down(const BusRoute* route, Request request) {
  if (route != nullptr) {
    request.link = route->link;
    request.redirected = route->redirected && !planted(Mutant::bus_redirect_forgotten);
    if (request.length_bytes > 0) write_links(*route, route->hops.size(), request.length_bytes);
  }
  ledger_.record_request(request);
  spend(request.length_bytes);
  return {BusOutcome::done, request.length_bytes, 0, request.link, request.redirected};
}

std::byte* SoftBus::landing(const BusMemory& memory) const {
  // What lies beside a buffer of DRAM may belong to anybody, what lies beside GPU memory to the
  // GPU.
  const bool beside = planted(Mutant::bus_dma_misrouted) && memory.gpu;
  return memory.pointer + (beside ? 64 : 0);
}

std::uint64_t SoftBus::landing_bytes(std::uint64_t length_bytes) const {
  return planted(Mutant::bus_last_byte_lost) ? length_bytes - 1 : length_bytes;
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
  FileTransfer moved;
  if (planted(Mutant::bus_write_dropped)) {
    moved.bytes = length_bytes;
  } else {
    const std::uint64_t length = landing_bytes(length_bytes);
    moved = move_file(medium, file.offset, reading ? landing(*memory) : memory->pointer, length,
                      reading);
    if (moved.bytes == length) moved.bytes = length_bytes;
  }
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
  if (!planted(Mutant::bus_write_dropped)) {
    std::memmove(landing(*to), from->pointer,
                 static_cast<std::size_t>(landing_bytes(length_bytes)));
  }
  return write_down(way.route, request);
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
    if (!planted(Mutant::ledger_page_cache_missing)) (void)by_cpu();
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

}  // namespace nobounce::fabric
