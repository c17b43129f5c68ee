// VFIO with a type1 IOMMU: group, container, device regions, and mappings by process address.
#include "system/live_pci.hpp"

#include <fcntl.h>
#include <linux/vfio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "system/pci_commands.hpp"

namespace nobounce::system {
namespace {

constexpr std::uint64_t vfio_page_bytes = 4096;
/// Below 2^39, which every IOMMU can translate, and above what a small one reserves.
constexpr std::uint64_t first_iova = std::uint64_t{1} << 32;
constexpr std::uint64_t last_iova = std::uint64_t{1} << 38;
constexpr std::uint32_t command_register = 0x04;
constexpr std::uint32_t memory_and_master = 0x6;
constexpr std::uint32_t master_bit = 0x4;

std::uint64_t whole_vfio_pages(std::uint64_t bytes) {
  return (bytes + vfio_page_bytes - 1) / vfio_page_bytes * vfio_page_bytes;
}

/// Closes what is left open.
class VfioDescriptor {
 public:
  explicit VfioDescriptor(int value = -1) : value_(value) {}
  ~VfioDescriptor() {
    if (value_ >= 0) ::close(value_);
  }
  VfioDescriptor(VfioDescriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  VfioDescriptor& operator=(VfioDescriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  [[nodiscard]] int get() const { return value_; }
  [[nodiscard]] bool valid() const { return value_ >= 0; }

 private:
  int value_;
};

/// The IOMMU domain of all open functions.
class Container {
 public:
  static Result<std::shared_ptr<Container>> open() {
    auto made = std::make_shared<Container>();
    made->descriptor_ = VfioDescriptor(::open("/dev/vfio/vfio", O_RDWR | O_CLOEXEC));
    if (!made->descriptor_.valid()) {
      Error error = os_error(errno, "open /dev/vfio/vfio", Cause::nvme_not_vfio);
      error.remedy = "sudo modprobe vfio-pci, and run as root or give this user /dev/vfio";
      return error;
    }
    return made;
  }

  Status join(int group) {
    int container = descriptor_.get();
    if (::ioctl(group, VFIO_GROUP_SET_CONTAINER, &container) != 0)
      return os_error(errno, "put the function's group into the VFIO container");
    if (typed_) return {};
    if (::ioctl(container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU) != 0) {
      Error error = os_error(errno, "ask VFIO for a type1 IOMMU");
      error.remedy = "boot with intel_iommu=on or amd_iommu=on";
      return error;
    }
    typed_ = true;
    return {};
  }

  /// Whole pages; the address of the first.
  Result<Iova> map(const void* address, std::uint64_t length_bytes, const char* what,
                   Cause cause = Cause::none) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t iova = free_range(length_bytes);
    vfio_iommu_type1_dma_map request{};
    request.argsz = sizeof request;
    request.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE;
    request.vaddr = reinterpret_cast<std::uint64_t>(address);
    request.iova = iova;
    request.size = length_bytes;
    if (iova == 0 || ::ioctl(descriptor_.get(), VFIO_IOMMU_MAP_DMA, &request) != 0) {
      Error error = os_error(iova == 0 ? ENOSPC : errno, std::string("map ") + what, cause);
      if (error.code == ENOMEM) error.remedy = "ulimit -l shows the limit of locked memory";
      return error;
    }
    mapped_[iova] = length_bytes;
    return Iova{iova};
  }

  void unmap(Iova iova) {
    const std::lock_guard lock(mutex_);
    const auto found = mapped_.find(iova.value / vfio_page_bytes * vfio_page_bytes);
    if (found == mapped_.end()) return;
    vfio_iommu_type1_dma_unmap request{};
    request.argsz = sizeof request;
    request.iova = found->first;
    request.size = found->second;
    (void)::ioctl(descriptor_.get(), VFIO_IOMMU_UNMAP_DMA, &request);
    mapped_.erase(found);
  }

 private:
  /// First fit; 0 where there is no room.
  [[nodiscard]] std::uint64_t free_range(std::uint64_t length_bytes) const {
    std::uint64_t at = first_iova;
    for (const auto& [iova, length] : mapped_) {
      if (iova - at >= length_bytes) return at;
      at = iova + length;
    }
    return last_iova - at >= length_bytes ? at : 0;
  }

  VfioDescriptor descriptor_;
  bool typed_ = false;
  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> mapped_;  ///< iova -> length
};

struct Region {
  std::uint64_t length_bytes = 0;
  std::uint64_t offset = 0;
  std::byte* mapping = nullptr;
};

class LiveFunction final : public PciFunction {
 public:
  LiveFunction(std::string bdf, std::shared_ptr<Container> container, VfioDescriptor group,
               VfioDescriptor device)
      : bdf_(std::move(bdf)),
        container_(std::move(container)),
        group_(std::move(group)),
        device_(std::move(device)) {}
  ~LiveFunction() override;
  Status read_regions();

