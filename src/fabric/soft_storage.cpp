// SoftStorage at work: which drive a path lies on, what O_DIRECT demands, and bytes by the bus.
#include "fabric/soft_storage.hpp"

#include <algorithm>
#include <cerrno>
#include <map>
#include <shared_mutex>
#include <string_view>
#include <utility>

namespace nobounce::fabric {
namespace {

using system::FileAccess;
using system::FileHandle;
using system::FileStatus;
using system::FileType;
using system::OpenOptions;

// The kernel's own files are the real ones: descriptors of this process are found there.
bool is_kernel_path(std::string_view path) {
  return path.substr(0, 6) == "/proc/" || path.substr(0, 5) == "/sys/";
}

bool has_mount_option(std::string_view options, std::string_view wanted) {
  for (std::size_t begin = 0; begin <= options.size();) {
    const std::size_t end = std::min(options.find(',', begin), options.size());
    if (options.substr(begin, end - begin) == wanted) return true;
    begin = end + 1;
  }
  return false;
}

std::string opening(std::string_view path, const OpenOptions& options) {
  std::string text(options.create ? "create " : "open ");
  text += path;
  text += options.access == FileAccess::read ? " for reading" : " for writing";
  if (options.direct) text += " with O_DIRECT";
  return text;
}

class StorageOfMachine : public SoftStorage {
 public:
  StorageOfMachine(Bus& bus, const Machine& machine, const SoftFaults& faults, SoftRandom& random,
                   std::unique_ptr<Storage> live)
      : bus_(bus), machine_(machine), faults_(faults), random_(random), live_(std::move(live)) {}

  Result<FileHandle> open(std::string_view path, const OpenOptions& options) override;
  Status close(FileHandle file) override;
  Result<FileStatus> status(FileHandle file) override;
  Result<FileStatus> status_of(std::string_view path) override;
  Result<std::string> real_path(std::string_view path) override { return live_->real_path(path); }
  bool is_symbolic_link(std::string_view path) override { return live_->is_symbolic_link(path); }
  Result<std::size_t> read(FileHandle file, std::byte* target, std::size_t length_bytes,
                           FileOffset offset) override;
  Result<std::size_t> write(FileHandle file, const std::byte* source, std::size_t length_bytes,
                            FileOffset offset) override;
  Status allocate(FileHandle file, std::uint64_t length_bytes) override {
    return live_->allocate(file, length_bytes);
  }
  Status truncate(FileHandle file, std::uint64_t length_bytes) override {
    return live_->truncate(file, length_bytes);
  }
  Status sync(FileHandle file) override { return live_->sync(file); }
  Status sync_directory(std::string_view path) override { return live_->sync_directory(path); }
  Status rename(std::string_view source, std::string_view target) override {
    return live_->rename(source, target);
  }
  Status remove(std::string_view path) override { return live_->remove(path); }
  Status copy_attributes(FileHandle source, FileHandle target) override {
    return live_->copy_attributes(source, target);
  }
  Result<std::uint64_t> resident_bytes(FileHandle file, FileOffset offset,
                                       std::uint64_t length_bytes) override;
  Result<MemoryFile> memory_file(std::string_view name, std::string_view content) override {
    return live_->memory_file(name, content);
  }
  Result<system::SharedSegment> create_segment(std::string_view name,
                                               std::size_t length_bytes) override {
    return live_->create_segment(name, length_bytes);
  }
  Result<system::SharedSegment> open_segment(std::string_view name) override {
    return live_->open_segment(name);
  }
  void unmap_segment(const system::SharedSegment& segment) override {
    live_->unmap_segment(segment);
  }
  void remove_segment(std::string_view name) override { live_->remove_segment(name); }
  Result<std::vector<std::string>> list_segments(std::string_view prefix) override {
    return live_->list_segments(prefix);
  }
  std::shared_ptr<const SoftFile> find(int descriptor) const override;

 private:
  struct Where {
    std::string path;
    const Mount* mount = nullptr;
  };

  [[nodiscard]] Where where_is(std::string_view path) const;
  void show_as_of_machine(FileStatus& status, const Mount& mount) const;
  [[nodiscard]] Result<std::size_t> arrived(const Carried& carried, const char* verb,
                                            const SoftFile& file) const;
  [[nodiscard]] static bool aligned(const std::byte* memory, std::size_t length_bytes,
                                    FileOffset offset);

