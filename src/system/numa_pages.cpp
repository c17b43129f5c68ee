// Mapping pages on a NUMA node by the kernel's own calls: libnuma is not needed for two of them.
#include "system/numa_pages.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <string>

#include "system/live_files.hpp"

namespace nobounce::system {
namespace {

// linux/mempolicy.h
constexpr int policy_preferred = 1;
constexpr unsigned long ask_node = 1;
constexpr unsigned long ask_address = 2;
constexpr std::uint32_t node_limit = 1024;
constexpr unsigned word_bits = sizeof(unsigned long) * CHAR_BIT;
constexpr std::uint64_t huge_page_bytes = std::uint64_t{2} << 20;

bool has_several_nodes() {
  const auto online = make_live_files("/")->read("/sys/devices/system/node/online");
  return online && online->find_first_of("-,") != std::string::npos;
}

std::uint64_t whole_pages(std::uint64_t length_bytes) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return (length_bytes + page - 1) / page * page;
}

/// Puts the pages on the node and answers the node of the first one.
std::uint32_t place_pages(void* address, std::uint64_t mapped_bytes, std::uint32_t numa) {
  std::array<unsigned long, node_limit / word_bits> mask{};
  if (numa < node_limit) {
    mask[numa / word_bits] = 1ul << (numa % word_bits);
    // Preferred, not bound: a full node must give a slower buffer, not an out-of-memory kill. The
    // kernel's answer is not used: where the pages came to lie is asked below.
    (void)::syscall(SYS_mbind, address, mapped_bytes, policy_preferred, mask.data(),
                    static_cast<unsigned long>(node_limit), 0u);
  }
  *static_cast<volatile char*>(address) = 0;
  int node = 0;
  const long failed =
      ::syscall(SYS_get_mempolicy, &node, nullptr, 0ul, address, ask_node | ask_address);
  return failed == 0 && node >= 0 ? static_cast<std::uint32_t>(node) : 0;
}

}  // namespace

Result<NumaPages> map_numa_pages(std::uint64_t length_bytes, std::uint32_t numa) {
  const std::uint64_t mapped_bytes = whole_pages(length_bytes);
  const auto failed = [&](int code) {
    return os_error(code, "allocate " + std::to_string(length_bytes) + " bytes of host memory");
  };
  if (length_bytes == 0) return failed(EINVAL);
  if (mapped_bytes < length_bytes) return failed(ENOMEM);
  void* const address =
      ::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return failed(errno);
  // Large pages make registering quicker; without them all else is the same.
  if (mapped_bytes >= huge_page_bytes) (void)::madvise(address, mapped_bytes, MADV_HUGEPAGE);
  const std::uint32_t node = has_several_nodes() ? place_pages(address, mapped_bytes, numa) : 0;
  return NumaPages{static_cast<std::byte*>(address), mapped_bytes, node};
}

void unmap_numa_pages(std::byte* address, std::uint64_t length_bytes) {
  if (address != nullptr) ::munmap(address, whole_pages(length_bytes));
}

}  // namespace nobounce::system
