// File: an open file of a session. A file to be written appears whole or not at all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <nobounce/place.hpp>
#include <nobounce/result.hpp>

namespace nobounce {

namespace session {
struct FileState;
}

enum class FileMode : std::uint8_t {
  read,
  /// New files and regular single-link files are written under a temporary name in the same
  /// directory and renamed by commit(); mode, owner and extended attributes of the old file are
  /// kept. Anything else is written in place.
  replace,
  in_place,  ///< write into the file as it is; created if absent
};

/// What commit() does where no transfer wrote all of the length that a replaced file was opened
/// with.
enum class FileGaps : std::uint8_t {
  refused,  ///< an error: the file is not whole
  kept,     ///< what was not written stays as it is: zeros in a new file
};

struct FileOptions {
  FileMode mode = FileMode::read;
  std::uint64_t length_bytes =
      0;  ///< of a file to be written: space is allocated first (ENOSPC before any byte)
  FileGaps gaps = FileGaps::refused;
};

/// Move-only. A file opened for writing and never committed leaves the old file (or no file)
/// behind, unless it was written in place. Not for use after its Session. One thread commits, when
/// no other starts transfers to the file any more; the rest is safe from any thread.
class File {
 public:
  explicit File(std::unique_ptr<session::FileState> state);
  File(File&&) noexcept;
  File& operator=(File&&) noexcept;
  ~File();

  [[nodiscard]] const std::string& path() const;
  [[nodiscard]] std::uint64_t length_bytes() const;
  [[nodiscard]] bool written_in_place() const;
  /// The whole file, or a part of it.
  [[nodiscard]] Place place() const;
  [[nodiscard]] Place place(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;

  /// Syncs the data and renames the file into place; with `durable` syncs the directory too, after
  /// which the file survives a power cut under its name. For reading files: does nothing.
  /// Origin session, and nothing is renamed or synced: while a transfer to the file runs; after one
  /// that may have written a part of its bytes, until these were transferred again; and where
  /// FileOptions::gaps are refused and there are some. A replaced file that has been committed
  /// takes no further transfers.
  [[nodiscard]] Status commit(bool durable);

 private:
  std::unique_ptr<session::FileState> state_;
};

}  // namespace nobounce
