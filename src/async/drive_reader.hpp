// Runs the kernel that reads a drive through a doorbell queue, for proofs and tests: loaded and
// launched once before any queue is open.
#pragma once

#include <cstdint>
#include <memory>

#include <nobounce/doorbell.hpp>
#include "core/kernel_jobs.hpp"

namespace nobounce::async {

struct DriveReads {
  std::uint32_t blocks = 1;
  std::uint32_t threads = 256;  ///< of a block
  std::uint32_t reads = 1;      ///< by each block
  std::uint32_t read_bytes = 4096;
  std::uint64_t wait_ns = 5'000'000'000;      ///< for each command
  DevicePointer data;                         ///< what the queue was opened with
  std::uint64_t timeout_ns = 60'000'000'000;  ///< for the kernel as a whole
};

class DriveReader {
 public:
  /// `blocks_max` bounds what `run` may be asked for.
  [[nodiscard]] static Result<DriveReader> load(Session& session, std::uint32_t gpu,
                                                std::uint32_t blocks_max);
  struct State;
  explicit DriveReader(std::unique_ptr<State> state);
  DriveReader(DriveReader&&) noexcept;
  DriveReader& operator=(DriveReader&&) noexcept;
  ~DriveReader();

  /// Reads blocks * reads * read_bytes from the begin of the queue's part of the drive to the begin
  /// of its memory. Needs one token of the queue for each block. The sum over all blocks; an error:
  /// the kernel did not run to its end.
  [[nodiscard]] Result<core::ReadDriveResult> run(const DoorbellQueue& queue,
                                                  const DriveReads& wanted);

 private:
  std::unique_ptr<State> state_;
};

}  // namespace nobounce::async
