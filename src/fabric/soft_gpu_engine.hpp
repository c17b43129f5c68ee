// Copy engines: per GPU one engine that takes commands from streams, each stream strictly in order.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include <nobounce/units.hpp>
#include "fabric/bus.hpp"
#include "fabric/soft_host.hpp"
#include "fabric/soft_random.hpp"
#include "fabric/soft_workers.hpp"
#include "system/cuda_types.hpp"
#include "system/host.hpp"

namespace nobounce::fabric {

using system::cuda::CUresult;

/// What an engine does to memory. Host ends are the process's pointers.
struct GpuCopy {
  enum class Kind : std::uint8_t { to_device, to_host, on_device, on_host, fill };
  Kind kind = Kind::on_device;
  DevicePointer source;
  DevicePointer target;
  std::byte* host = nullptr;
  const std::byte* host_source =
      nullptr;  ///< of on_host: managed or pinned memory on both ends, `host` is the target
  std::uint64_t length_bytes = 0;
  std::uint8_t value = 0;  ///< of a fill
  bool pageable = false;  ///< the host end is not pinned: the driver goes through memory of its own
  bool staged = false;    ///< two GPUs without peer access: the driver goes through host memory
  std::optional<std::uint32_t> engine;  ///< whose, of a copy between GPUs: it reaches both ends
};

/// Guarded by the engines' mutex.
struct GpuEvent {
  std::uint64_t recorded = 0;   ///< version of the last record call; 0: never recorded
  std::uint64_t completed = 0;  ///< version the GPU has passed
  CUresult error = 0;           ///< of the stream it was passed on
};

/// A step of a kernel.
struct GpuWorkStep {
  bool done = true;
  CUresult fault = 0;  ///< of the whole process, from then on
};
using GpuWork = std::function<GpuWorkStep()>;

struct GpuCommand {
  enum class Kind : std::uint8_t { copy, record, wait, work, wait_word, write_word };
  Kind kind = Kind::copy;
  GpuCopy copy;
  GpuWork work;
  std::shared_ptr<GpuEvent> event;
  End word{};                  ///< of a wait for memory, or a write to it: 8 bytes
  std::uint64_t value = 0;     ///< to write, or to compare with
  unsigned compare = 0;        ///< of a wait: wait_value_geq and the others
  std::uint64_t version = 0;   ///< of the event: to reach, or to wait for
  std::uint64_t sequence = 0;  ///< order of submission on its GPU
};

/// Guarded by the engines' mutex.
struct GpuStream {
  std::uint32_t gpu = 0;
  bool is_default = false;
  bool blocking = true;  ///< takes its turn with the default stream
  bool running = false;  ///< its first command is being carried out
  CUresult error = 0;    ///< sticky: what follows is dropped
  std::deque<GpuCommand> commands;
};

/// Thread-safe. Streams and events are shared with the driver's handles and live until their last
/// command is done.
class GpuEngines {
 public:
  GpuEngines(Bus& bus, SoftWorkers& workers, system::Clock& clock, const SoftFaults& faults,
             SoftRandom& random);
  ~GpuEngines();
  GpuEngines(const GpuEngines&) = delete;
  GpuEngines& operator=(const GpuEngines&) = delete;

  [[nodiscard]] std::shared_ptr<GpuStream> make_stream(std::uint32_t gpu, bool blocking,
                                                       bool is_default);
  /// The stream's sticky error, if it has failed: nothing is queued then.
  CUresult submit(const std::shared_ptr<GpuStream>& stream, const GpuCopy& copy);
  /// Queues something else, stepped until it is done.
  CUresult submit(const std::shared_ptr<GpuStream>& stream, GpuWork work);
  /// The fault that a kernel has made, 0 before: nothing works in this process after it.
  [[nodiscard]] CUresult fault() const { return fault_.load(); }
  /// Records `event` behind what the stream holds now.
  CUresult record(const std::shared_ptr<GpuStream>& stream, const std::shared_ptr<GpuEvent>& event);
  /// Makes the stream wait for the event's last record before this call.
  CUresult wait_in_stream(const std::shared_ptr<GpuStream>& stream,
                          const std::shared_ptr<GpuEvent>& event);

  /// The stream stops until the word compares as wanted. Nobody tells the GPU of a change: it looks
  /// again and again.
  CUresult wait_for_word(const std::shared_ptr<GpuStream>& stream, const End& word,
                         std::uint64_t value, unsigned compare);
  CUresult write_word(const std::shared_ptr<GpuStream>& stream, const End& word,
                      std::uint64_t value);
  [[nodiscard]] SoftRandom& random() { return random_; }

  /// success, error_not_ready, or the sticky error.
  [[nodiscard]] CUresult query(const GpuStream& stream);
  [[nodiscard]] CUresult query(const GpuEvent& event);
  CUresult synchronize(const GpuStream& stream);
  CUresult synchronize(const GpuEvent& event);
  /// Until the GPU has nothing left to do; the first sticky error of its streams.
  CUresult synchronize_gpu(std::uint32_t gpu);

 private:
  class Engine;
  void queue(const std::shared_ptr<GpuStream>& stream, GpuCommand command);
  CUresult submit(const std::shared_ptr<GpuStream>& stream, GpuCommand command);
  [[nodiscard]] bool runnable(const GpuStream& stream) const;
  [[nodiscard]] bool compares(const GpuCommand& wait) const;
  /// Whether some stream of this machine waits for a word, or a kernel may: then more than engines
  /// must run until it can go on.
  [[nodiscard]] bool needs_others() const;
  void await(core::FunctionRef<bool()> ready, std::string_view what);
  [[nodiscard]] std::uint64_t first_sequence(std::uint32_t gpu, bool of_default) const;
  /// Changes the order of a stream's commands on a machine that is ill.
  void misplace(GpuStream& stream) const;
  void wake(std::uint32_t gpu);
  void wake_all();
  system::Step step(std::uint32_t gpu);
  [[nodiscard]] CUresult run(std::uint32_t gpu, const GpuCopy& copy);
  [[nodiscard]] CUresult run_pageable(std::uint32_t gpu, const GpuCopy& copy);
  [[nodiscard]] CUresult run_staged(const GpuCopy& copy);
  [[nodiscard]] CUresult run_on_device(std::uint32_t gpu, const GpuCopy& copy);
  [[nodiscard]] CUresult error_of(const GpuStream& stream) const;

  [[nodiscard]] Result<DramBuffer> staging_for(std::uint32_t gpu, std::uint64_t length_bytes);

  Bus& bus_;
  SoftWorkers& workers_;
  system::Clock& clock_;
  const SoftFaults& faults_;
  SoftRandom& random_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::uint64_t next_sequence_ = 1;
  std::atomic<CUresult> fault_{0};
};

}  // namespace nobounce::fabric
