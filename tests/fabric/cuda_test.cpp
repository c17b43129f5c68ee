// The soft CUDA driver: codes, order, sticky errors, and the silences that only the ledger shows.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

#include "cuda_rig.hpp"
#include "support/temporary_directory.hpp"

namespace nobounce::fabric {
namespace {

constexpr std::size_t length = 9u << 20;

class SoftCudaTest : public ::testing::Test {
 protected:
  void SetUp() override { rig_.start(); }
  CudaRig rig_;
  system::Cuda& api_ = *rig_.api;
};

TEST(SoftCudaInit, NothingWorksBeforeIt) {
  CudaRig rig;
  int number = 0;
  cuda::CUdeviceptr pointer = 0;
  cuda::CUcontext context = nullptr;
  EXPECT_EQ(rig.api->device_get_count(&number), cuda::error_not_initialized);
  EXPECT_EQ(rig.api->mem_alloc(&pointer, 1), cuda::error_not_initialized);
  EXPECT_EQ(rig.api->ctx_get_current(&context), cuda::error_not_initialized);
  EXPECT_EQ(rig.api->driver_get_version(&number), cuda::success);
  EXPECT_EQ(rig.api->init(1), cuda::error_invalid_value);
  EXPECT_EQ(rig.api->init(0), cuda::success);
  EXPECT_EQ(rig.api->init(0), cuda::success);
  EXPECT_EQ(rig.api->mem_alloc(&pointer, 1), cuda::error_invalid_context);
  EXPECT_EQ(rig.api->ctx_get_current(&context), cuda::success);
  EXPECT_EQ(context, nullptr);
}

TEST(SoftCudaInit, AMachineWithoutGpusHasNoDriver) {
  Machine machine = bus_machine();
  machine.gpus.clear();
  machine.switches[0].ports.clear();
  const auto host = SoftHost::create(machine);
  ASSERT_TRUE(host.ok()) << to_string(host.error());
  EXPECT_FALSE((*host)->cuda().ok());
  EXPECT_NE(to_string((*host)->cuda().error()).find("libcuda.so.1"), std::string::npos);
  EXPECT_FALSE((*host)->nvml().ok());
  EXPECT_FALSE((*host)->memory().allocate_pinned(4096, 0, system::MemoryUse::user).ok());
  EXPECT_TRUE((*host)->memory().allocate_plain(4096, 0).ok());
}

TEST(SoftCudaInit, VisibleDevicesChooseAndOrder) {
  struct Case {
    const char* text;
    std::vector<std::uint32_t> gpus;
  };
  const Machine machine = bus_machine();
  const std::string uuid1 = machine.gpus[1].uuid;
  const std::string both = uuid1 + ",0";
  const Case cases[] = {{"0", {0}},      {"1,0", {1, 0}}, {uuid1.c_str(), {1}},
                        {"0,-1,1", {0}}, {"0,0", {0}},    {both.c_str(), {1, 0}},
                        {"", {}},        {"7", {}},       {"-1", {}}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.text);
    Machine set = machine;
    set.environment["CUDA_VISIBLE_DEVICES"] = one.text;
    CudaRig rig(set);
    ASSERT_EQ(rig.api->init(0), one.gpus.empty() ? cuda::error_no_device : cuda::success);
    int count = 0;
    if (one.gpus.empty()) continue;
    ASSERT_EQ(rig.api->device_get_count(&count), cuda::success);
    ASSERT_EQ(static_cast<std::size_t>(count), one.gpus.size());
    for (int i = 0; i < count; ++i) {
      char bdf[32];
      ASSERT_EQ(rig.api->device_get_pci_bus_id(bdf, sizeof bdf, i), cuda::success);
      EXPECT_EQ(machine.gpus[one.gpus[static_cast<std::size_t>(i)]].bdf, bdf);
    }
  }
}

TEST_F(SoftCudaTest, DevicesTellWhatTheMachineSays) {
  cuda::CUdevice device = -1;
  EXPECT_EQ(api_.device_get(&device, 1), cuda::success);
  EXPECT_EQ(api_.device_get(&device, 2), cuda::error_invalid_device);
  EXPECT_EQ(api_.device_get(&device, -1), cuda::error_invalid_device);
  char name[64];
  EXPECT_EQ(api_.device_get_name(name, sizeof name, 0), cuda::success);
  EXPECT_EQ(std::string(name), rig_.host->machine().gpus[0].product);
  EXPECT_EQ(api_.device_get_name(name, 4, 0), cuda::success);
  EXPECT_EQ(std::strlen(name), 3u);
  EXPECT_EQ(api_.device_get_pci_bus_id(name, 5, 0), cuda::error_invalid_value);
  std::size_t bytes = 0;
  EXPECT_EQ(api_.device_total_mem(&bytes, 0), cuda::success);
  EXPECT_EQ(bytes, 1u << 30);
  int value = -1;
  EXPECT_EQ(api_.device_get_attribute(&value, cuda::attribute_gpu_direct_rdma_supported, 0),
            cuda::success);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(api_.device_get_attribute(&value, 100000, 0), cuda::error_invalid_value);
  cuda::CUuuid uuid{};
  EXPECT_EQ(api_.device_get_uuid(&uuid, 0), cuda::success);
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    static const char digits[] = "0123456789abcdef";
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits[uuid.bytes[i] >> 4];
    text += digits[uuid.bytes[i] & 15];
  }
  EXPECT_EQ(text, rig_.host->machine().gpus[0].uuid);
  const char* error = nullptr;
  EXPECT_EQ(api_.get_error_name(cuda::error_not_ready, &error), cuda::success);
  EXPECT_STREQ(error, "CUDA_ERROR_NOT_READY");
  EXPECT_EQ(api_.get_error_name(4711, &error), cuda::error_invalid_value);
}

