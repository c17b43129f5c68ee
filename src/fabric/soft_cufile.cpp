// SoftCufile: the library's table. Checks arguments as the real one was recorded to, chooses the
// path, keeps count.
#include "fabric/soft_cufile.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "fabric/gpu_mode.hpp"
#include "fabric/soft_cufile_table.hpp"

namespace nobounce::fabric {

namespace cufile = system::cufile;

namespace {

constexpr int refused_flags = O_APPEND | O_NONBLOCK | O_DIRECTORY | O_NOFOLLOW;

// `1.15.1` is 1150.
int version_number(const std::string& text) {
  const int major = std::atoi(text.c_str());
  const std::size_t dot = text.find('.');
  const int minor = dot == std::string::npos ? 0 : std::atoi(text.c_str() + dot + 1);
  return major * 1000 + minor * 10;
}

bool over_limit(std::uint64_t bytes, std::uint64_t limit_kb) {
  return bytes / 1024 > limit_kb;
}

}  // namespace

CufileFile::~CufileFile() {
  if (descriptor >= 0) ::close(descriptor);
}

CufileRegistration::~CufileRegistration() {
  if (!window) return;
  bus.unmap_bar1(*window);
  module.count_unmapping();
  statistics.count_unmapping(gpu);
}

SoftCufile::SoftCufile(const SoftCufileParts& parts)
    : parts_(parts),
      statistics_(parts.machine, parts.faults),
      mover_(parts.bus, parts.machine, parts.allocations) {
  version_ = version_number(parts.machine.libcufile);
  if (parts.faults.statistics_missing && version_ >= 1150) version_ = 1140;
  if (parts.faults.cufile_opened_before) (void)SoftCufile::driver_open();
}

int SoftCufile::open_locked() {
  if (use_count_ > 0) return cufile::success;
  Result<CufileConfig> config = load_cufile_config(parts_.files, parts_.environment, staged_bools_);
  if (!config.ok()) return cufile::error_internal;
  const bool may_stage =
      config->allow_compat() || config->force_compat() || parts_.faults.compat_in_silence;
  if (!parts_.module.loaded() && !may_stage) return cufile::error_driver_not_initialized;
  config_ = std::move(*config);
  statistics_.reset(has_statistics() ? config_.stats_level : 0);
  if (staged_level_) statistics_.set_level(*staged_level_);
  staged_level_.reset();
  use_count_ = 1;
  return cufile::success;
}

cufile::CUfileError_t SoftCufile::driver_open() {
  const std::lock_guard lock(mutex_);
  if (use_count_ > 0) {
    ++use_count_;
    return cufile_answer(cufile::success);
  }
  return cufile_answer(open_locked());
}

cufile::CUfileError_t SoftCufile::driver_close() {
  const std::unique_lock running(running_);
  const std::lock_guard lock(mutex_);
  if (use_count_ == 0) return cufile_answer(cufile::error_driver_not_initialized);
  if (--use_count_ > 0) return cufile_answer(cufile::success);
  handles_.clear();
  descriptors_.clear();
  buffers_.clear();
  mover_.release();
  return cufile_answer(cufile::success);
}

long SoftCufile::use_count() {
  const std::lock_guard lock(mutex_);
  return use_count_;
}

int SoftCufile::register_file(const CUfileDescr_t& description, std::uint64_t& id) {
  if (description.type != cufile::handle_type_opaque_fd) return cufile::error_io_not_supported;
  const int descriptor = description.handle.fd;
  const int flags = ::fcntl(descriptor, F_GETFL);
  struct stat status {};
  if (flags < 0 || ::fstat(descriptor, &status) != 0) return cufile::error_invalid_value;
  if (!S_ISREG(status.st_mode)) return cufile::error_invalid_file_type;
  if ((flags & refused_flags) != 0) return cufile::error_invalid_file_open_flag;
  if (descriptors_.count(descriptor) > 0) return cufile::error_handle_already_registered;
  const std::shared_ptr<const SoftFile> known = parts_.storage.find(descriptor);
  auto file = std::make_shared<CufileFile>();
  file->support =
      judge_cufile_support(parts_.machine, known.get(), config_, parts_.module, parts_.files);
  const bool may_stage =
      config_.allow_compat() || config_.force_compat() || parts_.faults.compat_in_silence;
  if (file->support.refused != 0) return file->support.refused;
  if (file->support.reading != 0 && !may_stage) return file->support.reading;
  // A descriptor of its own: the caller may close his while requests run.
  file->descriptor = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (file->descriptor < 0) return cufile::error_internal;
  file->medium = known ? known->medium : Medium{{}, -1, static_cast<std::uint64_t>(status.st_ino)};
  file->medium.descriptor = file->descriptor;
  file->access_mode = flags & O_ACCMODE;
  const CufileFileSystem* row = known ? cufile_file_system(known->mount.type) : nullptr;
  file->small_requests_staged =
      row != nullptr && row->network &&
      (row->type == "lustre" || row->type == "beegfs" || row->type == "scatefs");
  id = ++last_handle_;
  handles_.emplace(id, std::move(file));
  descriptors_.emplace(descriptor, id);
  return cufile::success;
}

cufile::CUfileError_t SoftCufile::handle_register(CUfileHandle_t* handle,
                                                  CUfileDescr_t* description) {
  if (handle == nullptr || description == nullptr)
    return cufile_answer(cufile::error_invalid_value);
  const std::lock_guard lock(mutex_);
  if (const int code = open_locked(); code != 0) return cufile_answer(code);
  std::uint64_t id = 0;
  const int code = register_file(*description, id);
  statistics_.count_handle(true, code == 0);
  if (code == 0) *handle = reinterpret_cast<CUfileHandle_t>(id * handle_stride);
  return cufile_answer(code);
}

void SoftCufile::handle_deregister(CUfileHandle_t handle) {
  std::shared_ptr<CufileFile> file;  // closes its descriptor after the lock
  const std::lock_guard lock(mutex_);
  const auto at = handles_.find(reinterpret_cast<std::uintptr_t>(handle) / handle_stride);
  if (at == handles_.end()) return;
  std::erase_if(descriptors_, [&](const auto& entry) { return entry.second == at->first; });
  file = std::move(at->second);
  handles_.erase(at);
  statistics_.count_handle(false, true);
}

int SoftCufile::register_buffer(const void* base, std::size_t length) {
  if (base == nullptr || length == 0) return cufile::error_invalid_value;
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  if (buffers_.count(address) > 0) return cufile::error_memory_already_registered;
  auto buffer =
      std::make_shared<CufileRegistration>(parts_.bus, parts_.module, statistics_, length);
  const DevicePointer pointer{address};
  if (!parts_.bus.gpu_of(pointer)) {
    const std::optional<GpuAllocation> host = parts_.allocations.find_host(base);
    if (host && host->kind == AllocationKind::managed)
      return cufile::error_cuda_memory_type_invalid;
    buffers_.emplace(address, std::move(buffer));
    return cufile::success;
  }
  const std::optional<GpuAllocation> allocation = parts_.allocations.find(pointer);
  if (!allocation || allocation->internal) return cufile::error_cuda_pointer_invalid;
  if (allocation->kind == AllocationKind::managed) return cufile::error_cuda_memory_type_invalid;
  const std::uint64_t inside = pointer.value - allocation->base.value;
  if (length > allocation->length_bytes - inside) return cufile::error_cuda_pointer_range;
  buffer->on_gpu = true;
  buffer->gpu = parts_.bus.gpu_of(pointer).value_or(allocation->gpu);
  if (!allocation->pinnable && parts_.module.loaded() && !config_.force_compat()) {
    count_mapping(buffer->gpu, false);
    return cufile::error_gpu_memory_pinning_failed;
  }
  if (const int code = pin(*buffer, pointer); code != 0) return code;
  buffers_.emplace(address, std::move(buffer));
  return cufile::success;
}

// Maps the buffer into BAR1, where the module is there to do so. Without it the buffer is known by
// name only, and its requests are staged.
int SoftCufile::pin(CufileRegistration& buffer, DevicePointer pointer) {
  if (!parts_.module.loaded() || config_.force_compat()) return cufile::success;
  if (!pins_for_others(parts_.machine, buffer.gpu)) {
    return config_.allow_compat() ? cufile::success : cufile::error_device_not_supported;
  }
  if (parts_.random.chance(parts_.faults.pin_failure)) {
    count_mapping(buffer.gpu, false);
    return cufile::error_gpu_memory_pinning_failed;
  }
  std::uint64_t pinned = buffer.length_bytes;
  for (const auto& [address, other] : buffers_) {
    if (other->window && other->gpu == buffer.gpu) pinned += other->length_bytes;
  }
  if (over_limit(pinned, config_.max_device_pinned_mem_size_kb)) {
    return cufile::error_invalid_mapping_size;
  }
  const Result<BusAddress> window = parts_.bus.map_bar1(pointer, buffer.length_bytes);
  count_mapping(buffer.gpu, window.ok());
  if (!window.ok()) return cufile::error_invalid_mapping_size;
  buffer.window = *window;
  return cufile::success;
}

void SoftCufile::count_mapping(std::uint32_t gpu, bool succeeded) {
  parts_.module.count_mapping(succeeded);
  statistics_.count_mapping(gpu, succeeded);
}

cufile::CUfileError_t SoftCufile::buf_register(const void* base, std::size_t length, int flags) {
  (void)flags;  // recorded: not checked
  const std::lock_guard lock(mutex_);
  if (const int code = open_locked(); code != 0) return cufile_answer(code);
  const int code = register_buffer(base, length);
  const auto at = buffers_.find(reinterpret_cast<std::uintptr_t>(base));
  const bool on_gpu = code == 0 && at->second->on_gpu;
  statistics_.count_buffer(true, code == 0, on_gpu, on_gpu ? at->second->gpu : 0, length);
  return cufile_answer(code);
}

cufile::CUfileError_t SoftCufile::buf_deregister(const void* base) {
  std::shared_ptr<CufileRegistration> buffer;  // unmapped after the lock, or by the last request
  const std::lock_guard lock(mutex_);
  if (use_count_ == 0) return cufile_answer(cufile::error_driver_closing);
  if (base == nullptr) return cufile_answer(cufile::error_invalid_value);
  const auto at = buffers_.find(reinterpret_cast<std::uintptr_t>(base));
  if (at == buffers_.end()) {
    statistics_.count_buffer(false, false, false, 0, 0);
    return cufile_answer(cufile::error_memory_not_registered);
  }
  buffer = std::move(at->second);
  buffers_.erase(at);
  statistics_.count_buffer(false, true, buffer->on_gpu, buffer->gpu, buffer->length_bytes);
  return cufile_answer(cufile::success);
}

std::unique_ptr<system::Cufile> make_soft_cufile(const SoftCufileParts& parts) {
  return std::make_unique<SoftCufile>(parts);
}

}  // namespace nobounce::fabric
