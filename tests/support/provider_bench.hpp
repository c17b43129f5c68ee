// A provider on a software machine: places to move between, and what the bus says of the move.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <nobounce/software_machine.hpp>
#include "core/provider.hpp"
#include "fabric/bus.hpp"
#include "fabric/ledger.hpp"
#include "fabric/soft_host.hpp"
#include "fabric/soft_storage.hpp"
#include "support/around_host.hpp"
#include "support/temporary_directory.hpp"
#include "system/cuda_contexts.hpp"
#include "system/open_files.hpp"

namespace nobounce::test {

/// Open files by number.
class FileShelf : public system::OpenFiles {
 public:
  std::map<std::uint32_t, system::OpenFile> files;
  const system::OpenFile* find(std::uint32_t id) const override {
    const auto at = files.find(id);
    return at == files.end() ? nullptr : &at->second;
  }
};

class ProviderBench {
 public:
  explicit ProviderBench(const Machine& machine, const fabric::SoftOptions& options = {}) {
    Result<std::unique_ptr<fabric::SoftHost>> made = fabric::SoftHost::create(machine, options);
    if (!made.ok()) throw std::runtime_error(to_string(made.error()));
    soft_ = std::move(*made);
    host_.emplace(*soft_);
    memory_.emplace(soft_->memory());
    host_->memory_part = &*memory_;
  }
  explicit ProviderBench(const std::string& machine, const fabric::SoftOptions& options = {})
      : ProviderBench(software_machine_description(machine).value(), options) {}
  ~ProviderBench() {
    for (const auto& [id, file] : files_.files) {
      (void)host_->storage().close(file.buffered);
      if (file.direct.valid()) (void)host_->storage().close(file.direct);
    }
    for (const system::HostBuffer& buffer : buffers_) soft_->memory().free(buffer);
  }

  /// What providers are made with; may be changed before contexts() is first called.
  [[nodiscard]] support::AroundHost& host() { return *host_; }
  [[nodiscard]] fabric::SoftHost& soft() { return *soft_; }
  /// Bounce memory, by whatever is allocated through host().
  [[nodiscard]] support::CountingMemory& memory() { return *memory_; }
  [[nodiscard]] FileShelf& files() { return files_; }
  [[nodiscard]] const TemporaryDirectory& directory() const { return directory_; }
  /// From now on CUDA is this table around the machine's own.
  template <typename Table>
  Table& use_cuda() {
    auto table = std::make_unique<Table>(*soft_->cuda().value());
    Table& used = *table;
    table_ = std::move(table);
    host_->cuda_table = &used;
    return used;
  }

  [[nodiscard]] system::CudaContexts& contexts() {
    if (contexts_ == nullptr) {
      Result<std::unique_ptr<system::CudaContexts>> opened =
          system::CudaContexts::open(*host_, soft_->machine());
      if (!opened.ok()) throw std::runtime_error(to_string(opened.error()));
      contexts_ = std::move(*opened);
    }
    return *contexts_;
  }

  /// Opens a file with these bytes, for reading and writing.
  std::uint32_t file(const std::string& name, const std::vector<std::byte>& content) {
    write_file(directory_.file(name), content);
    system::OpenFile open;
    open.id = static_cast<std::uint32_t>(files_.files.size());
    open.path = directory_.file(name);
    open.access = system::FileAccess::read_write;
    system::OpenOptions options{.access = open.access};
    open.buffered = host_->storage().open(open.path, options).value();
    options.direct = true;
    const Result<system::FileHandle> direct = host_->storage().open(open.path, options);
    if (direct.ok()) open.direct = *direct;
    files_.files[open.id] = open;
    return open.id;
  }

  GpuMemory gpu(std::uint32_t gpu, std::uint64_t length_bytes) {
    const system::ContextGuard guard(contexts().table(), contexts().context(gpu).value());
    system::cuda::CUdeviceptr pointer = 0;
    const auto code =
        contexts().table().mem_alloc(&pointer, std::max<std::uint64_t>(length_bytes, 1));
    if (code != system::cuda::success) throw std::runtime_error("no GPU memory");
    return {gpu, DevicePointer{pointer}, length_bytes};
  }
  HostMemory pinned(std::uint64_t length_bytes) {
    return keep(soft_->memory().allocate_pinned(std::max<std::uint64_t>(length_bytes, 1), 0,
                                                system::MemoryUse::user),
                length_bytes);
  }
  HostMemory plain(std::uint64_t length_bytes) {
    return keep(soft_->memory().allocate_plain(std::max<std::uint64_t>(length_bytes, 1), 0),
                length_bytes);
  }

