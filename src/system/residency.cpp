// Page cache residency by cachestat, else by mapping the range piecewise and asking mincore.
#include "system/residency.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "system/descriptor.hpp"

namespace nobounce::system {
namespace {

constexpr long cachestat_number = 451;  // on every architecture; older headers lack the name
constexpr std::uint64_t window_pages = 16384;

struct CachestatRange {
  std::uint64_t offset;
  std::uint64_t length;
};
struct CachestatAnswer {
  std::uint64_t cached, dirty, writeback, evicted, recently_evicted;  // pages
};

std::uint64_t page_bytes() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

Error residency_error(int code, int file) {
  return os_error(code, "ask for the page cache of " + path_of_descriptor(file));
}

/// To everybody else mincore claims that all pages are resident.
bool may_ask_mincore(int file, const struct stat& status) {
  const uid_t user = ::geteuid();
  if (user == 0 || user == status.st_uid) return true;
  return (::fcntl(file, F_GETFL) & O_ACCMODE) == O_RDWR;
}

Result<std::uint64_t> ask_mincore(int file, std::uint64_t offset, std::uint64_t length_bytes,
                                  const struct stat& status) {
  if (!may_ask_mincore(file, status)) return residency_error(EPERM, file);
  const std::uint64_t page = page_bytes();
  const std::uint64_t end = offset + length_bytes;
  std::array<unsigned char, window_pages> pages;
  std::uint64_t resident = 0;
  for (std::uint64_t at = offset / page * page; at < end; at += window_pages * page) {
    const std::uint64_t mapped_bytes = std::min(end - at, window_pages * page);
    void* const mapping =
        ::mmap(nullptr, mapped_bytes, PROT_READ, MAP_SHARED, file, static_cast<off_t>(at));
    if (mapping == MAP_FAILED) return residency_error(errno, file);
    const int failed = ::mincore(mapping, mapped_bytes, pages.data());
    const int code = errno;
    ::munmap(mapping, mapped_bytes);
    if (failed != 0) return residency_error(code, file);
    for (std::uint64_t index = 0; index * page < mapped_bytes; ++index) {
      if ((pages[index] & 1) == 0) continue;
      const std::uint64_t first = std::max(at + index * page, offset);
      resident += std::min(at + (index + 1) * page, end) - first;
    }
  }
  return resident;
}

}  // namespace

Result<std::uint64_t> resident_file_bytes(int file, std::uint64_t offset,
                                          std::uint64_t length_bytes) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return residency_error(errno, file);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (offset >= size || length_bytes == 0) return std::uint64_t{0};
  length_bytes = std::min(length_bytes, size - offset);
  CachestatRange range{offset, length_bytes};
  CachestatAnswer answer{};
  if (::syscall(cachestat_number, file, &range, &answer, 0) == 0) {
    return std::min(answer.cached * page_bytes(), length_bytes);
  }
  // EPERM: not ours to know, or a seccomp filter that does not know the call. mincore's check
  // tells.
  if (errno == ENOSYS || errno == EPERM || errno == EOPNOTSUPP) {
    return ask_mincore(file, offset, length_bytes, status);
  }
  return residency_error(errno, file);
}

}  // namespace nobounce::system
