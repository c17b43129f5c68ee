// statx and its fallback. Direct I/O alignments are asked for by number: older headers lack the
// names.
#include "system/file_status.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstring>

namespace nobounce::system {
namespace {

// STATX_DIOALIGN and the two 32-bit fields it fills, Linux 6.1.
constexpr unsigned statx_direct_io_alignment = 0x2000;
constexpr std::size_t memory_alignment_offset = 152;
constexpr std::size_t offset_alignment_offset = 156;
static_assert(offsetof(struct statx, stx_dev_minor) == 140);
static_assert(sizeof(struct statx) == 256);

FileType type_of(unsigned mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return FileType::regular;
    case S_IFDIR:
      return FileType::directory;
    case S_IFIFO:
      return FileType::fifo;
    case S_IFBLK:
      return FileType::block_device;
    case S_IFCHR:
      return FileType::character_device;
    case S_IFSOCK:
      return FileType::socket;
    default:
      return FileType::other;
  }
}

std::int64_t nanoseconds(std::int64_t seconds, std::int64_t rest) {
  return seconds * 1'000'000'000 + rest;
}

std::uint32_t field_at(const struct statx& answer, std::size_t offset) {
  std::uint32_t value = 0;
  std::memcpy(&value, reinterpret_cast<const char*>(&answer) + offset, sizeof value);
  return value;
}

FileStatus from_statx(const struct statx& answer) {
  FileStatus status;
  status.type = type_of(answer.stx_mode);
  status.size_bytes = answer.stx_size;
  status.mode = answer.stx_mode & 07777u;
  status.owner = answer.stx_uid;
  status.group = answer.stx_gid;
  status.link_count = answer.stx_nlink;
  status.inode = answer.stx_ino;
  status.device_major = answer.stx_dev_major;
  status.device_minor = answer.stx_dev_minor;
  status.modified_ns = nanoseconds(answer.stx_mtime.tv_sec, answer.stx_mtime.tv_nsec);
  if ((answer.stx_mask & statx_direct_io_alignment) != 0) {
    status.direct_io_memory_alignment = field_at(answer, memory_alignment_offset);
    status.direct_io_offset_alignment = field_at(answer, offset_alignment_offset);
  }
  return status;
}

// Before Linux 4.11, and under seccomp filters that do not know statx.
StatusAnswer from_stat(int descriptor, const char* path) {
  struct stat answer {};
  const int failed = path[0] == '\0' ? ::fstat(descriptor, &answer) : ::stat(path, &answer);
  if (failed != 0) return {{}, errno};
  FileStatus status;
  status.type = type_of(answer.st_mode);
  status.size_bytes = static_cast<std::uint64_t>(answer.st_size);
  status.mode = answer.st_mode & 07777u;
  status.owner = answer.st_uid;
  status.group = answer.st_gid;
  status.link_count = answer.st_nlink;
  status.inode = answer.st_ino;
  status.device_major = major(answer.st_dev);
  status.device_minor = minor(answer.st_dev);
  status.modified_ns = nanoseconds(answer.st_mtim.tv_sec, answer.st_mtim.tv_nsec);
  return {status, 0};
}

}  // namespace

StatusAnswer ask_status(int descriptor, const char* path) {
  struct statx answer {};
  const bool by_path = path[0] != '\0';
  const int failed = ::statx(by_path ? AT_FDCWD : descriptor, path, by_path ? 0 : AT_EMPTY_PATH,
                             STATX_BASIC_STATS | statx_direct_io_alignment, &answer);
  if (failed == 0) return {from_statx(answer), 0};
  if (errno == ENOSYS || errno == EPERM) return from_stat(descriptor, path);
  return {{}, errno};
}

}  // namespace nobounce::system
