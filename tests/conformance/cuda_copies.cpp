// Copies of every kind: sizes, kinds of host memory, ends that are wrong, order.
#include <algorithm>
#include <cstring>

#include "conformance/sequence.hpp"

namespace nobounce::conformance {

namespace {

constexpr std::size_t mib = 1u << 20;

/// Host memory of a kind for one sequence.
class HostBytes {
 public:
  enum class Kind : std::uint8_t { pageable, pinned, managed };
  HostBytes(Run& run, Kind kind, std::size_t bytes) : run_(run), kind_(kind), length_(bytes) {
    if (kind == Kind::pageable) {
      own_.resize(bytes + 1);
      data_ = own_.data();
    } else if (kind == Kind::pinned) {
      data_ = run.pinned(bytes + 1);
    } else {
      cuda::CUdeviceptr pointer = 0;
      (void)run.quiet().mem_alloc_managed(&pointer, bytes + 1, cuda::managed_attach_global);
      data_ = reinterpret_cast<std::byte*>(pointer);
    }
  }
  ~HostBytes() {
    if (kind_ == Kind::pinned) run_.free_pinned(data_);
    if (kind_ == Kind::managed) run_.free(device());
  }
  HostBytes(const HostBytes&) = delete;
  HostBytes& operator=(const HostBytes&) = delete;
  void fill(std::uint64_t seed) {
    const auto data = pattern(length_, seed);
    std::copy(data.begin(), data.end(), data_);
  }
  void clear() { std::memset(data_, 0, length_); }
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] cuda::CUdeviceptr device() const {
    return reinterpret_cast<cuda::CUdeviceptr>(data_);
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, length_}; }

 private:
  Run& run_;
  Kind kind_;
  std::size_t length_;
  std::vector<std::byte> own_;
  std::byte* data_ = nullptr;
};

using HostKind = HostBytes::Kind;

const std::pair<const char*, HostKind> host_kinds[] = {
    {"pageable", HostKind::pageable}, {"pinned", HostKind::pinned}, {"managed", HostKind::managed}};
constexpr std::size_t sizes[] = {0, 1, 4095, 4096, 65537, mib, 5 * mib + 3};