TEST_F(SoftCudaTest, ContextsAreAStack) {
  cuda::CUcontext context = nullptr;
  EXPECT_EQ(api_.ctx_push_current(rig_.contexts[1]), cuda::success);
  cuda::CUdevice device = -1;
  EXPECT_EQ(api_.ctx_get_device(&device), cuda::success);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(api_.ctx_pop_current(&context), cuda::success);
  EXPECT_EQ(context, rig_.contexts[1]);
  EXPECT_EQ(api_.ctx_pop_current(&context), cuda::success);
  EXPECT_EQ(context, rig_.contexts[0]);
  EXPECT_EQ(api_.ctx_pop_current(&context), cuda::error_invalid_context);
  EXPECT_EQ(api_.ctx_get_device(&device), cuda::error_invalid_context);
  EXPECT_EQ(api_.ctx_push_current(nullptr), cuda::error_invalid_value);
  int dummy = 0;
  EXPECT_EQ(api_.ctx_push_current(&dummy), cuda::error_invalid_context);
}

TEST_F(SoftCudaTest, TheLastReleaseTakesAllWithIt) {
  const cuda::CUdeviceptr pointer = rig_.allocate(1000);
  const cuda::CUstream stream = rig_.stream();
  cuda::CUcontext again = nullptr;
  EXPECT_EQ(api_.device_primary_ctx_retain(&again, 0), cuda::success);
  EXPECT_EQ(again, rig_.contexts[0]);
  EXPECT_EQ(api_.device_primary_ctx_release(0), cuda::success);
  EXPECT_EQ(api_.stream_query(stream), cuda::success);
  EXPECT_EQ(api_.device_primary_ctx_release(0), cuda::success);
  EXPECT_EQ(api_.device_primary_ctx_release(0), cuda::error_invalid_context);
  cuda::CUdeviceptr other = 0;
  EXPECT_EQ(api_.mem_alloc(&other, 1), cuda::error_context_is_destroyed);
  unsigned type = 0;
  EXPECT_EQ(api_.pointer_get_attribute(&type, cuda::pointer_memory_type, pointer),
            cuda::error_invalid_value);
  EXPECT_EQ(api_.device_primary_ctx_retain(&again, 0), cuda::success);
  EXPECT_EQ(api_.stream_query(stream), cuda::error_invalid_handle);
}

TEST_F(SoftCudaTest, MemoryAnswersTheRealCodes) {
  cuda::CUdeviceptr pointer = 0;
  EXPECT_EQ(api_.mem_alloc(&pointer, 0), cuda::error_invalid_value);
  EXPECT_EQ(api_.mem_alloc(nullptr, 1), cuda::error_invalid_value);
  EXPECT_EQ(api_.mem_alloc(&pointer, 2u << 30), cuda::error_out_of_memory);
  pointer = rig_.allocate(1000);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  EXPECT_EQ(api_.mem_get_info(&free_bytes, &total_bytes), cuda::success);
  EXPECT_EQ(total_bytes - free_bytes, 2u << 20);
  cuda::CUdeviceptr base = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(api_.mem_get_address_range(&base, &bytes, pointer + 999), cuda::success);
  EXPECT_EQ(base, pointer);
  EXPECT_EQ(bytes, 1000u);
  EXPECT_EQ(api_.mem_get_address_range(&base, &bytes, 12345), cuda::error_not_found);
  EXPECT_EQ(api_.mem_free(pointer + 1), cuda::error_invalid_value);
  EXPECT_EQ(api_.mem_free(pointer), cuda::success);
  EXPECT_EQ(api_.mem_free(pointer), cuda::error_invalid_value);
  EXPECT_EQ(api_.mem_free(0), cuda::success);
  void* host = &pointer;
  EXPECT_EQ(api_.mem_host_alloc(&host, 0, 0), cuda::success);
  EXPECT_EQ(host, nullptr);
  EXPECT_EQ(api_.mem_free_host(nullptr), cuda::success);
  EXPECT_EQ(api_.mem_free_host(&host), cuda::error_invalid_value);
  std::vector<std::byte> own(8192);
  EXPECT_EQ(api_.mem_host_register(own.data(), own.size(), 0), cuda::success);
  EXPECT_EQ(api_.mem_host_register(own.data() + 1, 1, 0),
            cuda::error_host_memory_already_registered);
  EXPECT_EQ(api_.mem_host_unregister(own.data() + 1), cuda::error_host_memory_not_registered);
  EXPECT_EQ(api_.mem_host_unregister(own.data()), cuda::success);
  EXPECT_EQ(api_.mem_host_unregister(own.data()), cuda::error_host_memory_not_registered);
}

