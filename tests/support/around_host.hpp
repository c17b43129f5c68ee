// Hosts and tables that pass everything on to others, for tests that change one thing.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "system/host.hpp"

namespace nobounce::support {

/// A Host that is another one, but for the parts a test replaces.
class AroundHost : public system::Host {
 public:
  explicit AroundHost(system::Host& inner) : inner_(inner) {}

  system::Cuda* cuda_table = nullptr;       ///< null: the inner one
  system::Cufile* cufile_table = nullptr;   ///< null: the inner one
  system::Verbs* verbs_table = nullptr;     ///< null: the inner one
  system::Memory* memory_part = nullptr;    ///< null: the inner one
  system::Workers* workers_part = nullptr;  ///< null: the inner one
  system::Storage* storage_part = nullptr;  ///< null: the inner one

  HostKind kind() const override { return inner_.kind(); }
  std::string_view name() const override { return inner_.name(); }
  Result<system::Cuda*> cuda() override {
    if (cuda_table != nullptr) return cuda_table;
    return inner_.cuda();
  }
  Result<system::Nvml*> nvml() override { return inner_.nvml(); }
  Result<system::Cufile*> cufile() override {
    if (cufile_table != nullptr) return cufile_table;
    return inner_.cufile();
  }
  Result<system::Pci*> pci() override { return inner_.pci(); }
  Result<system::Verbs*> verbs() override {
    if (verbs_table != nullptr) return verbs_table;
    return inner_.verbs();
  }
  Result<system::Network*> network() override { return inner_.network(); }
  system::Files& files() override { return inner_.files(); }
  system::Storage& storage() override {
    return storage_part != nullptr ? *storage_part : inner_.storage();
  }
  system::Memory& memory() override {
    return memory_part != nullptr ? *memory_part : inner_.memory();
  }
  system::Workers& workers() override {
    return workers_part != nullptr ? *workers_part : inner_.workers();
  }
  system::Counters& counters() override { return inner_.counters(); }
  system::Environment& environment() override { return inner_.environment(); }
  system::Process& process() override { return inner_.process(); }
  system::Clock& clock() override { return inner_.clock(); }
  system::Entropy& entropy() override { return inner_.entropy(); }

 private:
  system::Host& inner_;
};

/// The CUDA table of another host, to be overridden where a test wants something else.
class AroundCuda : public system::Cuda {
 public:
  explicit AroundCuda(system::Cuda& inner) : inner_(inner) {}
#define NOBOUNCE_CUDA(method, symbol, parameters, arguments) \
  CUresult method parameters override {                      \
    return inner_.method arguments;                          \
  }
#include "system/cuda_functions.inc"
#undef NOBOUNCE_CUDA

 private:
  system::Cuda& inner_;
};

/// The cuFile table of another host.
class AroundCufile : public system::Cufile {
 public:
  explicit AroundCufile(system::Cufile& inner) : inner_(inner) {}
#define NOBOUNCE_CUFILE(type, method, symbol, parameters, arguments) \
  type method parameters override {                                  \
    return inner_.method arguments;                                  \
  }
#include "system/cufile_functions.inc"
#undef NOBOUNCE_CUFILE

