// What stands behind a KernelQueue: its memory, its proxies, and who watches over them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <nobounce/async.hpp>
#include "async/proxy.hpp"
#include "session/session_state.hpp"

namespace nobounce::async {

/// Fails the queue when a request takes too long: its kernel learns it from the state word.
class QueueWatch final : public system::Worker {
 public:
  QueueWatch(system::Host& host, std::uint64_t stall_ns) : host_(host), stall_ns_(stall_ns) {}
  /// Before it is started.
  void add(const Proxy& proxy, std::uint32_t* state_word);
  [[nodiscard]] system::Step step() override;
  [[nodiscard]] bool stalled() const { return stalled_.load(std::memory_order_acquire); }

 private:
  struct Watched {
    const Proxy* proxy = nullptr;
    std::uint32_t* state_word = nullptr;
    std::uint64_t turns = 0;
    std::uint64_t since_ns = 0;
  };
  system::Host& host_;
  const std::uint64_t stall_ns_;
  std::vector<Watched> watched_;
  std::atomic<bool> stalled_{false};
};

struct KernelQueueState {
  explicit KernelQueueState(session::SessionState& of_session);
  ~KernelQueueState();
  KernelQueueState(const KernelQueueState&) = delete;
  KernelQueueState& operator=(const KernelQueueState&) = delete;

  [[nodiscard]] Status open(const Place& file, const KernelQueueOptions& chosen);
  [[nodiscard]] KernelQueueCounts counts() const;
  [[nodiscard]] Outcome close(std::uint64_t timeout_ns);
  /// For who drops it. False: a read has not come back by then, and uses all of this.
  [[nodiscard]] bool end(std::uint64_t patience_ns);
  [[nodiscard]] bool all_back() const;
  /// From here on its file is nobody's live use.
  void let_go_of_file();
  [[nodiscard]] Place file() const { return file_; }
  [[nodiscard]] session::SessionState& session() { return session_; }

  device::QueueSet for_kernels;  ///< addresses as GPUs name them
  bool closed = false;

 private:
  [[nodiscard]] Status allocate();
  [[nodiscard]] Status zero_gpu_words();
  [[nodiscard]] Status start();
  void set_state(device::State state, std::uint16_t code);
  /// The heads of all queues, read back from GPU memory.
  [[nodiscard]] Result<std::vector<std::uint64_t>> read_heads();
  [[nodiscard]] bool drained(const std::vector<std::uint64_t>& heads) const;
  /// False: a slot that was claimed has not been filled.
  [[nodiscard]] Status drain(std::uint64_t deadline_ns);
  /// False: a request has not come back by the deadline (0: none), and its worker runs on.
  bool stop_workers(std::uint64_t deadline_ns);
  void free_memory();
  /// While kernels may ask for its bytes the file stays open.
  void hold_file();
  [[nodiscard]] bool is_back(std::size_t worker) const;
  [[nodiscard]] std::uint64_t asked_bytes() const;
  [[nodiscard]] Outcome outcome(const Status& drained);
  /// What went wrong while it ran.
  [[nodiscard]] std::optional<Error> failure(const KernelQueueCounts& sum) const;

  session::SessionState& session_;
  KernelQueueOptions options_;
  FileRange file_;
  device::QueueSet local_;  ///< addresses of this process
  system::HostBuffer words_;
  system::HostBuffer buffers_;
  std::optional<GpuMemory> gpu_words_;
  std::unique_ptr<core::KernelConsumer> consumer_;
  std::vector<std::unique_ptr<Proxy>> proxies_;
  std::unique_ptr<QueueWatch> watch_;
  std::vector<system::WorkerId> workers_;
  std::atomic<bool> stopping_{false};
  std::uint64_t started_ns_ = 0;
  std::optional<Outcome> ended_;  ///< what the first close answered
};

}  // namespace nobounce::async