TEST_F(SoftCudaTest, RegistrationIsOfOrdinaryPagesAlone) {
  const cuda::CUdeviceptr device = rig_.allocate(4096);
  std::byte* pinned = rig_.allocate_pinned(4096);
  EXPECT_EQ(api_.mem_host_register(reinterpret_cast<void*>(device), 4096, 0),
            cuda::error_invalid_value);
  EXPECT_EQ(api_.mem_host_register(pinned, 4096, 0), cuda::error_invalid_value) << "pinned";
  EXPECT_EQ(api_.mem_host_unregister(pinned), cuda::error_invalid_value) << "not by registration";
  EXPECT_EQ(api_.mem_host_unregister(nullptr), cuda::error_invalid_value);
  std::vector<std::byte> own(8192);
  EXPECT_EQ(api_.mem_host_register(own.data(), own.size(), 4), cuda::error_invalid_value)
      << "they are no device's";
  void* mapping = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapping, MAP_FAILED);
  ASSERT_EQ(::munmap(static_cast<std::byte*>(mapping) + 4096, 4096), 0);
  EXPECT_EQ(api_.mem_host_register(mapping, 8192, 0), cuda::error_invalid_value) << "a hole";
  EXPECT_EQ(api_.mem_host_register(mapping, 4096, 0), cuda::success);
  EXPECT_EQ(api_.mem_host_unregister(mapping), cuda::success);
  ::munmap(mapping, 4096);
  unsigned type = 0;
  EXPECT_EQ(api_.mem_free(device), cuda::success);
  EXPECT_EQ(api_.pointer_get_attribute(&type, cuda::pointer_memory_type, device),
            cuda::error_invalid_value)
      << "a freed pointer is unknown";
}

TEST_F(SoftCudaTest, SharedWritableFilesArePinnedForReadingAlone) {
  const test::TemporaryDirectory folder;
  const std::string path = folder.file("mapped");
  const auto payload = random_payload(8192, 3);
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(payload.data()), 8192);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  void* mapping = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  ASSERT_NE(mapping, MAP_FAILED);
  struct Case {
    const char* release;
    const char* type;
    unsigned flags;
    cuda::CUresult code;
  };
  for (const Case& one : {Case{"6.18.44", "ext4", 0, cuda::error_invalid_value},
                          {"6.18.44", "ext4", cuda::host_register_read_only, cuda::success},
                          {"6.18.44", "tmpfs", 0, cuda::success},
                          {"6.4.0", "ext4", 0, cuda::success}}) {
    SCOPED_TRACE(std::string(one.release) + " " + one.type + " " + std::to_string(one.flags));
    Machine machine = bus_machine();
    machine.kernel.release = one.release;
    machine.mounts = {{"/", "", one.type, "rw", true}};
    CudaRig rig(machine);
    rig.start();
    EXPECT_EQ(rig.api->mem_host_register(mapping, 8192, one.flags), one.code);
  }
  ::munmap(mapping, 8192);
}

TEST_F(SoftCudaTest, HandlesCarryTheirContextAndFreesNeedNone) {
  const cuda::CUdeviceptr device = rig_.allocate(4096);
  std::byte* pinned = rig_.allocate_pinned(4096);
  const cuda::CUstream stream = rig_.stream();
  const cuda::CUevent event = rig_.event();
  cuda::CUcontext popped = nullptr;
  ASSERT_EQ(api_.ctx_pop_current(&popped), cuda::success);
  EXPECT_EQ(api_.memcpy_htod_async(device, pinned, 4096, stream), cuda::success);
  EXPECT_EQ(api_.event_record(event, stream), cuda::success);
  EXPECT_EQ(api_.stream_wait_event(stream, event, 0), cuda::success);
  EXPECT_EQ(api_.stream_synchronize(stream), cuda::success);
  EXPECT_EQ(api_.event_query(event), cuda::success);
  EXPECT_EQ(api_.memcpy_htod_async(device, pinned, 4096, nullptr), cuda::error_invalid_context)
      << "the default stream is that of a context";
  EXPECT_EQ(api_.mem_free(device), cuda::success);
  EXPECT_EQ(api_.mem_free_host(pinned), cuda::success);
  EXPECT_EQ(api_.mem_free(0), cuda::success);
  EXPECT_EQ(api_.mem_host_unregister(&popped), cuda::error_host_memory_not_registered);
}

TEST_F(SoftCudaTest, ADestroyedContextStaysOnTheStackAndSaysWhoseItWas) {
  const cuda::CUdeviceptr device = rig_.allocate(4096);
  ASSERT_EQ(api_.device_primary_ctx_release(0), cuda::success);
  cuda::CUdevice number = -1;
  EXPECT_EQ(api_.ctx_get_device(&number), cuda::success);
  EXPECT_EQ(number, 0);
  EXPECT_EQ(api_.mem_free(device), cuda::error_context_is_destroyed);
  EXPECT_EQ(api_.ctx_push_current(rig_.contexts[0]), cuda::success);
  EXPECT_EQ(api_.ctx_synchronize(), cuda::error_context_is_destroyed);
}

TEST_F(SoftCudaTest, DefaultStreamsHaveNumbers) {
  const cuda::CUdeviceptr device = rig_.allocate(4096);
  auto* const legacy = reinterpret_cast<void*>(std::uintptr_t{1});
  auto* const per_thread = reinterpret_cast<void*>(std::uintptr_t{2});
  EXPECT_EQ(api_.memset_d8_async(device, 1, 4096, per_thread), cuda::success);
  EXPECT_EQ(api_.memset_d8_async(device, 2, 2048, legacy), cuda::success);
  EXPECT_EQ(api_.stream_synchronize(legacy), cuda::success);
  EXPECT_EQ(api_.stream_query(per_thread), cuda::success) << "it comes first and blocks";
  EXPECT_EQ(rig_.inspect(device, 1)[0], std::byte{2});
  EXPECT_EQ(rig_.inspect(device + 2048, 1)[0], std::byte{1});
}

