// Runs the kernel that reads pages through a queue, for proofs, measurements and tests: loaded and
// launched once before any queue is open.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <nobounce/async.hpp>
#include "core/kernel_jobs.hpp"

namespace nobounce::async {

struct PageReads {
  std::uint32_t blocks = 1;
  std::uint32_t threads = 256;   ///< of a block
  std::uint32_t reads = 1;       ///< by each block
  std::uint64_t file_bytes = 0;  ///< of the seeded pattern
  std::uint64_t seed = 1;
  std::uint32_t bad_every = 0;  ///< see core::ReadPagesJob
  bool in_order = false;
  std::uint64_t wait_ns = 5'000'000'000;  ///< for each read
  DevicePointer target;  ///< blocks * reads pages of GPU memory; null: compared only
  bool latencies = false;
  std::uint64_t timeout_ns = 60'000'000'000;  ///< for the kernel as a whole
};

struct PageReadsResult {
  core::ReadPagesResult sum;
  std::uint64_t elapsed_ns = 0;             ///< from launch to end, by the host's clock
  std::vector<std::uint32_t> latencies_ns;  ///< of each read, if wanted
};

class PageReader {
 public:
  /// `blocks_max` and `reads_max` bound what `run` may be asked for.
  [[nodiscard]] static Result<PageReader> load(Session& session, std::uint32_t gpu,
                                               std::uint32_t blocks_max,
                                               std::uint64_t latencies_max = 0);
  struct State;
  explicit PageReader(std::unique_ptr<State> state);
  PageReader(PageReader&&) noexcept;
  PageReader& operator=(PageReader&&) noexcept;
  ~PageReader();

  /// Needs one token of the queue for each block, and pages as large as its buffers.
  [[nodiscard]] Result<PageReadsResult> run(const KernelQueue& queue, const PageReads& wanted);

 private:
  std::unique_ptr<State> state_;
};

}  // namespace nobounce::async
