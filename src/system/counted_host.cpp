// CountedHost: the tables by their lists, storage and memory by hand.
#include "system/counted_host.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "system/forwarding_pci.hpp"
#include "system/network.hpp"
#include "system/verbs.hpp"

namespace nobounce::system {
namespace {

struct Tally {
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> host_copies{0};
  std::atomic<std::uint64_t> cpu_touched{0};

  void call() { calls.fetch_add(1, std::memory_order_relaxed); }
  void engine_copy(std::uint64_t bytes) {
    call();
    host_copies.fetch_add(bytes, std::memory_order_relaxed);
  }
  void cpu_copy(std::uint64_t bytes) {
    host_copies.fetch_add(bytes, std::memory_order_relaxed);
    cpu_touched.fetch_add(bytes, std::memory_order_relaxed);
  }
};

class CallCountingCuda : public Cuda {
 public:
  CallCountingCuda(Tally& tally, Cuda& inner) : tally_(tally), inner_(inner) {}
#define NOBOUNCE_CUDA(method, symbol, parameters, arguments) \
  CUresult method parameters override {                      \
    tally_.call();                                           \
    return inner_.method arguments;                          \
  }
#include "system/cuda_functions.inc"
#undef NOBOUNCE_CUDA

 protected:
  Tally& tally_;
  Cuda& inner_;
};

class CountedCuda final : public CallCountingCuda {
 public:
  using CallCountingCuda::CallCountingCuda;
  CUresult memcpy_htod_async(CUdeviceptr target, const void* source, std::size_t bytes,
                             CUstream stream) override {
    tally_.engine_copy(bytes);
    return inner_.memcpy_htod_async(target, source, bytes, stream);
  }
  CUresult memcpy_dtoh_async(void* target, CUdeviceptr source, std::size_t bytes,
                             CUstream stream) override {
    tally_.engine_copy(bytes);
    return inner_.memcpy_dtoh_async(target, source, bytes, stream);
  }
};

class CountedCufile final : public Cufile {
 public:
  CountedCufile(Tally& tally, Cufile& inner) : tally_(tally), inner_(inner) {}
#define NOBOUNCE_CUFILE(type, method, symbol, parameters, arguments) \
  type method parameters override {                                  \
    tally_.call();                                                   \
    return inner_.method arguments;                                  \
  }
#include "system/cufile_functions.inc"
#undef NOBOUNCE_CUFILE

 private:
  Tally& tally_;
  Cufile& inner_;
};

class CountedVerbs final : public Verbs {
 public:
  CountedVerbs(Tally& tally, Verbs& inner) : tally_(tally), inner_(inner) {}
#define NOBOUNCE_VERBS(method, symbol, parameters, arguments) \
  int method parameters override {                            \
    tally_.call();                                            \
    return inner_.method arguments;                           \
  }
#include "system/verbs_functions.inc"
#undef NOBOUNCE_VERBS

 private:
  Tally& tally_;
  Verbs& inner_;
};

class CountedMemory final : public Memory {
 public:
  CountedMemory(Tally& tally, Memory& inner) : tally_(tally), inner_(inner) {}
  Result<HostBuffer> allocate_pinned(std::uint64_t length_bytes, std::uint32_t numa,
                                     MemoryUse use) override {
    return inner_.allocate_pinned(length_bytes, numa, use);
  }
  Result<HostBuffer> allocate_plain(std::uint64_t length_bytes, std::uint32_t numa) override {
    return inner_.allocate_plain(length_bytes, numa);
  }
  void free(const HostBuffer& buffer) override { inner_.free(buffer); }
  void copy(std::byte* target, const std::byte* source, std::size_t length_bytes) override {
    tally_.cpu_copy(length_bytes);
    inner_.copy(target, source, length_bytes);
  }

 private:
  Tally& tally_;
  Memory& inner_;
};

class CountedStorage final : public Storage {
 public:
  CountedStorage(Tally& tally, Storage& inner) : tally_(tally), inner_(inner) {}