TEST_F(SoftCudaTest, EventFlagsAreCheckedAsTheRealOnes) {
  cuda::CUevent event = nullptr;
  EXPECT_EQ(api_.event_create(&event, 4), cuda::error_invalid_value) << "timed, across processes";
  EXPECT_EQ(api_.event_create(&event, 4 | cuda::event_disable_timing), cuda::success);
  EXPECT_EQ(api_.event_create(&event, 8), cuda::error_invalid_value);
  const cuda::CUstream stream = rig_.stream();
  EXPECT_EQ(api_.stream_wait_event(stream, rig_.event(), 1), 401) << "for captured streams only";
  EXPECT_EQ(api_.stream_wait_event(stream, rig_.event(), 2), cuda::error_invalid_value);
}

TEST_F(SoftCudaTest, AHostEndMayNameGpuMemory) {
  const auto payload = random_payload(8192, 4);
  const cuda::CUdeviceptr device = rig_.allocate(8192);
  rig_.plant(device, payload);
  EXPECT_EQ(
      api_.memcpy_htod_async(device, reinterpret_cast<const void*>(device + 4096), 4096, nullptr),
      cuda::success);
  EXPECT_EQ(api_.ctx_synchronize(), cuda::success);
  EXPECT_EQ(rig_.inspect(device, 4096), rig_.inspect(device + 4096, 4096));
  EXPECT_EQ(rig_.host->ledger().dram_bytes(), 0u);
  EXPECT_EQ(
      api_.memcpy_htod_async(device, reinterpret_cast<const void*>(device + 8192), 1, nullptr),
      cuda::error_invalid_value)
      << "past the end of it";
}

TEST_F(SoftCudaTest, FillsOfPinnedMemoryCrossTheBus) {
  constexpr std::size_t bytes = (1u << 20) + 1000;
  std::byte* pinned = rig_.allocate_pinned(bytes + 1);
  EXPECT_EQ(api_.memset_d8_async(reinterpret_cast<cuda::CUdeviceptr>(pinned), 0x11, bytes, nullptr),
            cuda::success);
  EXPECT_EQ(api_.ctx_synchronize(), cuda::success);
  EXPECT_EQ(std::vector<std::byte>(pinned, pinned + bytes),
            std::vector<std::byte>(bytes, std::byte{0x11}));
  EXPECT_EQ(pinned[bytes], std::byte{0});
  EXPECT_EQ(rig_.host->ledger().dram_bytes(), bytes);
  EXPECT_EQ(rig_.host->ledger().cpu_touched_bytes(), 0u);
}

TEST_F(SoftCudaTest, PeerCallsNameTheirReasons) {
  EXPECT_EQ(api_.ctx_enable_peer_access(rig_.contexts[0], 0), cuda::error_peer_access_unsupported);
  EXPECT_EQ(api_.ctx_disable_peer_access(rig_.contexts[0]), cuda::error_peer_access_not_enabled);
  ASSERT_EQ(api_.ctx_enable_peer_access(rig_.contexts[1], 0), cuda::success);
  ASSERT_EQ(api_.device_primary_ctx_release(1), cuda::success);
  EXPECT_EQ(api_.ctx_disable_peer_access(rig_.contexts[1]), cuda::error_context_is_destroyed);
  cuda::CUcontext again = nullptr;
  ASSERT_EQ(api_.device_primary_ctx_retain(&again, 1), cuda::success);
  EXPECT_EQ(api_.ctx_enable_peer_access(again, 0), cuda::success) << "nothing of it was left";
  const cuda::CUdeviceptr device = rig_.allocate(8192);
  EXPECT_EQ(api_.memcpy_peer_async(device, nullptr, device + 4096, nullptr, 4096, nullptr),
            cuda::success)
      << "pointers tell where memory is";
  int nobody = 0;
  EXPECT_EQ(api_.memcpy_peer_async(device, &nobody, device + 4096, nullptr, 4096, nullptr),
            cuda::error_invalid_context);
}

TEST_F(SoftCudaTest, PointersTellTheirKind) {
  const cuda::CUdeviceptr device = rig_.allocate(1000);
  std::byte* pinned = rig_.allocate_pinned(1000);
  cuda::CUdeviceptr managed = 0;
  EXPECT_EQ(api_.mem_alloc_managed(&managed, 1000, cuda::managed_attach_global), cuda::success);
  EXPECT_EQ(api_.mem_alloc_managed(&managed, 1000, 0), cuda::error_invalid_value);
  const auto host = reinterpret_cast<cuda::CUdeviceptr>(pinned);
  unsigned type = 0;
  unsigned is_managed = 9;
  int ordinal = -1;
  std::size_t bytes = 0;
  void* host_pointer = nullptr;
  cuda::CUcontext context = nullptr;
  EXPECT_EQ(api_.pointer_get_attribute(&type, cuda::pointer_memory_type, device + 5),
            cuda::success);
  EXPECT_EQ(type, cuda::memory_type_device);
  EXPECT_EQ(api_.pointer_get_attribute(&is_managed, cuda::pointer_is_managed, device),
            cuda::success);
  EXPECT_EQ(is_managed, 0u);
  EXPECT_EQ(api_.pointer_get_attribute(&ordinal, cuda::pointer_device_ordinal, device),
            cuda::success);
  EXPECT_EQ(ordinal, 0);
  EXPECT_EQ(api_.pointer_get_attribute(&context, cuda::pointer_context, device), cuda::success);
  EXPECT_EQ(context, rig_.contexts[0]);
  EXPECT_EQ(api_.pointer_get_attribute(&bytes, cuda::pointer_range_size, device), cuda::success);
  EXPECT_EQ(bytes, 1000u);
  EXPECT_EQ(api_.pointer_get_attribute(&host_pointer, cuda::pointer_host_pointer, device),
            cuda::error_invalid_value);
  EXPECT_EQ(api_.pointer_get_attribute(&type, cuda::pointer_memory_type, host), cuda::success);
  EXPECT_EQ(type, cuda::memory_type_host);
  EXPECT_EQ(api_.pointer_get_attribute(&host_pointer, cuda::pointer_host_pointer, host),
            cuda::success);
  EXPECT_EQ(host_pointer, pinned);
  for (const cuda::CUdeviceptr pointer : {host, managed}) {
    context = nullptr;
    EXPECT_EQ(api_.pointer_get_attribute(&context, cuda::pointer_context, pointer), cuda::success);
    EXPECT_EQ(context, rig_.contexts[0]);
  }
  EXPECT_EQ(api_.pointer_get_attribute(&is_managed, cuda::pointer_is_managed, managed),
            cuda::success);
  EXPECT_EQ(is_managed, 1u);
  int local = 0;
  EXPECT_EQ(api_.pointer_get_attribute(&type, cuda::pointer_memory_type,
                                       reinterpret_cast<cuda::CUdeviceptr>(&local)),
            cuda::error_invalid_value);
  EXPECT_EQ(api_.mem_free(managed), cuda::success);
}

