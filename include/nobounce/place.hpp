// Places: where bytes live. A transfer is source -> target; the two places choose the member.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include <nobounce/units.hpp>
#include <nobounce/words.hpp>

namespace nobounce {

/// Bytes in a GPU's memory. `gpu` is the index in the session's machine (nvidia-smi order).
struct GpuMemory {
  std::uint32_t gpu = 0;
  DevicePointer address;
  std::uint64_t length_bytes = 0;
};

/// Bytes in host memory of this process.
struct HostMemory {
  std::byte* address = nullptr;
  std::uint64_t length_bytes = 0;
};

/// Bytes of an open file of the session; `file` is the session's number of it (File::place gives
/// these).
struct FileRange {
  std::uint32_t file = 0;
  FileOffset offset;
  std::uint64_t length_bytes = 0;
};

/// Bytes of a raw drive that this process owns.
struct BlockRange {
  std::uint32_t drive = 0;
  FileOffset offset;
  std::uint64_t length_bytes = 0;
};

/// Bytes that a remote process offers (RemoteRegion::place).
struct RemoteMemory {
  std::uint32_t peer = 0;     ///< the session's number of the connection
  std::uint64_t address = 0;  ///< offset into the export
  std::uint64_t key = 0;      ///< the export's, on this connection
  std::uint64_t length_bytes = 0;
};

using Place = std::variant<GpuMemory, HostMemory, FileRange, BlockRange, RemoteMemory>;

[[nodiscard]] std::uint64_t length_bytes(const Place& place);

/// The part of a place that starts `offset_bytes` into it and is `length` long. The part must lie
/// inside: asserts.
[[nodiscard]] Place part_of(const Place& place, std::uint64_t offset_bytes, std::uint64_t length);

/// The member that a pair of places belongs to; `host` also for pairs on this machine without any
/// GPU, and for one GPU with itself.
[[nodiscard]] Member member_of(const Place& source, const Place& target);

/// The kind of allocation behind a device pointer: peer access and registration depend on it.
enum class AllocationKind : std::uint8_t {
  unknown,
  device,
  vmm,
  pool,
  ipc_import,
  managed,
  host_pinned,
  host_pageable
};

[[nodiscard]] std::string_view to_string(AllocationKind value);

}  // namespace nobounce
