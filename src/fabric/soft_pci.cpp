// PCI functions of a software machine: configuration space, registers over the bus, and mappings
// that its IOMMU learns of.
#include "fabric/soft_pci.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/drive_kind.hpp"
#include "fabric/soft_files_pci.hpp"
#include "fabric/soft_nvme.hpp"
#include "system/pci_commands.hpp"

namespace nobounce::fabric {

namespace {

constexpr std::uint32_t command_register = 0x04;
constexpr std::uint32_t bus_master_bit = 4;

/// A file without a name, of a fixed length, that takes real room only where it was written.
class RawFile {
 public:
  static std::unique_ptr<RawFile> create(std::uint64_t length_bytes) {
    const int descriptor = ::memfd_create("nobounce-drive", MFD_CLOEXEC);
    if (descriptor < 0) return nullptr;
    std::unique_ptr<RawFile> file(new RawFile(descriptor));
    if (::ftruncate(descriptor, static_cast<off_t>(length_bytes)) != 0) return nullptr;
    return file;
  }
  ~RawFile() { ::close(descriptor_); }
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;
  [[nodiscard]] Medium medium(std::uint32_t drive) const {
    struct stat status {};
    (void)::fstat(descriptor_, &status);
    return {drive, descriptor_, status.st_ino};
  }

