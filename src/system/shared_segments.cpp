// Shared segments: created exclusively, never through links, trusted only when this user owns them.
#include "system/shared_segments.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "system/descriptor.hpp"

namespace nobounce::system {
namespace {

constexpr std::string_view file_prefix = "nobounce.";

/// 0, or why the name cannot be a file's.
int segment_name_error(std::string_view name) {
  if (name.empty() || name.find('/') != name.npos || name.find('\0') != name.npos) return EINVAL;
  return file_prefix.size() + name.size() > NAME_MAX ? ENAMETOOLONG : 0;
}

Error segment_error(int code, const char* what, std::string_view name) {
  return os_error(code, std::string(what) + " the shared segment " + std::string(name));
}

Result<SharedSegment> map_segment(int file, std::string_view name, std::size_t length_bytes,
                                  int protection) {
  void* const address = ::mmap(nullptr, length_bytes, protection, MAP_SHARED, file, 0);
  if (address == MAP_FAILED) return segment_error(errno, "map", name);
  return SharedSegment{std::string(name), {static_cast<std::byte*>(address), length_bytes}};
}

/// 0, or why the new file cannot hold the segment. Its space is taken now, so that touching it
/// later cannot fail with a signal.
int size_segment(int file, std::size_t length_bytes) {
  if (length_bytes == 0) return EINVAL;
  if (::fchmod(file, 0600) != 0) return errno;  // whatever the umask said
  if (::ftruncate(file, static_cast<off_t>(length_bytes)) != 0) return errno;
  return ::posix_fallocate(file, 0, static_cast<off_t>(length_bytes));
}

}  // namespace

SharedSegments::SharedSegments(std::string folder) : folder_(std::move(folder)) {}

std::string SharedSegments::path_of(std::string_view name) const {
  return folder_ + "/" + std::string(file_prefix) + std::string(name);
}

Result<SharedSegment> SharedSegments::create(std::string_view name,
                                             std::size_t length_bytes) const {
  if (const int code = segment_name_error(name); code != 0) {
    return segment_error(code, "create", name);
  }
  const std::string path = path_of(name);
  const Descriptor file(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) return segment_error(errno, "create", name);
  const int code = size_segment(file.number(), length_bytes);
  if (code != 0) {
    ::unlink(path.c_str());
    return segment_error(code, "create", name);
  }
  auto segment = map_segment(file.number(), name, length_bytes, PROT_READ | PROT_WRITE);
  if (!segment) ::unlink(path.c_str());
  return segment;
}

Result<SharedSegment> SharedSegments::open(std::string_view name) const {
  if (const int code = segment_name_error(name); code != 0) {
    return segment_error(code, "open", name);
  }
  const Descriptor file(
      ::open(path_of(name).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid()) return segment_error(errno, "open", name);
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) return segment_error(errno, "open", name);
  if (!S_ISREG(status.st_mode) || status.st_size <= 0) return segment_error(EINVAL, "open", name);
  if (status.st_uid != ::geteuid() || (status.st_mode & 0022u) != 0) {
    return segment_error(EPERM, "open", name);
  }
  return map_segment(file.number(), name, static_cast<std::size_t>(status.st_size), PROT_READ);
}

void SharedSegments::unmap(const SharedSegment& segment) {
  if (!segment.bytes.empty()) ::munmap(segment.bytes.data(), segment.bytes.size());
}

void SharedSegments::remove(std::string_view name) const {
  if (segment_name_error(name) == 0) ::unlink(path_of(name).c_str());
}

Result<std::vector<std::string>> SharedSegments::list(std::string_view prefix) const {
  DIR* const directory = ::opendir(folder_.c_str());
  if (directory == nullptr) return os_error(errno, "list the shared segments in " + folder_);
  const std::string wanted = std::string(file_prefix) + std::string(prefix);
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string_view file = entry->d_name;
    if (file.substr(0, wanted.size()) != wanted || file.size() == file_prefix.size()) continue;
    struct stat status {};
    if (::fstatat(::dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISREG(status.st_mode) && status.st_uid == ::geteuid()) {
      names.emplace_back(file.substr(file_prefix.size()));
    }
  }
  ::closedir(directory);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace nobounce::system