TEST_F(SoftCudaTest, PinnedCopiesTouchDramOnce) {
  const auto payload = random_payload(length, 1);
  std::byte* pinned = rig_.allocate_pinned(length);
  std::memcpy(pinned, payload.data(), length);
  const cuda::CUdeviceptr device = rig_.allocate(length);
  const cuda::CUstream stream = rig_.stream();
  EXPECT_EQ(api_.memcpy_htod_async(device, pinned, length, stream), cuda::success);
  EXPECT_EQ(api_.stream_query(stream), cuda::error_not_ready);
  EXPECT_EQ(rig_.host->ledger().dram_bytes(), 0u) << "nothing runs before somebody waits";
  EXPECT_EQ(api_.stream_synchronize(stream), cuda::success);
  EXPECT_EQ(rig_.inspect(device, length), payload);
  EXPECT_EQ(rig_.host->ledger().dram_bytes(), length);
  EXPECT_EQ(rig_.host->ledger().cpu_touched_bytes(), 0u);
  std::memset(pinned, 0, length);
  EXPECT_EQ(api_.memcpy_dtoh_async(pinned, device, length, stream), cuda::success);
  EXPECT_EQ(api_.stream_synchronize(stream), cuda::success);
  EXPECT_EQ(std::memcmp(pinned, payload.data(), length), 0);
  EXPECT_EQ(rig_.host->ledger().dram_bytes(), 2 * length);
}

TEST_F(SoftCudaTest, PageableCopiesAreStagedInSilence) {
  const auto payload = random_payload(length, 1);
  const cuda::CUdeviceptr device = rig_.allocate(length);
  EXPECT_EQ(api_.memcpy_htod_async(device, payload.data(), length, nullptr), cuda::success);
  EXPECT_EQ(rig_.inspect(device, length), payload) << "the memory is the caller's again";
  const Ledger& ledger = rig_.host->ledger();
  EXPECT_EQ(ledger.cpu_touched_bytes(), length);
  EXPECT_EQ(ledger.dram_bytes(), 3 * length) << "read, written, read";
  Bus& bus = rig_.host->bus();
  const Extent own = bus.extent_of(End::at(bus.address_of(payload.data())));
  const Extent target = bus.extent_of(End::of(DevicePointer{device}));
  EXPECT_EQ(ledger.arrivals(target, length, own, length).bytes[Carriage::staged], length);
  std::vector<std::byte> back(length);
  EXPECT_EQ(api_.memcpy_dtoh_async(back.data(), device, length, nullptr), cuda::success);
  EXPECT_EQ(back, payload);
  EXPECT_EQ(ledger.cpu_touched_bytes(), 2 * length);
}

TEST_F(SoftCudaTest, CopiesOutsideAllocationsAreRefused) {
  std::byte* pinned = rig_.allocate_pinned(4096);
  const cuda::CUdeviceptr device = rig_.allocate(4096);
  EXPECT_EQ(api_.memcpy_htod_async(device + 1, pinned, 4096, nullptr), cuda::error_invalid_value);
  EXPECT_EQ(api_.memcpy_htod_async(12345, pinned, 10, nullptr), cuda::error_invalid_value);
  EXPECT_EQ(api_.memcpy_htod_async(device, nullptr, 10, nullptr), cuda::error_invalid_value);
  EXPECT_EQ(api_.memcpy_dtoh_async(pinned, device + 4096, 1, nullptr), cuda::error_invalid_value);
  EXPECT_EQ(api_.memcpy_htod_async(device, pinned, 10, reinterpret_cast<void*>(0x77)),
            cuda::error_invalid_handle);
  EXPECT_EQ(api_.memcpy_htod_async(device, pinned, 0, nullptr), cuda::success);
  EXPECT_EQ(api_.memset_d8_async(device, 1, 4097, nullptr), cuda::error_invalid_value);
  EXPECT_TRUE(rig_.host->ledger().flows().empty());
}

