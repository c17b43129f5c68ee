// A PCI function that is another one: for hosts that fail or count calls on the way.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "system/pci.hpp"

namespace nobounce::system {

class ForwardingPciFunction : public PciFunction {
 public:
  explicit ForwardingPciFunction(std::unique_ptr<PciFunction> inner) : inner_(std::move(inner)) {}

  const std::string& bdf() const override { return inner_->bdf(); }
  Result<std::uint32_t> config_read32(std::uint32_t offset) override {
    return inner_->config_read32(offset);
  }
  Status config_write32(std::uint32_t offset, std::uint32_t value) override {
    return inner_->config_write32(offset, value);
  }
  std::uint64_t bar_bytes(unsigned bar) const override { return inner_->bar_bytes(bar); }
  std::uint32_t read32(unsigned bar, std::uint64_t offset) override {
    return inner_->read32(bar, offset);
  }
  std::uint64_t read64(unsigned bar, std::uint64_t offset) override {
    return inner_->read64(bar, offset);
  }
  void write32(unsigned bar, std::uint64_t offset, std::uint32_t value) override {
    inner_->write32(bar, offset, value);
  }
  void write64(unsigned bar, std::uint64_t offset, std::uint64_t value) override {
    inner_->write64(bar, offset, value);
  }
  std::span<std::byte> bar_mapping(unsigned bar) override { return inner_->bar_mapping(bar); }
  Status set_bus_mastering(BusMastering mode) override { return inner_->set_bus_mastering(mode); }
  Status reset() override { return inner_->reset(); }
  Result<DmaBuffer> allocate_dma(std::uint64_t length_bytes) override {
    return inner_->allocate_dma(length_bytes);
  }
  void free_dma(const DmaBuffer& buffer) override { inner_->free_dma(buffer); }
  Result<Iova> map_host(std::byte* address, std::uint64_t length_bytes) override {
    return inner_->map_host(address, length_bytes);
  }
  Status can_map_gpu(std::uint32_t gpu) override { return inner_->can_map_gpu(gpu); }
  Result<Iova> map_gpu(const GpuMemory& memory) override { return inner_->map_gpu(memory); }
  Result<Iova> map_peer(PciFunction& peer, unsigned bar, std::uint64_t offset_bytes,
                        std::uint64_t length_bytes) override {
    // The inner function knows only its own kind.
    auto* forwarding = dynamic_cast<ForwardingPciFunction*>(&peer);
    return inner_->map_peer(forwarding != nullptr ? *forwarding->inner_ : peer, bar, offset_bytes,
                            length_bytes);
  }
  void unmap(Iova iova) override { inner_->unmap(iova); }

 protected:
  std::unique_ptr<PciFunction> inner_;
};

}  // namespace nobounce::system
