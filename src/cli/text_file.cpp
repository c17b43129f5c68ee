// Reads and replaces text files.
#include "cli/text_file.hpp"

#include <cerrno>
#include <cstddef>
#include <utility>

#include "core/function_ref.hpp"
#include "system/append.hpp"

namespace nobounce::cli {

namespace {

constexpr system::FileHandle standard_output{1};
constexpr system::FileHandle standard_error{2};

constexpr std::uint64_t text_bytes_max = 64u << 20;

/// Closes it, whatever happened before.
class OpenedFile {
 public:
  OpenedFile(system::Storage& storage, system::FileHandle handle)
      : storage_(storage), handle_(handle) {}
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;
  ~OpenedFile() {
    if (handle_.valid()) (void)storage_.close(handle_);
  }
  [[nodiscard]] system::FileHandle get() const { return handle_; }
  Status close() { return storage_.close(std::exchange(handle_, {})); }

 private:
  system::Storage& storage_;
  system::FileHandle handle_;
};

Status write_all(system::Storage& storage, system::FileHandle file, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const Result<std::size_t> wrote =
        storage.write(file, reinterpret_cast<const std::byte*>(text.data()) + done,
                      text.size() - done, FileOffset{done});
    if (!wrote.ok()) return wrote.error();
    if (*wrote == 0) return os_error(ENOSPC, "write a report");
    done += *wrote;
  }
  return storage.sync(file);
}

bool is_same(const system::FileStatus& one, const Result<system::FileStatus>& other) {
  return other.ok() && one.inode == other->inode && one.device_major == other->device_major &&
         one.device_minor == other->device_minor && one.type == other->type;
}

/// The caller's name of the file, not that of the temporary one.
Error write_error(Error error, const std::string& path) {
  error.attempted = "write " + path;
  if (error.code == ENOENT) {
    const std::size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
    error.remedy = "its directory does not exist: mkdir -p " + (folder.empty() ? "/" : folder);
  }
  return error;
}

std::string temporary_name(system::Host& host, const std::string& path) {
  return path + ".nobounce-" + std::to_string(host.process().id());
}

/// Writes a new file, and `then` with it once it is whole and closed. It is removed where either
/// fails.
Status write_new(system::Storage& storage, const std::string& name, const std::string& text,
                 unsigned mode, core::FunctionRef<Status()> then) {
  const Result<system::FileHandle> handle = storage.open(name, {.access = system::FileAccess::write,
                                                                .create = true,
                                                                .exclusive = true,
                                                                .truncate = false,
                                                                .direct = false,
                                                                .mode = mode});
  if (!handle.ok()) return handle.error();
  OpenedFile file(storage, *handle);
  Status status = write_all(storage, file.get(), text);
  if (Status closed = file.close(); status.ok()) status = closed;
  if (status.ok()) status = then();
  if (!status.ok()) (void)storage.remove(name);
  return status;
}

/// A file beside it of about a report's length, which is removed at once.
Status try_beside(system::Host& host, const std::string& path) {
  constexpr std::size_t trial_bytes = 128u << 10;
  system::Storage& storage = host.storage();
  const std::string temporary = temporary_name(host, path);
  const Status status =
      write_new(storage, temporary, std::string(trial_bytes, ' '), system::OpenOptions{}.mode,
                [&] { return storage.remove(temporary); });
  if (!status.ok()) return write_error(status.error(), path);
  return status;
}

Error not_writable(const std::string& path, std::string detail) {
  return Error{.origin = ErrorOrigin::input,
               .attempted = "write " + path,
               .detail = std::move(detail),
               .remedy = "name a regular file, or one that does not exist yet"};
}

constexpr const char* dangling_link = "it is a link that leads nowhere";

/// Why nothing is written to a file of that type; null where something is.
const char* refusal_of(system::FileType type) {
  switch (type) {
    case system::FileType::regular:
    case system::FileType::fifo:
    case system::FileType::character_device:
      return nullptr;
    case system::FileType::directory:
      return "it is a folder";
    case system::FileType::block_device:
      return "it is a drive, and what is on it would be lost";
    case system::FileType::socket:
    case system::FileType::other:
      break;
  }
  return "it exists and is no regular file";
}

/// Whole or not at all. `mode`: the permissions of the file that is replaced.
Status replace(system::Host& host, const std::string& path, const std::string& text,
               unsigned mode) {
  system::Storage& storage = host.storage();
  const std::string temporary = temporary_name(host, path);
  const Status status =
      write_new(storage, temporary, text, mode, [&] { return storage.rename(temporary, path); });
  if (!status.ok()) return write_error(status.error(), path);
  return status;
}

}  // namespace

Result<std::string> read_text_file(system::Host& host, const std::string& path) {
  system::Storage& storage = host.storage();
  const Result<system::FileHandle> handle = storage.open(path, {});
  if (!handle.ok()) return handle.error();
  const OpenedFile file(storage, *handle);
  const Result<system::FileStatus> status = storage.status(file.get());
  if (!status.ok()) return status.error();
  const auto refuse = [&](std::string detail) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "read " + path,
                 .detail = std::move(detail),
                 .remedy = "name a file that nobounce wrote"};
  };
  if (status->type != system::FileType::regular) return refuse("it is no regular file");
  if (status->size_bytes > text_bytes_max) return refuse("no report is longer than 64 MiB");
  std::string text(status->size_bytes, '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const Result<std::size_t> got =
        storage.read(file.get(), reinterpret_cast<std::byte*>(text.data()) + done,
                     text.size() - done, FileOffset{done});
    if (!got.ok()) return got.error();
    if (*got == 0) break;
    done += *got;
  }
  text.resize(done);
  return text;
}

Status try_text_file(system::Host& host, const std::string& path) {
  system::Storage& storage = host.storage();
  const Result<system::FileStatus> status = storage.status_of(path);
  if (!status.ok()) {
    if (status.error().code != ENOENT) return status.error();
    if (storage.is_symbolic_link(path)) return not_writable(path, dangling_link);
    return try_beside(host, path);
  }
  if (const char* refusal = refusal_of(status->type)) return not_writable(path, refusal);
  const bool stream = is_same(*status, storage.status(standard_output)) ||
                      is_same(*status, storage.status(standard_error));
  if (status->type != system::FileType::regular || stream) return {};
  const Result<std::string> target = storage.real_path(path);
  if (!target.ok()) return target.error();
  return try_beside(host, *target);
}

Status write_text_file(Console& console, system::Host& host, const std::string& path,
                       const std::string& text, WrittenFile* written) {
  WrittenFile unasked;
  WrittenFile& result = written == nullptr ? unasked : *written;
  system::Storage& storage = host.storage();
  const Result<system::FileStatus> status = storage.status_of(path);
  if (!status.ok()) {
    if (status.error().code != ENOENT) return status.error();
    if (storage.is_symbolic_link(path)) return not_writable(path, dangling_link);
    return replace(host, path, text, system::OpenOptions{}.mode);
  }
  if (is_same(*status, storage.status(standard_output))) {
    console.text(text);
    result.printed = true;
    return {};
  }
  if (const char* refusal = refusal_of(status->type)) return not_writable(path, refusal);
  if (status->type == system::FileType::regular &&
      !is_same(*status, storage.status(standard_error))) {
    const Result<std::string> target = storage.real_path(path);
    if (!target.ok()) return target.error();
    result.replaced_bytes = status->size_bytes;
    return replace(host, *target, text, status->mode);
  }
  console.flush();
  return system::append_to(path, text);
}

}  // namespace nobounce::cli