 private:
  explicit RawFile(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

Error not_mapped(const std::string& bdf, std::string detail) {
  return Error{.origin = ErrorOrigin::fabric,
               .attempted = "map memory for " + bdf,
               .cause = Cause::nvme_peer_unmapped,
               .detail = std::move(detail)};
}

/// A drive that may be taken, taken or not.
struct OwnableDrive {
  std::unique_ptr<RawFile> file;
  std::unique_ptr<SoftNvme> controller;
  bool taken = false;
};

class SoftFunction final : public system::PciFunction {
 public:
  SoftFunction(Bus& bus, OwnableDrive& owned, std::uint32_t drive, std::string bdf,
               std::string config)
      : bus_(bus), owned_(owned), drive_(drive), bdf_(std::move(bdf)), config_(std::move(config)) {
    (void)set_bus_mastering(system::BusMastering::off);
  }
  ~SoftFunction() override;

  const std::string& bdf() const override { return bdf_; }
  Result<std::uint32_t> config_read32(std::uint32_t offset) override;
  Status config_write32(std::uint32_t offset, std::uint32_t value) override;
  std::uint64_t bar_bytes(unsigned bar) const override {
    return bar == 0 ? Bus::registers_bytes : 0;
  }
  std::uint32_t read32(unsigned bar, std::uint64_t offset) override {
    return static_cast<std::uint32_t>(load(bar, offset, 4));
  }
  std::uint64_t read64(unsigned bar, std::uint64_t offset) override { return load(bar, offset, 8); }
  void write32(unsigned bar, std::uint64_t offset, std::uint32_t value) override {
    store(bar, offset, value, 4);
  }
  void write64(unsigned bar, std::uint64_t offset, std::uint64_t value) override {
    store(bar, offset, value, 8);
  }
  std::span<std::byte> bar_mapping(unsigned bar) override {
    return bar == 0 ? bus_.register_view(drive_) : std::span<std::byte>{};
  }
  Status set_bus_mastering(system::BusMastering mode) override;
  Status reset() override {
    owned_.controller->reset();
    return {};
  }

  Result<system::DmaBuffer> allocate_dma(std::uint64_t length_bytes) override;
  void free_dma(const system::DmaBuffer& buffer) override;
  Result<Iova> map_host(std::byte* address, std::uint64_t length_bytes) override;
  Status can_map_gpu(std::uint32_t gpu) override;
  Result<Iova> map_gpu(const GpuMemory& memory) override;
  Result<Iova> map_peer(system::PciFunction&, unsigned, std::uint64_t, std::uint64_t) override {
    return not_mapped(bdf_, "a software machine lends no other function's BAR");
  }
  void unmap(Iova iova) override;

 private:
  std::uint64_t load(unsigned bar, std::uint64_t offset, std::size_t bytes) {
    if (bar != 0) return ~std::uint64_t{0};
    return bus_.cpu_load_register(bus_.registers_of(drive_).plus(offset), bytes);
  }
  void store(unsigned bar, std::uint64_t offset, std::uint64_t value, std::size_t bytes) {
    if (bar == 0) bus_.cpu_store_register(bus_.registers_of(drive_).plus(offset), value, bytes);
  }

  Bus& bus_;
  OwnableDrive& owned_;
  const std::uint32_t drive_;
  const std::string bdf_;
  std::string config_;
  std::map<std::byte*, DramBuffer> buffers_;
  std::vector<BusAddress> windows_;  ///< of BAR1
};

SoftFunction::~SoftFunction() {
  (void)set_bus_mastering(system::BusMastering::off);
  (void)reset();
  for (const auto& [address, buffer] : buffers_) {
    bus_.unmap_iommu(buffer.address);
    bus_.free_dram(buffer);
  }
  for (const BusAddress window : windows_) {
    bus_.unmap_iommu(window);
    (void)bus_.unmap_bar1(window);
  }
  owned_.taken = false;
}

Result<std::uint32_t> SoftFunction::config_read32(std::uint32_t offset) {
  if (offset % 4 != 0 || offset + 4 > config_.size()) {
    return os_error(EINVAL, "read configuration space of " + bdf_);
  }
  std::uint32_t value = 0;
  for (unsigned i = 0; i < 4; ++i) {
    value |= std::uint32_t{static_cast<unsigned char>(config_[offset + i])} << (8 * i);
  }
  return value;
}

Status SoftFunction::config_write32(std::uint32_t offset, std::uint32_t value) {
  if (offset % 4 != 0 || offset + 4 > config_.size()) {
    return os_error(EINVAL, "write configuration space of " + bdf_);
  }
  if (offset != command_register) return {};  // the rest is read-only here
  for (unsigned i = 0; i < 2; ++i) config_[offset + i] = static_cast<char>(value >> (8 * i) & 0xff);
  owned_.controller->set_bus_mastering((value & bus_master_bit) != 0);
  return {};
}

Status SoftFunction::set_bus_mastering(system::BusMastering mode) {
  const std::uint32_t command = *config_read32(command_register);
  return config_write32(command_register, mode == system::BusMastering::on
                                              ? command | bus_master_bit
                                              : command & ~bus_master_bit);
}

Result<system::DmaBuffer> SoftFunction::allocate_dma(std::uint64_t length_bytes) {
  const DeviceRef drive{DeviceRef::Kind::drive, static_cast<std::uint16_t>(drive_)};
  Result<DramBuffer> made =
      bus_.allocate_dram(numa_of(bus_.machine(), drive), length_bytes, DramUse::user);
  if (!made.ok()) return std::move(made).error();
  bus_.map_iommu(made->address, made->length_bytes);
  buffers_.emplace(made->view, *made);
  return system::DmaBuffer{made->view, Iova{made->address.value}, length_bytes};
}

void SoftFunction::free_dma(const system::DmaBuffer& buffer) {
  const auto found = buffers_.find(buffer.address);
  if (found == buffers_.end()) return;
  bus_.unmap_iommu(found->second.address);
  bus_.free_dram(found->second);
  buffers_.erase(found);
}

Result<Iova> SoftFunction::map_host(std::byte* address, std::uint64_t length_bytes) {
  const BusAddress at = bus_.address_of(address);
  bus_.map_iommu(at, length_bytes);
  return Iova{at.value};
}

Status SoftFunction::can_map_gpu(std::uint32_t gpu) {
  const Machine& machine = bus_.machine();
  if (gpu >= machine.gpus.size()) return not_mapped(bdf_, "there is no such GPU");
  if (!machine.gpus[gpu].gpudirect_rdma) {
    return not_mapped(
        bdf_, "the driver pins no memory of gpu:" + std::to_string(gpu) + " for other devices");
  }
  return {};
}

Result<Iova> SoftFunction::map_gpu(const GpuMemory& memory) {
  if (Status able = can_map_gpu(memory.gpu); !able.ok()) return able.error();
  Result<BusAddress> window = bus_.map_bar1(memory.address, memory.length_bytes);
  if (!window.ok()) return not_mapped(bdf_, window.error().detail);
  bus_.map_iommu(*window, memory.length_bytes);
  windows_.push_back(*window);
  return Iova{window->value};
}

void SoftFunction::unmap(Iova iova) {
  const BusAddress address{iova.value};
  bus_.unmap_iommu(address);
  if (std::erase(windows_, address) > 0) (void)bus_.unmap_bar1(address);
}

class SoftPciParts final : public SoftPci {
 public:
  SoftPciParts(Bus& bus, SoftWorkers& workers, const SoftFaults& faults, std::uint64_t seed)
      : bus_(bus), workers_(workers), faults_(faults), seed_(seed) {}

  Result<std::unique_ptr<system::PciFunction>> open(std::string_view bdf) override;
  std::optional<Medium> raw_medium(std::uint32_t drive) override {
    const std::lock_guard lock(mutex_);
    OwnableDrive* owned = ownable(drive);
    if (owned == nullptr) return std::nullopt;
    return owned->file->medium(drive);
  }

 private:
  [[nodiscard]] OwnableDrive* ownable(std::uint32_t drive);

  Bus& bus_;
  SoftWorkers& workers_;
  const SoftFaults& faults_;
  const std::uint64_t seed_;
  std::mutex mutex_;
  std::map<std::uint32_t, OwnableDrive> drives_;
};

OwnableDrive* SoftPciParts::ownable(std::uint32_t drive) {
  const Machine& machine = bus_.machine();
  if (drive >= machine.drives.size() || machine.drives[drive].driver != vfio_driver) return nullptr;
  OwnableDrive& owned = drives_[drive];
  if (owned.controller != nullptr) return &owned;
  if (owned.file == nullptr) owned.file = RawFile::create(SoftHost::raw_medium_bytes);
  if (owned.file == nullptr) return nullptr;
  SoftNvmeShape shape;
  shape.drive = drive;
  shape.medium = owned.file->medium(drive);
  shape.length_bytes = SoftHost::raw_medium_bytes;
  owned.controller = std::make_unique<SoftNvme>(bus_, workers_, faults_, seed_ + drive, shape);
  return &owned;
}

Result<std::unique_ptr<system::PciFunction>> SoftPciParts::open(std::string_view bdf) {
  const std::string attempted = "take the PCI function " + std::string(bdf);
  const Machine& machine = bus_.machine();
  for (std::uint32_t drive = 0; drive < machine.drives.size(); ++drive) {
    if (machine.drives[drive].bdf != bdf || !core::is_pci_drive(machine.drives[drive])) continue;
    if (machine.drives[drive].driver != vfio_driver) {
      return system::not_bound_to_vfio(bdf, machine.drives[drive].driver);
    }
    const std::lock_guard lock(mutex_);
    OwnableDrive* owned = ownable(drive);
    if (owned == nullptr) return os_error(ENOMEM, attempted);
    if (owned->taken) return os_error(EBUSY, attempted);
    const std::vector<PciFunction> functions = lay_out_pci(machine);
    const PciFunction* function =
        function_of(functions, {DeviceRef::Kind::drive, static_cast<std::uint16_t>(drive)});
    if (function == nullptr) break;
    owned->taken = true;
    return std::unique_ptr<system::PciFunction>(std::make_unique<SoftFunction>(
        bus_, *owned, drive, std::string(bdf), config_space(*function)));
  }
  return os_error(ENOENT, attempted);
}

}  // namespace

std::unique_ptr<SoftPci> make_soft_pci(Bus& bus, SoftWorkers& workers, const SoftFaults& faults,
                                       std::uint64_t seed) {
  return std::make_unique<SoftPciParts>(bus, workers, faults, seed);
}

}  // namespace nobounce::fabric
