// Adapters of a software machine: registering memory, and reaching it.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "fabric/soft_nic.hpp"
#include "fabric/soft_process_pages.hpp"

namespace nobounce::fabric {

namespace verbs = system::verbs;

namespace {

constexpr std::uint64_t page_mask = 4095;
constexpr int known_access =
    verbs::access_local_write | verbs::access_remote_write | verbs::access_remote_read;

bool access_allowed(int access) {
  if ((access & ~known_access) != 0) return false;
  // Who may be written from afar must be writable at all.
  return (access & verbs::access_remote_write) == 0 || (access & verbs::access_local_write) != 0;
}

}  // namespace

int SoftNics::add_region(std::unique_ptr<NicRegion> region, NicRegion** answer) {
  region->local_key = fresh_key();
  region->remote_key = fresh_key();
  by_local_key_[region->local_key] = region.get();
  by_remote_key_[region->remote_key] = region.get();
  locked_bytes_ += region->locked_bytes;
  ++region->domain->users;
  *answer = region.get();
  regions_.emplace(region.get(), std::move(region));
  return 0;
}

int SoftNics::map_gpu(NicRegion& region, DevicePointer memory, std::uint64_t allocation) {
  const Result<BusAddress> window = parts_.bus.map_bar1(memory, region.length_bytes);
  if (!window.ok()) return ENOMEM;
  region.bus = *window;
  region.mapped = *window;
  region.window = true;
  region.allocation = allocation;
  if (machine().kernel.iommu == IommuMode::translated) {
    parts_.bus.map_iommu(region.bus, region.length_bytes);
    region.in_iommu = true;
  }
  return 0;
}

void SoftNics::unmap(NicRegion& region) {
  if (region.in_iommu) parts_.bus.unmap_iommu(region.bus);
  if (region.window) (void)parts_.bus.unmap_bar1(region.mapped);
}

int SoftNics::register_memory(NicDomain* domain, void* address, std::uint64_t length_bytes,
                              int access, NicRegion** region) {
  const std::lock_guard lock(mutex_);
  if (domains_.count(domain) == 0 || !access_allowed(access) || length_bytes == 0) return EINVAL;
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  if (length_bytes > ~begin) return EINVAL;  // around the end of all addresses
  auto made = std::make_unique<NicRegion>();
  made->domain = domain;
  made->nic = domain->nic;
  made->address = begin;
  made->length_bytes = length_bytes;
  made->access = access;
  const DevicePointer pointer{made->address};
  if (!parts_.bus.is_device_address(pointer)) {
    const bool writes = (access & (verbs::access_local_write | verbs::access_remote_write)) != 0;
    const bool known = parts_.allocations.find_host(address).has_value();
    if (!known && !pinnable_pages(machine(), address, length_bytes, !writes)) return EFAULT;
    const std::uint64_t limit = parts_.faults.memlock_bytes;
    if (limit != 0 && locked_bytes_ + length_bytes > limit) return ENOMEM;
    made->locked_bytes = length_bytes;
    made->bus = parts_.bus.address_of(address);
    return add_region(std::move(made), region);
  }
  // The kernel's RDMA core asks nvidia_peermem whose pages these are; without it they are nobody's.
  const auto allocation = parts_.allocations.find(pointer);
  if (!machine().modules.nvidia_peermem || !allocation || allocation->internal) return EFAULT;
  const bool pinnable =
      allocation->pinnable && machine().gpus.at(allocation->gpu).gpudirect_rdma &&
      (allocation->kind == AllocationKind::device || allocation->kind == AllocationKind::vmm);
  const std::uint64_t inside = made->address - allocation->base.value;
  if (!pinnable || inside + length_bytes > allocation->length_bytes) return EFAULT;
  const DevicePointer memory = allocation->memory.plus(inside);
  if (const int code = map_gpu(*made, memory, allocation->id); code != 0) return code;
  return add_region(std::move(made), region);
}

int SoftNics::register_dmabuf(NicDomain* domain, std::uint64_t offset, std::uint64_t length_bytes,
                              std::uint64_t address, int descriptor, int access,
                              NicRegion** region) {
  const std::lock_guard lock(mutex_);
  if (domains_.count(domain) == 0 || !access_allowed(access) || length_bytes == 0) return EINVAL;
  if (!machine().kernel.dmabuf) return EOPNOTSUPP;
  const auto buffer = parts_.dmabufs.find(descriptor);
  if (!buffer) return EBADF;
  if ((offset & page_mask) != (address & page_mask)) return EINVAL;
  if (offset > buffer->length_bytes || length_bytes > buffer->length_bytes - offset) return EINVAL;
  auto made = std::make_unique<NicRegion>();
  made->domain = domain;
  made->nic = domain->nic;
  made->address = address;
  made->length_bytes = length_bytes;
  made->access = access;
  const int code = map_gpu(*made, buffer->memory.plus(offset), buffer->allocation);
  if (code != 0) return code;
  return add_region(std::move(made), region);
}

int SoftNics::drop_region(NicRegion* region) {
  const std::lock_guard lock(mutex_);
  const auto found = regions_.find(region);
  if (found == regions_.end()) return EINVAL;
  if (parts_.faults.registrations_stuck) return EBUSY;
  by_local_key_.erase(region->local_key);
  by_remote_key_.erase(region->remote_key);
  locked_bytes_ -= region->locked_bytes;
  --region->domain->users;
  if (is(Mutant::rdma_key_stale)) {
    stale_[region->remote_key] = *region;
  } else {
    unmap(*region);
  }
  regions_.erase(found);
  return 0;
}

int SoftNics::keys_of(NicRegion* region, std::uint32_t* local_key, std::uint32_t* remote_key) {
  const std::lock_guard lock(mutex_);
  if (regions_.count(region) == 0) return EINVAL;
  *local_key = region->local_key;
  *remote_key = region->remote_key;
  return 0;
}

const NicRegion* SoftNics::reach(const NicPair& pair, Side side, std::uint32_t key,
                                 std::uint64_t address, std::uint64_t length_bytes,
                                 int access) const {
  const auto& by_key = side == Side::local ? by_local_key_ : by_remote_key_;
  const auto found = by_key.find(key);
  const NicRegion* region = found == by_key.end() ? nullptr : found->second;
  if (region == nullptr && side == Side::remote) {
    const auto stale = stale_.find(key);
    if (stale != stale_.end()) region = &stale->second;
  }
  if (region == nullptr) return nullptr;
  const bool foreign = region->domain != pair.domain && !is(Mutant::rdma_domains_ignored);
  if (foreign || (region->access & access) != access) return nullptr;
  if (region->allocation != 0 && !parts_.allocations.alive(region->allocation)) return nullptr;
  if (is(Mutant::rdma_bounds_ignored) && side == Side::remote) length_bytes = 0;
  if (address < region->address) return nullptr;
  const std::uint64_t inside = address - region->address;
  if (inside > region->length_bytes || length_bytes > region->length_bytes - inside) return nullptr;
  return region;
}

int SoftNics::check_pieces(const NicPair& pair, const std::vector<verbs::ibv_sge>& pieces,
                           int access) const {
  for (const verbs::ibv_sge& piece : pieces) {
    if (piece.length == 0) continue;
    if (reach(pair, Side::local, piece.lkey, piece.addr, piece.length, access) == nullptr) {
      return verbs::wc_local_protection_error;
    }
  }
  return verbs::wc_success;
}

int SoftNics::fetch(const NicPair& pair, const NicSend& work, std::uint64_t offset,
                    std::span<std::byte> target, std::uint64_t wire_address) {
  if (!work.inline_data.empty()) {
    const auto from = work.inline_data.begin() + static_cast<std::ptrdiff_t>(offset);
    std::copy_n(from, target.size(), target.begin());
    return verbs::wc_success;
  }
  std::uint64_t begin = 0;  // of the piece in the message
  std::size_t done = 0;
  for (const verbs::ibv_sge& piece : work.pieces) {
    const std::uint64_t at = offset + done;
    if (done < target.size() && at >= begin && at < begin + piece.length) {
      const std::uint64_t inside = at - begin;
      const std::size_t take = std::min<std::uint64_t>(target.size() - done, piece.length - inside);
      const std::uint64_t address = piece.addr + inside;
      const NicRegion* region = reach(pair, Side::local, piece.lkey, address, take, 0);
      if (region == nullptr) return verbs::wc_local_protection_error;
      const Carried carried =
          parts_.bus.send_packet(pair.nic, region->bus.plus(address - region->address),
                                 target.subspan(done, take), wire_address + done);
      // A read that nobody answers: what real adapters call a protection error of the memory.
      if (!carried.ok()) return verbs::wc_local_protection_error;
      done += take;
    }
    begin += piece.length;
  }
  return done == target.size() ? verbs::wc_success : verbs::wc_local_length_error;
}

int SoftNics::scatter(const NicPair& pair, const std::vector<verbs::ibv_sge>& pieces,
                      std::uint64_t offset, std::span<const std::byte> source,
                      std::uint64_t wire_address) {
  std::uint64_t begin = 0;
  std::size_t done = 0;
  for (const verbs::ibv_sge& piece : pieces) {
    const std::uint64_t at = offset + done;
    if (done < source.size() && at >= begin && at < begin + piece.length) {
      const std::uint64_t inside = at - begin;
      const std::size_t take = std::min<std::uint64_t>(source.size() - done, piece.length - inside);
      const std::uint64_t address = piece.addr + inside;
      const NicRegion* region =
          reach(pair, Side::local, piece.lkey, address, take, verbs::access_local_write);
      if (region == nullptr) return verbs::wc_local_protection_error;
      const Carried carried =
          parts_.bus.receive_packet(pair.nic, source.subspan(done, take), wire_address + done,
                                    region->bus.plus(address - region->address));
      // A posted write that is lost on the bus is lost in silence.
      if (!carried.ok() && carried.outcome != BusOutcome::lost) {
        return verbs::wc_local_protection_error;
      }
      done += take;
    }
    begin += piece.length;
  }
  return done == source.size() ? verbs::wc_success : verbs::wc_local_length_error;
}

}  // namespace nobounce::fabric
