// Loads the kernel, launches it, waits for it.
#include "async/page_reader.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "async/embedded_kernels.hpp"
#include "session/session_access.hpp"

namespace nobounce::async {

namespace cuda = system::cuda;

struct PageReader::State {
  explicit State(session::SessionState& of_session) : session(of_session) {}
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[nodiscard]] Status load(std::uint32_t blocks, std::uint64_t latencies);
  [[nodiscard]] Status launch(core::ReadPagesJob& job, std::uint32_t blocks, std::uint32_t threads,
                              std::uint64_t timeout_ns);
  [[nodiscard]] Error failed(cuda::CUresult code) const {
    return cuda_error(session.contexts->table(), code, "run a kernel that reads pages");
  }

  session::SessionState& session;
  cuda::CUcontext context = nullptr;
  cuda::CUmodule module = nullptr;
  cuda::CUfunction function = nullptr;
  cuda::CUstream stream = nullptr;
  std::uint32_t blocks_max = 0;
  std::uint64_t latencies_max = 0;
  std::uint64_t next_sequence = 1;
  system::HostBuffer memory;  ///< results, then latencies
  std::uint64_t memory_gpu = 0;
  bool hangs = false;
};

PageReader::State::~State() {
  if (session.forked() || context == nullptr) return;
  system::Cuda& table = session.contexts->table();
  const system::ContextGuard guard(table, context);
  // A kernel that hangs still uses all of it.
  if (!hangs && guard.alive()) {
    if (stream != nullptr) (void)table.stream_destroy(stream);
    if (module != nullptr) (void)table.module_unload(module);
    if (memory.address != nullptr) session.host.memory().free(memory);
  }
  --session.handles;
}

Status PageReader::State::load(std::uint32_t blocks, std::uint64_t latencies) {
  blocks_max = blocks;
  latencies_max = latencies;
  system::Cuda& table = session.contexts->table();
  const std::uint64_t bytes = blocks * sizeof(core::ReadPagesResult) + latencies * 4;
  Result<system::HostBuffer> buffer =
      session.host.memory().allocate_pinned(bytes, 0, system::MemoryUse::user);
  if (!buffer.ok()) return std::move(buffer).error();
  memory = *buffer;
  const system::ContextGuard guard(table, context);
  cuda::CUresult code = table.mem_host_get_device_pointer(&memory_gpu, memory.address, 0);
  if (code == cuda::success) code = table.module_load_data(&module, kernel_image("read_pages"));
  if (code == cuda::success) {
    code =
        table.module_get_function(&function, module, std::string(core::read_pages_kernel).c_str());
  }
  if (code == cuda::success) code = table.stream_create(&stream, cuda::stream_non_blocking);
  if (code != cuda::success) return failed(code);
  core::ReadPagesJob nothing;
  nothing.results = memory_gpu;
  nothing.pages = 1;
  return launch(nothing, 1, 32, 30'000'000'000);
}

Status PageReader::State::launch(core::ReadPagesJob& job, std::uint32_t blocks,
                                 std::uint32_t threads, std::uint64_t timeout_ns) {
  system::Cuda& table = session.contexts->table();
  const system::ContextGuard guard(table, context);
  void* parameters[] = {&job};
  cuda::CUresult code =
      table.launch_kernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr);
  if (code != cuda::success) return failed(code);
  // Asked again and again, with a bound, instead of a call that might never return.
  const std::uint64_t deadline_ns = session.host.clock().now_ns() + timeout_ns;
  const auto over = [&] {
    code = table.stream_query(stream);
    return code != cuda::error_not_ready;
  };
  if (!session.host.workers().wait(over, deadline_ns)) {
    hangs = true;
    return Error{.origin = ErrorOrigin::session,
                 .attempted = "run a kernel that reads pages",
                 .cause = Cause::session_deadline_passed,
                 .detail = "the kernel has not ended"};
  }
  if (code != cuda::success) return failed(code);
  return {};
}

Result<PageReader> PageReader::load(Session& session, std::uint32_t gpu, std::uint32_t blocks_max,
                                    std::uint64_t latencies_max) {
  session::SessionState& of = session::SessionAccess::state(session);
  if (of.forked()) return session::forked_error("load a kernel");
  if (of.contexts == nullptr) return *of.cuda_error;
  Result<cuda::CUcontext> context = of.contexts->context(gpu);
  if (!context.ok()) return std::move(context).error();
  auto state = std::make_unique<State>(of);
  state->context = *context;
  ++of.handles;
  if (Status loaded = state->load(std::max(blocks_max, 1U), latencies_max); !loaded.ok())
    return loaded.error();
  return PageReader(std::move(state));
}

PageReader::PageReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
PageReader::PageReader(PageReader&&) noexcept = default;
PageReader& PageReader::operator=(PageReader&&) noexcept = default;
PageReader::~PageReader() = default;

Result<PageReadsResult> PageReader::run(const KernelQueue& queue, const PageReads& wanted) {
  const device::QueueSet& queues = queue.queues();
  const std::uint64_t reads = std::uint64_t{wanted.blocks} * wanted.reads;
  const bool fits = wanted.blocks > 0 && wanted.blocks <= queues.tokens &&
                    wanted.blocks <= state_->blocks_max &&
                    wanted.file_bytes >= queues.buffer_bytes &&
                    (!wanted.latencies || reads <= state_->latencies_max);
  if (!fits) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "run a kernel that reads pages",
                 .detail = "more blocks than tokens, or more than it was loaded for"};
  }
  const std::uint64_t results_bytes = state_->blocks_max * sizeof(core::ReadPagesResult);
  core::ReadPagesJob job;
  job.queues = queues;
  job.target = wanted.target.value;
  job.results = state_->memory_gpu;
  job.latencies = wanted.latencies ? state_->memory_gpu + results_bytes : 0;
  job.page_bytes = queues.buffer_bytes;
  job.pages = wanted.file_bytes / job.page_bytes;
  job.seed = wanted.seed;
  job.sequence = state_->next_sequence;
  job.wait_ns = wanted.wait_ns;
  job.reads = wanted.reads;
  job.bad_every = wanted.bad_every;
  job.in_order = wanted.in_order ? 1 : 0;
  state_->next_sequence += wanted.reads;
  std::memset(state_->memory.address, 0, results_bytes);
  const std::uint64_t begun_ns = state_->session.host.clock().now_ns();
  if (Status ran = state_->launch(job, wanted.blocks, wanted.threads, wanted.timeout_ns);
      !ran.ok()) {
    return ran.error();
  }
  PageReadsResult result;
  result.elapsed_ns = state_->session.host.clock().now_ns() - begun_ns;
  for (std::uint32_t block = 0; block < wanted.blocks; ++block) {
    core::ReadPagesResult one;
    std::memcpy(&one, state_->memory.address + block * sizeof one, sizeof one);
    result.sum.good += one.good;
    result.sum.wrong += one.wrong;
    result.sum.refused += one.refused;
    result.sum.failed += one.failed;
    if (one.last_code != 0) result.sum.last_code = one.last_code;
    if (one.last_result != 0) result.sum.last_result = one.last_result;
  }
  if (wanted.latencies) {
    result.latencies_ns.resize(reads);
    std::memcpy(result.latencies_ns.data(), state_->memory.address + results_bytes, reads * 4);
  }
  return result;
}

}  // namespace nobounce::async
