// What the driver's own small calls cost that a peer copy needs, and what they say of access.
#include <string>

#include "bench/measure.hpp"
#include "bench/peer.hpp"
#include "system/cuda.hpp"

namespace nobounce::bench {

namespace {

namespace cuda = system::cuda;
constexpr int calls_per_run = 500;
constexpr int runs = 9;
constexpr int pointer_access_flags = 16;  // CU_POINTER_ATTRIBUTE_ACCESS_FLAGS

template <typename Call>
double nanoseconds(Call&& call) {
  Samples samples;
  for (int run = 0; run < runs; ++run) {
    const double begin = seconds_now();
    for (int i = 0; i < calls_per_run; ++i) call();
    samples.add((seconds_now() - begin) / calls_per_run * 1e9);
  }
  return samples.median();
}

/// Of the target's memory, in a context of the source; -1 where the driver does not say.
std::int64_t access_flags(system::Cuda& api, const Pair& pair) {
  const Pair::Current current(pair, 0);
  unsigned long long flags = 99;
  const auto code = api.pointer_get_attribute(&flags, pointer_access_flags, pair.memory[1]);
  return code == cuda::success ? static_cast<std::int64_t>(flags) : -std::int64_t{code};
}

/// Whether the driver has a pointer to the target's memory for kernels of the source.
bool reached(system::Cuda& api, const Pair& pair) {
  const Pair::Current current(pair, 0);
  cuda::CUdeviceptr pointer = 0;
  return api.pointer_get_attribute(&pointer, cuda::pointer_device_pointer, pair.memory[1]) ==
         cuda::success;
}

/// The same and its allocation's number, by one call for both: its code, and whether a pointer
/// came.
core::Json both_at_once(const test::CudaDriver& driver, const Pair& pair) {
  const Pair::Current current(pair, 0);
  cuda::CUdeviceptr pointer = 0;
  unsigned long long buffer_id = 0;
  int which[] = {cuda::pointer_buffer_id, cuda::pointer_device_pointer};
  void* answers[] = {&buffer_id, &pointer};
  core::JsonObject row;
  row.emplace_back("code", static_cast<std::int64_t>(
                               driver.pointer_attributes(2, which, answers, pair.memory[1])));
  row.emplace_back("a_pointer", pointer != 0);
  row.emplace_back("a_buffer_id", buffer_id != 0);
  return row;
}

}  // namespace

core::Json peer_calls(const test::CudaDriver& driver, system::Cuda& api, const Pair& pair) {
  core::JsonObject row;
  pair.enable(false);
  row.emplace_back("both_at_once_without_access", both_at_once(driver, pair));
  row.emplace_back("access_flags_without_access", access_flags(api, pair));
  row.emplace_back("device_pointer_without_access", reached(api, pair));
  pair.enable(true);
  row.emplace_back("both_at_once_with_access", both_at_once(driver, pair));
  row.emplace_back("device_pointer_with_access", reached(api, pair));
  row.emplace_back("access_flags_with_access", access_flags(api, pair));
  const Pair::Current current(pair, 0);
  auto* stream = static_cast<cuda::CUstream>(pair.stream);
  auto* peer = static_cast<cuda::CUcontext>(pair.contexts[1]);
  auto* own = static_cast<cuda::CUcontext>(pair.contexts[0]);
  core::JsonObject times;
  times.emplace_back("push_and_pop", nanoseconds([&] {
                       cuda::CUcontext popped = nullptr;
                       (void)api.ctx_push_current(peer);
                       (void)api.ctx_pop_current(&popped);
                     }));
  times.emplace_back("get_current", nanoseconds([&] {
                       cuda::CUcontext there = nullptr;
                       (void)api.ctx_get_current(&there);
                     }));
  times.emplace_back("enable_peer_access_again",
                     nanoseconds([&] { (void)api.ctx_enable_peer_access(peer, 0); }));
  unsigned long long value = 0;
  times.emplace_back("pointer_buffer_id", nanoseconds([&] {
                       (void)api.pointer_get_attribute(&value, cuda::pointer_buffer_id,
                                                       pair.memory[1]);
                     }));
  times.emplace_back("pointer_device_pointer", nanoseconds([&] {
                       (void)api.pointer_get_attribute(&value, cuda::pointer_device_pointer,
                                                       pair.memory[1]);
                     }));
  cuda::CUdeviceptr pointer = 0;
  int which[] = {cuda::pointer_buffer_id, cuda::pointer_device_pointer};
  void* answers[] = {&value, &pointer};
  times.emplace_back("pointer_both_at_once", nanoseconds([&] {
                       (void)driver.pointer_attributes(2, which, answers, pair.memory[1]);
                     }));
  times.emplace_back("pointer_access_flags", nanoseconds([&] {
                       (void)api.pointer_get_attribute(&value, pointer_access_flags,
                                                       pair.memory[1]);
                     }));
  times.emplace_back("stream_query", nanoseconds([&] { (void)api.stream_query(stream); }));
  times.emplace_back("event_create_and_destroy", nanoseconds([&] {
                       cuda::CUevent event = nullptr;
                       (void)api.event_create(&event, cuda::event_disable_timing);
                       (void)api.event_destroy(event);
                     }));
  cuda::CUevent event = nullptr;
  (void)api.event_create(&event, cuda::event_disable_timing);
  times.emplace_back("event_record", nanoseconds([&] { (void)api.event_record(event, stream); }));
  (void)api.stream_synchronize(stream);
  times.emplace_back("event_query", nanoseconds([&] { (void)api.event_query(event); }));
  (void)api.event_destroy(event);
  times.emplace_back("copy_by_address_4096_and_synchronize", nanoseconds([&] {
                       (void)api.memcpy_dtod_async(pair.memory[1], pair.memory[0], 4096, stream);
                       (void)api.stream_synchronize(stream);
                     }));
  times.emplace_back("copy_by_context_4096_and_synchronize", nanoseconds([&] {
                       (void)api.memcpy_peer_async(pair.memory[1], peer, pair.memory[0], own, 4096,
                                                   stream);
                       (void)api.stream_synchronize(stream);
                     }));
  row.emplace_back("ns", std::move(times));
  return row;
}

}  // namespace nobounce::bench