  Result<FileHandle> open(std::string_view path, const OpenOptions& options) override {
    return counted().open(path, options);
  }
  Status close(FileHandle file) override { return counted().close(file); }
  Result<FileStatus> status(FileHandle file) override { return counted().status(file); }
  Result<FileStatus> status_of(std::string_view path) override { return counted().status_of(path); }
  Result<std::string> real_path(std::string_view path) override {
    return counted().real_path(path);
  }
  bool is_symbolic_link(std::string_view path) override { return counted().is_symbolic_link(path); }
  Result<std::size_t> read(FileHandle file, std::byte* target, std::size_t length_bytes,
                           FileOffset offset) override {
    return moved(counted().read(file, target, length_bytes, offset));
  }
  Result<std::size_t> write(FileHandle file, const std::byte* source, std::size_t length_bytes,
                            FileOffset offset) override {
    return moved(counted().write(file, source, length_bytes, offset));
  }
  Status allocate(FileHandle file, std::uint64_t length_bytes) override {
    return counted().allocate(file, length_bytes);
  }
  Status truncate(FileHandle file, std::uint64_t length_bytes) override {
    return counted().truncate(file, length_bytes);
  }
  Status sync(FileHandle file) override { return counted().sync(file); }
  Status sync_directory(std::string_view path) override { return counted().sync_directory(path); }
  Status rename(std::string_view source, std::string_view target) override {
    return counted().rename(source, target);
  }
  Status remove(std::string_view path) override { return counted().remove(path); }
  Status copy_attributes(FileHandle source, FileHandle target) override {
    return counted().copy_attributes(source, target);
  }
  Result<std::uint64_t> resident_bytes(FileHandle file, FileOffset offset,
                                       std::uint64_t length_bytes) override {
    return counted().resident_bytes(file, offset, length_bytes);
  }
  Result<MemoryFile> memory_file(std::string_view name, std::string_view content) override {
    return counted().memory_file(name, content);
  }
  Result<SharedSegment> create_segment(std::string_view name, std::size_t length_bytes) override {
    return counted().create_segment(name, length_bytes);
  }
  Result<SharedSegment> open_segment(std::string_view name) override {
    return counted().open_segment(name);
  }
  void unmap_segment(const SharedSegment& segment) override { counted().unmap_segment(segment); }
  void remove_segment(std::string_view name) override { counted().remove_segment(name); }
  Result<std::vector<std::string>> list_segments(std::string_view prefix) override {
    return counted().list_segments(prefix);
  }

 private:
  Storage& counted() {
    tally_.call();
    return inner_;
  }
  Result<std::size_t> moved(Result<std::size_t> result) {
    if (result.ok()) tally_.cpu_copy(*result);
    return result;
  }

  Tally& tally_;
  Storage& inner_;
};

/// What goes over the network was touched by the CPU, once at each end.
class CountedNetwork final : public Network {
 public:
  CountedNetwork(Tally& tally, Network& inner) : tally_(tally), inner_(inner) {}

  Result<SocketHandle> listen(const SocketAddress& at, int backlog) override {
    return inner_.listen(at, backlog);
  }
  Result<SocketHandle> connect(const SocketAddress& to) override { return inner_.connect(to); }
  Result<bool> connected(SocketHandle socket) override { return inner_.connected(socket); }
  std::string looked_up_for(SocketHandle socket) override { return inner_.looked_up_for(socket); }
  Result<std::optional<SocketHandle>> accept(SocketHandle listener) override {
    return inner_.accept(listener);
  }
  Result<SocketAddress> own_address(SocketHandle socket) override {
    return inner_.own_address(socket);
  }
  Result<SocketAddress> peer_address(SocketHandle socket) override {
    return inner_.peer_address(socket);
  }
  Result<Received> read(SocketHandle socket, std::span<std::byte> target) override {
    Result<Received> result = inner_.read(socket, target);
    if (result.ok()) tally_.cpu_copy(result->length_bytes);
    return result;
  }
  Result<std::size_t> write(SocketHandle socket, std::span<const std::byte> source) override {
    Result<std::size_t> result = inner_.write(socket, source);
    if (result.ok()) tally_.cpu_copy(*result);
    return result;
  }
  void close(SocketHandle socket) override { inner_.close(socket); }
  Result<SocketHandle> make_waker() override { return inner_.make_waker(); }
  void wake(SocketHandle waker) override { inner_.wake(waker); }
  bool wait(std::span<const Watch> watched, std::uint64_t timeout_ns) override {
    return inner_.wait(watched, timeout_ns);
  }