  /// Writes and reads a place behind everybody's back.
  void put(const Place& place, const std::vector<std::byte>& bytes) {
    if (bytes.empty()) return;
    if (const auto* gpu = std::get_if<GpuMemory>(&place)) {
      ASSERT_TRUE(soft_->bus().plant(fabric::End::of(gpu->address), bytes));
    } else if (const auto* host = std::get_if<HostMemory>(&place)) {
      std::copy(bytes.begin(), bytes.end(), host->address);
    } else {
      const auto& range = std::get<FileRange>(place);
      std::vector<std::byte> whole = read_file(files_.files[range.file].path);
      whole.resize(std::max<std::size_t>(whole.size(), range.offset.value + bytes.size()));
      std::copy(bytes.begin(), bytes.end(),
                whole.begin() + static_cast<std::ptrdiff_t>(range.offset.value));
      write_file(files_.files[range.file].path, whole);
    }
  }
  [[nodiscard]] std::vector<std::byte> get(const Place& place) {
    std::vector<std::byte> bytes(length_bytes(place));
    if (bytes.empty()) return bytes;
    if (const auto* gpu = std::get_if<GpuMemory>(&place)) {
      EXPECT_TRUE(soft_->bus().inspect(fabric::End::of(gpu->address), bytes));
    } else if (const auto* host = std::get_if<HostMemory>(&place)) {
      std::copy(host->address, host->address + bytes.size(), bytes.begin());
    } else {
      const auto& range = std::get<FileRange>(place);
      const std::vector<std::byte> whole = read_file(files_.files[range.file].path);
      if (whole.size() < range.offset.value) return {};
      const std::uint64_t there =
          std::min<std::uint64_t>(bytes.size(), whole.size() - range.offset.value);
      const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(range.offset.value);
      bytes.assign(begin, begin + static_cast<std::ptrdiff_t>(there));
    }
    return bytes;
  }

  void begin_account() { soft_->bus().ledger().clear_requests(); }
  /// What the bus carried into a place since begin_account.
  [[nodiscard]] CarriageBytes arrived(const Place& place) const {
    return soft_->ledger().arrivals(extent_of(place), length_bytes(place)).bytes;
  }
  [[nodiscard]] CarriageBytes arrived(const Place& place, const Place& source) const {
    return soft_->ledger()
        .arrivals(extent_of(place), length_bytes(place), extent_of(source), length_bytes(source))
        .bytes;
  }

  [[nodiscard]] core::Operation operation(const Place& source, const Place& target,
                                          core::OperationId id = 1, std::uint64_t deadline_ns = 0) {
    core::Operation made;
    made.id = id;
    made.deadline_ns = deadline_ns;
    made.segment.length_bytes = length_bytes(source);
    made.segment.source = source;
    made.segment.target = target;
    return made;
  }
  /// Submits one operation and waits for its end.
  core::Completion run(core::Provider& provider, const Place& source, const Place& target,
                       std::uint64_t deadline_ns = 0) {
    const std::array one{operation(source, target, ++last_id_, deadline_ns)};
    provider.submit(one);
    std::vector<core::Completion> done = wait(provider, 1);
    if (done.size() != 1 || done[0].id != last_id_) throw std::runtime_error("no completion");
    return done[0];
  }
  std::vector<core::Completion> wait(core::Provider& provider, std::size_t count) {
    std::vector<core::Completion> done;
    const std::uint64_t patience_ns = host_->clock().now_ns() + 60'000'000'000;
    const auto ready = [&] {
      std::array<core::Completion, 4> batch;
      const std::size_t got = provider.poll(host_->clock().now_ns(), batch);
      done.insert(done.end(), batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(got));
      return done.size() >= count;
    };
    EXPECT_TRUE(host_->workers().wait(ready, patience_ns)) << "no completion came";
    return done;
  }

 private:
  HostMemory keep(const Result<system::HostBuffer>& buffer, std::uint64_t length_bytes) {
    if (!buffer.ok()) throw std::runtime_error(to_string(buffer.error()));
    buffers_.push_back(*buffer);
    return {buffer->address, length_bytes};
  }
  [[nodiscard]] fabric::Extent extent_of(const Place& place) const {
    if (const auto* gpu = std::get_if<GpuMemory>(&place)) {
      return soft_->bus().extent_of(fabric::End::of(gpu->address));
    }
    if (const auto* host = std::get_if<HostMemory>(&place)) {
      return soft_->bus().extent_of(fabric::End::at(soft_->bus().address_of(host->address)));
    }
    const auto& range = std::get<FileRange>(place);
    auto& storage = dynamic_cast<fabric::SoftStorage&>(soft_->storage());
    const auto file = storage.find(files_.files.at(range.file).buffered.descriptor);
    return soft_->bus().extent_of(fabric::End::of(file->medium, range.offset));
  }

  TemporaryDirectory directory_;
  std::unique_ptr<fabric::SoftHost> soft_;
  std::optional<support::AroundHost> host_;
  std::optional<support::CountingMemory> memory_;
  std::unique_ptr<system::Cuda> table_;  ///< outlives the contexts that were opened on it
  std::unique_ptr<system::CudaContexts> contexts_;
  FileShelf files_;
  std::vector<system::HostBuffer> buffers_;
  core::OperationId last_id_ = 0;
};

inline std::string show_completion(const core::Completion& completion) {
  std::string text;
  for (std::size_t i = 0; i < carriage_count; ++i) {
    if (completion.bytes.by[i] == 0) continue;
    text += std::string(to_string(static_cast<Carriage>(i))) + "=" +
            std::to_string(completion.bytes.by[i]) + " ";
  }
  if (completion.error.has_value()) text += to_string(*completion.error);
  return text;
}

}  // namespace nobounce::test
