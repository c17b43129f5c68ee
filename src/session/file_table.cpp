// Open files by id.
#include "session/file_table.hpp"

namespace nobounce::session {

const FileEntry* FileTable::entry(std::uint32_t id) const {
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : found->second.get();
}

const system::OpenFile* FileTable::find(std::uint32_t id) const {
  const FileEntry* found = entry(id);
  return found == nullptr ? nullptr : &found->open;
}

std::uint32_t FileTable::add(FileEntry entry) {
  const std::scoped_lock lock(mutex_);
  std::uint32_t id = 0;
  for (const auto& [used, ignored] : entries_) {
    if (used != id) break;
    ++id;
  }
  entry.open.id = id;
  entries_.emplace(id, std::make_unique<FileEntry>(std::move(entry)));
  return id;
}

void FileTable::remove(std::uint32_t id) {
  const std::scoped_lock lock(mutex_);
  entries_.erase(id);
  changes_.fetch_add(1, std::memory_order_release);
}

}  // namespace nobounce::session
