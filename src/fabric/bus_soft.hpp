// The bus's one class: what it holds, and the steps of a request. For the source files of the bus
// alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <utility>
#include <vector>

#include "fabric/bus.hpp"
#include "fabric/bus_bar1.hpp"
#include "fabric/bus_device_map.hpp"
#include "fabric/bus_memory.hpp"
#include "fabric/bus_routes.hpp"
#include "fabric/bus_trap.hpp"

namespace nobounce::fabric {

class SoftBus final : public Bus {
 public:
  SoftBus(const Machine& machine, BusOptions options)
      : machine_(machine),
        options_(std::move(options)),
        trap_(options_.trap_cpu_touches ? std::make_unique<BusTrap>() : nullptr),
        dram_(machine_, trap_.get()),
        routes_(machine_, options_.mutant),
        ledger_(options_.mutant) {}

  Status make_gpus();

  const Machine& machine() const override { return machine_; }
  bool planted(Mutant mutant) const override { return options_.mutant == mutant; }
  const Ledger& ledger() const override { return ledger_; }
  Ledger& ledger() override { return ledger_; }

  Result<DramBuffer> allocate_dram(std::uint32_t node, std::uint64_t length_bytes,
                                   DramUse use) override {
    if (planted(Mutant::bus_bounce_readable) && use == DramUse::bounce) use = DramUse::user;
    return dram_.allocate(node, length_bytes, use);
  }
  void free_dram(const DramBuffer& buffer) override { dram_.free(buffer); }
  BusAddress address_of(const void* pointer) const override;
  std::uint64_t cpu_touches() const override { return trap_ == nullptr ? 0 : trap_->touches(); }

  DevicePointer vram_base(std::uint32_t gpu) const override { return vram_.at(gpu)->base(); }
  std::optional<std::uint32_t> gpu_of(DevicePointer pointer) const override;
  bool is_device_address(DevicePointer pointer) const override {
    return gpu_of(pointer).has_value() || (pointer.value >= layout::device_window_base &&
                                           pointer.value < layout::device_window_end);
  }
  DevicePointer device_window() const override { return DevicePointer{layout::device_window_base}; }
  void map_device(DevicePointer at, std::uint64_t length_bytes, DevicePointer memory) override {
    device_map_.map(at, length_bytes, memory);
  }
  void unmap_device(DevicePointer at) override { device_map_.unmap(at); }
  void mark_internal(DevicePointer pointer, std::uint64_t length_bytes, bool internal) override;
  void discard_vram(DevicePointer pointer, std::uint64_t length_bytes) override;

  Result<BusAddress> map_bar1(DevicePointer pointer, std::uint64_t length_bytes) override;
  bool unmap_bar1(BusAddress address) override;
  std::uint64_t bar1_used_bytes(std::uint32_t gpu) const override {
    return bar1_.at(gpu)->used_bytes();
  }
  void map_iommu(BusAddress address, std::uint64_t length_bytes) override;
  void unmap_iommu(BusAddress address) override;

  BusAddress registers_of(std::uint32_t drive) const override {
    return BusAddress{layout::registers_base + drive * registers_bytes};
  }
  std::span<std::byte> register_view(std::uint32_t drive) override;
  bool is_register_view(const void* pointer, std::uint64_t bytes) const override {
    return view_at(pointer, bytes).has_value();
  }
  void attach_registers(std::uint32_t drive, RegisterFile& registers) override;
  void detach_registers(std::uint32_t drive) override;
  std::uint64_t cpu_load_register(BusAddress source, std::size_t bytes) override;
  void cpu_store_register(BusAddress target, std::uint64_t value, std::size_t bytes) override;

  Carried dma(Initiator initiator, const End& source, const End& target,
              std::uint64_t length_bytes) override;
  Carried device_load(std::uint32_t drive, BusAddress source, std::span<std::byte> target) override;
  Carried device_store(std::uint32_t drive, std::span<const std::byte> source,
                       BusAddress target) override;
  Carried send_packet(std::uint32_t nic, BusAddress source, std::span<std::byte> packet,
                      std::uint64_t wire_address) override;
  Carried receive_packet(std::uint32_t nic, std::span<const std::byte> packet,
                         std::uint64_t wire_address, BusAddress target) override;
  Carried read_file(const Medium& medium, FileOffset offset, BusAddress target,
                    std::uint64_t length_bytes, FileIo io) override;
  Carried write_file(const Medium& medium, FileOffset offset, BusAddress source,
                     std::uint64_t length_bytes, FileIo io) override;
  Carried cpu_copy(BusAddress target, BusAddress source, std::uint64_t length_bytes) override;
  Carried fill_vram(DevicePointer target, std::uint8_t value, std::uint64_t length_bytes) override;
  std::uint64_t watch_word(const End& source) const override;
  Carried kernel_load(std::uint32_t gpu, const End& source, std::span<std::byte> target) override;
  Carried kernel_store(std::uint32_t gpu, std::span<const std::byte> source,
                       const End& target) override;
  Carried kernel_update(std::uint32_t gpu, const End& target, const BusUpdate& order,
                        std::uint64_t& before) override;

