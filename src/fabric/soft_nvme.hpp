// The NVMe controller of a software machine's drive, register by register: it fetches commands from
// queues that lie anywhere on the bus, walks their PRP entries, and moves the medium's bytes by
// DMA.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "fabric/bus.hpp"
#include "fabric/soft_host.hpp"
#include "fabric/soft_random.hpp"
#include "fabric/soft_workers.hpp"
#include "system/nvme_types.hpp"

namespace nobounce::fabric {

struct SoftNvmeShape {
  std::uint32_t drive = 0;
  Medium medium;  ///< a regular file, as long as the namespace
  std::uint64_t length_bytes = 0;
  std::uint32_t block_bytes = 512;
  std::uint32_t queue_entries_max = 2048;
  std::uint32_t transfer_shift = 7;  ///< MDTS: at most 4096 << that; 0: no limit
};

/// Registers are thread-safe. It works in an engine's steps: while a register is written, no DMA of
/// it is half done, so that after CC.EN was cleared nothing of it arrives any more.
///
/// What a drive cannot notice it does not notice: a posted write that is lost on the bus is
/// answered with success, as real drives (and QEMU) answer it.
class SoftNvme final : public RegisterFile, public system::Worker {
 public:
  static constexpr std::uint32_t queues_max = 16;
  static constexpr std::uint64_t page_bytes = 4096;

  SoftNvme(Bus& bus, SoftWorkers& workers, const SoftFaults& faults, std::uint64_t seed,
           const SoftNvmeShape& shape);
  ~SoftNvme() override;
  SoftNvme(const SoftNvme&) = delete;
  SoftNvme& operator=(const SoftNvme&) = delete;

  [[nodiscard]] std::uint64_t load(std::uint64_t offset, std::size_t bytes) override;
  void store(std::uint64_t offset, std::uint64_t value, std::size_t bytes) override;
  [[nodiscard]] system::Step step() override;

  void set_bus_mastering(bool on);
  /// Function-level reset.
  void reset();

 private:
  using Command = system::nvme::Command;
  struct Submission {
    bool exists = false;
    BusAddress base;
    std::uint32_t entries = 0;
    std::uint32_t head = 0;
    std::uint32_t tail = 0;
    std::uint16_t completion = 0;
  };
  struct Completion {
    bool exists = false;
    BusAddress base;
    std::uint32_t entries = 0;
    std::uint32_t head = 0;
    std::uint32_t tail = 0;
    bool phase = true;
  };
  struct Fetched {
    Command command;
    std::uint16_t queue = 0;
  };
  /// How a command ended: its status code, and dword 0 of its completion.
  struct Ended {
    std::uint16_t code = system::nvme::code::success;
    std::uint32_t result = 0;
    bool do_not_retry = false;
  };
  struct Run {
    BusAddress address;
    std::uint64_t length_bytes = 0;
  };

  [[nodiscard]] std::uint64_t capabilities() const;
  void configure(std::uint32_t value);
  void ring(std::uint64_t index, std::uint32_t value);
  void clear_queues();
  void fetch();
  [[nodiscard]] bool can_post(std::uint16_t submission_queue) const;
  [[nodiscard]] std::optional<std::size_t> choose();
  void post(const Fetched& fetched, Ended ended);
  [[nodiscard]] Ended execute(const Fetched& fetched);
  [[nodiscard]] Ended admin(const Command& command);
  [[nodiscard]] Ended identify(const Command& command);
  [[nodiscard]] Ended create_submission(const Command& command);
  [[nodiscard]] Ended create_completion(const Command& command);
  [[nodiscard]] Ended remove_queue(const Command& command);
  [[nodiscard]] Ended abort(const Command& command);
  [[nodiscard]] Ended input_output(const Command& command);
  /// The memory that a command names; nothing with the status that says why.
  [[nodiscard]] std::optional<std::vector<Run>> walk(const Command& command, std::uint64_t length,
                                                     std::uint16_t& why);
  [[nodiscard]] Ended move(const std::vector<Run>& runs, FileOffset offset, bool reading);

  Bus& bus_;
  SoftWorkers& workers_;
  const SoftFaults& faults_;
  const SoftNvmeShape shape_;
  std::atomic<system::WorkerId> engine_{0};

  std::mutex mutex_;
  SoftRandom random_;
  bool mastering_ = false;
  std::uint32_t configuration_ = 0;
  std::uint32_t status_ = 0;
  std::uint32_t admin_attributes_ = 0;
  std::uint64_t admin_submission_ = 0;
  std::uint64_t admin_completion_ = 0;
  std::array<Submission, queues_max> submissions_{};
  std::array<Completion, queues_max> completions_{};
  std::deque<Fetched> fetched_;
  std::vector<Fetched> late_;  ///< answered and not done yet: on a machine that is ill
};

}  // namespace nobounce::fabric
