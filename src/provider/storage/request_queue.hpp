// The requests of the storage provider: cut, handed out, and attributed window by window.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/provider.hpp"
#include "provider/storage/buffers.hpp"
#include "provider/storage/statistics_window.hpp"
#include "system/open_files.hpp"

namespace nobounce::provider::storage {

inline constexpr std::uint64_t request_bytes_most = 16u << 20;
inline constexpr std::uint64_t alignment_bytes = 4096;

/// One operation. The first part never changes once it is queued; the second belongs to the queue.
struct Job {
  core::Operation operation;
  bool writing = false;
  FileRange range;
  GpuMemory memory;
  BufferView buffer;
  const system::OpenFile* file = nullptr;

  std::uint64_t next_bytes = 0;
  std::uint32_t outstanding = 0;
  bool stopped = false;
  std::optional<Error> error;
  WindowBytes open_bytes;   ///< arrived, not attributed yet
  Attribution attribution;  ///< of what windows have told so far

  [[nodiscard]] std::uint64_t length_bytes() const { return operation.segment.length_bytes; }
};

/// A part of a job that one worker moves, by one call of cuFile or, around page boundaries and
/// after short reads, more.
struct Request {
  std::shared_ptr<Job> job;
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
};

/// The next call of a request that has `done_bytes` behind it: whole pages together, what surrounds
/// them apart.
struct Call {
  std::uint64_t offset_bytes = 0;  ///< in the job
  std::uint64_t length_bytes = 0;
  bool aligned = false;  ///< whole pages to or from registered memory: nothing has to be bounced
                         ///< inside the GPU
};
[[nodiscard]] Call next_call(const Job& job, std::uint64_t offset_bytes,
                             std::uint64_t length_bytes);

/// What a finished request did.
struct RequestResult {
  WindowBytes bytes;
  std::uint64_t calls = 0;          ///< that moved bytes
  std::uint64_t bounced_calls = 0;  ///< those that cannot be plainly direct
  std::optional<Error> error;
};

/// How the queue reads the statistics.
class Evidence {
 public:
  virtual ~Evidence() = default;
  [[nodiscard]] virtual std::optional<PathCounters> read_counters(bool writing) = 0;
};

/// Thread-safe. Reads and writes have a window each: from the first request in flight to the last,
/// or to the end of an operation when the counters leave no doubt by then. Where they do, no new
/// requests start until the window is closed; and once a window was mixed, every request gets one
/// of its own. Workers are numbered 0..63.
class RequestQueue {
 public:
  explicit RequestQueue(Evidence& evidence) : evidence_(evidence) {}

  struct Ready {
    bool completed = false;  ///< a completion can be polled
    std::uint64_t wake = 0;  ///< workers that were parked and have work now
  };
  [[nodiscard]] Ready add(std::shared_ptr<Job> job);
  void refuse(core::OperationId id, Error error);
  struct Claim {
    std::optional<Request> request;
    bool completed = false;
  };
  /// Without work the worker is parked until it is named in a Ready.
  [[nodiscard]] Claim claim(unsigned worker, std::uint64_t now_ns);
  [[nodiscard]] Ready finish(const Request& request, RequestResult result);
  [[nodiscard]] Ready cancel(core::OperationId id);
  [[nodiscard]] Ready cancel_all();
  [[nodiscard]] Ready expire(std::uint64_t now_ns);
  [[nodiscard]] Ready fail_all(const Error& error);
  [[nodiscard]] std::size_t take(std::span<core::Completion> completions);
  [[nodiscard]] bool idle() const;

 private:
  /// Of one direction.
  struct OpenWindow {
    bool open = false;
    Window window;
    std::uint32_t in_flight = 0;
    bool held = false;     ///< an operation waits for it to close: nothing new starts
    bool careful = false;  ///< was mixed once: one request at a time from now on
  };

  [[nodiscard]] OpenWindow& window_of(const Job& job) { return windows_[job.writing ? 1 : 0]; }
  [[nodiscard]] bool may_start(const Job& job);
  void stop(Job& job, Cause cause, const char* detail);
  void expire_locked(std::uint64_t now_ns);
  [[nodiscard]] bool settle();
  void settle_window(bool writing);
  void attribute_job(Job& job, WindowVerdict verdict);
  [[nodiscard]] Ready ready(bool completed);
  [[nodiscard]] static core::Completion completion_of(Job& job);

  Evidence& evidence_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Job>> active_;
  std::size_t turn_ = 0;
  std::uint64_t parked_ = 0;
  std::array<OpenWindow, 2> windows_;  ///< reads, writes
  std::vector<core::Completion> completions_;
};

}  // namespace nobounce::provider::storage
