// How a staged operation is cut into pieces.
#include "provider/staged/job.hpp"

#include <algorithm>
#include <variant>

namespace nobounce::provider::staged {

namespace {

/// The offset that decides alignment: of the file that is read, else of the one written, else of
/// neither.
std::uint64_t grid_offset(const Job& job) {
  if (const auto* file = std::get_if<FileRange>(&job.operation.segment.source)) {
    return file->offset.value;
  }
  if (const auto* file = std::get_if<FileRange>(&job.operation.segment.target)) {
    return file->offset.value;
  }
  return 0;
}

}  // namespace

std::uint64_t skew_bytes(const Job& job, std::uint64_t offset_bytes) {
  return (grid_offset(job) + offset_bytes) % page_bytes;
}

std::uint64_t piece_length(const Job& job, std::uint64_t offset_bytes, std::uint64_t slot_bytes) {
  const std::uint64_t into_slot = (grid_offset(job) + offset_bytes) % slot_bytes;
  return std::min(slot_bytes - into_slot, job.length_bytes() - offset_bytes);
}

std::uint64_t piece_count(const Job& job, std::uint64_t slot_bytes) {
  if (job.length_bytes() == 0) return 0;
  const std::uint64_t first = piece_length(job, 0, slot_bytes);
  return 1 + (job.length_bytes() - first + slot_bytes - 1) / slot_bytes;
}

}  // namespace nobounce::provider::staged
