// Opening files: what may be read, and how a file to be written will appear.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "preconditions/read_facts.hpp"
#include "session/file_names.hpp"
#include "session/file_state.hpp"

namespace nobounce {

using session::FileEntry;
using session::FileState;
using session::SessionState;

namespace {

constexpr std::size_t name_max = 255;
constexpr int errno_not_found = 2;       // ENOENT
constexpr int errno_file_exists = 17;    // EEXIST
constexpr int errno_not_supported = 95;  // EOPNOTSUPP
constexpr unsigned private_mode = 0600;

Error wrong_type(std::string_view path, system::FileType type, std::string_view verb) {
  std::string_view what = "not a regular file";
  switch (type) {
    case system::FileType::directory:
      what = "it is a directory";
      break;
    case system::FileType::fifo:
      what = "it is a FIFO";
      break;
    case system::FileType::block_device:
      what = "it is a block device";
      break;
    case system::FileType::character_device:
      what = "it is a character device";
      break;
    case system::FileType::socket:
      what = "it is a socket";
      break;
    case system::FileType::regular:
    case system::FileType::other:
      break;
  }
  return Error{.origin = ErrorOrigin::input,
               .attempted = "open " + std::string(path) + " for " + std::string(verb),
               .cause = Cause::storage_not_a_regular_file,
               .detail = std::string(what),
               .remedy = "name a regular file"};
}

/// Closes what was opened and removes the temporary file unless told to keep them.
class OpenGuard {
 public:
  explicit OpenGuard(system::Storage& storage) : storage_(storage) {}
  ~OpenGuard() {
    if (kept_) return;
    for (const system::FileHandle handle : {buffered, direct}) {
      if (handle.valid()) (void)storage_.close(handle);
    }
    for (const std::string& made : {temporary, created}) {
      if (!made.empty()) (void)storage_.remove(made);
    }
  }
  OpenGuard(const OpenGuard&) = delete;
  OpenGuard& operator=(const OpenGuard&) = delete;
  void keep() { kept_ = true; }
  /// Gives up the temporary file and starts over.
  void reset() {
    if (buffered.valid()) (void)storage_.close(buffered);
    buffered = {};
    if (!temporary.empty()) (void)storage_.remove(temporary);
    temporary.clear();
  }

  system::FileHandle buffered;
  system::FileHandle direct;
  std::string temporary;
  std::string created;  ///< in place, and not there before

 private:
  system::Storage& storage_;
  bool kept_ = false;
};

std::string temporary_name(SessionState& state, const std::string& final_path) {
  std::byte random[6];
  state.host.entropy().fill(random);
  std::string suffix = ".nobounce-";
  for (const std::byte byte : random) {
    suffix += "0123456789abcdef"[std::to_integer<unsigned>(byte) >> 4];
    suffix += "0123456789abcdef"[std::to_integer<unsigned>(byte) & 15u];
  }
  const std::size_t slash = final_path.rfind('/');
  const std::string directory = slash == std::string::npos ? "" : final_path.substr(0, slash + 1);
  std::string base = slash == std::string::npos ? final_path : final_path.substr(slash + 1);
  if (base.size() + suffix.size() + 1 > name_max) base.resize(name_max - suffix.size() - 1);
  return directory + "." + base + suffix;
}

/// Files of /proc report no size and have content all the same: nothing would be copied, with
/// success.
Status check_size(system::Storage& storage, std::string_view path, system::FileHandle file,
                  std::uint64_t size) {
  if (size != 0) return {};
  std::byte first;
  const Result<std::size_t> got = storage.read(file, &first, 1, FileOffset{0});
  if (!got.ok() || *got == 0) return {};
  return Error{.origin = ErrorOrigin::input,
               .attempted = "open " + std::string(path) + " for reading",
               .cause = Cause::storage_not_a_regular_file,
               .detail = "it reports a size of 0 but has content, as files of the kernel do",
               .remedy = "copy it to an ordinary file first: cat " + std::string(path) + " > FILE"};
}

/// Space first, so that a full disk is known before a byte moves; then the size.
Status reserve(system::Storage& storage, system::FileHandle file, std::uint64_t length_bytes,
               bool set_size) {
  if (length_bytes > 0) {
    if (Status allocated = storage.allocate(file, length_bytes);
        !allocated.ok() && allocated.error().code != errno_not_supported) {
      return allocated;
    }
  }
  return set_size ? storage.truncate(file, length_bytes) : Status{};
}

/// Where a file to be written will really be: the target of a symbolic link, the path itself if
/// nothing is there yet.
Result<std::string> final_path_of(system::Storage& storage, std::string_view path) {
  Result<std::string> real = storage.real_path(path);
  if (real.ok()) return real;
  if (real.error().code != errno_not_found) return real;
  if (storage.is_symbolic_link(path)) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "open " + std::string(path) + " for writing",
                 .detail = "it is a symbolic link that leads nowhere",
                 .remedy = "remove the link, or make what it leads to"};
  }
  return std::string(path);
}

struct Opened {
  system::FileHandle buffered;
  std::string temporary;
  bool in_place = false;
};

