// Says what the kernel is to read, and adds up what its blocks say.
#include "async/drive_reader.hpp"

#include <algorithm>
#include <utility>

#include "async/own_kernel.hpp"

namespace nobounce::async {

struct DriveReader::State {
  OwnKernel kernel;
  std::uint32_t blocks_max = 0;
  std::uint64_t next_sequence = 1;
};

Result<DriveReader> DriveReader::load(Session& session, std::uint32_t gpu,
                                      std::uint32_t blocks_max) {
  blocks_max = std::max(blocks_max, 1U);
  Result<OwnKernel> kernel =
      OwnKernel::load(session, gpu, "read_drive", core::read_drive_kernel,
                      blocks_max * sizeof(core::ReadDriveResult), core::ReadDriveJob{});
  if (!kernel.ok()) return std::move(kernel).error();
  return DriveReader(std::make_unique<State>(State{std::move(*kernel), blocks_max}));
}

DriveReader::DriveReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
DriveReader::DriveReader(DriveReader&&) noexcept = default;
DriveReader& DriveReader::operator=(DriveReader&&) noexcept = default;
DriveReader::~DriveReader() = default;

Result<core::ReadDriveResult> DriveReader::run(const DoorbellQueue& queue,
                                               const DriveReads& wanted) {
  core::ReadDriveJob job;
  job.queue = queue.queue();
  if (wanted.blocks == 0 || wanted.blocks > job.queue.tokens ||
      wanted.blocks > state_->blocks_max || wanted.read_bytes % 16 != 0) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "run a kernel that reads a drive",
                 .detail =
                     "more blocks than tokens, or more than it was loaded for, or commands of "
                     "no multiple of 16 bytes"};
  }
  job.data = wanted.data.value;
  job.results = state_->kernel.results_on_gpu();
  job.sequence = state_->next_sequence;
  job.wait_ns = wanted.wait_ns;
  job.reads = wanted.reads;
  job.read_bytes = wanted.read_bytes;
  state_->next_sequence += wanted.reads;
  core::ReadDriveResult sum;
  const Status ran = state_->kernel.run<core::ReadDriveResult>(
      job, {wanted.blocks, wanted.threads, wanted.timeout_ns},
      [&sum](const core::ReadDriveResult& one) {
        sum.good += one.good;
        sum.failed += one.failed;
        sum.sum += one.sum;
        if (one.last_code != 0) sum.last_code = one.last_code;
        if (one.last_result != 0) sum.last_result = one.last_result;
      });
  if (!ran.ok()) return ran.error();
  return sum;
}

}  // namespace nobounce::async
