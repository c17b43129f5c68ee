// CufileMover: bus requests, piece by piece. It touches no memory and counts no byte itself.
#include "fabric/soft_cufile_mover.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "system/cufile_types.hpp"

namespace nobounce::fabric {
namespace {

std::uint64_t block_begin(std::uint64_t offset) {
  return offset - offset % CufileMover::alignment;
}

std::uint64_t block_end(std::uint64_t offset) {
  return block_begin(offset + CufileMover::alignment - 1);
}

int errno_of(const Carried& carried) {
  switch (carried.outcome) {
    case BusOutcome::done:
      return 0;
    case BusOutcome::io_error:
      return carried.errno_value != 0 ? carried.errno_value : EIO;
    case BusOutcome::bad_address:
      return EFAULT;
    case BusOutcome::lost:
    case BusOutcome::faulted:
      break;
  }
  return EIO;
}

Initiator drive_of_move(const CufileMove& move) {
  return Initiator{Initiator::Kind::drive, move.medium.drive.value_or(0)};
}

}  // namespace

CufileMover::CufileMover(Bus& bus, const Machine& machine, GpuAllocations& allocations)
    : bus_(bus), machine_(machine), allocations_(allocations) {
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    caches_.push_back(std::make_unique<BounceCache>());
  }
}

CufileMover::~CufileMover() {
  release();
}

void CufileMover::release() {
  for (const std::unique_ptr<BounceCache>& cache : caches_) {
    const std::lock_guard lock(cache->mutex);
    if (!cache->base) continue;
    bus_.unmap_bar1(cache->window);
    allocations_.free(*cache->base);
    cache->base.reset();
  }
  const std::lock_guard lock(staging_mutex_);
  for (const DramBuffer& buffer : staging_) bus_.free_dram(buffer);
  staging_.clear();
}

bool CufileMover::aligned(const CufileMove& move) {
  return move.offset.value % alignment == 0 && move.requested_bytes % alignment == 0 &&
         move.pointer.value % alignment == 0;
}

bool CufileMover::takes_for_aligned(const CufileMove& move) const {
  return bus_.planted(Mutant::cufile_bounce_skipped) || aligned(move);
}

CufileMoved CufileMover::move_direct(const CufileMove& move, std::uint64_t piece_bytes,
                                     std::uint64_t cache_bytes) {
  const bool straight = takes_for_aligned(move);
  if (!straight || !move.window) {
    CufileMoved moved = move_bounced(move, 0, cache_bytes);
    moved.unaligned = !straight;
    return moved;
  }
  const bool skips = bus_.planted(Mutant::cufile_bounce_skipped);
  const std::uint64_t body_bytes = skips ? move.length_bytes : block_begin(move.length_bytes);
  CufileMoved moved = move_window(move, body_bytes, piece_bytes);
  if (moved.errno_value != 0 || moved.bytes < body_bytes || body_bytes == move.length_bytes) {
    return moved;
  }
  moved = move_bounced(move, body_bytes, cache_bytes);
  moved.unaligned = true;
  return moved;
}

CufileMoved CufileMover::move_window(const CufileMove& move, std::uint64_t length_bytes,
                                     std::uint64_t piece_bytes) {
  CufileMoved moved;
  while (moved.bytes < length_bytes) {
    const std::uint64_t length = std::min(piece_bytes, length_bytes - moved.bytes);
    const End file = End::of(move.medium, move.offset.plus(moved.bytes));
    const End memory = End::at(move.window->plus(moved.bytes));
    if (bus_.planted(Mutant::cufile_early) && moved.bytes + length == length_bytes) {
      moved.bytes = length_bytes;
      break;
    }
    const Carried carried = move.writing ? bus_.dma(drive_of_move(move), memory, file, length)
                                         : bus_.dma(drive_of_move(move), file, memory, length);
    moved.bytes += carried.bytes;
    moved.errno_value = errno_of(carried);
    if (moved.errno_value != 0 || carried.bytes < length) break;
  }
  return moved;
}

CufileMoved CufileMover::move_bounced(const CufileMove& move, std::uint64_t done_bytes,
                                      std::uint64_t cache_bytes) {
  CufileMoved moved;
  moved.bytes = done_bytes;
  BounceCache& cache = *caches_[move.gpu];
  const std::lock_guard lock(cache.mutex);
  moved.errno_value = fill_cache(cache, move.gpu, cache_bytes);
  while (moved.errno_value == 0 && moved.bytes < move.length_bytes) {
    const CufileMoved piece =
        move.writing ? bounce_out(move, moved.bytes, cache) : bounce_in(move, moved.bytes, cache);
    moved.bytes += piece.bytes;
    moved.errno_value = piece.errno_value;
    if (piece.bytes == 0) break;
  }
  return moved;
}

