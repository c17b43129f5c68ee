// Reads and replaces text files.
#include "cli/text_file.hpp"

#include <cerrno>
#include <cstddef>
#include <utility>

namespace nobounce::cli {

namespace {

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

Status write_text_file(system::Host& host, const std::string& path, const std::string& text) {
  system::Storage& storage = host.storage();
  const std::string temporary = path + ".nobounce-" + std::to_string(host.process().id());
  const Result<system::FileHandle> handle =
      storage.open(temporary, {.access = system::FileAccess::write,
                               .create = true,
                               .exclusive = true,
                               .truncate = false,
                               .direct = false});
  if (!handle.ok()) return handle.error();
  OpenedFile file(storage, *handle);
  Status status = write_all(storage, file.get(), text);
  if (Status closed = file.close(); status.ok()) status = closed;
  if (status.ok()) status = storage.rename(temporary, path);
  if (!status.ok()) (void)storage.remove(temporary);
  return status;
}

}  // namespace nobounce::cli