/// Opens for writing: under a temporary name where that keeps everything the old file had, else in
/// place.
Status open_for_writing(SessionState& state, const std::string& final_path,
                        const FileOptions& options, OpenGuard& guard, bool& in_place) {
  system::Storage& storage = state.host.storage();
  Result<system::FileStatus> old = storage.status_of(final_path);
  if (!old.ok() && old.error().code != errno_not_found) return old.error();
  if (old.ok() && old->type != system::FileType::regular)
    return wrong_type(final_path, old->type, "writing");
  in_place = options.mode == FileMode::in_place || (old.ok() && old->link_count != 1);
  if (!in_place) {
    guard.temporary = temporary_name(state, final_path);
    Result<system::FileHandle> made =
        storage.open(guard.temporary, {.access = system::FileAccess::read_write,
                                       .create = true,
                                       .exclusive = true,
                                       .mode = old.ok() ? private_mode : 0666u});
    if (!made.ok()) {
      const std::string temporary = std::exchange(guard.temporary, {});
      return session::missing_directory(
          storage, session::shown_as(std::move(made).error(), temporary, final_path), final_path);
    }
    guard.buffered = *made;
    if (old.ok()) {
      Result<system::FileHandle> original =
          storage.open(final_path, {.access = system::FileAccess::read});
      const Status copied = original.ok() ? storage.copy_attributes(*original, guard.buffered)
                                          : Status(original.error());
      if (original.ok()) (void)storage.close(*original);
      if (!copied.ok()) {  // a replacement would lose its owner or attributes
        guard.reset();
        in_place = true;
      }
    }
  }
  if (in_place) {
    const bool is_new = !old.ok();
    Result<system::FileHandle> opened = storage.open(
        final_path,
        {.access = system::FileAccess::read_write, .create = true, .exclusive = is_new});
    if (opened.ok() && is_new) {
      guard.created = final_path;
    } else if (is_new && opened.error().code == errno_file_exists) {  // somebody was faster
      opened = storage.open(final_path, {.access = system::FileAccess::read_write});
    }
    if (!opened.ok())
      return session::missing_directory(storage, std::move(opened).error(), final_path);
    guard.buffered = *opened;
  }
  const Status reserved = reserve(storage, guard.buffered, options.length_bytes, !in_place);
  if (reserved.ok()) return {};
  return session::shown_as(reserved.error(), guard.temporary, final_path);
}

}  // namespace

Result<File> Session::open_file(std::string_view path, const FileOptions& options) {
  if (state_->forked()) return session::forked_error("open " + std::string(path));
  system::Storage& storage = state_->host.storage();
  const bool writing = options.mode != FileMode::read;
  OpenGuard guard(storage);
  FileEntry entry;
  std::string final_path(path);
  if (writing) {
    Result<std::string> real = final_path_of(storage, path);
    if (!real.ok()) return std::move(real).error();
    final_path = *real;
    if (Status opened =
            open_for_writing(*state_, final_path, options, guard, entry.written_in_place);
        !opened.ok()) {
      return opened.error();
    }
    entry.length_bytes = options.length_bytes;
  } else {
    Result<system::FileHandle> opened = storage.open(path, {.access = system::FileAccess::read});
    if (!opened.ok()) return std::move(opened).error();
    guard.buffered = *opened;
    Result<system::FileStatus> status = storage.status(*opened);
    if (!status.ok()) return std::move(status).error();
    if (status->type != system::FileType::regular) return wrong_type(path, status->type, "reading");
    entry.length_bytes = status->size_bytes;
    entry.modified_ns = status->modified_ns;
    if (Status sized = check_size(storage, path, *opened, status->size_bytes); !sized.ok())
      return sized.error();
  }
  const std::string& opened_path = guard.temporary.empty() ? final_path : guard.temporary;
  Result<system::FileHandle> direct = storage.open(
      opened_path, {.access = writing ? system::FileAccess::read_write : system::FileAccess::read,
                    .direct = true});
  if (direct.ok()) guard.direct = *direct;
  Result<core::StorageFileFacts> facts =
      preconditions::read_file_facts(state_->host, state_->machine, opened_path);
  if (!facts.ok()) return session::shown_as(std::move(facts).error(), guard.temporary, final_path);
  entry.facts = std::move(*facts);
  entry.writable = writing;
  entry.temporary_path = guard.temporary;
  entry.open.path = std::string(path);
  entry.open.buffered = guard.buffered;
  entry.open.direct = guard.direct;
  entry.open.access = writing ? system::FileAccess::read_write : system::FileAccess::read;
  Result<system::FileStatus> status =
      storage.status(guard.direct.valid() ? guard.direct : guard.buffered);
  if (status.ok() && status->direct_io_offset_alignment != 0) {
    entry.open.direct_io_alignment =
        std::max({status->direct_io_offset_alignment, status->direct_io_memory_alignment, 512u});
  }
  if (status.ok()) {
    entry.inode = status->inode;
    entry.holder = std::uint64_t{status->device_major} << 32 | status->device_minor;
  }
  if (writing) entry.writes = std::make_shared<session::FileWrites>();
  const bool in_place = entry.written_in_place;
  const std::uint64_t length = entry.length_bytes;
  const std::uint32_t id = state_->files.add(std::move(entry));
  auto file = std::make_unique<FileState>(*state_, id, std::string(path));
  file->final_path = final_path;
  file->temporary_path = guard.temporary;
  file->writable = writing;
  file->in_place = in_place;
  file->replaces = options.mode == FileMode::replace;
  file->gaps = options.gaps;
  file->length_bytes = length;
  guard.keep();
  return File(std::move(file));
}

}  // namespace nobounce