  const std::string& bdf() const override { return bdf_; }
  Result<std::uint32_t> config_read32(std::uint32_t offset) override;
  Status config_write32(std::uint32_t offset, std::uint32_t value) override;
  std::uint64_t bar_bytes(unsigned bar) const override {
    return bar < bars ? regions_[bar].length_bytes : 0;
  }
  std::uint32_t read32(unsigned bar, std::uint64_t offset) override;
  std::uint64_t read64(unsigned bar, std::uint64_t offset) override;
  void write32(unsigned bar, std::uint64_t offset, std::uint32_t value) override;
  void write64(unsigned bar, std::uint64_t offset, std::uint64_t value) override;
  std::span<std::byte> bar_mapping(unsigned bar) override {
    if (bar >= bars || regions_[bar].mapping == nullptr) return {};
    return {regions_[bar].mapping, regions_[bar].length_bytes};
  }
  Status set_bus_mastering(BusMastering mode) override;
  Status reset() override;
  Result<DmaBuffer> allocate_dma(std::uint64_t length_bytes) override;
  void free_dma(const DmaBuffer& buffer) override;
  Result<Iova> map_host(std::byte* address, std::uint64_t length_bytes) override;
  Status can_map_gpu(std::uint32_t gpu) override;
  Result<Iova> map_gpu(const GpuMemory& memory) override {
    const Status able = can_map_gpu(memory.gpu);
    return able.error();
  }
  Result<Iova> map_peer(PciFunction& peer, unsigned bar, std::uint64_t offset_bytes,
                        std::uint64_t length_bytes) override;
  void unmap(Iova iova) override;

 private:
  template <typename Word>
  [[nodiscard]] volatile Word* word(unsigned bar, std::uint64_t offset) const {
    const bool inside = bar < bars && regions_[bar].mapping != nullptr &&
                        offset + sizeof(Word) <= regions_[bar].length_bytes;
    return inside ? reinterpret_cast<volatile Word*>(regions_[bar].mapping + offset) : nullptr;
  }

