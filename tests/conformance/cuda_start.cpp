// What the driver answers before cuInit, and to cuInit itself.
#include "conformance/sequence.hpp"

namespace nobounce::conformance {

namespace {

constexpr Needs fresh{Start::fresh};

void devices_before_init(Run& run) {
  int number = 0;
  char text[64] = "";
  std::size_t bytes = 0;
  cuda::CUuuid uuid{};
  (void)run.cuda().device_get_count(&number);
  (void)run.cuda().device_get(&number, 0);
  (void)run.cuda().device_get_name(text, sizeof text, 0);
  (void)run.cuda().device_get_uuid(&uuid, 0);
  (void)run.cuda().device_get_pci_bus_id(text, sizeof text, 0);
  (void)run.cuda().device_total_mem(&bytes, 0);
  (void)run.cuda().device_get_attribute(&number, cuda::attribute_integrated, 0);
  (void)run.cuda().device_can_access_peer(&number, 0, 0);
}

void contexts_before_init(Run& run) {
  cuda::CUcontext context = nullptr;
  int device = 0;
  (void)run.cuda().device_primary_ctx_retain(&context, 0);
  (void)run.cuda().device_primary_ctx_release(0);
  (void)run.cuda().ctx_push_current(nullptr);
  (void)run.cuda().ctx_pop_current(&context);
  (void)run.cuda().ctx_get_current(&context);
  (void)run.cuda().ctx_get_device(&device);
  (void)run.cuda().ctx_synchronize();
}

void memory_before_init(Run& run) {
  cuda::CUdeviceptr pointer = 0;
  void* host = nullptr;
  std::size_t bytes = 0;
  (void)run.cuda().mem_alloc(&pointer, 4096);
  (void)run.cuda().mem_free(0);
  (void)run.cuda().mem_alloc_managed(&pointer, 4096, cuda::managed_attach_global);
  (void)run.cuda().mem_get_info(&bytes, &bytes);
  (void)run.cuda().mem_get_address_range(&pointer, &bytes, 4096);
  (void)run.cuda().mem_host_alloc(&host, 4096, 0);
  (void)run.cuda().mem_free_host(nullptr);
  unsigned type = 0;
  (void)run.cuda().pointer_get_attribute(&type, cuda::pointer_memory_type, 4096);
}

void registration_before_init(Run& run) {
  alignas(4096) static std::byte page[4096];
  (void)run.cuda().mem_host_register(page, sizeof page, 0);
  (void)run.cuda().mem_host_unregister(page);
}

void copies_before_init(Run& run) {
  std::byte host[16]{};
  (void)run.cuda().memcpy_htod_async(4096, host, sizeof host, nullptr);
  (void)run.cuda().memcpy_dtoh_async(host, 4096, sizeof host, nullptr);
  (void)run.cuda().memcpy_dtod_async(4096, 8192, sizeof host, nullptr);
  (void)run.cuda().memcpy_peer_async(4096, nullptr, 8192, nullptr, sizeof host, nullptr);
  (void)run.cuda().memset_d8_async(4096, 0, sizeof host, nullptr);
}

void streams_before_init(Run& run) {
  cuda::CUstream stream = nullptr;
  cuda::CUevent event = nullptr;
  (void)run.cuda().stream_create(&stream, 0);
  (void)run.cuda().stream_query(nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  (void)run.cuda().event_create(&event, 0);
}

void names_before_init(Run& run) {
  const char* name = nullptr;
  (void)run.cuda().get_error_name(cuda::error_not_initialized, &name);
  run.note(name == nullptr ? "no name" : name);
  int version = 0;
  (void)run.cuda().driver_get_version(&version);
  run.yes("version of 12.0 or later", version >= 12000);
}

void init_works(Run& run) {
  (void)run.cuda().init(0);
  int count = 0;
  (void)run.cuda().device_get_count(&count);
  run.yes("a device", count > 0);
  (void)run.cuda().init(0);
  cuda::CUcontext context = run.context;
  (void)run.cuda().ctx_get_current(&context);
  run.yes("no context current", context == nullptr);
}

}  // namespace

void add_cuda_start(Catalogue& all) {
  all.add("start.before_init.devices", devices_before_init, fresh);
  all.add("start.before_init.contexts", contexts_before_init, fresh);
  all.add("start.before_init.memory", memory_before_init, fresh);
  all.add("start.before_init.registration", registration_before_init, fresh);
  all.add("start.before_init.copies", copies_before_init, fresh);
  all.add("start.before_init.streams", streams_before_init, fresh);
  all.add("start.before_init.names", names_before_init, fresh);
  all.add("start.init.twice", init_works, fresh);
  all.add(
      "start.init.unknown_flags",
      [](Run& run) {
        (void)run.cuda().init(1);
        int count = 0;
        (void)run.cuda().device_get_count(&count);
        (void)run.cuda().init(0);
        (void)run.cuda().device_get_count(&count);
      },
      fresh);
  all.add(
      "start.version.null", [](Run& run) { (void)run.cuda().driver_get_version(nullptr); }, fresh);
  all.add("start.count.null", [](Run& run) { (void)run.cuda().device_get_count(nullptr); },
          {Start::bare});
}

}  // namespace nobounce::conformance
