// The open files of a session: what providers need (OpenFile) and what the judge needs (facts), by
// id.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/facts.hpp"
#include "session/file_writes.hpp"
#include "system/open_files.hpp"

namespace nobounce::session {

struct FileEntry {
  system::OpenFile open;
  core::StorageFileFacts facts;
  std::uint64_t length_bytes = 0;
  std::int64_t modified_ns = 0;  ///< when it was opened, to notice a source that changes
  std::string temporary_path;    ///< its name while it is written; empty: its own
  bool written_in_place = false;
  bool writable = false;
  std::shared_ptr<FileWrites> writes;  ///< null: it is read
  std::uint64_t inode = 0;             ///< with the device that holds it; 0: not known
  std::uint64_t holder = 0;
};

/// Ids are small and reused after close; entries stay where they are while open. Thread-safe.
class FileTable : public system::OpenFiles {
 public:
  [[nodiscard]] const system::OpenFile* find(std::uint32_t id) const override;
  [[nodiscard]] const FileEntry* entry(std::uint32_t id) const;
  /// Takes the entry in and gives it its id.
  [[nodiscard]] std::uint32_t add(FileEntry entry);
  void remove(std::uint32_t id);
  /// Another number whenever an id may stand for another file.
  [[nodiscard]] std::uint64_t changes() const { return changes_.load(std::memory_order_acquire); }

 private:
  mutable std::mutex mutex_;
  std::map<std::uint32_t, std::unique_ptr<FileEntry>> entries_;
  std::atomic<std::uint64_t> changes_{0};
};

}  // namespace nobounce::session