TEST_F(SoftCudaTest, FillsAndCopiesWithinTheGpuStayThere) {
  const cuda::CUdeviceptr a = rig_.allocate(length);
  const cuda::CUdeviceptr b = rig_.allocate(length);
  EXPECT_EQ(api_.memset_d8_async(a, 0x5a, length, nullptr), cuda::success);
  EXPECT_EQ(api_.memcpy_dtod_async(b, a, length, nullptr), cuda::success);
  EXPECT_EQ(api_.ctx_synchronize(), cuda::success);
  EXPECT_EQ(rig_.inspect(b, length), std::vector<std::byte>(length, std::byte{0x5a}));
  EXPECT_TRUE(rig_.host->ledger().links().empty());
  EXPECT_EQ(rig_.host->ledger().dram_bytes(), 0u);
}

TEST_F(SoftCudaTest, ManagedMemoryIsHostMemoryToTheBus) {
  const auto payload = random_payload(length, 1);
  cuda::CUdeviceptr managed = 0;
  ASSERT_EQ(api_.mem_alloc_managed(&managed, length, cuda::managed_attach_global), cuda::success);
  std::memcpy(reinterpret_cast<void*>(managed), payload.data(), length);
  const cuda::CUdeviceptr device = rig_.allocate(length);
  EXPECT_EQ(api_.memcpy_dtod_async(device, managed, length, nullptr), cuda::success);
  EXPECT_EQ(api_.ctx_synchronize(), cuda::success);
  EXPECT_EQ(rig_.inspect(device, length), payload);
  EXPECT_EQ(rig_.host->ledger().dram_bytes(), length);
}

TEST_F(SoftCudaTest, StreamsAreInOrderWhateverTheSeed) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CudaRig rig(bus_machine(), {.deterministic = true, .seed = seed});
    rig.start();
    const cuda::CUdeviceptr a = rig.allocate(4096);
    const cuda::CUdeviceptr b = rig.allocate(4096);
    const cuda::CUstream first = rig.stream();
    const cuda::CUstream second = rig.stream();
    const cuda::CUevent filled = rig.event();
    for (unsigned char i = 1; i <= 5; ++i) {
      EXPECT_EQ(rig.api->memset_d8_async(a, i, 4096, first), cuda::success);
    }
    EXPECT_EQ(rig.api->event_record(filled, first), cuda::success);
    EXPECT_EQ(rig.api->stream_wait_event(second, filled, 0), cuda::success);
    EXPECT_EQ(rig.api->memcpy_dtod_async(b, a, 4096, second), cuda::success);
    EXPECT_EQ(rig.api->stream_synchronize(second), cuda::success);
    EXPECT_EQ(rig.inspect(b, 4096), std::vector<std::byte>(4096, std::byte{5}));
  }
}

TEST_F(SoftCudaTest, EventsOfAnotherGpuAreWaitedForWhateverTheSeed) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CudaRig rig(bus_machine(), {.deterministic = true, .seed = seed});
    rig.start();
    system::Cuda& api = *rig.api;
    const cuda::CUdeviceptr a = rig.allocate(4096);
    const cuda::CUstream first = rig.stream();
    const cuda::CUevent event = rig.event();
    ASSERT_EQ(api.ctx_push_current(rig.contexts[1]), cuda::success);
    const cuda::CUdeviceptr b = rig.allocate(4096);
    const cuda::CUstream second = rig.stream();
    EXPECT_EQ(api.event_record(event, second), cuda::error_invalid_handle) << "another context's";
    ASSERT_EQ(api.ctx_pop_current(nullptr), cuda::success);
    for (unsigned char i = 1; i <= 3; ++i) {
      EXPECT_EQ(api.memset_d8_async(a, i, 4096, first), cuda::success);
    }
    EXPECT_EQ(api.event_record(event, first), cuda::success);
    EXPECT_EQ(api.stream_wait_event(second, event, 0), cuda::success);
    EXPECT_EQ(api.memcpy_peer_async(b, rig.contexts[1], a, rig.contexts[0], 4096, second),
              cuda::success);
    EXPECT_EQ(api.stream_synchronize(second), cuda::success);
    EXPECT_EQ(rig.inspect(b, 1)[0], std::byte{3});
  }
}

TEST_F(SoftCudaTest, TheDefaultStreamTakesTurnsWithBlockingStreams) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CudaRig rig(bus_machine(), {.deterministic = true, .seed = seed});
    rig.start();
    const cuda::CUdeviceptr a = rig.allocate(4096);
    const cuda::CUstream blocking = rig.stream(0);
    EXPECT_EQ(rig.api->memset_d8_async(a, 1, 4096, blocking), cuda::success);
    EXPECT_EQ(rig.api->memset_d8_async(a, 2, 4096, nullptr), cuda::success);
    EXPECT_EQ(rig.api->memset_d8_async(a, 3, 4096, blocking), cuda::success);
    EXPECT_EQ(rig.api->ctx_synchronize(), cuda::success);
    EXPECT_EQ(rig.inspect(a, 1)[0], std::byte{3});
  }
}

TEST_F(SoftCudaTest, EventsTellWhenTheyArePassed) {
  const cuda::CUdeviceptr a = rig_.allocate(4096);
  const cuda::CUstream stream = rig_.stream();
  const cuda::CUevent event = rig_.event();
  EXPECT_EQ(api_.event_query(event), cuda::success) << "never recorded";
  EXPECT_EQ(api_.memset_d8_async(a, 1, 4096, stream), cuda::success);
  EXPECT_EQ(api_.event_record(event, stream), cuda::success);
  EXPECT_EQ(api_.event_query(event), cuda::error_not_ready);
  EXPECT_EQ(api_.event_synchronize(event), cuda::success);
  EXPECT_EQ(api_.event_query(event), cuda::success);
  EXPECT_EQ(rig_.inspect(a, 1)[0], std::byte{1});
  EXPECT_EQ(api_.event_destroy(event), cuda::success);
  EXPECT_EQ(api_.event_destroy(event), cuda::error_invalid_handle);
  EXPECT_EQ(api_.event_query(event), cuda::error_invalid_handle);
}