 private:
  Tally& tally_;
  Network& inner_;
};

/// Registers count as calls: each is a trip over the bus.
class CountedPciFunction final : public ForwardingPciFunction {
 public:
  CountedPciFunction(Tally& tally, std::unique_ptr<PciFunction> inner)
      : ForwardingPciFunction(std::move(inner)), tally_(tally) {}
  std::uint32_t read32(unsigned bar, std::uint64_t offset) override {
    tally_.call();
    return inner_->read32(bar, offset);
  }
  std::uint64_t read64(unsigned bar, std::uint64_t offset) override {
    tally_.call();
    return inner_->read64(bar, offset);
  }
  void write32(unsigned bar, std::uint64_t offset, std::uint32_t value) override {
    tally_.call();
    inner_->write32(bar, offset, value);
  }
  void write64(unsigned bar, std::uint64_t offset, std::uint64_t value) override {
    tally_.call();
    inner_->write64(bar, offset, value);
  }

 private:
  Tally& tally_;
};

class CountedPci final : public Pci {
 public:
  CountedPci(Tally& tally, Pci& inner) : tally_(tally), inner_(inner) {}
  Result<std::unique_ptr<PciFunction>> open(std::string_view bdf) override {
    tally_.call();
    auto opened = inner_.open(bdf);
    if (!opened.ok()) return std::move(opened).error();
    return std::unique_ptr<PciFunction>(
        std::make_unique<CountedPciFunction>(tally_, std::move(*opened)));
  }

 private:
  Tally& tally_;
  Pci& inner_;
};

class WrappingCountedHost final : public CountedHost {
 public:
  explicit WrappingCountedHost(Host& inner) : inner_(inner) {}

  HostKind kind() const override { return inner_.kind(); }
  std::string_view name() const override { return inner_.name(); }
  Result<Cuda*> cuda() override { return table(inner_.cuda(), cuda_); }
  Result<Nvml*> nvml() override { return inner_.nvml(); }
  Result<Cufile*> cufile() override { return table(inner_.cufile(), cufile_); }
  Result<Verbs*> verbs() override { return table(inner_.verbs(), verbs_); }
  Result<Pci*> pci() override { return table(inner_.pci(), pci_); }
  Files& files() override { return inner_.files(); }
  Storage& storage() override { return storage_; }
  Memory& memory() override { return memory_; }
  Workers& workers() override { return inner_.workers(); }
  Counters& counters() override { return inner_.counters(); }
  Environment& environment() override { return inner_.environment(); }
  Process& process() override { return inner_.process(); }
  Clock& clock() override { return inner_.clock(); }
  Entropy& entropy() override { return inner_.entropy(); }
  Result<Network*> network() override { return table(inner_.network(), network_); }

  SeamCounts counts() const override {
    return {.calls = tally_.calls.load(std::memory_order_relaxed),
            .host_copy_bytes = tally_.host_copies.load(std::memory_order_relaxed),
            .cpu_touched_bytes = tally_.cpu_touched.load(std::memory_order_relaxed)};
  }

 private:
  template <typename Table, typename Counted>
  Result<Table*> table(const Result<Table*>& found, std::optional<Counted>& counted) {
    if (!found.ok()) return found.error();
    const std::lock_guard lock(wrapping_);
    if (!counted.has_value()) counted.emplace(tally_, **found);
    return static_cast<Table*>(&*counted);
  }

  Host& inner_;
  Tally tally_;
  std::mutex wrapping_;
  std::optional<CountedCuda> cuda_;
  std::optional<CountedCufile> cufile_;
  std::optional<CountedNetwork> network_;
  std::optional<CountedVerbs> verbs_;
  std::optional<CountedPci> pci_;
  CountedStorage storage_{tally_, inner_.storage()};
  CountedMemory memory_{tally_, inner_.memory()};
};

}  // namespace

std::unique_ptr<CountedHost> CountedHost::wrap(Host& inner) {
  return std::make_unique<WrappingCountedHost>(inner);
}

}  // namespace nobounce::system
