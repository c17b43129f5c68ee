// Places: their length, their parts, and the member a pair of them belongs to.
#include <cassert>

#include <nobounce/place.hpp>

namespace nobounce {

namespace {

void advance(GpuMemory& place, std::uint64_t bytes) {
  place.address = place.address.plus(bytes);
}
void advance(HostMemory& place, std::uint64_t bytes) {
  if (place.address != nullptr) place.address += bytes;
}
void advance(FileRange& place, std::uint64_t bytes) {
  place.offset = place.offset.plus(bytes);
}
void advance(BlockRange& place, std::uint64_t bytes) {
  place.offset = place.offset.plus(bytes);
}
void advance(RemoteMemory& place, std::uint64_t bytes) {
  place.address += bytes;
}

bool is_gpu(const Place& place) {
  return std::holds_alternative<GpuMemory>(place);
}
bool is_remote(const Place& place) {
  return std::holds_alternative<RemoteMemory>(place);
}
bool is_stored(const Place& place) {
  return std::holds_alternative<FileRange>(place) || std::holds_alternative<BlockRange>(place);
}

}  // namespace

std::uint64_t length_bytes(const Place& place) {
  return std::visit([](const auto& kind) { return kind.length_bytes; }, place);
}

Place part_of(const Place& place, std::uint64_t offset_bytes, std::uint64_t length) {
  // Written so that no sum can wrap.
  assert(offset_bytes <= length_bytes(place) && length <= length_bytes(place) - offset_bytes);
  Place part = place;
  std::visit(
      [=](auto& kind) {
        advance(kind, offset_bytes);
        kind.length_bytes = length;
      },
      part);
  return part;
}

Member member_of(const Place& source, const Place& target) {
  if (is_remote(source) || is_remote(target)) return Member::rdma;
  if (!is_gpu(source) && !is_gpu(target)) return Member::host;
  if (is_gpu(source) && is_gpu(target)) {
    // A GPU and itself are no pair.
    const bool one = std::get<GpuMemory>(source).gpu == std::get<GpuMemory>(target).gpu;
    return one ? Member::host : Member::p2p;
  }
  const Place& far_end = is_gpu(source) ? target : source;
  if (is_stored(far_end)) return Member::storage;
  return Member::host;
}

std::string_view to_string(AllocationKind value) {
  switch (value) {
    case AllocationKind::unknown:
      return "unknown";
    case AllocationKind::device:
      return "device";
    case AllocationKind::vmm:
      return "vmm";
    case AllocationKind::pool:
      return "pool";
    case AllocationKind::ipc_import:
      return "ipc_import";
    case AllocationKind::managed:
      return "managed";
    case AllocationKind::host_pinned:
      return "host_pinned";
    case AllocationKind::host_pageable:
      return "host_pageable";
  }
  return "invalid";
}

}  // namespace nobounce
