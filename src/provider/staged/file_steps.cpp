// One read or one write between a file and a slot.
#include "provider/staged/file_steps.hpp"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <variant>

namespace nobounce::provider::staged {

namespace {

/// Below this a system call costs more than what O_DIRECT saves.
constexpr std::uint64_t direct_bytes_min = 64u << 10;

struct Span {
  std::uint64_t length_bytes = 0;
  bool direct = false;
};

/// The next stretch to move in one way: whole pages directly, what surrounds them through the page
/// cache.
Span next_span(const system::OpenFile& file, bool direct, const std::byte* address,
               FileOffset offset, std::uint64_t length_bytes) {
  if (!direct) return {length_bytes, false};
  const std::uint64_t unit = std::max<std::uint64_t>(file.direct_io_alignment, page_bytes);
  const std::uint64_t into_unit = offset.value % unit;
  if (into_unit != 0) return {std::min(unit - into_unit, length_bytes), false};
  const std::uint64_t whole = length_bytes - length_bytes % unit;
  // A buffer that is not congruent with the file cannot be used directly at all.
  if (reinterpret_cast<std::uintptr_t>(address) % unit != 0 || whole == 0) {
    return {length_bytes, false};
  }
  return {whole, true};
}

/// The file system refused O_DIRECT for this request although it had opened the file that way.
bool refuses_direct(const Error& error) {
  return error.origin == ErrorOrigin::os && error.code == EINVAL;
}

}  // namespace

bool prefers_direct_read(system::Storage& storage, const system::OpenFile& file, FileOffset offset,
                         std::uint64_t length_bytes) {
  if (!file.direct.valid() || length_bytes < direct_bytes_min) return false;
  const Result<std::uint64_t> resident =
      storage.resident_bytes(file.buffered, offset, length_bytes);
  return resident.ok() && *resident < length_bytes / 2;
}

bool prefers_direct_write(const system::OpenFile& file, std::uint64_t length_bytes) {
  return file.direct.valid() && length_bytes >= direct_bytes_min;
}

FileStep read_once(system::Storage& storage, Slot& slot) {
  const Job& job = *slot.piece.job;
  const system::OpenFile& file = *job.source_file;
  const FileOffset offset = std::get<FileRange>(job.operation.segment.source)
                                .offset.plus(slot.piece.offset_bytes + slot.filled_bytes);
  std::byte* address = slot.data() + slot.filled_bytes;
  const std::uint64_t left = slot.piece.length_bytes - slot.filled_bytes;
  const Span span = next_span(file, slot.read_direct, address, offset, left);
  Result<std::size_t> count =
      storage.read(span.direct ? file.direct : file.buffered, address, span.length_bytes, offset);
  if (!count.ok()) {
    if (span.direct && refuses_direct(count.error())) {
      slot.read_direct = false;
      return {};
    }
    return {true, std::move(count).error()};
  }
  slot.filled_bytes += *count;
  if (*count == 0) {
    slot.short_source = Error{.origin = ErrorOrigin::input,
                              .attempted = "read " + file.path,
                              .cause = Cause::file_shorter_than_expected,
                              .detail = "the file ends at byte " + std::to_string(offset.value)};
    slot.piece.length_bytes = slot.filled_bytes;
  }
  return {slot.filled_bytes == slot.piece.length_bytes, std::nullopt};
}

FileStep write_once(system::Storage& storage, Slot& slot) {
  const Job& job = *slot.piece.job;
  const system::OpenFile& file = *job.target_file;
  const FileOffset offset = std::get<FileRange>(job.operation.segment.target)
                                .offset.plus(slot.piece.offset_bytes + slot.drained_bytes);
  const std::byte* address = slot.data() + slot.drained_bytes;
  const std::uint64_t left = slot.piece.length_bytes - slot.drained_bytes;
  const Span span = next_span(file, slot.write_direct, address, offset, left);
  Result<std::size_t> count =
      storage.write(span.direct ? file.direct : file.buffered, address, span.length_bytes, offset);
  if (!count.ok()) {
    if (span.direct && refuses_direct(count.error())) {
      slot.write_direct = false;
      return {};
    }
    return {true, std::move(count).error()};
  }
  if (*count == 0) return {true, os_error(EIO, "write " + file.path + " (nothing was taken)")};
  slot.drained_bytes += *count;
  return {slot.drained_bytes == slot.piece.length_bytes, std::nullopt};
}

}  // namespace nobounce::provider::staged
