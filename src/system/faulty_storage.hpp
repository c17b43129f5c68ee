// The storage of a FaultyHost: every call that can fail, failed when its turn has come.
#pragma once

#include "system/fault_counter.hpp"
#include "system/storage.hpp"

namespace nobounce::system {

class FaultyStorage final : public Storage {
 public:
  FaultyStorage(FaultCounter& counter, Storage& inner) : counter_(counter), inner_(inner) {}

  Result<FileHandle> open(std::string_view path, const OpenOptions& options) override {
    if (counter_.fails("storage.open")) return counter_.error("storage.open");
    return inner_.open(path, options);
  }
  Status close(FileHandle file) override { return inner_.close(file); }
  Result<FileStatus> status(FileHandle file) override {
    if (counter_.fails("storage.status")) return counter_.error("storage.status");
    return inner_.status(file);
  }
  Result<FileStatus> status_of(std::string_view path) override {
    if (counter_.fails("storage.status_of")) return counter_.error("storage.status_of");
    return inner_.status_of(path);
  }
  bool is_symbolic_link(std::string_view path) override { return inner_.is_symbolic_link(path); }
  Result<std::string> real_path(std::string_view path) override {
    if (counter_.fails("storage.real_path")) return counter_.error("storage.real_path");
    return inner_.real_path(path);
  }
  Result<std::size_t> read(FileHandle file, std::byte* target, std::size_t length_bytes,
                           FileOffset offset) override {
    if (counter_.fails("storage.read")) return counter_.error("storage.read");
    return inner_.read(file, target, length_bytes, offset);
  }
  Result<std::size_t> write(FileHandle file, const std::byte* source, std::size_t length_bytes,
                            FileOffset offset) override {
    if (counter_.fails("storage.write")) return counter_.error("storage.write");
    return inner_.write(file, source, length_bytes, offset);
  }
  Status allocate(FileHandle file, std::uint64_t length_bytes) override {
    if (counter_.fails("storage.allocate")) return counter_.error("storage.allocate");
    return inner_.allocate(file, length_bytes);
  }
  Status truncate(FileHandle file, std::uint64_t length_bytes) override {
    if (counter_.fails("storage.truncate")) return counter_.error("storage.truncate");
    return inner_.truncate(file, length_bytes);
  }
  Status sync(FileHandle file) override {
    if (counter_.fails("storage.sync")) return counter_.error("storage.sync");
    return inner_.sync(file);
  }
  Status sync_directory(std::string_view path) override {
    if (counter_.fails("storage.sync_directory")) return counter_.error("storage.sync_directory");
    return inner_.sync_directory(path);
  }
  Status rename(std::string_view source, std::string_view target) override {
    if (counter_.fails("storage.rename")) return counter_.error("storage.rename");
    return inner_.rename(source, target);
  }
  Status remove(std::string_view path) override {
    if (counter_.fails("storage.remove")) return counter_.error("storage.remove");
    return inner_.remove(path);
  }
  Status copy_attributes(FileHandle source, FileHandle target) override {
    if (counter_.fails("storage.copy_attributes")) return counter_.error("storage.copy_attributes");
    return inner_.copy_attributes(source, target);
  }
  Result<std::uint64_t> resident_bytes(FileHandle file, FileOffset offset,
                                       std::uint64_t length_bytes) override {
    if (counter_.fails("storage.resident_bytes")) return counter_.error("storage.resident_bytes");
    return inner_.resident_bytes(file, offset, length_bytes);
  }
  Result<MemoryFile> memory_file(std::string_view name, std::string_view content) override {
    if (counter_.fails("storage.memory_file")) return counter_.error("storage.memory_file");
    return inner_.memory_file(name, content);
  }
  Result<SharedSegment> create_segment(std::string_view name, std::size_t length_bytes) override {
    if (counter_.fails("storage.create_segment")) return counter_.error("storage.create_segment");
    return inner_.create_segment(name, length_bytes);
  }
  Result<SharedSegment> open_segment(std::string_view name) override {
    if (counter_.fails("storage.open_segment")) return counter_.error("storage.open_segment");
    return inner_.open_segment(name);
  }
  void unmap_segment(const SharedSegment& segment) override { inner_.unmap_segment(segment); }
  void remove_segment(std::string_view name) override { inner_.remove_segment(name); }
  Result<std::vector<std::string>> list_segments(std::string_view prefix) override {
    if (counter_.fails("storage.list_segments")) return counter_.error("storage.list_segments");
    return inner_.list_segments(prefix);
  }

 private:
  FaultCounter& counter_;
  Storage& inner_;
};

}  // namespace nobounce::system
