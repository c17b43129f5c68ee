// The arrays behind the bus, as anonymous files of this process.
#include "fabric/bus_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <mutex>
#include <string>

namespace nobounce::fabric {

namespace {

constexpr std::uint64_t page_bytes = 4096;

std::uint64_t whole_pages(std::uint64_t length_bytes) {
  return (length_bytes + page_bytes - 1) / page_bytes * page_bytes;
}

Error refused(std::string attempted, std::string detail) {
  Error error;
  error.origin = ErrorOrigin::fabric;
  error.attempted = std::move(attempted);
  error.detail = std::move(detail);
  return error;
}

}  // namespace

std::shared_ptr<BusMapping> BusMapping::of_file(int descriptor, std::uint64_t length_bytes,
                                                int protection) {
  auto mapping = std::make_shared<BusMapping>();
  void* begin = mmap(nullptr, length_bytes, protection, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (begin == MAP_FAILED) return mapping;
  madvise(begin, length_bytes, MADV_DONTDUMP);
  mapping->begin_ = static_cast<std::byte*>(begin);
  mapping->length_bytes_ = length_bytes;
  return mapping;
}

std::shared_ptr<BusMapping> BusMapping::of_nothing(std::uint64_t length_bytes) {
  auto mapping = std::make_shared<BusMapping>();
  void* begin = mmap(nullptr, length_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) return mapping;
  mapping->begin_ = static_cast<std::byte*>(begin);
  mapping->length_bytes_ = length_bytes;
  return mapping;
}

BusMapping::~BusMapping() {
  if (begin_ != nullptr) munmap(begin_, length_bytes_);
}

BusDram::BusDram(const Machine& machine, BusTrap* trap) : trap_(trap) {
  for (const NumaNode& node : machine.numa_nodes) nodes_.push_back({node.memory_bytes, 0, 0});
}

BusDram::~BusDram() {
  if (trap_ == nullptr) return;
  for (const auto& [address, buffer] : by_address_) {
    if (buffer.pub.use == DramUse::bounce) trap_->unwatch(buffer.pub.view);
  }
}

Result<DramBuffer> BusDram::allocate(std::uint32_t node, std::uint64_t length_bytes, DramUse use) {
  const std::string attempted = "allocate " + std::to_string(length_bytes) +
                                " bytes of host memory on NUMA node " + std::to_string(node);
  if (node >= nodes_.size()) return refused(attempted, "there is no such NUMA node");
  if (length_bytes == 0) return refused(attempted, "the length is zero");
  const std::uint64_t length = whole_pages(length_bytes);
  const std::unique_lock lock(mutex_);
  Node& home = nodes_[node];
  if (home.size_bytes != 0 && length > home.size_bytes - home.used_bytes) {
    return refused(attempted, "the node has " + std::to_string(home.size_bytes - home.used_bytes) +
                                  " bytes left");
  }
  if (home.next_offset + length + page_bytes > std::uint64_t{1} << layout::node_shift) {
    return refused(attempted, "the node's bus addresses are used up");
  }
  const int descriptor = memfd_create("nobounce-dram", MFD_CLOEXEC);
  if (descriptor < 0) return os_error(errno, attempted);
  Buffer buffer;
  bool good = ftruncate(descriptor, static_cast<off_t>(length)) == 0;
  if (good) {
    buffer.alias = BusMapping::of_file(descriptor, length, PROT_READ | PROT_WRITE);
    good = buffer.alias->begin() != nullptr;
  }
  if (good && use != DramUse::internal) {
    const int protection = use == DramUse::bounce ? PROT_NONE : PROT_READ | PROT_WRITE;
    buffer.view = BusMapping::of_file(descriptor, length, protection);
    good = buffer.view->begin() != nullptr;
  }
  const int failure = errno;
  ::close(descriptor);
  if (!good) return os_error(failure, attempted);
  const std::uint64_t base = std::uint64_t{node + 1} << layout::node_shift;
  buffer.pub = {BusAddress{base + home.next_offset},
                buffer.view == nullptr ? nullptr : buffer.view->begin(), length_bytes, node, use};
  if (use == DramUse::bounce && trap_ != nullptr && !trap_->watch(buffer.pub.view, length)) {
    return refused(attempted, "too much bounce memory is watched for CPU touches");
  }
  // A page between buffers claims nothing: a request that runs over the end is noticed.
  home.next_offset += length + page_bytes;
  home.used_bytes += length;
  const DramBuffer answer = buffer.pub;
  if (answer.view != nullptr) {
    by_view_.emplace(reinterpret_cast<std::uintptr_t>(answer.view), answer.address.value);
  }
  by_address_.emplace(answer.address.value, std::move(buffer));
  return answer;
}

void BusDram::free(const DramBuffer& buffer) {
  const std::unique_lock lock(mutex_);
  const auto found = by_address_.find(buffer.address.value);
  if (found == by_address_.end()) return;
  const DramBuffer& old = found->second.pub;
  if (old.view != nullptr) {
    if (old.use == DramUse::bounce && trap_ != nullptr) trap_->unwatch(old.view);
    by_view_.erase(reinterpret_cast<std::uintptr_t>(old.view));
  }
  nodes_[old.node].used_bytes -= whole_pages(old.length_bytes);
  by_address_.erase(found);
}

BusAddress BusDram::address_of(const void* pointer) const {
  const auto value = reinterpret_cast<std::uintptr_t>(pointer);
  const std::shared_lock lock(mutex_);
  auto next = by_view_.upper_bound(value);
  if (next != by_view_.begin()) {
    const auto& [view, address] = *std::prev(next);
    const Buffer& buffer = by_address_.at(address);
    // One past the end still belongs to the buffer: empty ranges name it.
    if (value - view <= whole_pages(buffer.pub.length_bytes)) {
      return BusAddress{address + (value - view)};
    }
  }
  return BusAddress{layout::process_base + value};
}

std::optional<BusMemory> BusDram::at(BusAddress address, std::uint64_t length_bytes) const {
  BusMemory memory;
  memory.extent.space = {Space::Kind::dram, 0};
  memory.extent.address = address.value;
  if (address.value >= layout::process_base) {
    const std::uint64_t pointer = address.value - layout::process_base;
    if (pointer == 0) return std::nullopt;
    memory.pointer = reinterpret_cast<std::byte*>(pointer);
    return memory;
  }
  const std::shared_lock lock(mutex_);
  auto next = by_address_.upper_bound(address.value);
  if (next == by_address_.begin()) return std::nullopt;
  const auto& [begin, buffer] = *std::prev(next);
  const std::uint64_t inside = address.value - begin;
  const std::uint64_t length = buffer.alias->length_bytes();
  if (inside > length || length_bytes > length - inside) return std::nullopt;
  memory.pointer = buffer.alias->begin() + inside;
  memory.extent.space.index = buffer.pub.node;
  memory.extent.internal = buffer.pub.use == DramUse::internal;
  memory.alive = buffer.alias;
  return memory;
}

Result<std::unique_ptr<BusVram>> BusVram::create(std::uint32_t gpu, std::uint64_t size_bytes) {
  const std::string attempted =
      "make " + std::to_string(size_bytes) + " bytes of memory for gpu:" + std::to_string(gpu);
  if (gpu >= layout::gpus_max || size_bytes > std::uint64_t{1} << layout::gpu_shift ||
      size_bytes == 0) {
    return refused(attempted, "a software machine has up to 64 GPUs of up to 4 TiB each");
  }
  std::unique_ptr<BusVram> vram(new BusVram);
  vram->gpu_ = gpu;
  vram->size_bytes_ = size_bytes;
  vram->descriptor_ = memfd_create("nobounce-vram", MFD_CLOEXEC);
  const std::uint64_t length = whole_pages(size_bytes);
  if (vram->descriptor_ < 0 || ftruncate(vram->descriptor_, static_cast<off_t>(length)) != 0) {
    return os_error(errno, attempted);
  }
  vram->mapping_ = BusMapping::of_file(vram->descriptor_, length, PROT_READ | PROT_WRITE);
  if (vram->mapping_->begin() == nullptr) return os_error(errno, attempted);
  return vram;
}

BusVram::~BusVram() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

DevicePointer BusVram::base() const {
  return DevicePointer{layout::vram_base + (std::uint64_t{gpu_} << layout::gpu_shift)};
}

std::optional<BusMemory> BusVram::at(std::uint64_t offset, std::uint64_t length_bytes) const {
  if (offset > size_bytes_ || length_bytes > size_bytes_ - offset) return std::nullopt;
  BusMemory memory;
  memory.pointer = mapping_->begin() + offset;
  memory.gpu = gpu_;
  memory.extent.space = {Space::Kind::vram, gpu_};
  memory.extent.address = base().value + offset;
  memory.alive = mapping_;
  const std::shared_lock lock(mutex_);
  const auto next = internal_.upper_bound(offset);
  memory.extent.internal = next != internal_.begin() && std::prev(next)->second > offset;
  return memory;
}

void BusVram::mark_internal(std::uint64_t offset, std::uint64_t length_bytes, bool internal) {
  const std::unique_lock lock(mutex_);
  if (internal) {
    internal_[offset] = offset + length_bytes;
  } else {
    internal_.erase(offset);
  }
}

void BusVram::discard(std::uint64_t offset, std::uint64_t length_bytes) {
  if (offset > size_bytes_) return;
  const std::uint64_t end = std::min(size_bytes_, offset + length_bytes);
  const std::uint64_t first = whole_pages(offset);
  const std::uint64_t last = end / page_bytes * page_bytes;
  if (first >= last) return;
  fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
            static_cast<off_t>(last - first));
}

}  // namespace nobounce::fabric
