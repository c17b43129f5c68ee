// Probing a pair by a loop: two queue pairs of the adapter joined to each other, GPU memory behind
// one of them.
#include "provider/rdma/probe.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "provider/rdma/queue_pair.hpp"
#include "provider/rdma/statuses.hpp"
#include "system/copy_streams.hpp"
#include "system/stray_copies.hpp"

namespace nobounce::provider::rdma {

namespace cuda = system::cuda;
namespace verbs = system::verbs;

namespace {

constexpr std::uint64_t probe_bytes = 4096;
constexpr std::uint64_t patience_ns = 5'000'000'000;
constexpr std::uint64_t second_ns = 1'000'000'000;
// What could not be tried is tried again after so long, or after so many times what trying took:
// whoever serves others spends next to no time on it.
constexpr std::uint64_t rest_min_ns = 10 * second_ns;
constexpr std::uint64_t rest_times = 20;
constexpr int all_access =
    verbs::access_local_write | verbs::access_remote_write | verbs::access_remote_read;

Error not_arrived(std::string attempted, std::string detail) {
  return Error{.origin = ErrorOrigin::verbs,
               .attempted = std::move(attempted),
               .cause = Cause::rdma_probe_failed,
               .detail = std::move(detail)};
}

}  // namespace

/// All that a probe takes, given back when it goes: queue pairs first.
struct Prober::Bench {
  explicit Bench(system::Host& on, system::CudaContexts& of) : host(on), contexts(of) {}
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  /// No DMA by the adapter after this; a domain goes after what is registered in it.
  void end_adapter() {
    if (near != nullptr) near->destroy();
    if (far != nullptr) far->destroy();
    host_region.reset();
    gpu_region.reset();
    near.reset();
    far.reset();
  }
  ~Bench() {
    end_adapter();
    (void)streams.release();
    if (memory.address.value != 0) {
      const Result<cuda::CUcontext> context = contexts.context(memory.gpu);
      if (context.ok()) {
        const system::ContextGuard guard(contexts.table(), *context);
        (void)contexts.table().mem_free(memory.address.value);
      }
    }
    if (buffer.address != nullptr) host.memory().free(buffer);
  }

  system::Host& host;
  system::CudaContexts& contexts;
  system::CopyStreams streams{contexts};
  system::CopyInFlight flying;  ///< a copy that hangs, if there is one
  GpuMemory memory;             ///< what is probed
  system::HostBuffer buffer;    ///< two pages: what is sent, what came back
  std::unique_ptr<QueuePair> near;
  std::unique_ptr<QueuePair> far;
  std::shared_ptr<Registration> host_region;  ///< at `near`
  std::shared_ptr<Registration> gpu_region;   ///< at `far`

