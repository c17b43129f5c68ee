// Makes and destroys a stream.
#include "async/own_stream.hpp"

#include <utility>

#include "session/session_access.hpp"

namespace nobounce::async {

namespace cuda = system::cuda;

struct OwnStream::State {
  explicit State(session::SessionState& of_session) : session(of_session) {}
  ~State() {
    if (session.forked() || stream == nullptr) return;
    const system::ContextGuard guard(session.contexts->table(), context);
    if (guard.alive()) (void)session.contexts->table().stream_destroy(stream);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  session::SessionState& session;
  cuda::CUcontext context = nullptr;
  cuda::CUstream stream = nullptr;
};

Result<OwnStream> OwnStream::make(Session& session, std::uint32_t gpu) {
  session::SessionState& of = session::SessionAccess::state(session);
  if (of.forked()) return session::forked_error("make a stream");
  if (of.contexts == nullptr) return *of.cuda_error;
  Result<cuda::CUcontext> context = of.contexts->context(gpu);
  if (!context.ok()) return std::move(context).error();
  auto state = std::make_unique<State>(of);
  state->context = *context;
  system::Cuda& table = of.contexts->table();
  const system::ContextGuard guard(table, *context);
  const cuda::CUresult code = table.stream_create(&state->stream, cuda::stream_non_blocking);
  if (code != cuda::success) return cuda_error(table, code, "make a stream");
  return OwnStream(std::move(state));
}

OwnStream::OwnStream(std::unique_ptr<State> state) : state_(std::move(state)) {}
OwnStream::OwnStream(OwnStream&&) noexcept = default;
OwnStream& OwnStream::operator=(OwnStream&&) noexcept = default;
OwnStream::~OwnStream() = default;

StreamHandle OwnStream::handle() const {
  return state_->stream;
}

}  // namespace nobounce::async