  const std::string bdf_;
  std::shared_ptr<Container> container_;
  VfioDescriptor group_;
  VfioDescriptor device_;
  std::array<Region, bars> regions_{};
  Region config_;
  std::map<std::byte*, DmaBuffer> buffers_;
  std::map<std::uint64_t, Iova> mapped_;  ///< by what was answered: what the container knows
};

/// Stores to memory before stores to registers. x86 keeps that order by itself.
void order_before_register() {
#if defined(__aarch64__)
  asm volatile("dmb oshst" ::: "memory");
#else
  asm volatile("" ::: "memory");
#endif
}

LiveFunction::~LiveFunction() {
  (void)set_bus_mastering(BusMastering::off);
  for (const auto& [answered, iova] : mapped_) container_->unmap(iova);
  while (!buffers_.empty()) free_dma(DmaBuffer(buffers_.begin()->second));
  for (const Region& region : regions_) {
    if (region.mapping != nullptr) ::munmap(region.mapping, region.length_bytes);
  }
}

Status LiveFunction::read_regions() {
  const auto ask = [&](unsigned index, Region& region, bool& mappable) {
    vfio_region_info info{};
    info.argsz = sizeof info;
    info.index = index;
    if (::ioctl(device_.get(), VFIO_DEVICE_GET_REGION_INFO, &info) != 0) return false;
    region.length_bytes = info.size;
    region.offset = info.offset;
    mappable = (info.flags & VFIO_REGION_INFO_FLAG_MMAP) != 0;
    return true;
  };
  bool mappable = false;
  if (!ask(VFIO_PCI_CONFIG_REGION_INDEX, config_, mappable))
    return os_error(errno, "find the configuration space of " + bdf_);
  for (unsigned bar = 0; bar < bars; ++bar) {
    Region& region = regions_[bar];
    if (!ask(bar, region, mappable) || region.length_bytes == 0 || !mappable) continue;
    void* mapping = ::mmap(nullptr, region.length_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                           device_.get(), static_cast<off_t>(region.offset));
    if (mapping == MAP_FAILED)
      return os_error(errno, "map BAR " + std::to_string(bar) + " of " + bdf_);
    region.mapping = static_cast<std::byte*>(mapping);
  }
  // Registers answer only with memory decoding on; who does DMA is decided later.
  const Result<std::uint32_t> command = config_read32(command_register);
  if (!command.ok()) return command.error();
  return config_write32(command_register, (*command | memory_and_master) & ~master_bit & 0xffff);
}

Result<std::uint32_t> LiveFunction::config_read32(std::uint32_t offset) {
  std::uint32_t value = 0;
  const ssize_t got =
      ::pread(device_.get(), &value, sizeof value, static_cast<off_t>(config_.offset + offset));
  if (got != sizeof value)
    return os_error(got < 0 ? errno : EIO, "read configuration space of " + bdf_);
  return value;
}

Status LiveFunction::config_write32(std::uint32_t offset, std::uint32_t value) {
  const ssize_t put =
      ::pwrite(device_.get(), &value, sizeof value, static_cast<off_t>(config_.offset + offset));
  if (put != sizeof value)
    return os_error(put < 0 ? errno : EIO, "write configuration space of " + bdf_);
  return {};
}

std::uint32_t LiveFunction::read32(unsigned bar, std::uint64_t offset) {
  const volatile std::uint32_t* at = word<std::uint32_t>(bar, offset);
  return at == nullptr ? ~std::uint32_t{0} : *at;
}

std::uint64_t LiveFunction::read64(unsigned bar, std::uint64_t offset) {
  const volatile std::uint64_t* at = word<std::uint64_t>(bar, offset);
  return at == nullptr ? ~std::uint64_t{0} : *at;
}

void LiveFunction::write32(unsigned bar, std::uint64_t offset, std::uint32_t value) {
  order_before_register();
  if (volatile std::uint32_t* at = word<std::uint32_t>(bar, offset)) *at = value;
}

void LiveFunction::write64(unsigned bar, std::uint64_t offset, std::uint64_t value) {
  // As two halves, low first: not every device takes eight bytes at once.
  write32(bar, offset, static_cast<std::uint32_t>(value));
  write32(bar, offset + 4, static_cast<std::uint32_t>(value >> 32));
}

Status LiveFunction::set_bus_mastering(BusMastering mode) {
  const Result<std::uint32_t> command = config_read32(command_register);
  if (!command.ok()) return command.error();
  const std::uint32_t kept = *command & 0xffff & ~master_bit;  // status bits clear by writing ones
  return config_write32(command_register, mode == BusMastering::on ? kept | master_bit : kept);
}

Status LiveFunction::reset() {
  if (::ioctl(device_.get(), VFIO_DEVICE_RESET) == 0) return {};
  return os_error(errno, "reset " + bdf_);
}

Result<DmaBuffer> LiveFunction::allocate_dma(std::uint64_t length_bytes) {
  const std::uint64_t length = whole_vfio_pages(length_bytes);
  void* memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) return os_error(errno, "allocate memory for " + bdf_);
  Result<Iova> iova = container_->map(memory, length, "memory for the drive's queues");
  if (!iova.ok()) {
    ::munmap(memory, length);
    return std::move(iova).error();
  }
  const DmaBuffer buffer{static_cast<std::byte*>(memory), *iova, length};
  buffers_.emplace(buffer.address, buffer);
  return buffer;
}

void LiveFunction::free_dma(const DmaBuffer& buffer) {
  const auto found = buffers_.find(buffer.address);
  if (found == buffers_.end()) return;
  container_->unmap(found->second.iova);
  ::munmap(found->second.address, found->second.length_bytes);
  buffers_.erase(found);
}

Result<Iova> LiveFunction::map_host(std::byte* address, std::uint64_t length_bytes) {
  const auto value = reinterpret_cast<std::uint64_t>(address);
  const std::uint64_t inside = value % vfio_page_bytes;
  const Result<Iova> iova =
      container_->map(reinterpret_cast<const void*>(value - inside),
                      whole_vfio_pages(inside + length_bytes), "host memory for the drive");
  if (!iova.ok()) return iova;
  mapped_[iova->value + inside] = *iova;
  return Iova{iova->value + inside};
}

Status LiveFunction::can_map_gpu(std::uint32_t gpu) {
  return Error{.origin = ErrorOrigin::os,
               .code = EOPNOTSUPP,
               .attempted = "map memory of gpu:" + std::to_string(gpu) + " for " + bdf_,
               .cause = Cause::nvme_peer_unmapped,
               .detail =
                   "VFIO's type1 IOMMU maps BARs of functions that this process owns, and "
                   "NVIDIA's driver owns the GPU",
               .remedy =
                   "read the drive into host memory, or leave it to the nvme driver and use "
                   "nvidia-fs"};
}

Result<Iova> LiveFunction::map_peer(PciFunction& peer, unsigned bar, std::uint64_t offset_bytes,
                                    std::uint64_t length_bytes) {
  const std::span<std::byte> mapping = peer.bar_mapping(bar);
  if (mapping.empty() || offset_bytes % vfio_page_bytes != 0 || length_bytes > mapping.size() ||
      offset_bytes > mapping.size() - length_bytes) {
    return os_error(EINVAL, "map a part of BAR " + std::to_string(bar) + " of " + peer.bdf(),
                    Cause::nvme_peer_unmapped);
  }
  const Result<Iova> iova =
      container_->map(mapping.data() + offset_bytes, whole_vfio_pages(length_bytes), "a peer's BAR",
                      Cause::nvme_peer_unmapped);
  if (iova.ok()) mapped_[iova->value] = *iova;
  return iova;
}

void LiveFunction::unmap(Iova iova) {
  const auto found = mapped_.find(iova.value);
  if (found == mapped_.end()) return;
  container_->unmap(found->second);
  mapped_.erase(found);
}

class LivePci final : public Pci {
 public:
  explicit LivePci(Files& files) : files_(files) {}
  Result<std::unique_ptr<PciFunction>> open(std::string_view bdf) override;

