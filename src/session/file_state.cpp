// Closing and committing files.
#include "session/file_state.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/file_path.hpp"
#include "session/check.hpp"
#include "session/file_names.hpp"
#include "session/transfer_state.hpp"

namespace nobounce::session {

FileState::FileState(SessionState& owner, std::uint32_t file_id, std::string shown_path)
    : session(owner), id(file_id), path(std::move(shown_path)) {
  ++session.handles;
}

FileState::~FileState() {
  if (session.forked()) return;
  close();
  if (!temporary_path.empty() && !committed) (void)session.host.storage().remove(temporary_path);
  --session.handles;
}

void FileState::close() {
  if (closed) return;
  closed = true;
  {
    check(use_of(session, FileRange{id, FileOffset{0}, 0}) == Use::none,
          "a File was closed while a transfer or kernels used it");
  }
  for (core::Provider* provider : session.providers.all()) provider->forget_file(id);
  const system::OpenFile open = *session.files.find(id);
  session.files.remove(id);
  if (open.direct.valid()) (void)session.host.storage().close(open.direct);
  if (open.buffered.valid()) (void)session.host.storage().close(open.buffered);
}

bool changed_since_opening(const SessionState& state, std::uint32_t file) {
  const FileEntry* entry = state.files.entry(file);
  const Result<system::FileStatus> now = state.host.storage().status(entry->open.buffered);
  return now.ok() &&
         (now->modified_ns != entry->modified_ns || now->size_bytes != entry->length_bytes);
}

namespace {

std::string text_of(FileSpan span) {
  return std::to_string(span.end - span.begin) + " bytes at offset " + std::to_string(span.begin);
}

/// Transfers that write to it and have not ended, also those that nobody waits for any more.
bool is_being_written(SessionState& session, std::uint32_t file) {
  const std::scoped_lock lock(session.dispatcher->mutex());
  return std::any_of(session.running.begin(), session.running.end(),
                     [file](const TransferState_* transfer) {
                       const auto* range = std::get_if<FileRange>(&transfer->target);
                       return range != nullptr && range->file == file;
                     }) ||
         session.given_up.writes(FileRange{file, FileOffset{0}, 0});
}

}  // namespace

Status FileState::check_written() const {
  Error error{.origin = ErrorOrigin::session, .attempted = "commit " + path};
  if (is_being_written(session, id)) {
    error.detail = "a transfer to it has not ended";
    error.remedy = "wait for its end, or drop the File: nothing takes its name then";
    return error;
  }
  const std::string otherwise = in_place ? ""
                                         : std::string("; or drop the File: what has the name ") +
                                               final_path + " stays as it is";
  const FileWrites& writes = *session.files.entry(id)->writes;
  if (const auto left = writes.unfinished()) {
    error.cause = left->cause;
    error.detail = "a transfer of " + text_of(left->span) + " ended " +
                   std::string(to_string(left->state)) + ", and may have written a part of them";
    error.remedy = "transfer these bytes again" + otherwise;
    return error;
  }
  if (!replaces || committed || gaps == FileGaps::kept) return {};
  if (const auto gap = writes.gap(length_bytes)) {
    error.detail = "no transfer has written " + text_of(*gap) + ", and it was opened for " +
                   std::to_string(length_bytes);
    error.remedy = "transfer these bytes, or open it with FileGaps::kept" + otherwise;
    return error;
  }
  return {};
}

Status FileState::commit(bool durable) {
  if (!writable) return {};
  if (Status written = check_written(); !written.ok()) return written;
  system::Storage& storage = session.host.storage();
  const FileEntry& entry = *session.files.entry(id);
  const system::FileHandle handle = entry.open.buffered;
  if (replaces && in_place && !committed) {
    if (Status cut = storage.truncate(handle, length_bytes); !cut.ok()) return cut;
  }
  if (Status synced = storage.sync(handle); !synced.ok())
    return shown_as(synced.error(), temporary_path, final_path);
  if (!temporary_path.empty() && !committed) {
    if (Status renamed = storage.rename(temporary_path, final_path); !renamed.ok()) {
      Error error = renamed.error();
      error.attempted = "give the finished file its name " + final_path;
      return error;
    }
  }
  if (replaces) entry.writes->publish();
  committed = true;
  if (durable) return storage.sync_directory(core::directory_of(final_path));
  return {};
}

}  // namespace nobounce::session

namespace nobounce {

File::File(std::unique_ptr<session::FileState> state) : state_(std::move(state)) {}
File::File(File&&) noexcept = default;
File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    const File ended(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}
File::~File() {
  if (state_ == nullptr) return;
  if (state_->session.forked()) {
    (void)state_.release();
    return;
  }
  const Place whole = FileRange{state_->id, FileOffset{0}, 0};
  session::drop(std::move(state_), whole, "a File was closed while a transfer or kernels used it");
}

const std::string& File::path() const {
  return state_->path;
}
std::uint64_t File::length_bytes() const {
  return state_->length_bytes;
}
bool File::written_in_place() const {
  return state_->in_place;
}
Place File::place() const {
  return FileRange{state_->id, FileOffset{0}, state_->length_bytes};
}
Place File::place(std::uint64_t offset_bytes, std::uint64_t length) const {
  return part_of(place(), offset_bytes, length);
}

Status File::commit(bool durable) {
  if (state_->session.forked()) return session::forked_error("commit " + state_->path);
  return state_->commit(durable);
}

}  // namespace nobounce
