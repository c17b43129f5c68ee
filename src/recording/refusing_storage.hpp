// The storage of a recorded machine: it knows where recorded folders are, and opens nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "recording/recording.hpp"
#include "system/storage.hpp"

namespace nobounce::recording {

/// Cause evidence.recording_only.
[[nodiscard]] Error recording_only(std::string attempted);

class RefusingStorage final : public system::Storage {
 public:
  using FileHandle = system::FileHandle;
  explicit RefusingStorage(const Recording& recording) : recording_(recording) {}

  /// As recorded; a path in a recorded folder is not there.
  [[nodiscard]] Result<std::string> real_path(std::string_view path) override;
  [[nodiscard]] Result<system::FileStatus> status_of(std::string_view path) override;
  [[nodiscard]] bool is_symbolic_link(std::string_view) override { return false; }

  [[nodiscard]] Result<FileHandle> open(std::string_view path,
                                        const system::OpenOptions&) override {
    return recording_only("open " + std::string(path));
  }
  Status close(FileHandle) override { return recording_only("close a file"); }
  [[nodiscard]] Result<system::FileStatus> status(FileHandle) override {
    return recording_only("look at a file");
  }
  [[nodiscard]] Result<std::size_t> read(FileHandle, std::byte*, std::size_t, FileOffset) override {
    return recording_only("read a file");
  }
  [[nodiscard]] Result<std::size_t> write(FileHandle, const std::byte*, std::size_t,
                                          FileOffset) override {
    return recording_only("write a file");
  }
  [[nodiscard]] Status allocate(FileHandle, std::uint64_t) override {
    return recording_only("reserve space");
  }
  [[nodiscard]] Status truncate(FileHandle, std::uint64_t) override {
    return recording_only("truncate a file");
  }
  [[nodiscard]] Status sync(FileHandle) override { return recording_only("sync a file"); }
  [[nodiscard]] Status sync_directory(std::string_view path) override {
    return recording_only("sync " + std::string(path));
  }
  [[nodiscard]] Status rename(std::string_view source, std::string_view) override {
    return recording_only("rename " + std::string(source));
  }
  [[nodiscard]] Status remove(std::string_view path) override {
    return recording_only("remove " + std::string(path));
  }
  [[nodiscard]] Status copy_attributes(FileHandle, FileHandle) override {
    return recording_only("copy attributes");
  }
  [[nodiscard]] Result<std::uint64_t> resident_bytes(FileHandle, FileOffset,
                                                     std::uint64_t) override {
    return recording_only("ask the page cache");
  }
  [[nodiscard]] Result<MemoryFile> memory_file(std::string_view name, std::string_view) override {
    return recording_only("make a file of " + std::string(name));
  }
  [[nodiscard]] Result<system::SharedSegment> create_segment(std::string_view name,
                                                             std::size_t) override {
    return recording_only("share " + std::string(name));
  }
  [[nodiscard]] Result<system::SharedSegment> open_segment(std::string_view name) override {
    return recording_only("open " + std::string(name));
  }
  void unmap_segment(const system::SharedSegment&) override {}
  void remove_segment(std::string_view) override {}
  [[nodiscard]] Result<std::vector<std::string>> list_segments(std::string_view) override {
    return recording_only("list segments");
  }

 private:
  const Recording& recording_;
};

}  // namespace nobounce::recording
