// A staged operation in flight, and the pieces it is cut into.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "core/provider.hpp"
#include "system/open_files.hpp"

namespace nobounce::provider::staged {

/// One operation. The first part never changes once it is queued; the second belongs to the queue.
struct Job {
  core::Operation operation;
  const system::OpenFile* source_file = nullptr;  ///< where the source is a file
  const system::OpenFile* target_file = nullptr;

  std::uint64_t next_bytes = 0;     ///< first byte not yet handed out
  std::uint64_t arrived_bytes = 0;  ///< in the target
  std::uint32_t outstanding = 0;    ///< pieces handed out and not finished
  std::uint32_t outstanding_most = 0;
  bool stopped = false;  ///< no new pieces: cancelled, late or failed
  std::optional<Error> error;

  [[nodiscard]] std::uint64_t length_bytes() const { return operation.segment.length_bytes; }
};

/// A part of a job that goes through one slot. Offsets count from the start of the job's segment.
struct Piece {
  std::shared_ptr<Job> job;
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
};

/// Where a piece lies in its slot: at the file offset modulo the page, so that O_DIRECT can be used
/// for whole pages.
[[nodiscard]] std::uint64_t skew_bytes(const Job& job, std::uint64_t offset_bytes);

/// The length of the piece that starts at `offset_bytes`: up to the next multiple of the slot in
/// the file, so that all but the first and last start on page boundaries. Always at least 1 while
/// bytes are left.
[[nodiscard]] std::uint64_t piece_length(const Job& job, std::uint64_t offset_bytes,
                                         std::uint64_t slot_bytes);

/// How many pieces a job is cut into.
[[nodiscard]] std::uint64_t piece_count(const Job& job, std::uint64_t slot_bytes);

inline constexpr std::uint64_t page_bytes = 4096;

}  // namespace nobounce::provider::staged
