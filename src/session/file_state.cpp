// Closing and committing files.
#include "session/file_state.hpp"

#include <utility>

#include "core/file_path.hpp"
#include "session/check.hpp"
#include "session/file_names.hpp"

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

Status FileState::commit(bool durable) {
  if (!writable || committed) return {};
  system::Storage& storage = session.host.storage();
  const system::FileHandle handle = session.files.find(id)->buffered;
  if (truncate_on_commit) {
    if (Status cut = storage.truncate(handle, length_bytes); !cut.ok()) return cut;
  }
  if (Status synced = storage.sync(handle); !synced.ok())
    return shown_as(synced.error(), temporary_path, final_path);
  if (!temporary_path.empty()) {
    if (Status renamed = storage.rename(temporary_path, final_path); !renamed.ok()) {
      Error error = renamed.error();
      error.attempted = "give the finished file its name " + final_path;
      return error;
    }
  }
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