 private:
  system::Cufile& inner_;
};

/// The files of another host.
class AroundStorage : public system::Storage {
 public:
  explicit AroundStorage(system::Storage& inner) : inner_(inner) {}
  Result<system::FileHandle> open(std::string_view path,
                                  const system::OpenOptions& options) override {
    return inner_.open(path, options);
  }
  Status close(system::FileHandle file) override { return inner_.close(file); }
  Result<system::FileStatus> status(system::FileHandle file) override {
    return inner_.status(file);
  }
  Result<system::FileStatus> status_of(std::string_view path) override {
    return inner_.status_of(path);
  }
  Result<std::string> real_path(std::string_view path) override { return inner_.real_path(path); }
  bool is_symbolic_link(std::string_view path) override { return inner_.is_symbolic_link(path); }
  Result<std::size_t> read(system::FileHandle file, std::byte* target, std::size_t length_bytes,
                           FileOffset offset) override {
    return inner_.read(file, target, length_bytes, offset);
  }
  Result<std::size_t> write(system::FileHandle file, const std::byte* source,
                            std::size_t length_bytes, FileOffset offset) override {
    return inner_.write(file, source, length_bytes, offset);
  }
  Status allocate(system::FileHandle file, std::uint64_t length_bytes) override {
    return inner_.allocate(file, length_bytes);
  }
  Status truncate(system::FileHandle file, std::uint64_t length_bytes) override {
    return inner_.truncate(file, length_bytes);
  }
  Status sync(system::FileHandle file) override { return inner_.sync(file); }
  Status sync_directory(std::string_view path) override { return inner_.sync_directory(path); }
  Status rename(std::string_view source, std::string_view target) override {
    return inner_.rename(source, target);
  }
  Status remove(std::string_view path) override { return inner_.remove(path); }
  Status copy_attributes(system::FileHandle source, system::FileHandle target) override {
    return inner_.copy_attributes(source, target);
  }
  Result<std::uint64_t> resident_bytes(system::FileHandle file, FileOffset offset,
                                       std::uint64_t length_bytes) override {
    return inner_.resident_bytes(file, offset, length_bytes);
  }
  Result<MemoryFile> memory_file(std::string_view name, std::string_view content) override {
    return inner_.memory_file(name, content);
  }
  Result<system::SharedSegment> create_segment(std::string_view name,
                                               std::size_t length_bytes) override {
    return inner_.create_segment(name, length_bytes);
  }
  Result<system::SharedSegment> open_segment(std::string_view name) override {
    return inner_.open_segment(name);
  }
  void unmap_segment(const system::SharedSegment& segment) override {
    inner_.unmap_segment(segment);
  }
  void remove_segment(std::string_view name) override { inner_.remove_segment(name); }
  Result<std::vector<std::string>> list_segments(std::string_view prefix) override {
    return inner_.list_segments(prefix);
  }

 private:
  system::Storage& inner_;
};

/// Host memory of another host, with what is allocated counted.
class CountingMemory : public system::Memory {
 public:
  explicit CountingMemory(system::Memory& inner) : inner_(inner) {}
  Result<system::HostBuffer> allocate_pinned(std::uint64_t length_bytes, std::uint32_t numa,
                                             system::MemoryUse use) override {
    Result<system::HostBuffer> buffer = inner_.allocate_pinned(length_bytes, numa, use);
    if (buffer.ok()) count(length_bytes);
    if (buffer.ok()) ++pinned_;
    return buffer;
  }
  Result<system::HostBuffer> allocate_plain(std::uint64_t length_bytes,
                                            std::uint32_t numa) override {
    Result<system::HostBuffer> buffer = inner_.allocate_plain(length_bytes, numa);
    if (buffer.ok()) count(length_bytes);
    return buffer;
  }
  void free(const system::HostBuffer& buffer) override {
    held_ -= buffer.length_bytes;
    inner_.free(buffer);
  }
  void copy(std::byte* target, const std::byte* source, std::size_t length_bytes) override {
    inner_.copy(target, source, length_bytes);
  }
  [[nodiscard]] std::uint64_t held_bytes() const { return held_.load(); }
  [[nodiscard]] std::uint64_t most_bytes() const { return most_.load(); }
  /// How often pinned memory was allocated.
  [[nodiscard]] std::uint64_t pinned_allocations() const { return pinned_.load(); }

 private:
  void count(std::uint64_t bytes) {
    const std::uint64_t held = held_ += bytes;
    std::uint64_t most = most_.load();
    while (held > most && !most_.compare_exchange_weak(most, held)) {
    }
  }

  system::Memory& inner_;
  std::atomic<std::uint64_t> held_{0};
  std::atomic<std::uint64_t> most_{0};
  std::atomic<std::uint64_t> pinned_{0};
};

}  // namespace nobounce::support
