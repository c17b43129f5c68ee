// What sequences share: tables with a trace, memory at hand, hashes instead of bytes.
#include "conformance/sequence.hpp"

#include <algorithm>

namespace nobounce::conformance {

Run::Run(system::Host& on_host, Trace& to_trace, std::string in_folder)
    : host(on_host), trace(to_trace), folder(std::move(in_folder)) {
  if (auto table = host.cuda(); table.ok()) traced_cuda.emplace(**table, trace);
  if (auto table = host.nvml(); table.ok()) traced_nvml.emplace(**table, trace);
  if (auto table = host.cufile(); table.ok()) traced_cufile.emplace(**table, trace);
  if (auto table = host.verbs(); table.ok()) traced_verbs.emplace(**table, trace);
}

system::Cuda& Run::quiet() {
  return **host.cuda();
}

system::Verbs& Run::quiet_verbs() {
  return **host.verbs();
}

void Run::number(std::string_view name, std::uint64_t value) {
  trace.note(std::string(name) + " " + std::to_string(value));
}

void Run::yes(std::string_view name, bool value) {
  trace.note(std::string(name) + (value ? ": yes" : ": no"));
}

void Run::bytes(std::string_view name, std::span<const std::byte> data) {
  trace.note(std::string(name) + " " + std::to_string(data.size()) + " bytes, hash " +
             std::to_string(hash_of(data)));
}

void Run::device_bytes(std::string_view name, cuda::CUdeviceptr pointer, std::size_t length) {
  std::vector<std::byte> data(length);
  cuda::CUresult code = quiet().memcpy_dtoh_async(data.data(), pointer, length, nullptr);
  if (code == cuda::success) code = quiet().stream_synchronize(nullptr);
  if (code == cuda::success) return bytes(name, data);
  trace.note(std::string(name) + ": unreadable, " + std::to_string(code));
}

cuda::CUdeviceptr Run::allocate(std::size_t length) {
  cuda::CUdeviceptr pointer = 0;
  if (const auto code = quiet().mem_alloc(&pointer, length); code != cuda::success) {
    trace.note("no GPU memory to begin with: " + std::to_string(code));
  }
  return pointer;
}

std::byte* Run::pinned(std::size_t length) {
  void* pointer = nullptr;
  if (const auto code = quiet().mem_host_alloc(&pointer, length, 0); code != cuda::success) {
    trace.note("no pinned memory to begin with: " + std::to_string(code));
  }
  return static_cast<std::byte*>(pointer);
}

void Run::free(cuda::CUdeviceptr pointer) {
  (void)quiet().mem_free(pointer);
}

void Run::free_pinned(void* pointer) {
  (void)quiet().mem_free_host(pointer);
}

void Run::plant(cuda::CUdeviceptr pointer, std::size_t length, std::uint64_t seed) {
  const std::vector<std::byte> data = pattern(length, seed);
  (void)quiet().memcpy_htod_async(pointer, data.data(), length, nullptr);
  (void)quiet().stream_synchronize(nullptr);
}

std::vector<std::byte> pattern(std::size_t length, std::uint64_t seed) {
  std::vector<std::byte> data(length);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ull + 0x1234567;
  for (std::byte& byte : data) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    byte = static_cast<std::byte>(state >> 24);
  }
  return data;
}

std::uint64_t hash_of(std::span<const std::byte> data) {
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (const std::byte byte : data) {
    hash ^= static_cast<std::uint64_t>(byte);
    hash *= 0x100000001b3ull;
  }
  return hash;
}

Catalogue all_sequences() {
  Catalogue all;
  add_cuda_start(all);
  add_cuda_devices(all);
  add_cuda_contexts(all);
  add_cuda_memory(all);
  add_cuda_host_memory(all);
  add_cuda_pointers(all);
  add_cuda_copies(all);
  add_cuda_streams(all);
  add_cuda_stream_words(all);
  add_cuda_peers(all);
  add_cuda_kinds(all);
  add_cuda_virtual(all);
  add_cuda_pools(all);
  add_nvml(all);
  add_cufile_driver(all);
  add_cufile_files(all);
  add_cufile_transfers(all);
  add_verbs_objects(all);
  add_verbs_states(all);
  add_verbs_requests(all);
  add_verbs_refusals(all);
  return all;
}

}  // namespace nobounce::conformance
