// What peers need to reach memory, by the kind of its allocation.
#include "provider/peer/peer_memory.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

namespace nobounce::provider::peer {

using system::cuda::CUdeviceptr;
using system::cuda::success;

namespace {

/// A range may consist of several mappings side by side; more than this many are not followed.
constexpr int allocations_most = 4096;
/// What is noted beyond this is noted anew when it is next used.
constexpr std::size_t notes_most = 1024;

std::string gpu_name(std::uint32_t gpu) {
  return "gpu:" + std::to_string(gpu);
}

template <typename Value>
bool ask(system::Cuda& cuda, int attribute, CUdeviceptr address, Value& value) {
  return cuda.pointer_get_attribute(&value, attribute, address) == success;
}

/// A driver says no by these codes: to memory it does not know, to attributes it does not have.
/// Any other code tells nothing.
bool is_answer(system::cuda::CUresult code) {
  return code == success || code == system::cuda::error_invalid_value ||
         code == system::cuda::error_not_supported;
}

/// The same; false in `answered` where the driver failed rather than said no.
template <typename Value>
bool ask(system::Cuda& cuda, int attribute, CUdeviceptr address, Value& value, bool& answered) {
  const auto code = cuda.pointer_get_attribute(&value, attribute, address);
  answered = answered && is_answer(code);
  return code == success;
}

bool is_mapping(system::Cuda& cuda, CUdeviceptr address, bool& answered) {
  system::cuda::CUmemGenericAllocationHandle handle = 0;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver takes device addresses as pointers here
  void* pointer = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
  const auto code = cuda.mem_retain_allocation_handle(&handle, pointer);
  answered = answered && is_answer(code);
  if (code != success) return false;
  (void)cuda.mem_release(handle);
  return true;
}

/// Whether the driver says that other processes may import it, which they may not what is an import
/// itself; empty where it does not say.
std::optional<bool> is_exportable(system::Cuda& cuda, CUdeviceptr address) {
  std::uint64_t exportable = 0;  // "a boolean", of a width that the driver's documentation keeps
  if (!ask(cuda, system::cuda::pointer_is_legacy_cuda_ipc_capable, address, exportable))
    return std::nullopt;
  return (exportable & 0xff) != 0;
}

/// The allocation that holds `address`, as far as the driver says.
struct Range {
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
};

/// In a context of the memory's GPU. The attributes of a mapping tell its reservation, of which
/// only a part may be mapped; the address range is the mapping, as cuMemSetAccess wants it.
std::optional<Range> range_of(system::Cuda& cuda, CUdeviceptr address) {
  Range range;
  const bool told = cuda.mem_get_address_range(&range.start, &range.bytes, address) == success;
  if (told && range.start <= address && address - range.start < range.bytes) return range;
  bool answered = true;
  // Of a mapping: the owner itself does not reach it.
  if (is_mapping(cuda, address, answered) || !answered) return std::nullopt;
  if (!ask(cuda, system::cuda::pointer_range_start, address, range.start) ||
      !ask(cuda, system::cuda::pointer_range_size, address, range.bytes) || range.start > address ||
      range.bytes <= address - range.start) {
    return std::nullopt;
  }
  return range;
}

/// The cause of memory of this kind being out of a peer's reach; none where nothing forbids it.
Cause cause_of(AllocationKind kind) {
  switch (kind) {
    case AllocationKind::managed:
      return Cause::memory_kind_managed;
    case AllocationKind::host_pageable:
      return Cause::memory_kind_pageable;
    case AllocationKind::vmm:
      return Cause::memory_kind_vmm;
    case AllocationKind::pool:
      return Cause::memory_kind_pool;
    case AllocationKind::ipc_import:
      return Cause::memory_kind_ipc_import;
    case AllocationKind::host_pinned:
    case AllocationKind::unknown:
      return Cause::memory_kind_unknown;
    case AllocationKind::device:
      return Cause::none;
  }
  return Cause::memory_kind_unknown;
}

bool has_own_access(AllocationKind kind) {
  return kind == AllocationKind::vmm || kind == AllocationKind::pool;
}

Error refused(const GpuMemory& memory, AllocationKind kind, std::uint32_t gpu) {
  // Nobody but the driver can know a kind that is unknown.
  const bool driver = kind == AllocationKind::unknown;
  Error error{.origin = driver ? ErrorOrigin::cuda : ErrorOrigin::input,
              .attempted = "let " + gpu_name(gpu) + " reach memory of " + gpu_name(memory.gpu),
              .cause = cause_of(kind)};
  error.detail = "allocation kind: " + std::string(to_string(kind));
  if (kind == AllocationKind::ipc_import) {
    // Measured: with peer access enabled a kernel of the other GPU faults on it all the same.
    error.detail += ", which only " + gpu_name(memory.gpu) + " reaches, whose context opened it";
    error.remedy = "open the handle (cuIpcOpenMemHandle) in a context of " + gpu_name(gpu) + " too";
  }
  return error;
}

}  // namespace

void PeerMemory::remember(const core::RegionView& region) {
  const auto* memory = std::get_if<GpuMemory>(&region.place);
  if (memory == nullptr) return;
  const bool exportable = region.kind == AllocationKind::device &&
                          is_exportable(contexts_.table(), memory->address.value).value_or(false);
  const std::lock_guard lock(mutex_);
  Attached& attached = attached_[memory->address.value];
  attached.exportable = exportable;
  attached.length_bytes = std::max(attached.length_bytes, memory->length_bytes);
  attached.kind = region.kind;
  ++attached.count;
}

void PeerMemory::forget(const core::RegionView& region) {
  const auto* memory = std::get_if<GpuMemory>(&region.place);
  if (memory == nullptr) return;
  const std::lock_guard lock(mutex_);
  const auto found = attached_.find(memory->address.value);
  if (found == attached_.end() || --found->second.count > 0) return;
  attached_.erase(found);
  // The address may soon be other memory.
  const std::uint64_t end = memory->address.value + memory->length_bytes;
  for (auto note = noted_.begin(); note != noted_.end();) {
    const bool inside = note->first.second < end && note->second.end > memory->address.value;
    note = inside ? noted_.erase(note) : std::next(note);
  }
  const auto first = refusals_.lower_bound({memory->address.value, 0});
  const auto last = refusals_.lower_bound({end, 0});
  if (first == last) return;
  refusals_.erase(first, last);
  lessons_.fetch_add(1, std::memory_order_release);
}

AllocationKind PeerMemory::attached_kind(const GpuMemory& memory) const {
  Attached attached;
  {
    const std::lock_guard lock(mutex_);
    const auto after = attached_.upper_bound(memory.address.value);
    if (after == attached_.begin()) return AllocationKind::unknown;
    const auto& [start, found] = *std::prev(after);
    if (memory.address.value - start >= found.length_bytes) return AllocationKind::unknown;
    attached = found;
  }
  // Its owner may have freed it, and opened an import at the same address.
  if (attached.exportable && !is_exportable(contexts_.table(), memory.address.value).value_or(true))
    return AllocationKind::ipc_import;
  return attached.kind;
}

/// The driver knows best, but an import looks like any other memory to it.
AllocationKind PeerMemory::kind_of(const GpuMemory& memory, std::uint64_t address) const {
  system::Cuda& cuda = contexts_.table();
  unsigned managed = 0;
  unsigned type = 0;
  void* pool = nullptr;
  bool answered = true;
  if (ask(cuda, system::cuda::pointer_is_managed, address, managed, answered) && managed != 0) {
    return AllocationKind::managed;
  }
  if (!ask(cuda, system::cuda::pointer_memory_type, address, type)) return AllocationKind::unknown;
  if (type != system::cuda::memory_type_device) return AllocationKind::host_pinned;
  if (ask(cuda, system::cuda::pointer_mempool_handle, address, pool, answered) && pool != nullptr) {
    return AllocationKind::pool;
  }
  if (is_mapping(cuda, address, answered)) return AllocationKind::vmm;
  // To take a pool or a mapping for plain memory would let the driver stage in silence.
  if (!answered) return AllocationKind::unknown;
  const AllocationKind attached = attached_kind(memory);
  return attached == AllocationKind::unknown ? AllocationKind::device : attached;
}

bool PeerMemory::reaches(AllocationKind kind, std::uint64_t address, std::uint32_t gpu) const {
  const Result<system::cuda::CUdevice> device = contexts_.device(gpu);
  if (!device.ok()) return false;
  system::Cuda& cuda = contexts_.table();
  system::cuda::CUmemLocation location{system::cuda::memory_location_device, *device};
  if (kind == AllocationKind::vmm) {
    unsigned long long flags = 0;
    return cuda.mem_get_access(&flags, &location, address) == success &&
           flags == static_cast<unsigned long long>(system::cuda::memory_access_read_write);
  }
  void* pool = nullptr;
  int flags = 0;
  return ask(cuda, system::cuda::pointer_mempool_handle, address, pool) && pool != nullptr &&
         cuda.mem_pool_get_access(&flags, pool, &location) == success &&
         flags == system::cuda::memory_access_read_write;
}

system::cuda::CUresult PeerMemory::set_access(AllocationKind kind, std::uint64_t address,
                                              std::uint32_t gpu) {
  const Result<system::cuda::CUdevice> device = contexts_.device(gpu);
  if (!device.ok()) return system::cuda::error_invalid_device;
  system::Cuda& cuda = contexts_.table();
  const system::cuda::CUmemAccessDesc access{{system::cuda::memory_location_device, *device},
                                             system::cuda::memory_access_read_write};
  if (kind == AllocationKind::vmm) {
    const std::optional<Range> range = range_of(cuda, address);
    if (!range.has_value()) return system::cuda::error_invalid_value;
    return cuda.mem_set_access(range->start, range->bytes, &access, 1);
  }
  void* pool = nullptr;
  if (!ask(cuda, system::cuda::pointer_mempool_handle, address, pool) || pool == nullptr) {
    return system::cuda::error_invalid_value;
  }
  return cuda.mem_pool_set_access(pool, &access, 1);
}

Status PeerMemory::grant_part(const GpuMemory& memory, std::uint64_t address, std::uint64_t end,
                              std::uint32_t gpu) {
  const AllocationKind kind = kind_of(memory, address);
  if (kind == AllocationKind::device) return {};  // peer access of the contexts covers it
  if (!has_own_access(kind)) return refused(memory, kind, gpu);
  // Both ends are asked: the driver answers for the mapping of one address.
  if (reaches(kind, address, gpu) && reaches(kind, end - 1, gpu)) return {};
  const auto code = set_access(kind, address, gpu);
  if (code == success && reaches(kind, address, gpu) && reaches(kind, end - 1, gpu)) return {};
  Error error = refused(memory, kind, gpu);
  if (code != success) {
    const std::string detail = error.detail;
    error = system::cuda_error(contexts_.table(), code, error.attempted, error.cause);
    error.detail += ", " + detail;
  }
  learn_refusal(memory, gpu, error);
  return error;
}

bool PeerMemory::imported(const GpuMemory& memory) const {
  const Result<system::cuda::CUcontext> context = contexts_.context(memory.gpu);
  if (!context.ok()) return false;
  const system::ContextGuard guard(contexts_.table(), *context);
  return kind_of(memory, memory.address.value) == AllocationKind::ipc_import;
}

Error PeerMemory::two_imports(const GpuMemory& source, const GpuMemory& target) {
  Error error = refused(source, AllocationKind::ipc_import, target.gpu);
  error.attempted =
      "copy between memory of " + gpu_name(source.gpu) + " and of " + gpu_name(target.gpu);
  error.detail = "both were imported from another process, and neither GPU reaches the other's";
  return error;
}

Status PeerMemory::grant(const GpuMemory& memory, std::uint32_t gpu) {
  const Result<system::cuda::CUcontext> context = contexts_.context(memory.gpu);
  if (!context.ok()) return context.error();
  system::Cuda& cuda = contexts_.table();
  const system::ContextGuard guard(cuda, *context);
  std::uint64_t address = memory.address.value;
  const std::uint64_t end = address + memory.length_bytes;
  for (int seen = 0; address < end; ++seen) {
    const std::optional<Range> range = range_of(cuda, address);
    if (!range.has_value() || seen == allocations_most) {
      bool answered = true;
      const bool mapping = is_mapping(cuda, address, answered);
      return refused(memory, mapping ? AllocationKind::vmm : AllocationKind::unknown, gpu);
    }
    const std::uint64_t part_end = std::min<std::uint64_t>(end, range->start + range->bytes);
    if (Status granted = grant_part(memory, address, part_end, gpu); !granted.ok()) return granted;
    address = part_end;
  }
  learn_refusal(memory, gpu, std::nullopt);
  return {};
}

void PeerMemory::learn_refusal(const GpuMemory& memory, std::uint32_t gpu,
                               std::optional<Error> refusal) {
  const std::pair key{memory.address.value, gpu};
  const std::lock_guard lock(mutex_);
  const auto known = refusals_.find(key);
  const bool same = known == refusals_.end() ? !refusal.has_value()
                                             : refusal.has_value() && known->second == *refusal;
  if (same) return;
  if (refusal.has_value()) {
    refusals_.insert_or_assign(key, *std::move(refusal));
  } else {
    refusals_.erase(known);
  }
  lessons_.fetch_add(1, std::memory_order_release);
}

void PeerMemory::note(const GpuMemory& memory, std::uint32_t gpu) {
  const Result<system::cuda::CUcontext> context = contexts_.context(memory.gpu);
  if (!context.ok()) return;
  system::Cuda& cuda = contexts_.table();
  const system::ContextGuard guard(cuda, *context);
  const std::optional<Range> range = range_of(cuda, memory.address.value);
  Noted noted;
  if (!range.has_value() ||
      !ask(cuda, system::cuda::pointer_buffer_id, memory.address.value, noted.buffer_id)) {
    return;
  }
  noted.end = range->start + range->bytes;
  if (memory.length_bytes > noted.end - memory.address.value) return;  // several side by side
  noted.kind = kind_of(memory, memory.address.value);
  const std::lock_guard lock(mutex_);
  if (noted_.size() >= notes_most) noted_.clear();
  noted_.insert_or_assign({gpu, range->start}, noted);
}

const PeerMemory::Noted* PeerMemory::noted_for(const GpuMemory& memory, std::uint32_t gpu) const {
  const std::uint64_t address = memory.address.value;
  const auto after = noted_.upper_bound({gpu, address});
  if (after == noted_.begin()) return nullptr;
  const auto& [key, found] = *std::prev(after);
  const bool holds = key.first == gpu && address < found.end && memory.length_bytes > 0 &&
                     memory.length_bytes <= found.end - address;
  return holds ? &found : nullptr;
}

bool PeerMemory::still_is(const Noted& noted, const GpuMemory& memory, std::uint32_t gpu) const {
  const std::uint64_t address = memory.address.value;
  unsigned long long buffer_id = 0;
  if (!ask(contexts_.table(), system::cuda::pointer_buffer_id, address, buffer_id) ||
      buffer_id != noted.buffer_id) {
    return false;
  }
  // What the contexts' access does not cover is taken away in its own way.
  if (!has_own_access(noted.kind)) return true;
  return reaches(noted.kind, address, gpu) &&
         reaches(noted.kind, address + memory.length_bytes - 1, gpu);
}

std::optional<PeerMemory::Kinds> PeerMemory::confirm(const GpuMemory& source,
                                                     const GpuMemory& target) const {
  Noted from;
  Noted to;
  {
    const std::lock_guard lock(mutex_);
    const Noted* const first = noted_for(source, target.gpu);
    const Noted* const second = noted_for(target, source.gpu);
    if (first == nullptr || second == nullptr) return std::nullopt;
    from = *first;
    to = *second;
  }
  Kinds kinds{from.kind, to.kind};
  if (!still_is(from, source, target.gpu)) return std::nullopt;
  const bool same = to.kind == AllocationKind::device
                        ? still_is_plain(to, target, kinds.target_reached_here)
                        : still_is(to, target, source.gpu);
  if (!same) return std::nullopt;
  return kinds;
}

bool PeerMemory::still_is_plain(const Noted& noted, const GpuMemory& memory,
                                bool& reached_here) const {
  unsigned long long buffer_id = 0;
  CUdeviceptr pointer = 0;
  // Both at once cost as much as one of them (measured with driver 580).
  int which[] = {system::cuda::pointer_buffer_id, system::cuda::pointer_device_pointer};
  void* answers[] = {&buffer_id, &pointer};
  if (contexts_.table().pointer_get_attributes(2, which, answers, memory.address.value) !=
          success ||
      buffer_id != noted.buffer_id) {
    return false;
  }
  reached_here = pointer == memory.address.value;
  return true;
}

bool PeerMemory::reached_here(const GpuMemory& memory) const {
  CUdeviceptr pointer = 0;
  return ask(contexts_.table(), system::cuda::pointer_device_pointer, memory.address.value,
             pointer) &&
         pointer == memory.address.value;
}

bool PeerMemory::seen_to_reach(std::uint32_t gpu, const GpuMemory& memory) const {
  const Result<system::cuda::CUcontext> owner = contexts_.context(memory.gpu);
  const Result<system::cuda::CUcontext> other = contexts_.context(gpu);
  if (!owner.ok() || !other.ok()) return false;
  system::Cuda& cuda = contexts_.table();
  GpuMemory rest = memory;
  for (int seen = 0; rest.length_bytes > 0; ++seen) {
    const std::uint64_t address = rest.address.value;
    std::optional<Range> range;
    AllocationKind kind = AllocationKind::unknown;
    {
      const system::ContextGuard guard(cuda, *owner);
      range = range_of(cuda, address);
      if (!range.has_value() || seen == allocations_most) return false;
      kind = kind_of(memory, address);
    }
    const std::uint64_t bytes =
        std::min<std::uint64_t>(rest.length_bytes, range->start + range->bytes - address);
    if (kind == AllocationKind::device) {
      const system::ContextGuard guard(cuda, *other);
      if (guard.status() != success || !reached_here(rest)) return false;
    } else if (!has_own_access(kind) || !reaches(kind, address, gpu) ||
               !reaches(kind, address + bytes - 1, gpu)) {
      return false;
    }
    rest.address = rest.address.plus(bytes);
    rest.length_bytes -= bytes;
  }
  return true;
}

Finding PeerMemory::finding(const GpuMemory& memory, std::uint32_t gpu) const {
  Finding finding{.cause = Cause::memory_kind_managed,
                  .subject = gpu_name(memory.gpu),
                  .state = FindingState::met,
                  .observed = {},
                  .needed = "GPU memory that " + gpu_name(gpu) + " may access",
                  .remedy = {},
                  .source = "cuPointerGetAttribute"};
  const Result<system::cuda::CUcontext> context = contexts_.context(memory.gpu);
  if (!context.ok()) {
    finding.cause = context.error().cause;
    finding.state = FindingState::unmet;
    finding.observed = to_string(context.error());
    return finding;
  }
  const system::ContextGuard guard(contexts_.table(), *context);
  const AllocationKind kind =
      memory.length_bytes == 0 ? AllocationKind::device : kind_of(memory, memory.address.value);
  finding.observed = "allocation kind: " + std::string(to_string(kind));
  if (kind == AllocationKind::device) return finding;
  finding.cause = cause_of(kind);
  const std::lock_guard lock(mutex_);
  if (const auto refusal = refusals_.find({memory.address.value, gpu});
      refusal != refusals_.end()) {
    finding.state = FindingState::unmet;
    finding.observed = to_string(refusal->second);
  } else if (kind == AllocationKind::ipc_import) {
    finding.state = FindingState::unknown;
    finding.observed +=
        ": " + gpu_name(memory.gpu) + " alone reaches it and copies by its access to the other end";
  } else if (!has_own_access(kind)) {
    finding.state = FindingState::unmet;
  } else {
    finding.source = kind == AllocationKind::vmm ? "cuMemGetAccess" : "cuMemPoolGetAccess";
    const bool granted = reaches(kind, memory.address.value, gpu);
    finding.state = granted ? FindingState::met : FindingState::unknown;
    finding.observed += granted ? ": access granted" : ": the first copy tries to get access";
  }
  if (finding.state == FindingState::unmet) finding.remedy = cause_row(finding.cause).remedy;
  return finding;
}

}  // namespace nobounce::provider::peer
