// The PCI functions of a FaultyHost: every call that can fail, failed when its turn has come.
#pragma once

#include <memory>
#include <utility>

#include "system/fault_counter.hpp"
#include "system/forwarding_pci.hpp"

namespace nobounce::system {

class FaultyPciFunction final : public ForwardingPciFunction {
 public:
  FaultyPciFunction(FaultCounter& counter, std::unique_ptr<PciFunction> inner)
      : ForwardingPciFunction(std::move(inner)), counter_(counter) {}

  Result<std::uint32_t> config_read32(std::uint32_t offset) override {
    if (counter_.fails("pci.config_read32")) return counter_.error("pci.config_read32");
    return inner_->config_read32(offset);
  }
  Status config_write32(std::uint32_t offset, std::uint32_t value) override {
    if (counter_.fails("pci.config_write32")) return counter_.error("pci.config_write32");
    return inner_->config_write32(offset, value);
  }
  Status set_bus_mastering(BusMastering mode) override {
    // Ending it must always do: it is what makes memory safe to free.
    if (mode == BusMastering::on && counter_.fails("pci.set_bus_mastering"))
      return counter_.error("pci.set_bus_mastering");
    return inner_->set_bus_mastering(mode);
  }
  Status reset() override {
    if (counter_.fails("pci.reset")) return counter_.error("pci.reset");
    return inner_->reset();
  }
  Result<DmaBuffer> allocate_dma(std::uint64_t length_bytes) override {
    if (counter_.fails("pci.allocate_dma")) return counter_.error("pci.allocate_dma");
    return inner_->allocate_dma(length_bytes);
  }
  Result<Iova> map_host(std::byte* address, std::uint64_t length_bytes) override {
    if (counter_.fails("pci.map_host")) return counter_.error("pci.map_host");
    return inner_->map_host(address, length_bytes);
  }
  Status can_map_gpu(std::uint32_t gpu) override {
    if (counter_.fails("pci.can_map_gpu")) return counter_.error("pci.can_map_gpu");
    return inner_->can_map_gpu(gpu);
  }
  Result<Iova> map_gpu(const GpuMemory& memory) override {
    if (counter_.fails("pci.map_gpu")) return counter_.error("pci.map_gpu");
    return inner_->map_gpu(memory);
  }
  Result<Iova> map_peer(PciFunction& peer, unsigned bar, std::uint64_t offset_bytes,
                        std::uint64_t length_bytes) override {
    if (counter_.fails("pci.map_peer")) return counter_.error("pci.map_peer");
    return ForwardingPciFunction::map_peer(peer, bar, offset_bytes, length_bytes);
  }

 private:
  FaultCounter& counter_;
};

class FaultyPci final : public Pci {
 public:
  FaultyPci(FaultCounter& counter, Pci& inner) : counter_(counter), inner_(inner) {}

  Result<std::unique_ptr<PciFunction>> open(std::string_view bdf) override {
    if (counter_.fails("pci.open")) return counter_.error("pci.open");
    auto opened = inner_.open(bdf);
    if (!opened.ok()) return std::move(opened).error();
    return std::unique_ptr<PciFunction>(
        std::make_unique<FaultyPciFunction>(counter_, std::move(*opened)));
  }

 private:
  FaultCounter& counter_;
  Pci& inner_;
};

}  // namespace nobounce::system
