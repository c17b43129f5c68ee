// One of the project's own kernels, ready to run: loaded, and launched once, before any queue is
// open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include <nobounce/session.hpp>

namespace nobounce::async {

class OwnKernel {
 public:
  /// `image`: of embedded_kernels.hpp. `result_bytes` of pinned host memory are kept for what the
  /// kernel says.
  [[nodiscard]] static Result<OwnKernel> load(Session& session, std::uint32_t gpu,
                                              std::string_view image, std::string_view entry,
                                              std::uint64_t result_bytes);
  struct State;
  explicit OwnKernel(std::unique_ptr<State> state);
  OwnKernel(OwnKernel&&) noexcept;
  OwnKernel& operator=(OwnKernel&&) noexcept;
  ~OwnKernel();

  /// Launches it with one parameter, copied before this returns, and waits for its end. After
  /// `timeout_ns`: session.deadline_passed, and all that belongs to it stays, since it still runs.
  [[nodiscard]] Status run(void* parameter, std::uint32_t blocks, std::uint32_t threads,
                           std::uint64_t timeout_ns);
  [[nodiscard]] std::byte* results() const;
  [[nodiscard]] std::uint64_t results_on_gpu() const;
  /// Of the last run, by the host's clock, from launch to end.
  [[nodiscard]] std::uint64_t elapsed_ns() const;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace nobounce::async
