// LiveStorage: file I/O on user data by the kernel's own calls. Texts are made only when a call
// fails.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "system/descriptor.hpp"
#include "system/file_attributes.hpp"
#include "system/file_status.hpp"
#include "system/live_host.hpp"
#include "system/residency.hpp"
#include "system/shared_segments.hpp"

namespace nobounce::system {
namespace {

constexpr std::uint64_t offset_limit = std::uint64_t{1} << 63;

/// Repeats a call that a signal interrupted.
template <typename Call>
auto uninterrupted(Call call) {
  for (;;) {
    const auto answer = call();
    if (answer >= 0 || errno != EINTR) return answer;
  }
}

/// A path for the kernel. One with a NUL inside would be cut there and name another file.
bool is_path(std::string_view path) {
  return path.find('\0') == path.npos;
}

int open_flags(const OpenOptions& options) {
  int flags = O_CLOEXEC | O_NOCTTY;
  switch (options.access) {
    case FileAccess::read:
      flags |= O_RDONLY;
      break;
    case FileAccess::write:
      flags |= O_WRONLY;
      break;
    case FileAccess::read_write:
      flags |= O_RDWR;
      break;
  }
  if (options.create) flags |= O_CREAT;
  if (options.exclusive) flags |= O_EXCL;
  if (options.truncate) flags |= O_TRUNC;
  if (options.direct) flags |= O_DIRECT;
  return flags;
}

Error open_error(int code, std::string_view path, const OpenOptions& options) {
  std::string attempted = options.create ? "create " : "open ";
  attempted += path;
  attempted += options.access == FileAccess::read ? " for reading" : " for writing";
  if (options.direct) attempted += " with O_DIRECT";
  return os_error(code, std::move(attempted));
}

Error file_error(int code, const char* what, FileHandle file) {
  return os_error(code, std::string(what) + " " + path_of_descriptor(file.descriptor));
}

Error path_error(int code, const char* what, std::string_view path) {
  return os_error(code, std::string(what) + " " + std::string(path));
}

Error range_error(int code, const char* what, FileHandle file, std::size_t length_bytes,
                  FileOffset offset) {
  return os_error(code, std::string(what) + " " + std::to_string(length_bytes) + " bytes at " +
                            std::to_string(offset.value) + " of " +
                            path_of_descriptor(file.descriptor));
}

class LiveStorage final : public Storage {
 public:
  Result<FileHandle> open(std::string_view path, const OpenOptions& options) override;
  Status close(FileHandle file) override;
  Result<FileStatus> status(FileHandle file) override;
  Result<FileStatus> status_of(std::string_view path) override;
  Result<std::string> real_path(std::string_view path) override;
  bool is_symbolic_link(std::string_view path) override {
    struct ::stat status {};
    return ::lstat(std::string(path).c_str(), &status) == 0 && S_ISLNK(status.st_mode);
  }
  Result<std::size_t> read(FileHandle file, std::byte* target, std::size_t length_bytes,
                           FileOffset offset) override;
  Result<std::size_t> write(FileHandle file, const std::byte* source, std::size_t length_bytes,
                            FileOffset offset) override;
  Status allocate(FileHandle file, std::uint64_t length_bytes) override;
  Status truncate(FileHandle file, std::uint64_t length_bytes) override;
  Status sync(FileHandle file) override;
  Status sync_directory(std::string_view path) override;
  Status rename(std::string_view source, std::string_view target) override;
  Status remove(std::string_view path) override;
  Status copy_attributes(FileHandle source, FileHandle target) override {
    return copy_file_attributes(source.descriptor, target.descriptor);
  }
  Result<std::uint64_t> resident_bytes(FileHandle file, FileOffset offset,
                                       std::uint64_t length_bytes) override {
    return resident_file_bytes(file.descriptor, offset.value, length_bytes);
  }
  Result<MemoryFile> memory_file(std::string_view name, std::string_view content) override;
  Result<SharedSegment> create_segment(std::string_view name, std::size_t length_bytes) override {
    return segments_.create(name, length_bytes);
  }
  Result<SharedSegment> open_segment(std::string_view name) override {
    return segments_.open(name);
  }
  void unmap_segment(const SharedSegment& segment) override { SharedSegments::unmap(segment); }
  void remove_segment(std::string_view name) override { segments_.remove(name); }
  Result<std::vector<std::string>> list_segments(std::string_view prefix) override {
    return segments_.list(prefix);
  }