  bool inspect(const End& source, std::span<std::byte> target) const override;
  bool plant(const End& target, std::span<const std::byte> source) override;
  Extent extent_of(const End& end) const override;
  std::vector<std::span<const std::byte>> vram_mappings() const override;

 private:
  /// What a request goes over, or why it does not.
  struct Way {
    const BusRoute* route = nullptr;  ///< null: it never leaves the device
    BusOutcome outcome = BusOutcome::done;
  };

  /// The GPU memory's own address: other device addresses by their mapping. Nothing where a
  /// stretch of them is not all in one.
  [[nodiscard]] std::optional<DevicePointer> own_address(DevicePointer pointer,
                                                         std::uint64_t length_bytes) const;
  [[nodiscard]] std::optional<BusMemory> memory_at(const End& end,
                                                   std::uint64_t length_bytes) const;
  [[nodiscard]] bool iommu_knows(BusAddress address, std::uint64_t length_bytes) const;
  [[nodiscard]] Way peer_way(DeviceRef source, DeviceRef target, const End& claimed,
                             std::uint64_t length_bytes);
  [[nodiscard]] Way way_between(DeviceRef device, const BusMemory& memory, const End& end,
                                bool towards_memory, std::uint64_t length_bytes);
  /// What arrives where, and how much of it, on a machine that is ill.
  [[nodiscard]] std::byte* landing(const BusMemory& memory) const;
  [[nodiscard]] std::uint64_t landing_bytes(std::uint64_t length_bytes) const;
  [[nodiscard]] Initiator kernel_of(std::uint32_t gpu) const;
  [[nodiscard]] Way kernel_way(std::uint32_t gpu, const BusMemory& memory, const End& end,
                               bool towards_memory, std::uint64_t length_bytes);
  /// The registers that an address stands for.
  struct Registers {
    std::uint32_t drive = 0;
    std::uint64_t offset = 0;
    RegisterFile* file = nullptr;
  };
  /// The bus address that an address inside a view stands for.
  [[nodiscard]] std::optional<BusAddress> view_at(const void* pointer, std::uint64_t bytes) const;
  [[nodiscard]] std::optional<Registers> registers_at(BusAddress address, std::size_t bytes) const;
  /// A kernel's load (into `target`) or store (of `source`), whichever is not empty.
  [[nodiscard]] Carried kernel_register(std::uint32_t gpu, BusAddress address,
                                        std::span<std::byte> target,
                                        std::span<const std::byte> source);
  [[nodiscard]] Extent page_cache_of(const Medium& medium, FileOffset offset) const;
  [[nodiscard]] Carried device_file(Initiator initiator, const End& source, const End& target,
                                    std::uint64_t length_bytes);
  [[nodiscard]] Carried engine_copy(std::uint32_t gpu, const End& source, const End& target,
                                    std::uint64_t length_bytes);
  [[nodiscard]] Carried lose(const Way& way, Request request);
  [[nodiscard]] Carried write_down(const BusRoute* route, Request request);
  void write_links(const BusRoute& route, std::size_t hops, std::uint64_t length_bytes);
  [[nodiscard]] Carried move_by_file(const Medium& medium, FileOffset offset, BusAddress memory,
                                     std::uint64_t length_bytes, FileIo io, bool reading);
  void spend(std::uint64_t length_bytes) {
    if (options_.carried) options_.carried(length_bytes);
  }
  void reseal() {
    if (trap_ != nullptr) trap_->reseal();
  }

  const Machine machine_;
  const BusOptions options_;
  std::unique_ptr<BusTrap> trap_;
  BusDram dram_;
  BusRoutes routes_;
  Ledger ledger_;
  std::vector<std::unique_ptr<BusVram>> vram_;
  std::vector<std::unique_ptr<BusBar1>> bar1_;
  BusDeviceMap device_map_;
  std::atomic<bool> has_register_views_{false};
  mutable std::shared_mutex registers_mutex_;
  std::map<std::uint32_t, RegisterFile*> registers_;                     ///< by drive
  std::map<std::uint32_t, std::shared_ptr<BusMapping>> register_views_;  ///< by drive
  mutable std::shared_mutex iommu_mutex_;
  std::map<std::uint64_t, std::uint64_t> iommu_;  ///< begin -> end
};

}  // namespace nobounce::fabric