TEST_F(SoftCudaTest, ADestroyedStreamFinishesItsWork) {
  const cuda::CUdeviceptr a = rig_.allocate(4096);
  const cuda::CUstream stream = rig_.stream();
  EXPECT_EQ(api_.memset_d8_async(a, 9, 4096, stream), cuda::success);
  EXPECT_EQ(api_.stream_destroy(stream), cuda::success);
  EXPECT_EQ(api_.stream_synchronize(stream), cuda::error_invalid_handle);
  EXPECT_EQ(api_.ctx_synchronize(), cuda::success);
  EXPECT_EQ(rig_.inspect(a, 1)[0], std::byte{9});
}

TEST_F(SoftCudaTest, AFailedCopyFailsItsStreamForGood) {
  std::byte* pinned = rig_.allocate_pinned(4096);
  const cuda::CUdeviceptr device = rig_.allocate(4096);
  const cuda::CUstream failed = rig_.stream();
  const cuda::CUstream other = rig_.stream();
  const cuda::CUevent event = rig_.event();
  rig_.host->faults().cuda_error = 1;
  EXPECT_EQ(api_.memcpy_htod_async(device, pinned, 4096, failed), cuda::success);
  EXPECT_EQ(api_.memset_d8_async(device, 7, 4096, failed), cuda::success);
  EXPECT_EQ(api_.event_record(event, failed), cuda::success);
  EXPECT_EQ(api_.event_synchronize(event), cuda::error_unknown);
  EXPECT_EQ(api_.event_query(event), cuda::error_unknown);
  EXPECT_EQ(api_.stream_query(failed), cuda::error_unknown);
  EXPECT_EQ(api_.stream_synchronize(failed), cuda::error_unknown);
  EXPECT_EQ(rig_.inspect(device, 1)[0], std::byte{0}) << "what followed was dropped";
  rig_.host->faults().cuda_error = 0;
  EXPECT_EQ(api_.memcpy_htod_async(device, pinned, 4096, failed), cuda::error_unknown);
  EXPECT_EQ(api_.memcpy_htod_async(device, pinned, 4096, other), cuda::success);
  EXPECT_EQ(api_.stream_synchronize(other), cuda::success);
  EXPECT_EQ(api_.ctx_synchronize(), cuda::error_unknown);
}

struct PeerCase {
  const char* name;
  BusMachineShape shape;
  bool enable;
  bool arrives;
  std::uint64_t dram;  ///< in payloads
  const char* link;
};

class PeerCopies : public ::testing::TestWithParam<PeerCase> {};

TEST_P(PeerCopies, SucceedWhateverHappens) {
  const PeerCase& expected = GetParam();
  CudaRig rig(bus_machine(expected.shape));
  rig.start();
  const auto payload = random_payload(length, 2);
  const cuda::CUdeviceptr source = rig.allocate(length);
  rig.plant(source, payload);
  ASSERT_EQ(rig.api->ctx_push_current(rig.contexts[1]), cuda::success);
  const cuda::CUdeviceptr target = rig.allocate(length);
  ASSERT_EQ(rig.api->ctx_pop_current(nullptr), cuda::success);
  int can = 0;
  EXPECT_EQ(rig.api->device_can_access_peer(&can, 0, 1), cuda::success);
  EXPECT_EQ(can, 1) << "the driver ignores ACS";
  EXPECT_EQ(rig.api->ctx_disable_peer_access(rig.contexts[1]), cuda::error_peer_access_not_enabled);
  if (expected.enable) {
    EXPECT_EQ(rig.api->ctx_enable_peer_access(rig.contexts[1], 0), cuda::success);
    EXPECT_EQ(rig.api->ctx_enable_peer_access(rig.contexts[1], 0),
              cuda::error_peer_access_already_enabled);
  }
  EXPECT_EQ(
      rig.api->memcpy_peer_async(target, rig.contexts[1], source, rig.contexts[0], length, nullptr),
      cuda::success);
  EXPECT_EQ(rig.api->ctx_synchronize(), cuda::success);
  EXPECT_EQ(rig.inspect(target, length) == payload, expected.arrives);
  const Ledger& ledger = rig.host->ledger();
  EXPECT_EQ(ledger.dram_bytes(), expected.dram * length);
  EXPECT_EQ(ledger.links().count(expected.link), 1u);
  const Extent extent = rig.host->bus().extent_of(End::of(DevicePointer{target}));
  const Arrivals arrivals = ledger.arrivals(extent, length);
  EXPECT_EQ(arrivals.bytes[Carriage::staged], expected.enable ? 0 : length);
  EXPECT_EQ(arrivals.bytes.total(), expected.arrives ? length : 0);
}

INSTANTIATE_TEST_SUITE_P(
    Table, PeerCopies,
    ::testing::Values(
        PeerCase{"staged_without_access", {}, false, true, 2, "host_bridge:0/switch:0"},
        PeerCase{"staged_without_access_despite_nvlink",
                 {.nvlinks = 2},
                 false,
                 true,
                 2,
                 "host_bridge:0/switch:0"},
        PeerCase{"by_the_switch", {}, true, true, 0, "switch:0/gpu:1"},
        PeerCase{
            "by_nvlink", {.acs = AcsMode::redirect, .nvlinks = 2}, true, true, 0, "nvlink:0-1"},
        PeerCase{
            "lost_by_acs", {.acs = AcsMode::redirect}, true, false, 0, "host_bridge:0/switch:0"}),
    [](const auto& one) { return one.param.name; });