 private:
  SharedSegments segments_{"/dev/shm"};
};

Result<FileHandle> LiveStorage::open(std::string_view path, const OpenOptions& options) {
  if (!is_path(path)) return open_error(EINVAL, path, options);
  const std::string name(path);
  const int flags = open_flags(options);
  const auto open_once = [&](int more) {
    return uninterrupted([&] { return ::open(name.c_str(), flags | more, options.mode); });
  };
  int descriptor = open_once(O_NONBLOCK);
  if (descriptor < 0 && errno == EWOULDBLOCK) {
    // Somebody holds a lease on it, which only files have: the kernel takes it back while we wait.
    descriptor = open_once(0);
  }
  if (descriptor < 0) return open_error(errno, path, options);
  // O_NONBLOCK was for the open alone: libcufile refuses such descriptors. Positional reads and
  // writes answer ESPIPE on a FIFO, so nothing can hang on it later either.
  const int present = ::fcntl(descriptor, F_GETFL);
  if (present < 0 || ::fcntl(descriptor, F_SETFL, present & ~O_NONBLOCK) != 0) {
    const int code = errno;
    ::close(descriptor);
    return open_error(code, path, options);
  }
  return FileHandle{descriptor};
}

Status LiveStorage::close(FileHandle file) {
  // An interrupted close has closed: repeating it could close somebody else's file.
  if (::close(file.descriptor) == 0 || errno == EINTR || errno == EINPROGRESS) return {};
  return os_error(errno, "close descriptor " + std::to_string(file.descriptor));
}

Result<FileStatus> LiveStorage::status(FileHandle file) {
  const StatusAnswer answer = ask_status(file.descriptor, "");
  if (answer.code != 0) return file_error(answer.code, "read the status of", file);
  return answer.status;
}

Result<FileStatus> LiveStorage::status_of(std::string_view path) {
  if (path.empty()) return path_error(ENOENT, "read the status of", path);
  if (!is_path(path)) return path_error(EINVAL, "read the status of", path);
  const StatusAnswer answer = ask_status(-1, std::string(path).c_str());
  if (answer.code != 0) return path_error(answer.code, "read the status of", path);
  return answer.status;
}

Result<std::string> LiveStorage::real_path(std::string_view path) {
  if (!is_path(path)) return path_error(EINVAL, "resolve", path);
  char resolved[PATH_MAX];
  if (::realpath(std::string(path).c_str(), resolved) != nullptr) return std::string(resolved);
  return path_error(errno, "resolve", path);
}

Result<std::size_t> LiveStorage::read(FileHandle file, std::byte* target, std::size_t length_bytes,
                                      FileOffset offset) {
  if (offset.value >= offset_limit) return range_error(EINVAL, "read", file, length_bytes, offset);
  const ssize_t got = uninterrupted([&] {
    return ::pread(file.descriptor, target, length_bytes, static_cast<off_t>(offset.value));
  });
  if (got < 0) return range_error(errno, "read", file, length_bytes, offset);
  return static_cast<std::size_t>(got);
}

Result<std::size_t> LiveStorage::write(FileHandle file, const std::byte* source,
                                       std::size_t length_bytes, FileOffset offset) {
  if (offset.value >= offset_limit) return range_error(EINVAL, "write", file, length_bytes, offset);
  const ssize_t put = uninterrupted([&] {
    return ::pwrite(file.descriptor, source, length_bytes, static_cast<off_t>(offset.value));
  });
  if (put < 0) return range_error(errno, "write", file, length_bytes, offset);
  return static_cast<std::size_t>(put);
}

Status LiveStorage::allocate(FileHandle file, std::uint64_t length_bytes) {
  if (length_bytes == 0) return {};
  if (length_bytes >= offset_limit) return file_error(EFBIG, "reserve space for", file);
  const int failed = uninterrupted([&] {
    return ::fallocate(file.descriptor, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(length_bytes));
  });
  if (failed != 0) return file_error(errno, "reserve space for", file);
  return {};
}

Status LiveStorage::truncate(FileHandle file, std::uint64_t length_bytes) {
  if (length_bytes >= offset_limit) return file_error(EFBIG, "set the size of", file);
  const int failed =
      uninterrupted([&] { return ::ftruncate(file.descriptor, static_cast<off_t>(length_bytes)); });
  if (failed != 0) return file_error(errno, "set the size of", file);
  return {};
}

Status LiveStorage::sync(FileHandle file) {
  if (uninterrupted([&] { return ::fsync(file.descriptor); }) != 0) {
    return file_error(errno, "make durable", file);
  }
  return {};
}

Status LiveStorage::sync_directory(std::string_view path) {
  constexpr const char* what = "make durable the directory";
  if (!is_path(path)) return path_error(EINVAL, what, path);
  const Descriptor directory(::open(std::string(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return path_error(errno, what, path);
  if (uninterrupted([&] { return ::fsync(directory.number()); }) != 0) {
    return path_error(errno, what, path);
  }
  return {};
}

Status LiveStorage::rename(std::string_view source, std::string_view target) {
  const auto failed = [&](int code) {
    return os_error(code, "rename " + std::string(source) + " to " + std::string(target));
  };
  if (!is_path(source) || !is_path(target)) return failed(EINVAL);
  if (::rename(std::string(source).c_str(), std::string(target).c_str()) != 0) return failed(errno);
  return {};
}

Status LiveStorage::remove(std::string_view path) {
  if (!is_path(path)) return path_error(EINVAL, "remove", path);
  if (::unlink(std::string(path).c_str()) != 0) return path_error(errno, "remove", path);
  return {};
}

Result<Storage::MemoryFile> LiveStorage::memory_file(std::string_view name,
                                                     std::string_view content) {
  const auto failed = [&](int code) { return path_error(code, "create the memory file", name); };
  if (!is_path(name)) return failed(EINVAL);
  Descriptor file(::memfd_create(std::string(name).c_str(), MFD_CLOEXEC));
  if (!file.valid()) return failed(errno);
  for (std::size_t at = 0; at < content.size();) {
    const ssize_t put = uninterrupted([&] {
      return ::pwrite(file.number(), content.data() + at, content.size() - at,
                      static_cast<off_t>(at));
    });
    if (put < 0) return failed(errno);
    at += static_cast<std::size_t>(put);
  }
  const FileHandle handle{file.release()};
  return MemoryFile{handle, "/proc/self/fd/" + std::to_string(handle.descriptor)};
}

}  // namespace

std::unique_ptr<Storage> make_live_storage() {
  return std::make_unique<LiveStorage>();
}

}  // namespace nobounce::system
