// cuFileRead and cuFileWrite of the model: arguments, the choice of path, the answer.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "fabric/gpu_mode.hpp"
#include "fabric/soft_cufile_table.hpp"

namespace nobounce::fabric {

namespace cufile = system::cufile;

ssize_t SoftCufile::read(CUfileHandle_t handle, void* base, std::size_t size, off_t file_offset,
                         off_t base_offset) {
  const Answer answer = transfer(handle, base, size, file_offset, base_offset, false);
  if (answer.bytes < 0) errno = answer.errno_value;
  return answer.bytes;
}

ssize_t SoftCufile::write(CUfileHandle_t handle, const void* base, std::size_t size,
                          off_t file_offset, off_t base_offset) {
  const Answer answer = transfer(handle, base, size, file_offset, base_offset, true);
  if (answer.bytes < 0) errno = answer.errno_value;
  return answer.bytes;
}

SoftCufile::Answer SoftCufile::transfer(CUfileHandle_t handle, const void* base, std::size_t size,
                                        off_t file_offset, off_t base_offset, bool writing) {
  const std::shared_lock running(running_);
  Call call;
  call.move.writing = writing;
  if (const int code = prepare(handle, base, size, file_offset, base_offset, call); code != 0) {
    return {-1, code};
  }
  if (size == 0) return {};
  if (!writing && !clamp_to_file(call)) return {};
  choose_path(call);
  return carry_out(call);
}

int SoftCufile::prepare(CUfileHandle_t handle, const void* base, std::size_t size,
                        off_t file_offset, off_t base_offset, Call& call) {
  const auto id = reinterpret_cast<std::uintptr_t>(handle) / handle_stride;
  const std::lock_guard lock(mutex_);
  const auto at = handles_.find(id);
  if (at == handles_.end() || reinterpret_cast<std::uintptr_t>(handle) % handle_stride != 0) {
    const bool issued = id > (1u << 20) && id <= last_handle_;
    return issued ? cufile::error_handle_not_registered : EINVAL;
  }
  call.file = at->second;
  if (base == nullptr) return EINVAL;
  if (file_offset < 0) return cufile::error_invalid_value;
  if (base_offset < 0) {
    const bool registered = buffers_.count(reinterpret_cast<std::uintptr_t>(base)) > 0;
    return registered ? cufile::error_internal : EIO;
  }
  if (!call.move.writing && call.file->access_mode == O_WRONLY) {
    return cufile::error_invalid_file_open_flag;
  }
  if (call.move.writing && call.file->access_mode == O_RDONLY) return EIO;
  call.move.medium = call.file->medium;
  call.move.offset = FileOffset{static_cast<std::uint64_t>(file_offset)};
  if (parts_.bus.planted(Mutant::cufile_wrong_offset)) {
    call.move.offset = call.move.offset.plus(CufileMover::alignment);
  }
  call.move.length_bytes = size;
  call.move.requested_bytes = size;
  call.piece_bytes = config_.max_direct_io_size_kb * 1024;
  call.cache_bytes = config_.per_buffer_cache_size_kb * 1024;
  call.compat_allowed = config_.allow_compat() || config_.force_compat();
  call.silence = parts_.faults.compat_in_silence ||
                 (call.file->small_requests_staged && size < config_.posix_gds_min_kb * 1024);
  const int code = resolve_memory(base, size, base_offset, call);
  if (code == 0 && call.move.writing && config_.posix_unaligned_writes) {
    call.silence = call.silence || !CufileMover::aligned(call.move);
  }
  return code;
}

// The registered base names a buffer; any other address, even inside it, is an unregistered one.
int SoftCufile::resolve_memory(const void* base, std::size_t size, off_t base_offset, Call& call) {
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  const auto offset = static_cast<std::uint64_t>(base_offset);
  const auto registered = buffers_.find(address);
  if (registered != buffers_.end()) {
    call.buffer = registered->second;
    const std::uint64_t length = call.buffer->length_bytes;
    if (offset > length || size > length - offset) return cufile::error_invalid_mapping_range;
    if (call.buffer->window) call.move.window = call.buffer->window->plus(offset);
  }
  const DevicePointer pointer{address};
  call.move.pointer = pointer.plus(offset);
  if (!parts_.bus.gpu_of(pointer)) {
    call.move.on_gpu = false;
    call.move.host = parts_.bus.address_of(static_cast<const std::byte*>(base) + offset);
    return 0;
  }
  const std::optional<GpuAllocation> allocation = parts_.allocations.find(pointer);
  if (!allocation || allocation->internal) return EIO;
  const std::uint64_t inside = pointer.value - allocation->base.value;
  const std::uint64_t rest = allocation->length_bytes - inside;
  if (offset > rest || size > rest - offset) return EIO;
  call.move.gpu = parts_.bus.gpu_of(pointer).value_or(allocation->gpu);
  return 0;
}

// False at or past the end of the file.
bool SoftCufile::clamp_to_file(Call& call) const {
  struct stat status {};
  if (::fstat(call.file->descriptor, &status) != 0) return false;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (call.move.offset.value >= size) return false;
  call.move.length_bytes = std::min(call.move.length_bytes, size - call.move.offset.value);
  const std::uint64_t unit = CufileMover::aligned(call.move) ? CufileMover::alignment : 1;
  if (call.move.length_bytes > unit && parts_.random.chance(parts_.faults.short_read)) {
    const std::uint64_t units = call.move.length_bytes / unit;
    call.move.length_bytes = unit * (1 + parts_.random.below(units - 1));
  }
  return true;
}

void SoftCufile::choose_path(Call& call) const {
  if (!call.move.on_gpu) return;
  const CufileSupport& support = call.file->support;
  call.refusal = call.move.writing ? support.writing : support.reading;
  if (call.move.writing && support.stages_writes_in_silence) call.silence = true;
  if (call.refusal == 0 && !pins_for_others(parts_.machine, call.move.gpu)) {
    call.refusal = cufile::error_device_not_supported;
  }
}

SoftCufile::Answer SoftCufile::carry_out(Call& call) {
  CufileOperation operation;
  operation.writing = call.move.writing;
  operation.on_gpu = call.move.on_gpu;
  operation.gpu = call.move.gpu;
  const bool direct = call.move.on_gpu && call.refusal == 0 && !call.silence;
  const double drive_error =
      call.move.writing ? parts_.faults.write_error : parts_.faults.read_error;
  CufileMoved moved;
  if (parts_.random.chance(parts_.faults.cufile_refusal)) {
    moved.errno_value = cufile::error_internal;
  } else if (parts_.random.chance(drive_error)) {
    moved.errno_value = EIO;
  } else if (direct) {
    operation.nvfs = parts_.module.begin_request();
    if (operation.nvfs) {
      moved = mover_.move_direct(call.move, call.piece_bytes, call.cache_bytes);
      parts_.module.end_request(call.move.writing, moved.errno_value == 0);
    } else {
      moved.errno_value = cufile::error_nvfs_driver;
    }
  } else if (!call.move.on_gpu) {
    moved = mover_.move_host(call.move);
  } else if (call.silence || call.compat_allowed) {
    operation.posix = true;
    moved = mover_.move_staged(call.move);
    if (parts_.bus.planted(Mutant::nvfs_counts_all) && parts_.module.begin_request()) {
      parts_.module.end_request(call.move.writing, true);
    }
  } else {
    moved.errno_value = call.refusal;
  }
  // What arrived before an error is answered as a short count; the next request meets the error.
  operation.succeeded = moved.bytes > 0 || moved.errno_value == 0;
  operation.unaligned = moved.unaligned;
  operation.bytes = moved.bytes;
  if (parts_.bus.planted(Mutant::cufile_staged_counted_direct)) {
    operation.nvfs = operation.nvfs || std::exchange(operation.posix, false);
  }
  if (parts_.bus.planted(Mutant::cufile_bytes_overstated)) operation.bytes *= 2;
  statistics_.count_operation(operation);
  if (!operation.succeeded) return {-1, moved.errno_value};
  if (parts_.bus.planted(Mutant::cufile_short_called_whole)) {
    moved.bytes = call.move.requested_bytes;
  }
  return {static_cast<ssize_t>(moved.bytes), 0};
}

}  // namespace nobounce::fabric