TEST(PeerAccess, IsRefusedWhereTheDriverSaysSo) {
  Machine machine = bus_machine();
  machine.gpus[1].peer_status = PeerStatus::cns;
  CudaRig rig(machine);
  rig.start();
  int can = 1;
  EXPECT_EQ(rig.api->device_can_access_peer(&can, 0, 1), cuda::success);
  EXPECT_EQ(can, 0);
  EXPECT_EQ(rig.api->device_can_access_peer(&can, 0, 0), cuda::success);
  EXPECT_EQ(can, 0);
  EXPECT_EQ(rig.api->ctx_enable_peer_access(rig.contexts[1], 0),
            cuda::error_peer_access_unsupported);
  EXPECT_EQ(rig.api->ctx_enable_peer_access(rig.contexts[1], 1), cuda::error_invalid_value);
  EXPECT_EQ(rig.api->ctx_enable_peer_access(rig.contexts[0], 0),
            cuda::error_peer_access_unsupported);
}

/// Two GPUs, several streams and events, pageable and pinned: everything the ledger saw, as text.
std::string account_of(std::uint64_t seed) {
  CudaRig rig(bus_machine(), {.deterministic = true, .seed = seed});
  rig.start();
  std::byte* pinned = rig.allocate_pinned(1u << 20);
  std::vector<cuda::CUstream> streams;
  std::vector<cuda::CUdeviceptr> targets;
  for (int i = 0; i < 6; ++i) {
    streams.push_back(rig.stream());
    targets.push_back(rig.allocate(1u << 20));
  }
  for (std::size_t i = 0; i < 60; ++i) {
    EXPECT_EQ(rig.api->memcpy_htod_async(targets[i % 6], pinned + 4096 * i, 4096, streams[i % 6]),
              cuda::success);
  }
  EXPECT_EQ(rig.api->ctx_synchronize(), cuda::success);
  std::string account = std::to_string(rig.host->clock().now_ns());
  for (const Request& request : rig.host->ledger().requests()) {
    // Offsets: buses begin elsewhere in no run, but it is the order that is meant.
    account +=
        ' ' + std::to_string(request.source.address) + '>' + std::to_string(request.target.address);
  }
  std::byte drawn[8];
  rig.host->entropy().fill(drawn);
  for (const std::byte byte : drawn) account += ' ' + std::to_string(std::to_integer<int>(byte));
  return account;
}

TEST(Replay, TheSameSeedGivesTheSameLedgerAndTime) {
  EXPECT_EQ(account_of(11), account_of(11));
  EXPECT_NE(account_of(11), account_of(12));
}

TEST(SoftMemory, BounceMemoryCannotBeTouchedAndUserMemoryCan) {
  CudaRig rig(bus_machine(), {.deterministic = true, .trap_cpu_touches = true});
  system::Memory& memory = rig.host->memory();
  const auto bounce = memory.allocate_pinned(8192, 1, system::MemoryUse::bounce);
  const auto user = memory.allocate_pinned(8192, 0, system::MemoryUse::user);
  const auto plain = memory.allocate_plain(8192, 0);
  ASSERT_TRUE(bounce.ok() && user.ok() && plain.ok());
  EXPECT_EQ(bounce->numa, 1u);
  EXPECT_TRUE(bounce->pinned);
  EXPECT_FALSE(plain->pinned);
  plain->address[5] = std::byte{42};
  memory.copy(bounce->address, plain->address, 8192);
  memory.copy(user->address, bounce->address, 8192);
  EXPECT_EQ(user->address[5], std::byte{42});
  EXPECT_EQ(rig.host->cpu_touches(), 0u);
  const std::byte touched = *static_cast<const volatile std::byte*>(bounce->address + 5);
  EXPECT_EQ(touched, std::byte{42});
  EXPECT_EQ(rig.host->cpu_touches(), 1u);
  EXPECT_EQ(rig.host->ledger().cpu_touched_bytes(), 2u * 8192);
  memory.free(*bounce);
  memory.free(*user);
  memory.free(*plain);
  memory.free(*plain);
}

TEST(SoftMemory, IsPinnedForTheDriver) {
  CudaRig rig;
  rig.start();
  system::Memory& memory = rig.host->memory();
  const auto pinned = memory.allocate_pinned(length, 0, system::MemoryUse::bounce);
  ASSERT_TRUE(pinned.ok());
  const cuda::CUdeviceptr device = rig.allocate(length);
  EXPECT_EQ(rig.api->memcpy_htod_async(device, pinned->address, length, nullptr), cuda::success);
  EXPECT_EQ(rig.api->ctx_synchronize(), cuda::success);
  EXPECT_EQ(rig.host->ledger().cpu_touched_bytes(), 0u);
  memory.free(*pinned);
  const auto too_much = memory.allocate_pinned(1u << 30, 0, system::MemoryUse::bounce);
  ASSERT_FALSE(too_much.ok());
  EXPECT_EQ(too_much.error().origin, ErrorOrigin::os);
  EXPECT_EQ(too_much.error().code, ENOMEM);
}

}  // namespace
}  // namespace nobounce::fabric
