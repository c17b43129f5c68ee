// One of the project's own kernels of blocks, ready to run: loaded, and launched once, so that no
// later launch needs what waits for running kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include <nobounce/session.hpp>

namespace nobounce::async {

class OwnKernel {
 public:
  /// `image`: of embedded_kernels.hpp. `result_bytes` of pinned host memory are kept for what the
  /// kernel says. Launches it with `idle`, a job that asks for nothing.
  template <typename Job>
  [[nodiscard]] static Result<OwnKernel> load(Session& session, std::uint32_t gpu,
                                              std::string_view image, std::string_view entry,
                                              std::uint64_t result_bytes, Job idle) {
    Result<OwnKernel> kernel = load_only(session, gpu, image, entry, result_bytes);
    if (!kernel.ok()) return kernel;
    idle.results = kernel->results_on_gpu();
    if (Status ran = kernel->run(&idle, 1, 32, first_launch_patience_ns); !ran.ok())
      return ran.error();
    return kernel;
  }
  struct State;
  explicit OwnKernel(std::unique_ptr<State> state);
  OwnKernel(OwnKernel&&) noexcept;
  OwnKernel& operator=(OwnKernel&&) noexcept;
  ~OwnKernel();

  struct Launch {
    std::uint32_t blocks = 1;
    std::uint32_t threads = 1;  ///< of a block
    std::uint64_t timeout_ns = 0;
  };
  /// Launches it with that job and waits for its end; `each` takes what each block said, a
  /// BlockResult at the begin of the results. After `timeout_ns`: session.deadline_passed, and all
  /// that belongs to it stays, since it still runs.
  template <typename BlockResult, typename Job, typename Each>
  [[nodiscard]] Status run(Job& job, const Launch& launch, Each each) {
    std::memset(results(), 0, launch.blocks * sizeof(BlockResult));
    if (Status ran = run(&job, launch.blocks, launch.threads, launch.timeout_ns); !ran.ok())
      return ran;
    for (std::uint32_t block = 0; block < launch.blocks; ++block) {
      BlockResult one;
      std::memcpy(&one, results() + block * sizeof one, sizeof one);
      each(one);
    }
    return {};
  }
  [[nodiscard]] std::byte* results() const;
  [[nodiscard]] std::uint64_t results_on_gpu() const;
  /// Of the last run, by the host's clock, from launch to end.
  [[nodiscard]] std::uint64_t elapsed_ns() const;

 private:
  static constexpr std::uint64_t first_launch_patience_ns = 30'000'000'000;

  [[nodiscard]] static Result<OwnKernel> load_only(Session& session, std::uint32_t gpu,
                                                   std::string_view image, std::string_view entry,
                                                   std::uint64_t result_bytes);
  /// The parameter is copied before this returns.
  [[nodiscard]] Status run(void* parameter, std::uint32_t blocks, std::uint32_t threads,
                           std::uint64_t timeout_ns);

  std::unique_ptr<State> state_;
};

}  // namespace nobounce::async
