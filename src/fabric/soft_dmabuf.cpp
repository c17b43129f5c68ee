// dma-bufs of a software machine as anonymous files without content.
#include "fabric/soft_dmabuf.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace nobounce::fabric {

namespace {

std::optional<std::uint64_t> inode_of(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return std::nullopt;
  return status.st_ino;
}

}  // namespace

std::optional<int> DmaBufs::add(const DmaBuf& buffer) {
  const int descriptor = ::memfd_create("nobounce-soft-dmabuf", MFD_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  const auto inode = inode_of(descriptor);
  if (!inode) {
    ::close(descriptor);
    return std::nullopt;
  }
  const std::lock_guard lock(mutex_);
  by_inode_[*inode] = buffer;
  return descriptor;
}

std::optional<DmaBuf> DmaBufs::find(int descriptor) const {
  const auto inode = inode_of(descriptor);
  if (!inode) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto found = by_inode_.find(*inode);
  if (found == by_inode_.end()) return std::nullopt;
  return found->second;
}

int DmaBufs::close(int descriptor) {
  if (const auto inode = inode_of(descriptor)) {
    const std::lock_guard lock(mutex_);
    by_inode_.erase(*inode);
  }
  return ::close(descriptor) == 0 ? 0 : errno;
}

}  // namespace nobounce::fabric
