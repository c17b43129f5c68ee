// Two RDMA providers on one software machine, joined to each other, with memory at either end.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nobounce/place.hpp>
#include "core/machine_json.hpp"
#include "fabric/bus.hpp"
#include "fabric/ledger.hpp"
#include "fabric/soft_host.hpp"
#include "provider/rdma/rdma_provider.hpp"
#include "system/cuda_contexts.hpp"
#include "verbs_rig.hpp"

namespace nobounce::fabric {

inline constexpr std::uint64_t rdma_patience_ns = 120'000'000'000;

struct RdmaRig {
  explicit RdmaRig(const Machine& machine = two_adapters(),
                   const SoftOptions& options = {.deterministic = true})
      : described(completed(machine)) {
    auto made = SoftHost::create(described, options);
    if (!made.ok()) {
      ADD_FAILURE() << to_string(made.error());
      std::abort();
    }
    host = std::move(made).value();
    auto opened = system::CudaContexts::open(*host, described);
    if (opened.ok()) contexts = std::move(opened).value();
    near = provider::make_rdma_provider(*host, contexts.get(), described);
    far = provider::make_rdma_provider(*host, contexts.get(), described);
  }
  ~RdmaRig() {
    for (const system::HostBuffer& buffer : buffers) host->memory().free(buffer);
  }
  static Machine completed(Machine machine) {
    core::complete_machine(machine);
    return machine;
  }

  /// Joins the two under that number; errors of either end.
  Status join(provider::RdmaPeer peer, const provider::RdmaConnectionOptions& near_options,
              provider::RdmaConnectionOptions far_options) {
    auto ours = near->open_connection(peer, near_options);
    if (!ours.ok()) return ours.error();
    if (far_options.lanes_max == 0) {
      far_options.lanes_max = static_cast<std::uint32_t>(ours->size());
    }
    auto theirs = far->open_connection(peer, far_options);
    if (!theirs.ok()) return theirs.error();
    if (Status ready = far->establish(peer, *ours); !ready.ok()) return ready;
    return near->establish(peer, *theirs);
  }
  Status join(provider::RdmaPeer peer = 1) {
    return join(peer, {.near = gpu(0), .silence_ns = 100'000'000},
                {.near = gpu(1), .silence_ns = 100'000'000});
  }
  static DeviceRef gpu(std::uint16_t index) { return {DeviceRef::Kind::gpu, index}; }

  GpuMemory allocate(std::uint32_t gpu, std::uint64_t bytes) {
    const auto context = contexts->context(gpu);
    const system::ContextGuard guard(contexts->table(), *context);
    cuda::CUdeviceptr pointer = 0;
    EXPECT_EQ(contexts->table().mem_alloc(&pointer, bytes), cuda::success);
    return {gpu, DevicePointer{pointer}, bytes};
  }
  void release(const GpuMemory& memory) {
    const auto context = contexts->context(memory.gpu);
    const system::ContextGuard guard(contexts->table(), *context);
    EXPECT_EQ(contexts->table().mem_free(memory.address.value), cuda::success);
  }
  HostMemory allocate_host(std::uint64_t bytes) {
    auto buffer = host->memory().allocate_pinned(bytes, 0, system::MemoryUse::user);
    EXPECT_TRUE(buffer.ok());
    buffers.push_back(*buffer);
    return {buffer->address, bytes};
  }
  static core::RegionView view(const Place& place, AllocationKind kind = AllocationKind::device) {
    return {place, kind};
  }
  /// Offers memory at the far end and opens it here.
  RemoteMemory offer(const Place& place, provider::RdmaAccess access, std::uint64_t id = 7,
                     provider::RdmaPeer peer = 1) {
    auto offered = far->export_region(peer, id, view(place), access, Policy::direct_preferred);
    EXPECT_TRUE(offered.ok()) << (offered.ok() ? "" : to_string(offered.error()));
    if (!offered.ok()) return {};
    last_offer = *offered;
    const Status imported = near->import_region(peer, *offered);
    EXPECT_TRUE(imported.ok());
    return {peer, 0, id, length_bytes(place)};
  }
  core::Completion move(const Place& source, const Place& target, std::uint64_t deadline_ns = 0) {
    core::Operation operation;
    operation.id = next_id++;
    operation.deadline_ns = deadline_ns;
    operation.segment.source = source;
    operation.segment.target = target;
    operation.segment.length_bytes = length_bytes(source);
    operation.segment.provider = ProviderKind::rdma;
    operation.segment.expected = Carriage::direct;
    near->submit(std::span(&operation, 1));
    return await(operation.id);
  }
  core::Completion await(core::OperationId id) {
    core::Completion completion;
    const auto ended = [&] {
      return near->poll(host->clock().now_ns(), std::span(&completion, 1)) == 1 &&
             completion.id == id;
    };
    EXPECT_TRUE(host->workers().wait(ended, host->clock().now_ns() + rdma_patience_ns))
        << "the operation never ended";
    return completion;
  }
  std::vector<std::byte> inspect(const Place& place) {
    std::vector<std::byte> bytes(length_bytes(place));
    const auto* gpu_memory = std::get_if<GpuMemory>(&place);
    const End end = gpu_memory != nullptr
                        ? End::of(gpu_memory->address)
                        : End::at(host->bus().address_of(std::get<HostMemory>(place).address));
    EXPECT_TRUE(host->bus().inspect(end, bytes));
    return bytes;
  }
  void plant(const Place& place, const std::vector<std::byte>& bytes) {
    const auto* gpu_memory = std::get_if<GpuMemory>(&place);
    const End end = gpu_memory != nullptr
                        ? End::of(gpu_memory->address)
                        : End::at(host->bus().address_of(std::get<HostMemory>(place).address));
    EXPECT_TRUE(host->bus().plant(end, bytes));
  }
  CarriageBytes arrived(const GpuMemory& memory) {
    return host->ledger()
        .arrivals(host->bus().extent_of(End::of(memory.address)), memory.length_bytes)
        .bytes;
  }

  Machine described;
  std::unique_ptr<SoftHost> host;
  std::unique_ptr<system::CudaContexts> contexts;
  std::unique_ptr<provider::RdmaProvider> near;
  std::unique_ptr<provider::RdmaProvider> far;
  std::vector<system::HostBuffer> buffers;
  provider::RdmaExport last_offer;
  core::OperationId next_id = 1;
};

}  // namespace nobounce::fabric
