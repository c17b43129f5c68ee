// SoftHost: system::Host over a model of the bus, built from any Machine. It behaves as the real
// one does, silences included, and keeps a ledger that only the bus writes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <nobounce/machine.hpp>
#include <nobounce/result.hpp>
#include "fabric/mutant.hpp"
#include "fabric/soft_kernel.hpp"
#include "system/cuda_types.hpp"
#include "system/host.hpp"

namespace nobounce::fabric {

class Bus;
class Ledger;
struct Medium;

/// Faults, as probabilities per event (0..1) or switches. Each is something a real machine does.
struct SoftFaults {
  double read_error = 0;             ///< a drive read answers EIO
  double write_error = 0;            ///< a drive write answers EIO
  double short_read = 0;             ///< pread and cuFileRead return less than asked
  double dma_fault = 0;              ///< a peer DMA is lost on the bus: cuFile answers an error
  double cuda_error = 0;             ///< an asynchronous copy fails its stream
  double cufile_refusal = 0;         ///< cuFileRead/Write refuse a request
  double pin_failure = 0;            ///< cuFileBufRegister fails
  double packet_loss = 0;            ///< a packet between adapters never arrives, and is sent again
  bool registrations_stuck = false;  ///< adapters give no registration back
  /// Host memory that adapters may lock in all; 0: as much as there is.
  std::uint64_t memlock_bytes = 0;
  /// The library stages although its configuration forbids it (a lie to catch).
  bool compat_in_silence = false;
  bool statistics_stuck = false;    ///< cuFile statistics do not move
  bool statistics_missing = false;  ///< the statistics functions are absent (libcufile < 1.15)
  /// Somebody in this process opened cuFile before us, with its defaults.
  bool cufile_opened_before = false;
  /// nvidia_fs goes away after that many requests; 0: never.
  std::uint64_t module_unloaded_after_requests = 0;
  double nvme_reorder = 0;          ///< a drive takes any of the commands it has, not the oldest
  double nvme_delay = 0;            ///< it does nothing for a step
  double nvme_transfer_error = 0;   ///< a command ends with Data Transfer Error
  double nvme_lost_completion = 0;  ///< a command is done and never answered
  double nvme_fatal = 0;            ///< the controller reports a fatal status at a command
  double nvme_wrong_id = 0;         ///< a completion names a command that is not in flight
  bool nvme_never_ready = false;    ///< it does not become ready
  /// Something no real machine does: planted by a test, for other tests to notice.
  Mutant mutant = Mutant::none;
};

struct SoftOptions {
  bool deterministic = false;
  std::uint64_t seed = 1;
  SoftFaults faults;
  /// Count CPU touches of bounce memory by a SIGSEGV handler (tests) instead of dying.
  bool trap_cpu_touches = false;
};

/// GPU memory of another process of the machine, as that exported it.
struct OtherProcessMemory {
  system::cuda::CUipcMemHandle handle{};
  DevicePointer memory;  ///< where it lies, for the bus alone
};

class SoftHost : public system::Host {
 public:
  /// Origin fabric or input for machines that cannot be built.
  [[nodiscard]] static Result<std::unique_ptr<SoftHost>> create(const Machine& machine,
                                                                const SoftOptions& options = {});
  [[nodiscard]] virtual const Machine& machine() const = 0;
  [[nodiscard]] virtual Bus& bus() = 0;
  [[nodiscard]] virtual const Ledger& ledger() const = 0;
  [[nodiscard]] virtual SoftFaults& faults() = 0;
  /// Queues a kernel on a stream of the calling thread's current CUDA context (null: its default
  /// stream). Answers as cuLaunchKernel does; error_no_device on a machine without GPU.
  [[nodiscard]] virtual system::cuda::CUresult launch(system::cuda::CUstream stream,
                                                      Kernel kernel) = 0;
  /// Another process allocates GPU memory and exports it: what cuIpcOpenMemHandle needs. Origin
  /// fabric where the GPU has no room.
  [[nodiscard]] virtual Result<OtherProcessMemory> export_from_other_process(
      std::uint32_t gpu, std::uint64_t length_bytes) = 0;
  /// What a drive that a process may own (driver vfio-pci) holds; nothing for other drives.
  [[nodiscard]] virtual std::optional<Medium> raw_medium(std::uint32_t drive) = 0;
  static constexpr std::uint64_t raw_medium_bytes = 1u << 30;
  /// CPU touches of bounce memory outside the seam.
  [[nodiscard]] virtual std::uint64_t cpu_touches() const = 0;
};

}  // namespace nobounce::fabric
