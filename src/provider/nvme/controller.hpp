// An NVMe controller of ours: brought up, asked what it is, given one pair of I/O queues, and shut
// down.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nobounce/result.hpp>
#include "provider/nvme/prp.hpp"
#include "provider/nvme/queue_pair.hpp"
#include "system/host.hpp"
#include "system/pci.hpp"

namespace nobounce::provider::nvme {

struct ControllerOptions {
  std::uint32_t queue_entries = 64;  ///< of the I/O queues; fewer where the drive has fewer
  std::uint64_t command_timeout_ns = 10'000'000'000;  ///< of admin and I/O commands
  std::uint64_t abort_timeout_ns = 2'000'000'000;     ///< after which the controller is reset
  std::uint64_t shutdown_timeout_ns = 5'000'000'000;
  std::uint64_t transfer_bytes_most = 2u << 20;  ///< of one command, whatever the drive could do
  /// Memory for the I/O queues instead of the driver's own: anywhere the CPU and the drive reach,
  /// such as a peer's BAR. At least a page each.
  std::optional<system::DmaBuffer> submission_memory;
  std::optional<system::DmaBuffer> completion_memory;
};

/// What the drive says of itself.
struct Identity {
  std::string model;
  std::string serial;
  std::uint32_t name_space = 1;
  std::uint32_t block_bytes = 512;
  std::uint64_t blocks = 0;
  std::uint64_t transfer_bytes_max = 0;  ///< by MDTS, our own limit and the list of a slot
  bool volatile_cache = false;
  [[nodiscard]] std::uint64_t length_bytes() const { return blocks * block_bytes; }
};

/// Not thread-safe. Every wait has a deadline. The function and the host must outlive it.
class Controller {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Controller>> open(
      system::Host& host, system::PciFunction& function, const ControllerOptions& options = {});
  /// Shuts down as far as the controller answers.
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  [[nodiscard]] const Identity& identity() const { return identity_; }
  [[nodiscard]] QueuePair& io() { return *io_; }
  [[nodiscard]] const ControllerOptions& options() const { return options_; }
  [[nodiscard]] system::PciFunction& function() { return function_; }
  [[nodiscard]] std::uint64_t page_bytes() const { return page_bytes_; }

  /// Submits a read or write of whole blocks, at most transfer_bytes_max, to the I/O queue, which
  /// must have room; not rung. Cause nvme.unaligned.
  [[nodiscard]] Result<std::uint16_t> submit(system::nvme::Opcode opcode, std::uint64_t block,
                                             std::uint64_t blocks, Iova memory);

  /// Moves whole blocks and waits for the end; splits by MDTS. For set-up, probes and tests.
  [[nodiscard]] Status transfer(system::nvme::Opcode opcode, std::uint64_t block,
                                std::uint64_t blocks, Iova memory);
  /// One command as it stands, and its completion, whatever its status.
  [[nodiscard]] Result<Completion> execute(Command command);
  [[nodiscard]] Status flush();

  /// Where a further pair of queues lies, for somebody else to use: the drive's own addresses, both
  /// at page boundaries, and entries that are powers of two.
  struct GuestQueue {
    std::uint16_t id = 0;
    Iova submission;
    std::uint32_t submission_entries = 0;
    Iova completion;
    std::uint32_t completion_entries = 0;
  };
  /// A restart of the controller ends such queues: see guests_lost.
  [[nodiscard]] Status create_guest(const GuestQueue& queue);
  [[nodiscard]] Status delete_guest(std::uint16_t id);
  /// Offsets of its doorbells in BAR 0.
  [[nodiscard]] std::uint64_t submission_doorbell(std::uint16_t id) const;
  [[nodiscard]] std::uint64_t completion_doorbell(std::uint16_t id) const;
  /// How many pairs the drive grants beside its driver's own.
  [[nodiscard]] std::uint32_t guests_max() const { return guests_max_; }
  /// How often the queues of others ended with a restart.
  [[nodiscard]] std::uint64_t restarts() const { return restarts_; }

  /// Whether the controller says that it can go on. Causes nvme.controller_fatal.
  [[nodiscard]] Status health();
  /// Asks the drive to abort a command of the I/O queue. The command's own completion still comes.
  [[nodiscard]] Status abort(std::uint16_t id);
  /// Disables and sets up anew; what was in flight is gone. Nothing in flight reaches memory
  /// afterwards.
  [[nodiscard]] Status restart();
  /// Stops I/O, deletes the queues, tells the drive, and disables it.
  [[nodiscard]] Status shut_down();

 private:
  Controller(system::Host& host, system::PciFunction& function, const ControllerOptions& options);
  [[nodiscard]] Status bring_up();
  [[nodiscard]] Status allocate();
  [[nodiscard]] Status disable();
  [[nodiscard]] Status enable();
  [[nodiscard]] Status identify();
  [[nodiscard]] Status identify_name_space();
  [[nodiscard]] Status create_io_queues();
  [[nodiscard]] Result<system::DmaBuffer> dma(std::uint64_t length_bytes);
  [[nodiscard]] PrpList list_of(std::uint16_t id) const;
  [[nodiscard]] Result<Command> io_command(system::nvme::Opcode opcode, std::uint64_t block,
                                           std::uint64_t blocks, Iova memory) const;
  [[nodiscard]] Result<Completion> admin(Command command, const char* attempted);
  [[nodiscard]] Result<Completion> run(QueuePair& queue, Command command, const char* attempted);
  [[nodiscard]] Status wait_ready(bool wanted, const char* attempted);
  [[nodiscard]] Error failed(const char* attempted, Cause cause, std::string detail) const;

  system::Host& host_;
  system::PciFunction& function_;
  ControllerOptions options_;
  system::nvme::Capabilities capabilities_;
  std::uint64_t page_bytes_ = 4096;
  std::uint64_t list_bytes_ = 0;
  Identity identity_;
  std::vector<system::DmaBuffer> buffers_;
  system::DmaBuffer scratch_;  ///< a page for what the drive answers
  system::DmaBuffer lists_;
  std::optional<QueuePair> admin_;
  std::optional<QueuePair> io_;
  bool enabled_ = false;
  bool usable_ = true;  ///< its queues are as the driver thinks
  std::uint32_t guests_max_ = 0;
  std::uint64_t restarts_ = 0;
};

}  // namespace nobounce::provider::nvme
