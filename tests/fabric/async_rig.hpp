// A session on a software machine with a stream of its caller's, for stream-ordered transfers and
// kernels.
#pragma once

#include <nobounce/async.hpp>
#include "support/around_host.hpp"
#include "support/soft_session.hpp"

namespace nobounce::test {

namespace cuda = system::cuda;

/// The driver as this test wants it to be.
class AsyncCuda : public support::AroundCuda {
 public:
  explicit AsyncCuda(system::Cuda& inner) : AroundCuda(inner), inner_(inner) {}

  std::map<int, int> attributes;  ///< answers instead of the inner driver's
  int unknown_attribute = 0;      ///< one that this driver does not have
  int flush_code = cuda::success;
  int wait_code = cuda::success;  ///< of a stream's wait for a word, where it is no success
  std::atomic<int> flushes{0};

  CUresult device_get_attribute(int* value, int attribute, CUdevice device) override {
    if (attribute == unknown_attribute) return cuda::error_invalid_value;
    const auto found = attributes.find(attribute);
    if (found == attributes.end()) return inner_.device_get_attribute(value, attribute, device);
    *value = found->second;
    return cuda::success;
  }
  CUresult stream_wait_value64(CUstream stream, CUdeviceptr address, std::uint64_t value,
                               unsigned flags) override {
    if (wait_code != cuda::success) return wait_code;
    return inner_.stream_wait_value64(stream, address, value, flags);
  }
  CUresult flush_gpu_direct_rdma_writes(int, int) override {
    ++flushes;
    return flush_code;
  }

 private:
  system::Cuda& inner_;
};

struct AsyncRig {
  explicit AsyncRig(const Machine& machine, const fabric::SoftOptions& options = {},
                    const std::map<int, int>& attributes = {}) {
    auto made = fabric::SoftHost::create(machine, options);
    if (!made.ok()) throw std::runtime_error(to_string(made.error()));
    host = std::move(*made);
    around = std::make_unique<support::AroundHost>(*host);
    driver = std::make_unique<AsyncCuda>(**host->cuda());
    driver->attributes = attributes;
    around->cuda_table = driver.get();
    auto opened = Session::open(*around, SoftSession::quiet());
    if (!opened.ok()) throw std::runtime_error(to_string(opened.error()));
    session.emplace(std::move(*opened));
    EXPECT_EQ(driver->device_primary_ctx_retain(&context, 0), cuda::success);
    EXPECT_EQ(driver->ctx_push_current(context), cuda::success);
    word = static_cast<std::uint64_t*>(pinned(4096));
  }
  ~AsyncRig() {
    session.reset();
    (void)driver->ctx_pop_current(nullptr);
  }
  AsyncRig(const AsyncRig&) = delete;
  AsyncRig& operator=(const AsyncRig&) = delete;

  [[nodiscard]] cuda::CUstream stream() {
    cuda::CUstream made = nullptr;
    EXPECT_EQ(driver->stream_create(&made, cuda::stream_non_blocking), cuda::success);
    return made;
  }
  [[nodiscard]] void* pinned(std::size_t bytes) {
    void* made = nullptr;
    EXPECT_EQ(driver->mem_host_alloc(&made, bytes, cuda::host_alloc_portable), cuda::success);
    return made;
  }
  /// Holds a stream up until `open_gate`.
  void close_gate(cuda::CUstream held) {
    const auto address = reinterpret_cast<cuda::CUdeviceptr>(word);
    EXPECT_EQ(driver->stream_wait_value64(held, address, 1, cuda::wait_value_geq), cuda::success);
  }
  void open_gate() { std::atomic_ref<std::uint64_t>(*word).store(1); }
  /// Whether the stream ends by itself within a generous time.
  [[nodiscard]] bool ends(cuda::CUstream ending) {
    return host->workers().wait([&] { return driver->stream_query(ending) == cuda::success; },
                                host->clock().now_ns() + 20'000'000'000);
  }
  void let_time_pass() {
    (void)host->workers().wait([] { return false; }, host->clock().now_ns() + 3'000'000);
  }
  [[nodiscard]] std::vector<std::byte> look_at(const Place& place) const {
    const auto& memory = std::get<GpuMemory>(place);
    std::vector<std::byte> bytes(memory.length_bytes);
    EXPECT_TRUE(host->bus().inspect(fabric::End::of(memory.address), bytes));
    return bytes;
  }
  [[nodiscard]] std::uint64_t look_at_word(DevicePointer host_word) const {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(host_word.value))
        .load();
  }

  std::unique_ptr<fabric::SoftHost> host;
  std::unique_ptr<support::AroundHost> around;
  std::unique_ptr<AsyncCuda> driver;
  std::optional<Session> session;
  cuda::CUcontext context = nullptr;
  std::uint64_t* word = nullptr;
};

}  // namespace nobounce::test
