// File I/O on user data: open, read, write, sizes, atomic replacement, residency. The kernel's
// meaning, errors as values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nobounce/result.hpp>
#include <nobounce/units.hpp>

namespace nobounce::system {

/// An open file. A plain number (the descriptor); closed by Storage::close, owned by whoever opened
/// it.
struct FileHandle {
  int descriptor = -1;
  [[nodiscard]] bool valid() const { return descriptor >= 0; }
  bool operator==(const FileHandle&) const = default;
};

enum class FileAccess : std::uint8_t { read, write, read_write };

struct OpenOptions {
  FileAccess access = FileAccess::read;
  bool create = false;     ///< O_CREAT
  bool exclusive = false;  ///< O_EXCL
  bool truncate = false;   ///< O_TRUNC
  bool direct = false;     ///< O_DIRECT; EINVAL where the file system refuses it
  unsigned mode = 0666;    ///< with create, before the umask
};

enum class FileType : std::uint8_t {
  regular,
  directory,
  fifo,
  block_device,
  character_device,
  socket,
  other
};

struct FileStatus {
  FileType type = FileType::other;
  std::uint64_t size_bytes = 0;
  std::uint32_t mode = 0;  ///< permission bits
  std::uint32_t owner = 0;
  std::uint32_t group = 0;
  std::uint64_t link_count = 0;
  std::uint64_t inode = 0;
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  std::int64_t modified_ns = 0;                  ///< to notice a file that changed in mid-transfer
  std::uint32_t direct_io_memory_alignment = 0;  ///< statx DIOALIGN; 0: not supported or not known
  std::uint32_t direct_io_offset_alignment = 0;
};

/// A mapping shared between processes by name (mode 0600), for ledgers.
struct SharedSegment {
  std::string name;
  std::span<std::byte> bytes;
};

/// Thread-safe; blocking. Every call that fails answers origin os with errno and what was
/// attempted.
class Storage {
 public:
  virtual ~Storage() = default;
  /// Never blocks on a FIFO or a device: O_NONBLOCK for the open and cleared after it (read and
  /// write answer ESPIPE on a FIFO, so they do not block either). O_CLOEXEC always. Follows links;
  /// what was opened is for status() to say.
  [[nodiscard]] virtual Result<FileHandle> open(std::string_view path,
                                                const OpenOptions& options) = 0;
  virtual Status close(FileHandle file) = 0;
  [[nodiscard]] virtual Result<FileStatus> status(FileHandle file) = 0;
  [[nodiscard]] virtual Result<FileStatus> status_of(std::string_view path) = 0;  ///< follows links
  [[nodiscard]] virtual Result<std::string> real_path(std::string_view path) = 0;
  /// Whether the path itself is a symbolic link, also one that leads nowhere.
  [[nodiscard]] virtual bool is_symbolic_link(std::string_view path) = 0;

  /// pread/pwrite: may move fewer bytes than asked; read returns 0 only at the end of the file.
  /// EINTR is retried.
  [[nodiscard]] virtual Result<std::size_t> read(FileHandle file, std::byte* target,
                                                 std::size_t length_bytes, FileOffset offset) = 0;
  [[nodiscard]] virtual Result<std::size_t> write(FileHandle file, const std::byte* source,
                                                  std::size_t length_bytes, FileOffset offset) = 0;

  /// Reserves space (fallocate) without changing the size; EOPNOTSUPP where the file system cannot,
  /// ENOSPC if full.
  [[nodiscard]] virtual Status allocate(FileHandle file, std::uint64_t length_bytes) = 0;
  [[nodiscard]] virtual Status truncate(FileHandle file, std::uint64_t length_bytes) = 0;
  [[nodiscard]] virtual Status sync(FileHandle file) = 0;
  [[nodiscard]] virtual Status sync_directory(std::string_view path) = 0;
  [[nodiscard]] virtual Status rename(std::string_view source, std::string_view target) = 0;
  [[nodiscard]] virtual Status remove(std::string_view path) = 0;
  /// Copies mode, owner, group and extended attributes. Owner and attributes that may not be set
  /// are reported as error.
  [[nodiscard]] virtual Status copy_attributes(FileHandle source, FileHandle target) = 0;
  /// Bytes of the range that lie in the page cache (cachestat or mincore).
  [[nodiscard]] virtual Result<std::uint64_t> resident_bytes(FileHandle file, FileOffset offset,
                                                             std::uint64_t length_bytes) = 0;

  /// A file in memory with that content; its path (/proc/self/fd/N) is readable by libraries of
  /// this process.
  struct MemoryFile {
    FileHandle file;
    std::string path;
  };
  [[nodiscard]] virtual Result<MemoryFile> memory_file(std::string_view name,
                                                       std::string_view content) = 0;

  /// Named shared segments of this user. Creating one that exists is EEXIST.
  [[nodiscard]] virtual Result<SharedSegment> create_segment(std::string_view name,
                                                             std::size_t length_bytes) = 0;
  [[nodiscard]] virtual Result<SharedSegment> open_segment(
      std::string_view name) = 0;  ///< read-only
  virtual void unmap_segment(const SharedSegment& segment) = 0;
  virtual void remove_segment(std::string_view name) = 0;
  [[nodiscard]] virtual Result<std::vector<std::string>> list_segments(std::string_view prefix) = 0;
};

}  // namespace nobounce::system
