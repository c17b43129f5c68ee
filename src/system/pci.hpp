// PCI functions that this process owns: their registers, and what they may reach by DMA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <nobounce/place.hpp>
#include <nobounce/result.hpp>
#include <nobounce/units.hpp>

namespace nobounce::system {

/// Host memory that the CPU and a function both reach.
struct DmaBuffer {
  std::byte* address = nullptr;
  Iova iova;
  std::uint64_t length_bytes = 0;
};

enum class BusMastering : std::uint8_t { off, on };

/// One function, ours alone. Its destructor ends bus mastering first, then unmaps and gives back
/// what is left. Registers may be used from any thread; everything else from one at a time.
class PciFunction {
 public:
  static constexpr unsigned bars = 6;

  virtual ~PciFunction() = default;
  [[nodiscard]] virtual const std::string& bdf() const = 0;

  [[nodiscard]] virtual Result<std::uint32_t> config_read32(std::uint32_t offset) = 0;
  [[nodiscard]] virtual Status config_write32(std::uint32_t offset, std::uint32_t value) = 0;

  /// Zero where it has no such BAR.
  [[nodiscard]] virtual std::uint64_t bar_bytes(unsigned bar) const = 0;
  /// Aligned offsets inside the BAR. A function that is gone answers all ones. What this thread
  /// stored to memory before a write is visible to the function before it sees the write.
  [[nodiscard]] virtual std::uint32_t read32(unsigned bar, std::uint64_t offset) = 0;
  [[nodiscard]] virtual std::uint64_t read64(unsigned bar, std::uint64_t offset) = 0;
  virtual void write32(unsigned bar, std::uint64_t offset, std::uint32_t value) = 0;
  virtual void write64(unsigned bar, std::uint64_t offset, std::uint64_t value) = 0;
  /// The BAR in this process's addresses, to be registered with CUDA for kernels to use; empty
  /// where there is no raw mapping. On a software machine the CPU itself faults on it.
  [[nodiscard]] virtual std::span<std::byte> bar_mapping(unsigned bar) = 0;

  [[nodiscard]] virtual Status set_bus_mastering(BusMastering mode) = 0;
  /// Function-level reset: afterwards it does no DMA until told anew.
  [[nodiscard]] virtual Status reset() = 0;

  // --- What it may reach by DMA. Addresses are of its own IOMMU domain.
  /// Zeroed, page-aligned memory that stays where it is.
  [[nodiscard]] virtual Result<DmaBuffer> allocate_dma(std::uint64_t length_bytes) = 0;
  virtual void free_dma(const DmaBuffer& buffer) = 0;
  /// Memory of the caller's, which must outlive the mapping. Answers the address of the first byte.
  [[nodiscard]] virtual Result<Iova> map_host(std::byte* address, std::uint64_t length_bytes) = 0;
  /// Whether GPU memory of that GPU can be mapped at all; touches nothing. Cause
  /// nvme.peer_unmapped.
  [[nodiscard]] virtual Status can_map_gpu(std::uint32_t gpu) = 0;
  [[nodiscard]] virtual Result<Iova> map_gpu(const GpuMemory& memory) = 0;
  /// A part of the BAR of another function that the same Pci opened.
  [[nodiscard]] virtual Result<Iova> map_peer(PciFunction& peer, unsigned bar,
                                              std::uint64_t offset_bytes,
                                              std::uint64_t length_bytes) = 0;
  /// Takes what one of the three above answered.
  virtual void unmap(Iova iova) = 0;
};

class Pci {
 public:
  virtual ~Pci() = default;
  /// Takes a function. Cause nvme.not_vfio where it is bound to another driver, with the commands
  /// that would bind it. One owner at a time. It must be gone before the Pci.
  [[nodiscard]] virtual Result<std::unique_ptr<PciFunction>> open(std::string_view bdf) = 0;
};

}  // namespace nobounce::system
