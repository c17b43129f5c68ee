// A sequence: a named list of calls, and what it needs of the machine and the process it runs in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conformance/trace.hpp"
#include "system/host.hpp"

namespace nobounce::conformance {

namespace cuda = system::cuda;
namespace nvml = system::nvml;
namespace cufile = system::cufile;
namespace verbs = system::verbs;

/// In which state a sequence finds its process.
enum class Start : std::uint8_t {
  context,  ///< CUDA initialised, the primary context of GPU 0 retained and current
  bare,     ///< CUDA initialised, no context current
  fresh,    ///< a process of its own in which nothing was called yet
  alone,    ///< as `context`, but in a process of its own: what it does may end it
};

struct Needs {
  Start start = Start::context;
  int gpus = 1;  ///< 0: neither a GPU nor its libraries
  bool cufile = false;
  bool verbs = false;  ///< an adapter, whose port is up
  bool udev = false;   ///< a udev record of the folder's drive
  std::vector<std::pair<std::string, std::string>> environment;  ///< with start fresh only
};

/// What a sequence has at hand. A table is null where its library is absent, and the sequences that
/// need it are not run.
class Run {
 public:
  Run(system::Host& host, Trace& trace, std::string folder);

  system::Host& host;
  Trace& trace;
  std::string folder;  ///< for files; exists
  std::optional<TracedCuda> traced_cuda;
  std::optional<TracedNvml> traced_nvml;
  std::optional<TracedCufile> traced_cufile;
  std::optional<TracedVerbs> traced_verbs;
  cuda::CUcontext context = nullptr;  ///< of GPU 0, with start context and alone

  [[nodiscard]] TracedCuda& cuda() { return *traced_cuda; }
  [[nodiscard]] TracedNvml& nvml() { return *traced_nvml; }
  [[nodiscard]] TracedCufile& cufile() { return *traced_cufile; }
  [[nodiscard]] TracedVerbs& verbs() { return *traced_verbs; }
  /// The CUDA table without a trace: to prepare, to look, and for calls whose answers depend on
  /// time.
  [[nodiscard]] system::Cuda& quiet();
  [[nodiscard]] system::Verbs& quiet_verbs();

  void note(const std::string& text) { trace.note(text); }
  void number(std::string_view name, std::uint64_t value);
  void yes(std::string_view name, bool value);
  /// Length and hash of bytes.
  void bytes(std::string_view name, std::span<const std::byte> data);
  /// Length and hash of GPU memory, read over the table without a trace.
  void device_bytes(std::string_view name, cuda::CUdeviceptr pointer, std::size_t length);

  /// GPU memory for a sequence that is about something else; asked for without a trace.
  [[nodiscard]] cuda::CUdeviceptr allocate(std::size_t bytes);
  [[nodiscard]] std::byte* pinned(std::size_t bytes);
  void free(cuda::CUdeviceptr pointer);
  void free_pinned(void* pointer);
  /// Fills GPU memory with bytes of a seed, without a trace.
  void plant(cuda::CUdeviceptr pointer, std::size_t bytes, std::uint64_t seed);
};

/// Bytes that no accident reproduces; the same for the same seed.
[[nodiscard]] std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed);
[[nodiscard]] std::uint64_t hash_of(std::span<const std::byte> data);

struct Sequence {
  std::string name;
  std::function<void(Run&)> body;
  Needs needs;
};

class Catalogue {
 public:
  void add(std::string name, std::function<void(Run&)> body, Needs needs = {}) {
    sequences_.push_back({std::move(name), std::move(body), std::move(needs)});
  }
  [[nodiscard]] const std::vector<Sequence>& sequences() const { return sequences_; }

 private:
  std::vector<Sequence> sequences_;
};

// One function per family; all_sequences() is the list of them.
void add_cuda_start(Catalogue& all);
void add_cuda_devices(Catalogue& all);
void add_cuda_contexts(Catalogue& all);
void add_cuda_memory(Catalogue& all);
void add_cuda_host_memory(Catalogue& all);
void add_cuda_pointers(Catalogue& all);
void add_cuda_copies(Catalogue& all);
void add_cuda_streams(Catalogue& all);
void add_cuda_stream_words(Catalogue& all);
void add_cuda_peers(Catalogue& all);
void add_cuda_kinds(Catalogue& all);
void add_cuda_virtual(Catalogue& all);
void add_cuda_pools(Catalogue& all);
void add_nvml(Catalogue& all);
void add_cufile_driver(Catalogue& all);
void add_cufile_files(Catalogue& all);
void add_cufile_transfers(Catalogue& all);
void add_verbs_objects(Catalogue& all);
void add_verbs_states(Catalogue& all);
void add_verbs_requests(Catalogue& all);
void add_verbs_refusals(Catalogue& all);

[[nodiscard]] Catalogue all_sequences();

}  // namespace nobounce::conformance
