// Checksums of places, for verification outside any receipt.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <xxhash.h>

#include "session/file_names.hpp"
#include "session/probe_buffer.hpp"
#include "session/transfer_state.hpp"

namespace nobounce {

using session::SessionState;

namespace {

constexpr std::uint64_t buffer_bytes = 8u << 20;

/// Streams XXH3 (128 bit) and owns its state.
class Digest {
 public:
  Digest() : state_(XXH3_createState()) { XXH3_128bits_reset(state_); }
  ~Digest() { XXH3_freeState(state_); }
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;
  void add(const std::byte* bytes, std::uint64_t length) {
    XXH3_128bits_update(state_, bytes, length);
  }
  [[nodiscard]] std::string text() const {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_));
    std::string digits;
    for (const unsigned char byte : canonical.digest) {
      digits += "0123456789abcdef"[byte >> 4];
      digits += "0123456789abcdef"[byte & 15u];
    }
    return digits;
  }

 private:
  XXH3_state_t* state_;
};

Error ended_early(const std::string& path, std::uint64_t at) {
  return Error{.origin = ErrorOrigin::input,
               .attempted = "read " + path + " for verification",
               .cause = Cause::file_shorter_than_expected,
               .detail = "it ends after " + std::to_string(at) + " bytes"};
}

/// Reads around the page cache where the file system allows, so that verification does not warm it.
Status digest_file(SessionState& state, const FileRange& range, std::byte* buffer, Digest& digest) {
  const session::FileEntry* file = state.files.entry(range.file);
  if (file == nullptr) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "read a file for verification",
                 .detail = "it is not open"};
  }
  const bool direct = file->open.direct.valid() &&
                      range.offset.value % file->open.direct_io_alignment == 0 &&
                      buffer_bytes % file->open.direct_io_alignment == 0;
  std::uint64_t done = 0;
  while (done < range.length_bytes) {
    const std::uint64_t wanted = std::min(buffer_bytes, range.length_bytes - done);
    const FileOffset offset = range.offset.plus(done);
    // Past a short direct read the offset may be unaligned: the rest of the file goes through the
    // page cache.
    const bool aligned = direct && offset.value % file->open.direct_io_alignment == 0;
    Result<std::size_t> got =
        state.host.storage().read(aligned ? file->open.direct : file->open.buffered, buffer,
                                  aligned ? buffer_bytes : wanted, offset);
    if (!got.ok()) return got.error();
    if (*got == 0) return ended_early(file->open.path, offset.value);
    const std::uint64_t used = std::min<std::uint64_t>(*got, wanted);
    digest.add(buffer, used);
    done += used;
  }
  return {};
}

/// GPU memory and raw drives, piece by piece through host memory.
Status digest_piecewise(SessionState& state, const Place& place,
                        const std::shared_ptr<session::OwnBuffer>& buffer, Digest& digest) {
  const bool drive = std::holds_alternative<BlockRange>(place);
  const std::uint64_t total = length_bytes(place);
  for (std::uint64_t done = 0; done < total;) {
    const std::uint64_t length = std::min(buffer_bytes, total - done);
    const core::Completion ended = session::run_operation(
        state,
        Segment{.offset_bytes = 0,
                .length_bytes = length,
                .source = part_of(place, done, length),
                .target = HostMemory{buffer->data(), length},
                .provider = drive ? ProviderKind::nvme : ProviderKind::staged,
                .expected = drive ? Carriage::direct : Carriage::staged},
        buffer);
    if (ended.error.has_value()) return *ended.error;
    digest.add(buffer->data(), length);
    done += length;
  }
  return {};
}

}  // namespace

Result<std::string> Session::checksum(const Place& place) {
  if (state_->forked()) return session::forked_error("checksum a place");
  Digest digest;
  if (const auto* host = std::get_if<HostMemory>(&place)) {
    digest.add(host->address, host->length_bytes);
    return digest.text();
  }
  Result<std::shared_ptr<session::OwnBuffer>> buffer =
      session::OwnBuffer::plain(state_->host, buffer_bytes);
  if (!buffer.ok()) return std::move(buffer).error();
  Status read;
  if (const auto* range = std::get_if<FileRange>(&place)) {
    read = digest_file(*state_, *range, (*buffer)->data(), digest);
  } else if (std::holds_alternative<GpuMemory>(place) ||
             std::holds_alternative<RemoteMemory>(place) ||
             std::holds_alternative<BlockRange>(place)) {
    read = digest_piecewise(*state_, place, *buffer, digest);
  } else {
    read = Error{.origin = ErrorOrigin::input,
                 .attempted = "checksum a place",
                 .detail = "not a place of this session"};
  }
  if (read.ok()) return digest.text();
  const auto* range = std::get_if<FileRange>(&place);
  const session::FileEntry* file = range == nullptr ? nullptr : state_->files.entry(range->file);
  if (file == nullptr) return read.error();
  return session::shown_as(read.error(), file->temporary_path, file->open.path);
}

}  // namespace nobounce
