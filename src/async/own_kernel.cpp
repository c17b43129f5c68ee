// Loads a kernel, launches it, waits for it.
#include "async/own_kernel.hpp"

#include <string>
#include <utility>

#include "async/embedded_kernels.hpp"
#include "session/session_access.hpp"

namespace nobounce::async {

namespace cuda = system::cuda;

struct OwnKernel::State {
  State(session::SessionState& of_session, std::string_view entry_name)
      : session(of_session), entry(entry_name) {}
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[nodiscard]] Status load(std::string_view image, std::uint64_t result_bytes);
  [[nodiscard]] Error failed(cuda::CUresult code) const {
    return cuda_error(session.contexts->table(), code, "run the kernel " + entry);
  }

  session::SessionState& session;
  std::string entry;
  cuda::CUcontext context = nullptr;
  cuda::CUmodule module = nullptr;
  cuda::CUfunction function = nullptr;
  cuda::CUstream stream = nullptr;
  system::HostBuffer memory;
  std::uint64_t memory_gpu = 0;
  std::uint64_t elapsed_ns = 0;
  bool hangs = false;
};

OwnKernel::State::~State() {
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

Status OwnKernel::State::load(std::string_view image, std::uint64_t result_bytes) {
  system::Cuda& table = session.contexts->table();
  Result<system::HostBuffer> buffer =
      session.host.memory().allocate_pinned(result_bytes, 0, system::MemoryUse::user);
  if (!buffer.ok()) return std::move(buffer).error();
  memory = *buffer;
  const system::ContextGuard guard(table, context);
  cuda::CUresult code = table.mem_host_get_device_pointer(&memory_gpu, memory.address, 0);
  if (code == cuda::success) code = table.module_load_data(&module, kernel_image(image));
  if (code == cuda::success) code = table.module_get_function(&function, module, entry.c_str());
  if (code == cuda::success) code = table.stream_create(&stream, cuda::stream_non_blocking);
  if (code != cuda::success) return failed(code);
  return {};
}

Result<OwnKernel> OwnKernel::load_only(Session& session, std::uint32_t gpu, std::string_view image,
                                       std::string_view entry, std::uint64_t result_bytes) {
  session::SessionState& of = session::SessionAccess::state(session);
  if (of.forked()) return session::forked_error("load a kernel");
  if (of.contexts == nullptr) return *of.cuda_error;
  Result<cuda::CUcontext> context = of.contexts->context(gpu);
  if (!context.ok()) return std::move(context).error();
  auto state = std::make_unique<State>(of, entry);
  state->context = *context;
  ++of.handles;
  if (Status loaded = state->load(image, result_bytes); !loaded.ok()) return loaded.error();
  return OwnKernel(std::move(state));
}

OwnKernel::OwnKernel(std::unique_ptr<State> state) : state_(std::move(state)) {}
OwnKernel::OwnKernel(OwnKernel&&) noexcept = default;
OwnKernel& OwnKernel::operator=(OwnKernel&&) noexcept = default;
OwnKernel::~OwnKernel() = default;

Status OwnKernel::run(void* parameter, std::uint32_t blocks, std::uint32_t threads,
                      std::uint64_t timeout_ns) {
  State& state = *state_;
  system::Cuda& table = state.session.contexts->table();
  const system::ContextGuard guard(table, state.context);
  const std::uint64_t begun_ns = state.session.host.clock().now_ns();
  void* parameters[] = {parameter};
  cuda::CUresult code = table.launch_kernel(state.function, blocks, 1, 1, threads, 1, 1, 0,
                                            state.stream, parameters, nullptr);
  if (code != cuda::success) return state.failed(code);
  // Asked again and again, with a bound, instead of a call that might never return.
  const auto over = [&] {
    code = table.stream_query(state.stream);
    return code != cuda::error_not_ready;
  };
  if (!state.session.host.workers().wait(over, begun_ns + timeout_ns)) {
    state.hangs = true;
    return Error{.origin = ErrorOrigin::session,
                 .attempted = "run the kernel " + state.entry,
                 .cause = Cause::session_deadline_passed,
                 .detail = "it has not ended"};
  }
  if (code != cuda::success) return state.failed(code);
  state.elapsed_ns = state.session.host.clock().now_ns() - begun_ns;
  return {};
}

std::byte* OwnKernel::results() const {
  return state_->memory.address;
}

std::uint64_t OwnKernel::results_on_gpu() const {
  return state_->memory_gpu;
}

std::uint64_t OwnKernel::elapsed_ns() const {
  return state_->elapsed_ns;
}

}  // namespace nobounce::async
