// Says what the kernel is to read, and adds up what its blocks say.
#include "async/drive_reader.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "async/own_kernel.hpp"

namespace nobounce::async {

namespace {

constexpr std::uint64_t first_launch_patience_ns = 30'000'000'000;

}  // namespace

struct DriveReader::State {
  OwnKernel kernel;
  std::uint32_t blocks_max = 0;
  std::uint64_t next_sequence = 1;
};

Result<DriveReader> DriveReader::load(Session& session, std::uint32_t gpu,
                                      std::uint32_t blocks_max) {
  blocks_max = std::max(blocks_max, 1U);
  Result<OwnKernel> kernel = OwnKernel::load(session, gpu, "read_drive", core::read_drive_kernel,
                                             blocks_max * sizeof(core::ReadDriveResult));
  if (!kernel.ok()) return std::move(kernel).error();
  core::ReadDriveJob nothing;
  nothing.results = kernel->results_on_gpu();
  if (Status ran = kernel->run(&nothing, 1, 32, first_launch_patience_ns); !ran.ok())
    return ran.error();
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
  std::memset(state_->kernel.results(), 0, state_->blocks_max * sizeof(core::ReadDriveResult));
  if (Status ran = state_->kernel.run(&job, wanted.blocks, wanted.threads, wanted.timeout_ns);
      !ran.ok()) {
    return ran.error();
  }
  core::ReadDriveResult sum;
  for (std::uint32_t block = 0; block < wanted.blocks; ++block) {
    core::ReadDriveResult one;
    std::memcpy(&one, state_->kernel.results() + block * sizeof one, sizeof one);
    sum.good += one.good;
    sum.failed += one.failed;
    sum.sum += one.sum;
    if (one.last_code != 0) sum.last_code = one.last_code;
    if (one.last_result != 0) sum.last_result = one.last_result;
  }
  return sum;
}

}  // namespace nobounce::async