// The drive reads whole blocks; only what was asked for leaves the cache.
CufileMoved CufileMover::bounce_in(const CufileMove& move, std::uint64_t at, BounceCache& cache) {
  CufileMoved moved;
  const std::uint64_t offset = move.offset.value + at;
  const std::uint64_t begin = block_begin(offset);
  const std::uint64_t end =
      std::min(move.offset.value + move.length_bytes, begin + cache.length_bytes);
  const Carried carried = bus_.dma(drive_of_move(move), End::of(move.medium, FileOffset{begin}),
                                   End::at(cache.window), block_end(end) - begin);
  moved.errno_value = errno_of(carried);
  const std::uint64_t got_end = std::min(begin + carried.bytes, end);
  if (got_end <= offset) return moved;
  const Carried copied = bus_.dma(Initiator{Initiator::Kind::copy_engine, move.gpu},
                                  End::of(cache.base->plus(offset - begin)),
                                  End::of(move.pointer.plus(at)), got_end - offset);
  if (!copied.ok()) {
    moved.errno_value = errno_of(copied);
    return moved;
  }
  moved.bytes = copied.bytes;
  return moved;
}

CufileMoved CufileMover::bounce_out(const CufileMove& move, std::uint64_t at, BounceCache& cache) {
  CufileMoved moved;
  const std::uint64_t inside = (move.offset.value + at) % alignment;
  const std::uint64_t length = std::min(move.length_bytes - at, cache.length_bytes - inside);
  const Carried copied =
      bus_.dma(Initiator{Initiator::Kind::copy_engine, move.gpu}, End::of(move.pointer.plus(at)),
               End::of(cache.base->plus(inside)), length);
  if (!copied.ok()) {
    moved.errno_value = errno_of(copied);
    return moved;
  }
  const Carried carried = bus_.dma(drive_of_move(move), End::at(cache.window.plus(inside)),
                                   End::of(move.medium, move.offset.plus(at)), length);
  moved.bytes = carried.bytes;
  moved.errno_value = errno_of(carried);
  return moved;
}

// Allocated and mapped at first use. A cuFile code where the GPU or its window is full.
int CufileMover::fill_cache(BounceCache& cache, std::uint32_t gpu, std::uint64_t length_bytes) {
  if (cache.base) return 0;
  const std::optional<DevicePointer> base = allocations_.allocate(gpu, length_bytes, true);
  if (!base) return system::cufile::error_gpu_memory_pinning_failed;
  const Result<BusAddress> window = bus_.map_bar1(*base, length_bytes);
  if (!window.ok()) {
    allocations_.free(*base);
    return system::cufile::error_invalid_mapping_size;
  }
  cache.base = base;
  cache.window = *window;
  cache.length_bytes = length_bytes;
  return 0;
}

std::optional<DramBuffer> CufileMover::take_staging(std::uint32_t node) {
  {
    const std::lock_guard lock(staging_mutex_);
    const auto at = std::find_if(staging_.begin(), staging_.end(),
                                 [&](const DramBuffer& buffer) { return buffer.node == node; });
    if (at != staging_.end()) {
      const DramBuffer buffer = *at;
      staging_.erase(at);
      return buffer;
    }
  }
  const Result<DramBuffer> buffer = bus_.allocate_dram(node, staging_bytes, DramUse::internal);
  if (!buffer.ok()) return std::nullopt;
  return *buffer;
}

void CufileMover::give_staging(const DramBuffer& buffer) {
  const std::lock_guard lock(staging_mutex_);
  staging_.push_back(buffer);
}

CufileMoved CufileMover::move_staged(const CufileMove& move) {
  CufileMoved moved;
  const DeviceRef gpu{DeviceRef::Kind::gpu, static_cast<std::uint16_t>(move.gpu)};
  const std::optional<DramBuffer> staging = take_staging(numa_of(machine_, gpu));
  if (!staging) {
    moved.errno_value = ENOMEM;
    return moved;
  }
  const Initiator engine{Initiator::Kind::copy_engine, move.gpu};
  while (moved.bytes < move.length_bytes && moved.errno_value == 0) {
    const std::uint64_t length = std::min(staging_bytes, move.length_bytes - moved.bytes);
    const FileOffset offset = move.offset.plus(moved.bytes);
    const End host = End::at(staging->address);
    const End vram = End::of(move.pointer.plus(moved.bytes));
    Carried file;
    if (move.writing) {
      const Carried copied = bus_.dma(engine, vram, host, length);
      moved.errno_value = errno_of(copied);
      if (!copied.ok()) break;
      file = bus_.write_file(move.medium, offset, staging->address, length, FileIo::buffered);
    } else {
      file = bus_.read_file(move.medium, offset, staging->address, length, FileIo::buffered);
    }
    moved.errno_value = errno_of(file);
    if (!move.writing && file.bytes > 0) {
      const Carried copied = bus_.dma(engine, host, vram, file.bytes);
      if (!copied.ok()) {
        moved.errno_value = errno_of(copied);
        break;
      }
    }
    moved.bytes += file.bytes;
    if (file.bytes < length) break;
  }
  give_staging(*staging);
  return moved;
}

CufileMoved CufileMover::move_host(const CufileMove& move) {
  const Carried carried = move.writing ? bus_.write_file(move.medium, move.offset, move.host,
                                                         move.length_bytes, FileIo::buffered)
                                       : bus_.read_file(move.medium, move.offset, move.host,
                                                        move.length_bytes, FileIo::buffered);
  CufileMoved moved;
  moved.bytes = carried.bytes;
  moved.errno_value = errno_of(carried);
  return moved;
}

}  // namespace nobounce::fabric