  Bus& bus_;
  const Machine& machine_;
  const SoftFaults& faults_;
  SoftRandom& random_;
  std::unique_ptr<Storage> live_;
  mutable std::shared_mutex mutex_;
  std::map<int, std::shared_ptr<const SoftFile>> files_;
};

StorageOfMachine::Where StorageOfMachine::where_is(std::string_view path) const {
  Where where;
  if (is_kernel_path(path)) return where;
  Result<std::string> real = live_->real_path(path);
  if (!real.ok()) {
    // Not there yet: it will be in its folder.
    const std::size_t slash = path.rfind('/');
    const std::string folder(slash == std::string_view::npos ? "."
                             : slash == 0                    ? "/"
                                                             : path.substr(0, slash));
    real = live_->real_path(folder);
    if (!real.ok()) return where;
    where.path = *real == "/" ? "" : std::move(*real);
    where.path += '/';
    where.path += path.substr(slash == std::string_view::npos ? 0 : slash + 1);
  } else {
    where.path = std::move(*real);
  }
  if (!is_kernel_path(where.path)) where.mount = mount_of(machine_, where.path);
  return where;
}

Result<FileHandle> StorageOfMachine::open(std::string_view path, const OpenOptions& options) {
  const Where where = where_is(path);
  if (where.mount != nullptr) {
    const bool writing = options.access != FileAccess::read || options.truncate;
    if (writing && has_mount_option(where.mount->options, "ro")) {
      return os_error(EROFS, opening(path, options));
    }
    if (options.direct && !where.mount->direct_io && live_->status_of(path).ok()) {
      return os_error(EINVAL, opening(path, options));
    }
  }
  OpenOptions real_options = options;
  real_options.direct = false;
  Result<FileHandle> handle = live_->open(path, real_options);
  if (!handle.ok() || where.mount == nullptr) return handle;
  const Result<FileStatus> status = live_->status(*handle);
  if (!status.ok() || status->type != FileType::regular) return handle;
  if (options.direct && !where.mount->direct_io) {
    // The kernel, too, has created the file before the file system refuses O_DIRECT.
    (void)live_->close(*handle);
    return os_error(EINVAL, opening(path, options));
  }
  SoftFile file;
  file.medium = {drive_of(machine_, *where.mount), handle->descriptor, status->inode};
  file.path = where.path;
  file.mount = *where.mount;
  file.access = options.access;
  file.direct = options.direct;
  const std::unique_lock lock(mutex_);
  files_.insert_or_assign(handle->descriptor, std::make_shared<const SoftFile>(std::move(file)));
  return handle;
}

Status StorageOfMachine::close(FileHandle file) {
  {
    // Before the real close, after which the number may be somebody else's.
    const std::unique_lock lock(mutex_);
    files_.erase(file.descriptor);
  }
  return live_->close(file);
}

std::shared_ptr<const SoftFile> StorageOfMachine::find(int descriptor) const {
  const std::shared_lock lock(mutex_);
  const auto at = files_.find(descriptor);
  return at == files_.end() ? nullptr : at->second;
}

void StorageOfMachine::show_as_of_machine(FileStatus& status, const Mount& mount) const {
  const std::optional<std::uint32_t> drive = drive_of(machine_, mount);
  if (drive) {
    status.device_major = machine_.drives[*drive].major;
    status.device_minor = machine_.drives[*drive].minor;
  } else {
    status.device_major = 0;
    status.device_minor = 20 + static_cast<std::uint32_t>(&mount - machine_.mounts.data());
  }
  const bool direct = mount.direct_io && status.type == FileType::regular;
  status.direct_io_memory_alignment = direct ? direct_io_alignment : 0;
  status.direct_io_offset_alignment = direct ? direct_io_alignment : 0;
}

Result<FileStatus> StorageOfMachine::status(FileHandle file) {
  Result<FileStatus> status = live_->status(file);
  const std::shared_ptr<const SoftFile> known = find(file.descriptor);
  if (!status.ok() || !known) return status;
  const Mount* mount = mount_of(machine_, known->path);
  if (mount != nullptr) show_as_of_machine(*status, *mount);
  return status;
}

Result<FileStatus> StorageOfMachine::status_of(std::string_view path) {
  Result<FileStatus> status = live_->status_of(path);
  if (!status.ok()) return status;
  const Where where = where_is(path);
  if (where.mount != nullptr) show_as_of_machine(*status, *where.mount);
  return status;
}

bool StorageOfMachine::aligned(const std::byte* memory, std::size_t length_bytes,
                               FileOffset offset) {
  return reinterpret_cast<std::uintptr_t>(memory) % direct_io_alignment == 0 &&
         length_bytes % direct_io_alignment == 0 && offset.value % direct_io_alignment == 0;
}

Result<std::size_t> StorageOfMachine::arrived(const Carried& carried, const char* verb,
                                              const SoftFile& file) const {
  if (carried.bytes > 0 || carried.ok()) return static_cast<std::size_t>(carried.bytes);
  int code = EIO;
  if (carried.outcome == BusOutcome::io_error && carried.errno_value != 0) {
    code = carried.errno_value;
  }
  if (carried.outcome == BusOutcome::bad_address) code = EFAULT;
  return os_error(code, verb + file.path);
}

Result<std::size_t> StorageOfMachine::read(FileHandle file, std::byte* target,
                                           std::size_t length_bytes, FileOffset offset) {
  const std::shared_ptr<const SoftFile> known = find(file.descriptor);
  if (!known) return live_->read(file, target, length_bytes, offset);
  if (known->access == FileAccess::write) return os_error(EBADF, "read " + known->path);
  if (known->direct && !aligned(target, length_bytes, offset)) {
    return os_error(EINVAL, "read " + known->path + " with O_DIRECT");
  }
  if (random_.chance(faults_.read_error)) return os_error(EIO, "read " + known->path);
  const std::size_t unit = known->direct ? direct_io_alignment : 1;
  if (length_bytes > unit && random_.chance(faults_.short_read)) {
    length_bytes = unit * (1 + random_.below(length_bytes / unit - 1));
  }
  const FileIo io = known->direct ? FileIo::direct : FileIo::buffered;
  return arrived(bus_.read_file(known->medium, offset, bus_.address_of(target), length_bytes, io),
                 "read ", *known);
}

Result<std::size_t> StorageOfMachine::write(FileHandle file, const std::byte* source,
                                            std::size_t length_bytes, FileOffset offset) {
  const std::shared_ptr<const SoftFile> known = find(file.descriptor);
  if (!known) return live_->write(file, source, length_bytes, offset);
  if (known->access == FileAccess::read) return os_error(EBADF, "write " + known->path);
  if (known->direct && !aligned(source, length_bytes, offset)) {
    return os_error(EINVAL, "write " + known->path + " with O_DIRECT");
  }
  if (random_.chance(faults_.write_error)) return os_error(EIO, "write " + known->path);
  const FileIo io = known->direct ? FileIo::direct : FileIo::buffered;
  return arrived(bus_.write_file(known->medium, offset, bus_.address_of(source), length_bytes, io),
                 "write ", *known);
}

Result<std::uint64_t> StorageOfMachine::resident_bytes(FileHandle file, FileOffset offset,
                                                       std::uint64_t length_bytes) {
  const std::shared_ptr<const SoftFile> known = find(file.descriptor);
  if (!known) return live_->resident_bytes(file, offset, length_bytes);
  // The model's page cache keeps nothing of a drive between requests; what lies on no drive lies
  // in it. The real machine's cache says nothing about this one, and differs from run to run.
  if (known->medium.drive) return std::uint64_t{0};
  const Result<FileStatus> status = live_->status(file);
  if (!status.ok()) return status.error();
  const std::uint64_t size = status->size_bytes;
  return offset.value >= size ? 0 : std::min(length_bytes, size - offset.value);
}

}  // namespace

std::unique_ptr<SoftStorage> make_soft_storage(Bus& bus, const Machine& machine,
                                               const SoftFaults& faults, SoftRandom& random,
                                               std::unique_ptr<system::Storage> live) {
  return std::make_unique<StorageOfMachine>(bus, machine, faults, random, std::move(live));
}

}  // namespace nobounce::fabric
