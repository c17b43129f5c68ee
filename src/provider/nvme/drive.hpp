// A drive at work: operations cut into commands, kept under way, timed, and gathered again.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/provider.hpp"
#include "provider/nvme/controller.hpp"

namespace nobounce::provider::nvme {

/// One operation on its way. Blocks are relative to its first.
struct Job {
  core::Operation operation;
  system::nvme::Opcode opcode = system::nvme::Opcode::read;
  std::uint64_t first_block = 0;
  std::uint64_t blocks = 0;
  Iova memory;
  bool unmap_at_end = false;  ///< the memory was mapped for this operation alone

  std::uint64_t issued_blocks = 0;
  std::uint64_t moved_blocks = 0;
  std::uint32_t outstanding = 0;
  bool stopped = false;  ///< issues no more
  std::optional<Error> error;
};

/// What whoever uses a queue writes to, in this process's addresses.
struct GuestDoorbells {
  std::uint16_t id = 0;
  std::span<std::byte> registers;  ///< BAR 0
  std::uint64_t submission_offset = 0;
  std::uint64_t completion_offset = 0;
};

/// How a queue of others ended. Cause async.queue_failed where the controller was restarted
/// meanwhile, and the queue with it.
struct GuestEnd {
  Status status;
  bool let_go = true;  ///< the drive writes nothing to the queue's memory any more
};

/// One worker owns the controller; everything else is said to it. Thread-safe.
class Drive final : public system::Worker {
 public:
  /// Brings the controller up and starts the worker.
  [[nodiscard]] static Result<std::unique_ptr<Drive>> start(
      system::Host& host, std::unique_ptr<system::PciFunction> function,
      const ControllerOptions& options);
  /// After close, or without it: what is under way is waited for as long as its timeouts say.
  ~Drive() override;
  Drive(const Drive&) = delete;
  Drive& operator=(const Drive&) = delete;

  [[nodiscard]] const Identity& identity() const { return identity_; }
  [[nodiscard]] const std::string& bdf() const { return function_->bdf(); }
  /// Why it takes nothing any more, if so.
  [[nodiscard]] std::optional<Error> failure() const;

  void submit(Job job);
  [[nodiscard]] std::size_t poll(std::span<core::Completion> completions);
  void cancel(core::OperationId operation);
  /// Everything under way ends, cancelled; then the drive is shut down. False if the time passed.
  bool close(std::uint64_t deadline_ns);

  // --- Queues for others. Each waits until the worker has asked the drive.
  /// `lost`: the worker calls it once if the queue ends by itself; the drive writes nothing to its
  /// memory any more then.
  [[nodiscard]] Result<GuestDoorbells> create_guest(Controller::GuestQueue queue,
                                                    std::function<void()> lost);
  /// Where the drive does not end the queue, it is reset.
  [[nodiscard]] GuestEnd delete_guest(std::uint16_t id);

  // --- Mappings: one at a time, by the drive's own lock.
  [[nodiscard]] Status can_map_gpu(std::uint32_t gpu);
  [[nodiscard]] Result<Iova> map_gpu(const GpuMemory& memory);
  [[nodiscard]] Result<Iova> map_host(const HostMemory& memory);
  void unmap(Iova iova);

  [[nodiscard]] system::Step step() override;

 private:
  Drive(system::Host& host, std::unique_ptr<system::PciFunction> function)
      : host_(host), function_(std::move(function)) {}

  /// A command under way, by its id.
  struct InFlight {
    std::shared_ptr<Job> job;
    std::uint64_t blocks = 0;
    std::uint64_t deadline_ns = 0;
    bool aborted = false;
  };

  void take_orders(std::uint64_t now_ns);
  [[nodiscard]] bool reap();
  void settle(std::uint16_t id, const Completion& completion);
  void watch(std::uint64_t now_ns);
  [[nodiscard]] bool fill(std::uint64_t now_ns);
  void start_over(const Error& why);
  void retire();
  void complete(Job& job);
  static void stop(Job& job, Cause cause, const char* detail);

  system::Host& host_;
  std::unique_ptr<system::PciFunction> function_;
  Identity identity_;
  system::WorkerId worker_ = 0;

  /// Something that only the worker may do: it does it in its next step.
  struct Errand {
    std::function<void(Controller&)> work;
    bool done = false;
  };
  /// False: the worker did not come to it, and will not.
  [[nodiscard]] bool run_errand(std::function<void(Controller&)> work);
  void lose_guests();

  // The worker's own.
  std::unique_ptr<Controller> controller_;
  std::deque<std::shared_ptr<Job>> active_;
  std::vector<InFlight> in_flight_;
  std::uint32_t quiet_steps_ = 0;
  std::uint64_t looked_at_health_ns_ = 0;

  std::mutex mapping_mutex_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Job>> arrived_;
  std::vector<core::OperationId> cancelled_;
  std::vector<core::Completion> completions_;
  std::optional<Error> failure_;
  Errand* errand_ = nullptr;
  std::mutex errand_mutex_;  ///< one at a time
  /// By id, the worker's own: what to call if it is lost; empty once it is.
  std::map<std::uint16_t, std::function<void()>> guests_;
  bool closing_ = false;
  bool idle_ = true;  ///< nothing active
};

}  // namespace nobounce::provider::nvme