void round_trip(Run& run, HostKind kind, std::size_t bytes) {
  HostBytes host(run, kind, bytes);
  host.fill(bytes + 1);
  const cuda::CUdeviceptr device = run.allocate(bytes + 4096);
  (void)run.cuda().memcpy_htod_async(device + 1, host.data(), bytes, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  if (bytes > 0) run.device_bytes("on the GPU", device + 1, bytes);
  host.clear();
  (void)run.cuda().memcpy_dtoh_async(host.data(), device + 1, bytes, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.bytes("back", host.bytes());
  run.free(device);
}

void on_device(Run& run, std::size_t bytes, std::size_t source_offset, std::size_t target_offset) {
  const cuda::CUdeviceptr source = run.allocate(bytes + 4096);
  const cuda::CUdeviceptr target = run.allocate(bytes + 4096);
  run.plant(source, bytes + 4096, 9);
  run.plant(target, bytes + 4096, 10);
  (void)run.cuda().memcpy_dtod_async(target + target_offset, source + source_offset, bytes,
                                     nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.device_bytes("target", target, bytes + 4096);
  run.device_bytes("source", source, bytes + 4096);
  run.free(source);
  run.free(target);
}

/// Unified addressing: copies whose ends are of another kind than their name says.
void other_ends(Run& run) {
  HostBytes pinned(run, HostKind::pinned, 4096);
  HostBytes pageable(run, HostKind::pageable, 4096);
  const cuda::CUdeviceptr device = run.allocate(8192);
  run.plant(device, 8192, 11);
  pinned.fill(12);
  pageable.fill(13);
  run.note("device to device, the source is pinned memory");
  (void)run.cuda().memcpy_dtod_async(device, pinned.device(), 4096, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.device_bytes("target", device, 4096);
  run.note("device to device, the target is pinned memory");
  (void)run.cuda().memcpy_dtod_async(pinned.device(), device + 4096, 4096, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.bytes("target", pinned.bytes());
  run.note("device to device, the source is pageable memory");
  (void)run.cuda().memcpy_dtod_async(device, pageable.device(), 4096, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.device_bytes("target", device, 4096);
  run.free(device);
}

void device_as_host(Run& run) {
  const cuda::CUdeviceptr device = run.allocate(8192);
  run.plant(device, 8192, 14);
  run.note("host to device, the source is GPU memory");
  (void)run.cuda().memcpy_htod_async(device, reinterpret_cast<const void*>(device + 4096), 4096,
                                     nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.device_bytes("all", device, 8192);
  run.note("device to host, the target is GPU memory");
  (void)run.cuda().memcpy_dtoh_async(reinterpret_cast<void*>(device), device + 4096, 1000, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.device_bytes("all", device, 8192);
  run.free(device);
}

void host_as_device(Run& run) {
  HostBytes source(run, HostKind::pinned, 4096);
  HostBytes target(run, HostKind::pinned, 4096);
  source.fill(15);
  target.fill(16);
  run.note("host to device, both are pinned memory");
  (void)run.cuda().memcpy_htod_async(target.device(), source.data(), 4096, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.bytes("target", target.bytes());
  run.note("host to device, the target is pageable memory");
  HostBytes pageable(run, HostKind::pageable, 4096);
  pageable.fill(17);
  (void)run.cuda().memcpy_htod_async(pageable.device(), source.data(), 4096, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.bytes("target", pageable.bytes());
}

void wrong_ends(Run& run) {
  HostBytes host(run, HostKind::pinned, 8192);
  host.fill(18);
  const cuda::CUdeviceptr device = run.allocate(4 * mib);
  run.plant(device, 4 * mib, 19);
  run.note("null");
  (void)run.cuda().memcpy_htod_async(device, nullptr, 16, nullptr);
  (void)run.cuda().memcpy_dtoh_async(nullptr, device, 16, nullptr);
  (void)run.cuda().memcpy_htod_async(0, host.data(), 16, nullptr);
  (void)run.cuda().memcpy_dtoh_async(host.data(), 0, 16, nullptr);
  (void)run.cuda().memcpy_dtod_async(0, device, 16, nullptr);
  (void)run.cuda().memcpy_dtod_async(device, 0, 16, nullptr);
  run.note("wild");
  (void)run.cuda().memcpy_htod_async(0x1000, host.data(), 16, nullptr);
  (void)run.cuda().memcpy_dtoh_async(host.data(), 0x1000, 16, nullptr);
  (void)run.cuda().memcpy_dtod_async(0x1000, device, 16, nullptr);
  run.note("nothing, between nothing");
  (void)run.cuda().memcpy_htod_async(0, nullptr, 0, nullptr);
  (void)run.cuda().memcpy_dtoh_async(nullptr, 0, 0, nullptr);
  (void)run.cuda().memcpy_dtod_async(0, 0, 0, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.device_bytes("untouched", device, 4 * mib);
  run.free(device);
}

void past_the_end(Run& run) {
  // 600 MiB: more than whatever the driver puts behind one allocation.
  constexpr std::size_t far = 600 * mib;
  HostBytes host(run, HostKind::pinned, far);
  const cuda::CUdeviceptr device = run.allocate(mib);
  (void)run.cuda().memcpy_htod_async(device, host.data(), far, nullptr);
  (void)run.cuda().memcpy_dtoh_async(host.data(), device, far, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.free(device);
}

/// The driver takes pageable bytes before it returns, or the caller could not use them again.
void pageable_is_taken(Run& run, std::size_t bytes) {
  HostBytes host(run, HostKind::pageable, bytes);
  host.fill(20);
  const cuda::CUdeviceptr device = run.allocate(bytes);
  cuda::CUstream stream = nullptr;
  (void)run.cuda().stream_create(&stream, cuda::stream_non_blocking);
  (void)run.cuda().memcpy_htod_async(device, host.data(), bytes, stream);
  host.clear();
  (void)run.cuda().stream_synchronize(stream);
  run.device_bytes("as it was", device, bytes);
  (void)run.cuda().stream_destroy(stream);
  run.free(device);
}

void pageable_is_given(Run& run, std::size_t bytes) {
  HostBytes host(run, HostKind::pageable, bytes);
  const cuda::CUdeviceptr device = run.allocate(bytes);
  run.plant(device, bytes, 21);
  cuda::CUstream stream = nullptr;
  (void)run.cuda().stream_create(&stream, cuda::stream_non_blocking);
  (void)run.cuda().memcpy_dtoh_async(host.data(), device, bytes, stream);
  run.bytes("there on return", host.bytes());
  (void)run.cuda().stream_synchronize(stream);
  (void)run.cuda().stream_destroy(stream);
  run.free(device);
}

void to_itself(Run& run) {
  const cuda::CUdeviceptr device = run.allocate(mib);
  run.plant(device, mib, 22);
  (void)run.cuda().memcpy_dtod_async(device, device, mib, nullptr);
  (void)run.cuda().memcpy_dtod_async(device + mib / 2, device, mib / 2, nullptr);
  (void)run.cuda().stream_synchronize(nullptr);
  run.device_bytes("all", device, mib);
  run.free(device);
}

void chain(Run& run) {
  HostBytes host(run, HostKind::pinned, mib);
  host.fill(23);
  const cuda::CUdeviceptr first = run.allocate(mib);
  const cuda::CUdeviceptr second = run.allocate(mib);
  cuda::CUstream stream = nullptr;
  (void)run.cuda().stream_create(&stream, cuda::stream_non_blocking);
  (void)run.cuda().memcpy_htod_async(first, host.data(), mib, stream);
  (void)run.cuda().memcpy_dtod_async(second, first, mib, stream);
  (void)run.cuda().memset_d8_async(first, 0x33, mib / 2, stream);
  (void)run.cuda().memcpy_dtod_async(second, first, 1000, stream);
  (void)run.cuda().memcpy_dtoh_async(host.data(), second, mib, stream);
  (void)run.cuda().stream_synchronize(stream);
  run.bytes("what came back", host.bytes());
  run.device_bytes("first", first, mib);
  (void)run.cuda().stream_destroy(stream);
  run.free(first);
  run.free(second);
}

void after_an_error(Run& run) {
  HostBytes host(run, HostKind::pinned, 4096);
  host.fill(24);
  const cuda::CUdeviceptr device = run.allocate(4096);
  for (int i = 0; i < 3; ++i) {
    (void)run.cuda().memcpy_htod_async(0x1000, host.data(), 16, nullptr);
    (void)run.cuda().memcpy_htod_async(device, host.data(), 4096, nullptr);
    (void)run.cuda().stream_synchronize(nullptr);
  }
  run.device_bytes("all", device, 4096);
  run.free(device);
}

}  // namespace

void add_cuda_copies(Catalogue& all) {
  for (const auto& [name, kind] : host_kinds) {
    for (const std::size_t bytes : sizes) {
      if (kind == HostKind::managed && bytes > mib) continue;
      all.add(std::string("copies.round_trip.") + name + "." + std::to_string(bytes),
              [kind = kind, bytes](Run& run) { round_trip(run, kind, bytes); });
    }
  }
  for (const std::size_t bytes : sizes) {
    all.add("copies.on_device." + std::to_string(bytes),
            [bytes](Run& run) { on_device(run, bytes, 0, 0); });
  }
  all.add("copies.on_device.odd", [](Run& run) { on_device(run, 99999, 1, 7); });
  all.add("copies.on_device.to_itself", to_itself);
  all.add("copies.other_ends", other_ends, {Start::alone});
  all.add("copies.device_as_host", device_as_host, {Start::alone});
  all.add("copies.host_as_device", host_as_device, {Start::alone});
  all.add("copies.wrong_ends", wrong_ends, {Start::alone});
  all.add("copies.past_the_end", past_the_end, {Start::alone});
  for (const std::size_t bytes : {std::size_t{1000}, std::size_t{32768}, 4 * mib}) {
    all.add("copies.pageable_is_taken." + std::to_string(bytes),
            [bytes](Run& run) { pageable_is_taken(run, bytes); });
    all.add("copies.pageable_is_given." + std::to_string(bytes),
            [bytes](Run& run) { pageable_is_given(run, bytes); });
  }
  all.add("copies.chain", chain);
  all.add("copies.after_an_error", after_an_error);
}

}  // namespace nobounce::conformance