  [[nodiscard]] std::byte* sent() const { return buffer.address; }
  [[nodiscard]] std::byte* returned() const { return buffer.address + probe_bytes; }
};

Status Prober::set_up(Bench& bench, std::uint32_t gpu,
                      const std::shared_ptr<const Adapter>& adapter, Method method) {
  const Result<cuda::CUcontext> context = contexts_.context(gpu);
  if (!context.ok()) return context.error();
  {
    const system::ContextGuard guard(contexts_.table(), *context);
    cuda::CUdeviceptr pointer = 0;
    const cuda::CUresult code = contexts_.table().mem_alloc(&pointer, probe_bytes);
    if (code != cuda::success) {
      return cuda_error(
          contexts_.table(), code, "allocate memory for a probe",
          code == cuda::error_out_of_memory ? Cause::memory_gpu_out_of_memory : Cause::none);
    }
    bench.memory = GpuMemory{gpu, DevicePointer{pointer}, probe_bytes};
  }
  Result<system::HostBuffer> buffer =
      host_.memory().allocate_pinned(2 * probe_bytes, 0, system::MemoryUse::user);
  if (!buffer.ok()) return std::move(buffer).error();
  bench.buffer = *buffer;
  const QueuePairOptions options{.sends = 4, .receives = 4, .silence_ns = patience_ns / 4};
  for (std::unique_ptr<QueuePair>* pair : {&bench.near, &bench.far}) {
    Result<std::unique_ptr<QueuePair>> made = QueuePair::create(table_, adapter, 1, options);
    if (!made.ok()) return std::move(made).error();
    *pair = std::move(made).value();
  }
  if (Status joined = bench.near->join(bench.far->endpoint()); !joined.ok()) return joined;
  if (Status joined = bench.far->join(bench.near->endpoint()); !joined.ok()) return joined;
  std::vector<Finding> findings;
  bench.host_region = registrar_.enroll_host(
      HostMemory{bench.buffer.address, 2 * probe_bytes},
      {bench.near->domain(), adapter->name, verbs::access_local_write}, findings);
  if (bench.host_region != nullptr) {
    bench.gpu_region =
        registrar_.enroll_gpu({bench.memory, AllocationKind::device}, method,
                              {bench.far->domain(), adapter->name, all_access}, findings);
  }
  if (bench.gpu_region != nullptr) return {};
  const Finding& why = findings.back();
  return Error{.origin = ErrorOrigin::verbs,
               .attempted = "register memory for a probe",
               .cause = why.cause,
               .detail = why.observed};
}

Status Prober::copy(Bench& bench, std::byte* host, bool to_gpu) {
  const system::CopyLane lane{.gpu = bench.memory.gpu,
                              .kind = to_gpu ? system::CopyKind::to_gpu : system::CopyKind::to_host,
                              .peer = 0};
  const system::CopyEnds ends{host, bench.memory.address, bench.memory.address};
  Result<system::CopyInFlight> started = bench.streams.start(lane, ends, probe_bytes);
  if (!started.ok()) return std::move(started).error();
  system::CopyInFlight copy = *started;
  std::optional<Error> error;
  system::Landing landing = system::Landing::flying;
  const auto landed = [&] {
    if (landing == system::Landing::flying) landing = bench.streams.look(copy, error);
    return landing != system::Landing::flying;
  };
  if (!host_.workers().wait(landed, host_.clock().now_ns() + patience_ns)) {
    bench.flying = copy;
    return Error{.attempted = "copy for a probe",
                 .cause = Cause::session_deadline_passed,
                 .detail = "the GPU's copy engine did not end within " +
                           std::to_string(patience_ns / second_ns) +
                           " s; the probe's memory stays until it has"};
  }
  return error.has_value() ? Status(*error) : Status{};
}

Status Prober::move(Bench& bench, int opcode) {
  const bool reads = opcode == verbs::wr_rdma_read;
  const std::string attempted = reads ? "read GPU memory by the adapter for a probe"
                                      : "write GPU memory by the adapter for a probe";
  verbs::ibv_sge piece{};
  piece.addr = bench.host_region->address() + (reads ? probe_bytes : 0);
  piece.length = probe_bytes;
  piece.lkey = bench.host_region->local_key();
  verbs::ibv_send_wr request{};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = opcode;
  request.send_flags = verbs::send_signaled;
  request.wr.rdma.remote_addr = bench.gpu_region->address();
  request.wr.rdma.rkey = bench.gpu_region->remote_key();
  if (const int code = bench.near->post(request); code != verbs::success) {
    return call_error(code, attempted, Cause::rdma_completion_error);
  }
  verbs::ibv_wc completion{};
  int failed = 0;
  const auto completed = [&] {
    std::size_t count = 0;
    failed = bench.near->poll(std::span(&completion, 1), count);
    return failed != 0 || count > 0;
  };
  if (!host_.workers().wait(completed, host_.clock().now_ns() + patience_ns)) {
    return not_arrived(attempted, "the adapter completed nothing in time");
  }
  if (failed != 0) return call_error(failed, attempted, Cause::rdma_completion_error);
  if (completion.status == verbs::wc_success) return {};
  Error error = completion_error(completion.status, completion.vendor_err, attempted);
  error.cause = Cause::rdma_probe_failed;
  return error;
}

Status Prober::run(std::uint32_t gpu, const std::shared_ptr<const Adapter>& adapter,
                   Method method) {
  const auto bench = std::make_shared<Bench>(host_, contexts_);
  Status probed = try_out(*bench, gpu, adapter, method);
  if (bench->flying.on == nullptr && contexts_.strays().all_landed()) return probed;
  bench->end_adapter();
  contexts_.strays().keep(bench, [left = bench.get()] {
    std::optional<Error> error;
    if (left->flying.on != nullptr) (void)left->streams.look(left->flying, error);
    return left->flying.on == nullptr;
  });
  return probed;
}

Status Prober::try_out(Bench& bench, std::uint32_t gpu,
                       const std::shared_ptr<const Adapter>& adapter, Method method) {
  if (Status ready = set_up(bench, gpu, adapter, method); !ready.ok()) return ready;
  host_.entropy().fill(std::span(bench.sent(), probe_bytes));
  // The GPU holds something else first, so that a write that is lost shows.
  for (std::uint64_t i = 0; i < probe_bytes; ++i) bench.returned()[i] = ~bench.sent()[i];
  if (Status spoiled = copy(bench, bench.returned(), true); !spoiled.ok()) return spoiled;
  if (Status written = move(bench, verbs::wr_rdma_write); !written.ok()) return written;
  if (Status seen = copy(bench, bench.returned(), false); !seen.ok()) return seen;
  const auto same = [&bench] {
    return std::memcmp(bench.sent(), bench.returned(), probe_bytes) == 0;
  };
  if (!same()) {
    return not_arrived("write GPU memory by the adapter for a probe",
                       "the adapter reported success, and the GPU holds other bytes");
  }
  for (std::uint64_t i = 0; i < probe_bytes; ++i) bench.returned()[i] = ~bench.sent()[i];
  if (Status read = move(bench, verbs::wr_rdma_read); !read.ok()) return read;
  if (!same()) {
    return not_arrived("read GPU memory by the adapter for a probe",
                       "the adapter reported success and brought other bytes");
  }
  return {};
}

std::optional<Finding> Prober::doubts(std::uint32_t gpu,
                                      const std::shared_ptr<const Adapter>& adapter,
                                      Method method) {
  const std::lock_guard lock(mutex_);
  const Key key{gpu, adapter->name, method};
  const std::uint64_t begun_ns = host_.clock().now_ns();
  if (const auto found = answers_.find(key);
      found != answers_.end() && (found->second.until_ns == 0 || begun_ns < found->second.until_ns))
    return found->second.doubt;
  Answer& answer = answers_[key];
  answer = {};
  const Status probed = run(gpu, adapter, method);
  if (probed.ok()) return std::nullopt;
  const Error& error = probed.error();
  answer.doubt =
      Finding{.cause = error.cause == Cause::none ? Cause::evidence_capability_only : error.cause,
              .subject = "gpu:" + std::to_string(gpu) + " - nic:" + adapter->name,
              .state = FindingState::unmet,
              .observed = to_string(error),
              .needed = "4 KiB that the adapter writes and reads, seen by the GPU",
              .remedy = {},
              .source = "a probe of this process, registered by " + std::string(to_string(method))};
  answer.doubt->remedy = cause_row(answer.doubt->cause).remedy;
  if (error.cause == Cause::rdma_probe_failed) return answer.doubt;
  const std::uint64_t now_ns = host_.clock().now_ns();
  const std::uint64_t rest_ns = std::max(rest_min_ns, rest_times * (now_ns - begun_ns));
  answer.until_ns = now_ns + rest_ns;
  answer.doubt->observed += "; nothing was tried with it, nor will be for the next " +
                            std::to_string(rest_ns / second_ns) + " s";
  return answer.doubt;
}

}  // namespace nobounce::provider::rdma