 private:
  [[nodiscard]] std::string last_name(const std::string& link) {
    const Result<std::string> target = files_.read_link(link);
    return target.ok() ? target->substr(target->rfind('/') + 1) : std::string();
  }

  Files& files_;
  std::mutex mutex_;
  std::weak_ptr<Container> container_;
};

Result<std::unique_ptr<PciFunction>> LivePci::open(std::string_view bdf) {
  const std::string name(bdf);
  const std::string folder = "/sys/bus/pci/devices/" + name;
  const std::string attempted = "take the PCI function " + name;
  if (!files_.exists(folder)) return os_error(ENOENT, attempted);
  const std::string driver = last_name(folder + "/driver");
  if (driver != "vfio-pci") return not_bound_to_vfio(bdf, driver);
  const std::string group_name = last_name(folder + "/iommu_group");
  if (group_name.empty()) {
    Error error = os_error(ENODEV, attempted, Cause::nvme_not_vfio);
    error.detail = "it is in no IOMMU group: this machine's IOMMU is off";
    error.remedy = "boot with intel_iommu=on or amd_iommu=on";
    return error;
  }
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Container> container = container_.lock();
  if (container == nullptr) {
    Result<std::shared_ptr<Container>> made = Container::open();
    if (!made.ok()) return std::move(made).error();
    container = std::move(*made);
  }
  VfioDescriptor group(::open(("/dev/vfio/" + group_name).c_str(), O_RDWR | O_CLOEXEC));
  if (!group.valid()) {
    Error error = os_error(errno, "open /dev/vfio/" + group_name, Cause::nvme_not_vfio);
    error.remedy = "run as root, or give this user the group's file";
    return error;
  }
  vfio_group_status status{};
  status.argsz = sizeof status;
  if (::ioctl(group.get(), VFIO_GROUP_GET_STATUS, &status) != 0) return os_error(errno, attempted);
  if ((status.flags & VFIO_GROUP_FLAGS_VIABLE) == 0) {
    Error error = os_error(EBUSY, attempted, Cause::nvme_not_vfio);
    error.detail = "another function of IOMMU group " + group_name + " has a driver of its own";
    error.remedy =
        "bind all functions in /sys/kernel/iommu_groups/" + group_name + "/devices to vfio-pci";
    return error;
  }
  if (Status joined = container->join(group.get()); !joined.ok()) return joined.error();
  VfioDescriptor device(::ioctl(group.get(), VFIO_GROUP_GET_DEVICE_FD, name.c_str()));
  if (!device.valid()) return os_error(errno, attempted);
  auto function =
      std::make_unique<LiveFunction>(name, container, std::move(group), std::move(device));
  if (Status known = function->read_regions(); !known.ok()) return known.error();
  container_ = container;
  return std::unique_ptr<PciFunction>(std::move(function));
}

}  // namespace

std::unique_ptr<Pci> make_live_pci(Files& files) {
  return std::make_unique<LivePci>(files);
}

}  // namespace nobounce::system
