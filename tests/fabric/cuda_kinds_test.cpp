// Kinds of GPU memory to the soft driver: mappings, pools, imports. Codes and answers as driver 580
// gave them on two H200.
#include <gtest/gtest.h>

#include <algorithm>

#include "cuda_rig.hpp"
#include "fabric/ledger.hpp"

namespace nobounce::fabric {
namespace {

constexpr std::size_t slab = 2u << 20;

template <typename Value>
Value attribute(system::Cuda& api, int which, cuda::CUdeviceptr pointer) {
  Value value{};
  EXPECT_EQ(api.pointer_get_attribute(&value, which, pointer), cuda::success) << which;
  return value;
}

void* as_pointer(cuda::CUdeviceptr address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

/// Two GPUs that may reach each other.
class Kinds : public ::testing::Test {
 protected:
  void SetUp() override { rig_.start(); }

  static cuda::CUmemAllocationProp on_device(int device) {
    cuda::CUmemAllocationProp properties{};
    properties.type = cuda::memory_allocation_pinned;
    properties.location = {cuda::memory_location_device, device};
    return properties;
  }
  cuda::CUmemGenericAllocationHandle create(std::size_t bytes, int device = 0) {
    cuda::CUmemGenericAllocationHandle handle = 0;
    const auto properties = on_device(device);
    EXPECT_EQ(api_.mem_create(&handle, bytes, &properties, 0), cuda::success);
    return handle;
  }
  cuda::CUdeviceptr reserve(std::size_t bytes) {
    cuda::CUdeviceptr pointer = 0;
    EXPECT_EQ(api_.mem_address_reserve(&pointer, bytes, 0, 0, 0), cuda::success);
    return pointer;
  }
  int set(cuda::CUdeviceptr pointer, std::size_t bytes, int device,
          int flags = cuda::memory_access_read_write) {
    const cuda::CUmemAccessDesc access{{cuda::memory_location_device, device}, flags};
    return api_.mem_set_access(pointer, bytes, &access, 1);
  }
  unsigned long long get(cuda::CUdeviceptr pointer, int device) {
    unsigned long long flags = 99;
    const cuda::CUmemLocation location{cuda::memory_location_device, device};
    EXPECT_EQ(api_.mem_get_access(&flags, &location, pointer), cuda::success);
    return flags;
  }
  /// Mapped, and reached by its own GPU.
  cuda::CUdeviceptr mapped(std::size_t bytes, int device = 0) {
    const cuda::CUdeviceptr pointer = reserve(bytes);
    EXPECT_EQ(api_.mem_map(pointer, bytes, 0, create(bytes, device), 0), cuda::success);
    EXPECT_EQ(set(pointer, bytes, device), cuda::success);
    return pointer;
  }
  cuda::CUdeviceptr on_second(std::size_t bytes) {
    EXPECT_EQ(api_.ctx_push_current(rig_.contexts[1]), cuda::success);
    const cuda::CUdeviceptr pointer = rig_.allocate(bytes);
    EXPECT_EQ(api_.ctx_pop_current(nullptr), cuda::success);
    return pointer;
  }
  void enable(int from, int to) {
    const auto index = static_cast<std::size_t>(from);
    EXPECT_EQ(api_.ctx_push_current(rig_.contexts[index]), cuda::success);
    EXPECT_EQ(api_.ctx_enable_peer_access(rig_.contexts[static_cast<std::size_t>(to)], 0),
              cuda::success);
    EXPECT_EQ(api_.ctx_pop_current(nullptr), cuda::success);
  }
  /// How the bytes of a copy from GPU 0's memory to GPU 1's came there; empty unless intact.
  CarriageBytes copied(cuda::CUdeviceptr target, cuda::CUdeviceptr source, std::size_t bytes) {
    const auto payload = random_payload(bytes, ++seed_);
    rig_.plant(source, payload);
    rig_.host->bus().ledger().clear_requests();
    EXPECT_EQ(
        api_.memcpy_peer_async(target, rig_.contexts[1], source, rig_.contexts[0], bytes, nullptr),
        cuda::success);
    EXPECT_EQ(api_.ctx_synchronize(), cuda::success);
    if (rig_.inspect(target, bytes) != payload) return {};
    const Extent extent = rig_.host->bus().extent_of(End::of(DevicePointer{target}));
    return rig_.host->ledger().arrivals(extent, bytes).bytes;
  }

  CudaRig rig_;
  system::Cuda& api_ = *rig_.api;
  std::uint64_t seed_ = 1;
};

TEST_F(Kinds, MappingsAreMadeOfWholeUnits) {
  std::size_t unit = 0;
  const auto properties = on_device(0);
  ASSERT_EQ(api_.mem_get_allocation_granularity(&unit, &properties, 0), cuda::success);
  EXPECT_EQ(unit, slab);
  cuda::CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(api_.mem_create(&handle, 4096, &properties, 0), cuda::error_invalid_value);
  EXPECT_EQ(api_.mem_create(&handle, slab << 40, &properties, 0), cuda::error_out_of_memory);
  const auto nowhere = on_device(9);
  EXPECT_EQ(api_.mem_create(&handle, slab, &nowhere, 0), cuda::error_invalid_device);
  cuda::CUmemAllocationProp without_place{};
  without_place.type = cuda::memory_allocation_pinned;
  EXPECT_EQ(api_.mem_create(&handle, slab, &without_place, 0), cuda::error_invalid_value);
  cuda::CUdeviceptr pointer = 0;
  EXPECT_EQ(api_.mem_address_reserve(&pointer, 4096, 0, 0, 0), cuda::error_invalid_value);
}

TEST_F(Kinds, ReservationsAreAlignedAsWanted) {
  const cuda::CUdeviceptr before = reserve(slab);
  const std::size_t wanted = 64 * slab;
  cuda::CUdeviceptr first = 0;
  cuda::CUdeviceptr second = 0;
  ASSERT_EQ(api_.mem_address_reserve(&first, slab, wanted, 0, 0), cuda::success);
  ASSERT_EQ(api_.mem_address_reserve(&second, 65 * slab, wanted, 0, 0), cuda::success);
  EXPECT_EQ(first % wanted, 0u);
  EXPECT_EQ(second % wanted, 0u);
  EXPECT_NE(first, before);
  EXPECT_TRUE(second >= first + slab || first >= second + 65 * slab);
  const cuda::CUdeviceptr between = reserve(slab);
  EXPECT_TRUE(between != before && between != first);
  EXPECT_TRUE(between < second || between >= second + 65 * slab);
  EXPECT_EQ(api_.mem_address_reserve(&first, slab, 3 * slab, 0, 0), cuda::error_invalid_value);
  EXPECT_EQ(api_.mem_address_free(second, 65 * slab), cuda::success);
  EXPECT_EQ(api_.mem_address_free(first, slab), cuda::success);
}

TEST_F(Kinds, AReservationAloneIsNoPointer) {
  const cuda::CUdeviceptr reserved = reserve(4 * slab);
  unsigned type = 0;
  EXPECT_EQ(api_.pointer_get_attribute(&type, cuda::pointer_memory_type, reserved),
            cuda::error_invalid_value);
  const cuda::CUdeviceptr plain = rig_.allocate(slab);
  // Not pageable host memory either: a CPU that touched it would fault.
  std::byte* as_host = static_cast<std::byte*>(as_pointer(reserved));
  EXPECT_EQ(api_.memcpy_htod_async(plain, as_host, 64, nullptr), cuda::error_invalid_value);
  EXPECT_EQ(set(reserved, slab, 0), cuda::error_invalid_value);
}

TEST_F(Kinds, AMappingTellsItsReservationByAttributeAndItselfByRange) {
  const cuda::CUdeviceptr base = reserve(8 * slab);
  const auto first = create(2 * slab);
  ASSERT_EQ(api_.mem_map(base, 2 * slab, 0, first, 0), cuda::success);
  EXPECT_EQ(api_.mem_map(base, 2 * slab, 0, first, 0), cuda::error_invalid_value) << "taken";
  ASSERT_EQ(api_.mem_map(base + 2 * slab, slab, 0, create(slab), 0), cuda::success);
  EXPECT_EQ(api_.mem_map(base + 4 * slab, slab, 0, first, 0), cuda::error_not_supported) << "part";
  const cuda::CUdeviceptr inside = base + slab + 4096;
  cuda::CUdeviceptr start = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(api_.mem_get_address_range(&start, &bytes, inside), cuda::error_not_found)
      << "its own GPU does not reach it yet";
  ASSERT_EQ(set(base, 3 * slab, 0), cuda::success);
  EXPECT_EQ(attribute<cuda::CUdeviceptr>(api_, cuda::pointer_range_start, inside), base);
  EXPECT_EQ(attribute<std::size_t>(api_, cuda::pointer_range_size, inside), 8 * slab);
  ASSERT_EQ(api_.mem_get_address_range(&start, &bytes, inside), cuda::success);
  EXPECT_EQ(start, base);
  EXPECT_EQ(bytes, 2 * slab);
  EXPECT_EQ(api_.mem_get_address_range(&start, &bytes, base + 3 * slab), cuda::error_not_found);
  EXPECT_EQ(attribute<unsigned>(api_, cuda::pointer_memory_type, inside), 2u);
  EXPECT_EQ(attribute<void*>(api_, cuda::pointer_context, inside), nullptr);
  EXPECT_EQ(attribute<void*>(api_, cuda::pointer_mempool_handle, inside), nullptr);
  EXPECT_FALSE(attribute<bool>(api_, cuda::pointer_is_legacy_cuda_ipc_capable, inside));
  cuda::CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(api_.mem_retain_allocation_handle(&handle, as_pointer(inside)), cuda::success);
  EXPECT_EQ(handle, first);
  EXPECT_EQ(api_.mem_retain_allocation_handle(&handle, as_pointer(rig_.allocate(slab))),
            cuda::error_invalid_value);
}

TEST_F(Kinds, AccessToMappingsIsSetForWholeOnes) {
  const cuda::CUdeviceptr base = reserve(4 * slab);
  ASSERT_EQ(api_.mem_map(base, 2 * slab, 0, create(2 * slab), 0), cuda::success);
  EXPECT_EQ(api_.memset_d8_async(base, 1, 64, nullptr), cuda::error_invalid_value) << "not set";
  EXPECT_EQ(set(base, slab, 0), cuda::error_invalid_value) << "a part";
  EXPECT_EQ(set(base + slab, slab, 0), cuda::error_invalid_value) << "the other part";
  EXPECT_EQ(set(base, 4 * slab, 0), cuda::error_invalid_value) << "a hole behind it";
  EXPECT_EQ(set(base, 2 * slab, 9), cuda::error_invalid_value);
  EXPECT_EQ(set(base, 2 * slab, 0, 2), cuda::error_invalid_value);
  EXPECT_EQ(set(base, 2 * slab, 0), cuda::success);
  EXPECT_EQ(get(base, 0), 3u);
  EXPECT_EQ(get(base, 1), 0u);
  enable(1, 0);
  EXPECT_EQ(get(base, 1), 0u) << "peer access of contexts does not cover mappings";
  EXPECT_EQ(set(base, 2 * slab, 1), cuda::success);
  EXPECT_EQ(get(base + slab + 5, 1), 3u);
  EXPECT_EQ(set(base, 2 * slab, 1, cuda::memory_access_none), cuda::success);
  EXPECT_EQ(get(base, 1), 0u);
}

TEST_F(Kinds, MappingsGoAsAWholeAndTakeTheirMemoryAlong) {
  std::size_t before = 0;
  std::size_t total = 0;
  ASSERT_EQ(api_.mem_get_info(&before, &total), cuda::success);
  const cuda::CUdeviceptr base = reserve(4 * slab);
  const auto handle = create(2 * slab);
  ASSERT_EQ(api_.mem_map(base, 2 * slab, 0, handle, 0), cuda::success);
  EXPECT_EQ(api_.mem_release(handle), cuda::success) << "the mapping keeps it";
  ASSERT_EQ(set(base, 2 * slab, 0), cuda::success);
  EXPECT_EQ(api_.memset_d8_async(base, 1, 64, nullptr), cuda::success);
  EXPECT_EQ(api_.ctx_synchronize(), cuda::success);
  EXPECT_EQ(api_.mem_address_free(base, 4 * slab), cuda::error_invalid_value) << "still mapped";
  EXPECT_EQ(api_.mem_free(base), cuda::error_invalid_value);
  EXPECT_EQ(api_.mem_unmap(base, slab), cuda::error_invalid_value) << "a part";
  std::size_t now = 0;
  ASSERT_EQ(api_.mem_get_info(&now, &total), cuda::success);
  EXPECT_EQ(now, before - 2 * slab);
  EXPECT_EQ(api_.mem_unmap(base, 4 * slab), cuda::success);
  EXPECT_EQ(api_.mem_unmap(base, 4 * slab), cuda::success) << "nothing is mapped: nothing to do";
  ASSERT_EQ(api_.mem_get_info(&now, &total), cuda::success);
  EXPECT_EQ(now, before);
  EXPECT_EQ(api_.mem_release(handle), cuda::error_invalid_value);
  EXPECT_EQ(api_.mem_address_free(base, slab), cuda::error_invalid_value);
  EXPECT_EQ(api_.mem_address_free(base, 4 * slab), cuda::success);
  EXPECT_EQ(api_.mem_address_free(base, 4 * slab), cuda::error_invalid_value);
}

TEST_F(Kinds, OneCopyCrossesMappingsThatLieApart) {
  const cuda::CUdeviceptr base = reserve(2 * slab);
  const auto first = create(slab);
  const cuda::CUdeviceptr between = rig_.allocate(slab);
  ASSERT_EQ(api_.mem_map(base + slab, slab, 0, first, 0), cuda::success);
  ASSERT_EQ(api_.mem_map(base, slab, 0, create(slab), 0), cuda::success);
  ASSERT_EQ(set(base, 2 * slab, 0), cuda::success);
  std::byte* const pinned = rig_.allocate_pinned(slab);
  const auto payload = random_payload(slab, 3);
  std::copy(payload.begin(), payload.end(), pinned);
  EXPECT_EQ(api_.memcpy_htod_async(base + slab / 2, pinned, slab, nullptr), cuda::success);
  EXPECT_EQ(api_.memcpy_dtod_async(between, base + slab / 2, slab, nullptr), cuda::success);
  EXPECT_EQ(api_.ctx_synchronize(), cuda::success);
  EXPECT_EQ(rig_.inspect(between, slab), payload);
  EXPECT_EQ(api_.memcpy_dtod_async(between, base + slab + 1, slab, nullptr),
            cuda::error_invalid_value)
      << "beyond the last mapping";
}

TEST_F(Kinds, AnotherContextReachesMappingsAndPoolsOnlyByTheirOwnAccess) {
  const cuda::CUdeviceptr mapping = mapped(slab);
  cuda::CUdeviceptr pooled = 0;
  ASSERT_EQ(api_.mem_alloc_async(&pooled, slab, nullptr), cuda::success);
  const cuda::CUdeviceptr plain = rig_.allocate(slab);
  const cuda::CUdeviceptr other = on_second(slab);
  cuda::CUmemoryPool pool = nullptr;
  ASSERT_EQ(api_.device_get_default_mem_pool(&pool, 0), cuda::success);
  ASSERT_EQ(api_.ctx_push_current(rig_.contexts[1]), cuda::success);
  for (const cuda::CUdeviceptr memory : {mapping, pooled}) {
    EXPECT_EQ(api_.memset_d8_async(memory, 6, 4, nullptr), cuda::error_invalid_value);
    EXPECT_EQ(api_.memcpy_dtod_async(other, memory, 4, nullptr), cuda::error_invalid_value);
  }
  EXPECT_EQ(api_.memset_d8_async(plain, 6, 4, nullptr), cuda::error_invalid_value);
  EXPECT_EQ(api_.memcpy_dtod_async(other, plain, 4, nullptr), cuda::success) << "staged";
  EXPECT_EQ(set(mapping, slab, 1), cuda::success);
  const cuda::CUmemAccessDesc access{{cuda::memory_location_device, 1},
                                     cuda::memory_access_read_write};
  EXPECT_EQ(api_.mem_pool_set_access(pool, &access, 1), cuda::success);
  for (const cuda::CUdeviceptr memory : {mapping, pooled}) {
    EXPECT_EQ(api_.memcpy_dtod_async(other, memory, 4, nullptr), cuda::success);
  }
  EXPECT_EQ(api_.ctx_synchronize(), cuda::success);
  EXPECT_EQ(api_.ctx_pop_current(nullptr), cuda::success);
}

TEST_F(Kinds, PeerCopiesAreDirectWhereEitherGpuReachesTheOtherEnd) {
  const cuda::CUdeviceptr plain0 = rig_.allocate(slab);
  const cuda::CUdeviceptr plain1 = on_second(slab);
  const cuda::CUdeviceptr mapping0 = mapped(slab);
  const cuda::CUdeviceptr mapping1 = mapped(slab, 1);
  const auto direct = [this](cuda::CUdeviceptr target, cuda::CUdeviceptr source) {
    const CarriageBytes bytes = copied(target, source, slab);
    EXPECT_EQ(bytes.total(), slab);
    return bytes[Carriage::direct] == slab;
  };
  EXPECT_FALSE(direct(plain1, plain0));
  EXPECT_FALSE(direct(plain1, mapping0));
  enable(1, 0);  // GPU 1 reaches what cuMemAlloc gave GPU 0
  EXPECT_TRUE(direct(plain1, plain0));
  EXPECT_FALSE(direct(plain1, mapping0));
  enable(0, 1);
  EXPECT_TRUE(direct(plain1, mapping0));
  EXPECT_FALSE(direct(mapping1, mapping0));
  EXPECT_EQ(set(mapping0, slab, 1), cuda::success);
  EXPECT_TRUE(direct(mapping1, mapping0));
}

TEST_F(Kinds, PoolsTellTheirPointersAndTheirAccess) {
  cuda::CUmemoryPool pool = nullptr;
  ASSERT_EQ(api_.device_get_default_mem_pool(&pool, 0), cuda::success);
  const auto access = [&](int device) {
    int flags = 99;
    cuda::CUmemLocation location{cuda::memory_location_device, device};
    EXPECT_EQ(api_.mem_pool_get_access(&flags, pool, &location), cuda::success);
    return flags;
  };
  const auto grant = [&](int device, int flags) {
    const cuda::CUmemAccessDesc wanted{{cuda::memory_location_device, device}, flags};
    return api_.mem_pool_set_access(pool, &wanted, 1);
  };
  EXPECT_EQ(access(0), 3);
  EXPECT_EQ(access(1), 0);
  EXPECT_EQ(grant(0, 0), cuda::error_invalid_device) << "its own device cannot lose it";
  EXPECT_EQ(grant(0, 1), cuda::error_not_supported) << "nor be left with reading";
  EXPECT_EQ(access(0), 3);
  EXPECT_EQ(grant(0, 3), cuda::success);
  cuda::CUdeviceptr memory = 0;
  ASSERT_EQ(api_.mem_alloc_from_pool_async(&memory, slab, pool, nullptr), cuda::success);
  EXPECT_EQ(attribute<void*>(api_, cuda::pointer_mempool_handle, memory + 512), pool);
  EXPECT_EQ(attribute<cuda::CUdeviceptr>(api_, cuda::pointer_range_start, memory + 512), memory);
  EXPECT_EQ(attribute<void*>(api_, cuda::pointer_context, memory), nullptr);
  EXPECT_FALSE(attribute<bool>(api_, cuda::pointer_is_legacy_cuda_ipc_capable, memory));
  cuda::CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(api_.mem_retain_allocation_handle(&handle, as_pointer(memory)),
            cuda::error_invalid_value);
  EXPECT_EQ(grant(1, 3), cuda::success);
  EXPECT_EQ(access(1), 3);
  EXPECT_EQ(get(memory, 1), 0u) << "cuMemGetAccess knows mappings alone";
  EXPECT_EQ(api_.mem_free(memory), cuda::success);
  EXPECT_EQ(api_.mem_free_async(memory, nullptr), cuda::error_invalid_value);
}

TEST_F(Kinds, MemoryIsFreedInTheOrderOfItsStream) {
  std::size_t before = 0;
  std::size_t total = 0;
  ASSERT_EQ(api_.mem_get_info(&before, &total), cuda::success);
  const cuda::CUstream stream = rig_.stream();
  cuda::CUdeviceptr memory = 0;
  ASSERT_EQ(api_.mem_alloc_async(&memory, slab, stream), cuda::success);
  std::byte* const pinned = rig_.allocate_pinned(64);
  EXPECT_EQ(api_.memset_d8_async(memory, 7, 64, stream), cuda::success);
  EXPECT_EQ(api_.memcpy_dtoh_async(pinned, memory, 64, stream), cuda::success);
  EXPECT_EQ(api_.mem_free_async(memory, stream), cuda::success);
  EXPECT_EQ(api_.mem_free_async(memory, stream), cuda::error_invalid_value) << "freed already";
  EXPECT_EQ(api_.stream_synchronize(stream), cuda::success);
  EXPECT_EQ(pinned[63], std::byte{7});
  std::size_t after = 0;
  ASSERT_EQ(api_.mem_get_info(&after, &total), cuda::success);
  EXPECT_EQ(after, before);
  EXPECT_EQ(api_.mem_free_async(rig_.allocate(slab), stream), cuda::success) << "of cuMemAlloc too";
}

TEST_F(Kinds, NothingIsAllocatedForNothing) {
  cuda::CUdeviceptr memory = 99;
  EXPECT_EQ(api_.mem_alloc_async(&memory, 0, nullptr), cuda::success);
  EXPECT_EQ(api_.mem_free_async(memory, nullptr), cuda::success);
  EXPECT_EQ(api_.mem_free_async(memory, nullptr), cuda::success);
  EXPECT_EQ(api_.mem_free_async(512, nullptr), cuda::error_invalid_value);
}

TEST_F(Kinds, AccessOfADeviceThatIsNotThereIsNoneOfTheMappings) {
  const cuda::CUdeviceptr base = mapped(slab);
  unsigned long long flags = 99;
  const cuda::CUmemLocation nowhere{cuda::memory_location_device, 9};
  EXPECT_EQ(api_.mem_get_access(&flags, &nowhere, base), cuda::error_invalid_device);
  EXPECT_EQ(flags, 99u);
}

TEST_F(Kinds, WhatCannotBeExportedIsNot) {
  cuda::CUipcMemHandle handle{};
  cuda::CUdeviceptr pooled = 0;
  ASSERT_EQ(api_.mem_alloc_async(&pooled, slab, nullptr), cuda::success);
  EXPECT_EQ(api_.ipc_get_mem_handle(&handle, mapped(slab)), cuda::error_invalid_value);
  EXPECT_EQ(api_.ipc_get_mem_handle(&handle, pooled), cuda::error_invalid_value);
  const cuda::CUdeviceptr plain = rig_.allocate(slab);
  EXPECT_TRUE(attribute<bool>(api_, cuda::pointer_is_legacy_cuda_ipc_capable, plain));
  ASSERT_EQ(api_.ipc_get_mem_handle(&handle, plain + 8192), cuda::success);
  cuda::CUdeviceptr opened = 0;
  EXPECT_EQ(api_.ipc_open_mem_handle(&opened, handle, 1), cuda::error_invalid_context)
      << "not in the process that exported it";
  EXPECT_EQ(api_.ipc_close_mem_handle(plain), cuda::error_invalid_value);
}

TEST_F(Kinds, AnImportIsItsImportersAlone) {
  const auto exported = rig_.host->export_from_other_process(0, slab);
  ASSERT_TRUE(exported.ok());
  unsigned type = 0;
  EXPECT_EQ(api_.pointer_get_attribute(&type, cuda::pointer_memory_type, exported->memory.value),
            cuda::error_invalid_value)
      << "the other process's pointer means nothing here";
  cuda::CUdeviceptr opened = 0;
  EXPECT_EQ(api_.ipc_open_mem_handle(&opened, exported->handle, 0), cuda::error_invalid_value);
  EXPECT_EQ(api_.ipc_open_mem_handle(&opened, {}, 1), cuda::error_invalid_value);
  ASSERT_EQ(api_.ipc_open_mem_handle(&opened, exported->handle, 1), cuda::success);
  cuda::CUdeviceptr again = 0;
  ASSERT_EQ(api_.ipc_open_mem_handle(&again, exported->handle, 1), cuda::success);
  EXPECT_EQ(again, opened);
  EXPECT_EQ(attribute<int>(api_, cuda::pointer_device_ordinal, opened), 0);
  EXPECT_EQ(attribute<std::size_t>(api_, cuda::pointer_range_size, opened), slab);
  EXPECT_EQ(attribute<void*>(api_, cuda::pointer_context, opened), rig_.contexts[0]);
  EXPECT_FALSE(attribute<bool>(api_, cuda::pointer_is_legacy_cuda_ipc_capable, opened));
  cuda::CUipcMemHandle handle{};
  EXPECT_EQ(api_.ipc_get_mem_handle(&handle, opened), cuda::error_invalid_value);
  EXPECT_EQ(api_.mem_free(opened), cuda::error_invalid_value);
  // The bytes are the other process's.
  const auto payload = random_payload(4096, 9);
  ASSERT_TRUE(rig_.host->bus().plant(End::of(exported->memory), payload));
  EXPECT_EQ(rig_.inspect(opened, 4096), payload);
  // GPU 1's access to the context's memory does not cover it; GPU 0's to GPU 1's memory suffices.
  const cuda::CUdeviceptr other = on_second(slab);
  enable(1, 0);
  EXPECT_EQ(copied(other, opened, slab)[Carriage::staged], slab);
  enable(0, 1);
  EXPECT_EQ(copied(other, opened, slab)[Carriage::direct], slab);
  EXPECT_EQ(api_.ipc_close_mem_handle(opened), cuda::success);
  EXPECT_EQ(api_.ipc_close_mem_handle(opened), cuda::success);
  EXPECT_EQ(api_.ipc_close_mem_handle(opened), cuda::error_invalid_value);
  EXPECT_EQ(api_.pointer_get_attribute(&type, cuda::pointer_memory_type, opened),
            cuda::error_invalid_value);
}

TEST_F(Kinds, AnImportIsSaidToBeOfTheGpuThatOpenedIt) {
  const auto exported = rig_.host->export_from_other_process(0, slab);
  ASSERT_TRUE(exported.ok());
  ASSERT_EQ(api_.ctx_push_current(rig_.contexts[1]), cuda::success);
  cuda::CUdeviceptr opened = 0;
  ASSERT_EQ(api_.ipc_open_mem_handle(&opened, exported->handle, 1), cuda::success);
  EXPECT_EQ(attribute<int>(api_, cuda::pointer_device_ordinal, opened), 1);
  EXPECT_EQ(rig_.host->bus().gpu_of(DevicePointer{opened}), 0u) << "where it lies";
  EXPECT_EQ(api_.ctx_pop_current(nullptr), cuda::success);
}

}  // namespace
}  // namespace nobounce::fabric
