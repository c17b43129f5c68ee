// Stream-ordered reads on many streams, in a process whose number of hardware queues is its own.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include <nobounce/async.hpp>
#include "device/device_rig.hpp"

namespace nobounce::device {

namespace {

namespace cuda = system::cuda;
using Clock = std::chrono::steady_clock;

/// On its way, so that one sees where a process hangs that is killed.
void said(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::fflush(stderr);
}

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

struct Plan {
  std::size_t streams = 48;
  std::size_t rounds = 4;
  std::uint64_t part = 4u << 20;
};

/// Puts a gate, then transfers with a fill of other memory behind each, on every stream.
int run_streams(system::Cuda& table, Session& session, File& file, const Plan& plan) {
  const std::uint64_t total = plan.part * plan.streams * plan.rounds;
  auto region = session.allocate(0, total);
  auto scratch = session.allocate(0, plan.part * plan.streams);
  said("memory is there");
  auto streams = Streams::open(session);
  said("streams are open");
  if (!region.ok() || !scratch.ok() || !streams.ok()) return failed("no memory, or no streams");
  void* memory = nullptr;
  if (table.mem_host_alloc(&memory, 4096, 3) != cuda::success) return failed("no pinned memory");
  auto* gate = static_cast<std::uint64_t*>(memory);
  std::memset(memory, 0, 4096);
  std::vector<cuda::CUstream> handles(plan.streams);
  std::vector<StreamTransfer> transfers;
  std::vector<double> enqueue_us;
  const auto behind = std::get<GpuMemory>(scratch->place());
  for (auto& handle : handles) {
    if (table.stream_create(&handle, cuda::stream_non_blocking) != cuda::success)
      return failed("no stream");
  }
  // Whatever is made at first use is made before any stream waits.
  if (!session.transfer(file.place(0, plan.part), region->place(0, plan.part)).ok())
    return failed("the first transfer failed");
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < plan.streams; ++i) {
    if (table.stream_wait_value64(handles[i], reinterpret_cast<cuda::CUdeviceptr>(gate), 1, 0) !=
        cuda::success) {
      return failed("no wait for a word");
    }
    for (std::size_t round = 0; round < plan.rounds; ++round) {
      const std::uint64_t at = (i * plan.rounds + round) * plan.part;
      const auto call = Clock::now();
      auto transfer =
          streams->enqueue(handles[i], file.place(at, plan.part), region->place(at, plan.part));
      enqueue_us.push_back(microseconds_since(call));
      if (!transfer.ok()) return failed("refused: " + nobounce::to_string(transfer.error()));
      transfers.push_back(std::move(*transfer));
      if (table.memset_d8_async(behind.address.value + i * plan.part,
                                static_cast<unsigned char>(round + 1), plan.part,
                                handles[i]) != cuda::success) {
        return failed("no fill behind a transfer");
      }
    }
  }
  const double all_enqueued_us = microseconds_since(begin);
  said("all is enqueued");
  for (StreamTransfer& transfer : transfers) {
    if (transfer.poll().has_value()) return failed("a transfer ran before its gate was open");
  }
  const auto opened = Clock::now();
  std::atomic_ref<std::uint64_t>(*gate).store(1);
  for (StreamTransfer& transfer : transfers) {
    const auto outcome = transfer.wait(30'000'000'000);
    if (!outcome.has_value()) return failed("a transfer has not ended after 30 s: a deadlock");
    if (!outcome->ok()) return failed("a transfer failed: " + why(*outcome));
    if (outcome->receipt.issuer != Issuer::stream)
      return failed("the receipt names another issuer");
  }
  const double moved_us = microseconds_since(opened);
  said("all transfers have ended");
  for (const auto handle : handles) {
    const auto until = Clock::now() + std::chrono::seconds(20);
    while (table.stream_query(handle) == cuda::error_not_ready) {
      if (Clock::now() > until) return failed("a stream has not ended: a deadlock");
    }
    if (table.stream_query(handle) != cuda::success) return failed("a stream failed");
  }
  said("all streams have ended");
  const auto same = session.checksum(file.place(0, total));
  const auto landed = session.checksum(region->place(0, total));
  if (!same.ok() || !landed.ok() || *same != *landed) return failed("the bytes differ");
  std::sort(enqueue_us.begin(), enqueue_us.end());
  std::fprintf(stderr,
               "[ measured ] %zu streams x %zu transfers of %llu MiB: %.2f GB/s, enqueue %.1f us "
               "p50, %.1f us p99, all enqueued in %.1f ms\n",
               plan.streams, plan.rounds, static_cast<unsigned long long>(plan.part >> 20),
               static_cast<double>(total) / moved_us / 1e3, enqueue_us[enqueue_us.size() / 2],
               enqueue_us[enqueue_us.size() * 99 / 100], all_enqueued_us / 1e3);
  for (const auto handle : handles) (void)table.stream_destroy(handle);
  return 0;
}

/// Calls that somebody may make while a stream of the process waits for a word, one after the
/// other: which of them come back before the word is there?
struct Call {
  const char* name;
  int (*call)(system::Cuda& table, void* host, cuda::CUstream other);
};

const Call calls[] = {
    {"cuMemAlloc",
     [](system::Cuda& table, void*, cuda::CUstream) {
       cuda::CUdeviceptr made = 0;
       return table.mem_alloc(&made, 64u << 20);
     }},
    {"cuMemFree",
     [](system::Cuda& table, void* host, cuda::CUstream) {
       return table.mem_free(*static_cast<cuda::CUdeviceptr*>(host));
     }},
    {"cuMemHostAlloc",
     [](system::Cuda& table, void*, cuda::CUstream) {
       void* made = nullptr;
       return table.mem_host_alloc(&made, 16u << 20, 1);
     }},
    {"cuMemHostRegister",
     [](system::Cuda& table, void*, cuda::CUstream) {
       void* pages = ::aligned_alloc(4096, 16u << 20);
       return table.mem_host_register(pages, 16u << 20, 1);
     }},
    {"cuStreamCreate",
     [](system::Cuda& table, void*, cuda::CUstream) {
       cuda::CUstream made = nullptr;
       return table.stream_create(&made, cuda::stream_non_blocking);
     }},
    {"cuEventCreate",
     [](system::Cuda& table, void*, cuda::CUstream) {
       cuda::CUevent made = nullptr;
       return table.event_create(&made, cuda::event_disable_timing);
     }},
    {"cuMemcpyHtoDAsync of 24 KiB on another stream, and its end",
     [](system::Cuda& table, void* host, cuda::CUstream other) {
       const auto target = *static_cast<cuda::CUdeviceptr*>(host);
       const int code = table.memcpy_htod_async(target, host, 24 << 10, other);
       return code != cuda::success ? code : table.stream_synchronize(other);
     }},
    {"cuMemcpyHtoDAsync of 32 KiB on another stream, and its end",
     [](system::Cuda& table, void* host, cuda::CUstream other) {
       const auto target = *static_cast<cuda::CUdeviceptr*>(host);
       const int code = table.memcpy_htod_async(target, host, 32 << 10, other);
       return code != cuda::success ? code : table.stream_synchronize(other);
     }},
    {"cuMemcpyDtoHAsync of 4 KiB on another stream, and its end",
     [](system::Cuda& table, void* host, cuda::CUstream other) {
       const auto source = *static_cast<cuda::CUdeviceptr*>(host);
       const int code =
           table.memcpy_dtoh_async(static_cast<std::byte*>(host) + 65536, source, 4096, other);
       return code != cuda::success ? code : table.stream_synchronize(other);
     }},
    {"cuMemcpyHtoDAsync of 4 KiB on another stream, and its end",
     [](system::Cuda& table, void* host, cuda::CUstream other) {
       const auto target = *static_cast<cuda::CUdeviceptr*>(host);
       const int code = table.memcpy_htod_async(target, host, 4096, other);
       return code != cuda::success ? code : table.stream_synchronize(other);
     }},
    {"cuMemcpyDtoDAsync on another stream, and its end",
     [](system::Cuda& table, void* host, cuda::CUstream other) {
       const auto target = *static_cast<cuda::CUdeviceptr*>(host);
       const int code = table.memcpy_dtod_async(target, target + 8192, 4096, other);
       return code != cuda::success ? code : table.stream_synchronize(other);
     }},
    {"cuMemsetD8Async on another stream, and its end",
     [](system::Cuda& table, void* host, cuda::CUstream other) {
       const auto target = *static_cast<cuda::CUdeviceptr*>(host);
       const int code = table.memset_d8_async(target, 1, 4096, other);
       return code != cuda::success ? code : table.stream_synchronize(other);
     }},
};

}  // namespace

/// The number of hardware queues (empty: the driver's own choice)
int what_waits(const std::vector<std::string>& arguments) {
  if (!arguments.at(0).empty()) ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", arguments.at(0).c_str(), 1);
  const auto host = system::make_live_host();
  auto found = host->cuda();
  if (!found.ok()) return failed("no driver");
  system::Cuda& table = **found;
  cuda::CUcontext context = nullptr;
  cuda::CUstream held = nullptr;
  cuda::CUstream other = nullptr;
  void* memory = nullptr;
  if (table.init(0) != cuda::success ||
      table.device_primary_ctx_retain(&context, 0) != cuda::success ||
      table.ctx_push_current(context) != cuda::success ||
      table.stream_create(&held, cuda::stream_non_blocking) != cuda::success ||
      table.stream_create(&other, cuda::stream_non_blocking) != cuda::success ||
      table.mem_host_alloc(&memory, 1u << 20, 3) != cuda::success) {
    return failed("no stream or memory");
  }
  auto* gate = static_cast<std::uint64_t*>(memory);
  std::memset(memory, 0, 1u << 20);
  std::uint64_t turn = 0;
  for (const Call& one : calls) {
    if (table.mem_alloc(gate + 512, 1u << 20) != cuda::success) return failed("no memory");
    ++turn;
    if (table.stream_wait_value64(held, reinterpret_cast<cuda::CUdeviceptr>(gate), turn, 0) !=
        cuda::success) {
      return failed("no wait");
    }
    std::atomic<bool> back{false};
    std::atomic<int> code{-1};
    std::thread caller([&] {
      (void)table.ctx_push_current(context);
      code = one.call(table, gate + 512, other);
      back = true;
      (void)table.ctx_pop_current(nullptr);
    });
    const auto begin = Clock::now();
    while (!back && microseconds_since(begin) < 700'000) std::this_thread::yield();
    const bool waited = !back;
    const double took_us = microseconds_since(begin);
    std::atomic_ref<std::uint64_t>(*gate).store(turn);
    caller.join();
    if (table.stream_synchronize(held) != cuda::success) return failed("the stream failed");
    std::fprintf(stderr, "[ measured ] beside a stream that waits: %s %s (code %d)\n", one.name,
                 waited ? "waits too" : ("came back in " + std::to_string(took_us) + " us").c_str(),
                 code.load());
    std::fflush(stderr);
  }
  return 0;
}

/// streams, and the number of hardware queues (empty: the driver's own choice)
int stream_ordered(const std::vector<std::string>& arguments) {
  Plan plan;
  plan.streams = std::strtoul(arguments.at(0).c_str(), nullptr, 10);
  if (!arguments.at(1).empty()) ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", arguments.at(1).c_str(), 1);
  test::TemporaryDirectory directory;
  write_large_file(directory.file("source"), plan.part * plan.streams * plan.rounds, 9);
  Live live;
  if (!live.session) return failed(live.failure);
  auto file = live.session->open_file(directory.file("source"));
  auto table = live.host->cuda();
  if (!file.ok() || !table.ok()) return failed("no file, or no driver");
  cuda::CUcontext context = nullptr;
  if ((*table)->device_primary_ctx_retain(&context, 0) != cuda::success ||
      (*table)->ctx_push_current(context) != cuda::success) {
    return failed("no context");
  }
  const int code = run_streams(**table, *live.session, *file, plan);
  (void)(*table)->ctx_pop_current(nullptr);
  return code;
}

}  // namespace nobounce::device
