// The bus: one physical address space with DRAM, GPU windows and media behind it. Every byte that
// moves on a software machine moves here, and what moved is written into the ledger here and
// nowhere else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <nobounce/machine.hpp>
#include <nobounce/result.hpp>
#include <nobounce/units.hpp>
#include "fabric/ledger.hpp"
#include "fabric/mutant.hpp"

namespace nobounce::fabric {

/// An open file on a drive of the machine (or on none: tmpfs, overlay; its bytes then lie in DRAM
/// node 0). `descriptor` is a real one of this process and stays its opener's; `inode` names the
/// file in the ledger.
struct Medium {
  std::optional<std::uint32_t> drive;
  int descriptor = -1;
  std::uint64_t inode = 0;
  bool operator==(const Medium&) const = default;
};

/// One end of a request as its initiator names it.
struct End {
  enum class Kind : std::uint8_t {
    address,  ///< a bus address: whoever claims it answers: DRAM, or a GPU through its BAR1 window
    vram,  ///< GPU memory by device pointer: only GPUs can name it (by their own or a peer mapping)
    medium,  ///< bytes of a file: only the drive (or the NIC it hangs behind) can name them
  };
  Kind kind = Kind::address;
  BusAddress address;
  DevicePointer pointer;
  Medium medium;
  FileOffset offset;

  [[nodiscard]] static End at(BusAddress address) { return {.address = address}; }
  [[nodiscard]] static End of(DevicePointer pointer) {
    return {.kind = Kind::vram, .pointer = pointer};
  }
  [[nodiscard]] static End of(const Medium& medium, FileOffset offset) {
    return {.kind = Kind::medium, .medium = medium, .offset = offset};
  }
};

enum class BusOutcome : std::uint8_t {
  done,  ///< `bytes` arrived: all that was asked, or fewer at the end of a file
  lost,  ///< a peer request that no host bridge forwards, or that the IOMMU does not know: target
         ///< unchanged
  faulted,      ///< the fault `dma_fault` struck: target unchanged
  io_error,     ///< the medium answered errno; `bytes` arrived before it
  bad_address,  ///< nobody claims the address (for the whole length), or the initiator cannot name
                ///< it: nothing moved
};

struct Carried {
  BusOutcome outcome = BusOutcome::done;
  std::uint64_t bytes = 0;
  int errno_value = 0;      ///< with io_error
  Link link = Link::none;   ///< the widest thing crossed; none where nothing was
  bool redirected = false;  ///< an ACS port (or the IOMMU) sent it up to the host bridge
  [[nodiscard]] bool ok() const { return outcome == BusOutcome::done; }
};

/// How a file is read or written by the CPU's orders.
enum class FileIo : std::uint8_t {
  buffered,  ///< drive <-> page cache by DMA, page cache <-> buffer by the CPU
  direct,    ///< O_DIRECT: drive <-> the buffer's DRAM
};

/// What DRAM is allocated for.
enum class DramUse : std::uint8_t {
  user,      ///< the process may read and write its view
  bounce,    ///< the process's view is PROT_NONE: a CPU touch outside the bus faults
  internal,  ///< a driver's own: no view at all, flagged internal in the ledger
};

struct DramBuffer {
  BusAddress address;
  std::byte* view = nullptr;  ///< what the process sees; null for `internal`
  std::uint64_t length_bytes = 0;
  std::uint32_t node = 0;
  DramUse use = DramUse::user;
};

/// An atomic update of a word of 4 or 8 bytes.
struct BusUpdate {
  enum class Kind : std::uint8_t { add, exchange, compare_exchange };
  Kind kind = Kind::add;
  std::uint64_t length_bytes = 8;
  std::uint64_t operand = 0;
  std::uint64_t expected = 0;  ///< of compare_exchange
};

/// Registers of a device behind its BAR0: a request to them is the device's to answer.
class RegisterFile {
 public:
  virtual ~RegisterFile() = default;
  /// Of 4 or 8 bytes, aligned. Called in the thread of the request, with no lock of the bus held.
  [[nodiscard]] virtual std::uint64_t load(std::uint64_t offset, std::size_t bytes) = 0;
  virtual void store(std::uint64_t offset, std::uint64_t value, std::size_t bytes) = 0;
};

struct BusOptions {
  /// Asked once per peer request of a drive or NIC, and per peer copy: true loses it (`faulted`).
  /// May be empty.
  std::function<bool()> dma_fault;
  /// Called after each request with its length, outside all locks of the bus: a virtual clock
  /// advances here.
  std::function<void(std::uint64_t)> carried;
  bool trap_cpu_touches =
      false;  ///< count touches of bounce views by a SIGSEGV handler, open the page and go on
  Mutant mutant = Mutant::none;  ///< planted by a test, for other tests to notice
};

/// Thread-safe: requests run in parallel, in the threads of their callers; a request blocks until
/// it is carried. All lengths of zero are `done` with nothing recorded. Payload is counted 1:1 on
/// every link and DRAM node it crosses.
class Bus {
 public:
  static constexpr std::uint64_t bar1_window_bytes = 64u << 10;

  [[nodiscard]] static Result<std::unique_ptr<Bus>> create(const Machine& machine,
                                                           BusOptions options = {});
  virtual ~Bus() = default;

  [[nodiscard]] virtual const Machine& machine() const = 0;
  /// Whether this machine is ill in that way. The parts of a machine ask the bus that they share.
  [[nodiscard]] virtual bool planted(Mutant mutant) const = 0;
  [[nodiscard]] virtual const Ledger& ledger() const = 0;
  [[nodiscard]] virtual Ledger&
  ledger() = 0;  ///< for clear_requests in tests; record_* is the bus's alone

  // --- Host DRAM
  // -----------------------------------------------------------------------------------------------------
  /// Zeroed, page-aligned. Origin fabric where the node has less memory than that, os where the
  /// real machine has.
  [[nodiscard]] virtual Result<DramBuffer> allocate_dram(std::uint32_t node,
                                                         std::uint64_t length_bytes,
                                                         DramUse use) = 0;
  virtual void free_dram(const DramBuffer& buffer) = 0;
  /// The bus address of host memory by the process's pointer. Pointers into buffers of
  /// allocate_dram answer their DRAM; all others (the caller's own memory) lie in the process
  /// window, on DRAM node 0.
  [[nodiscard]] virtual BusAddress address_of(const void* pointer) const = 0;
  /// Times the process touched bounce views with the CPU (with trap_cpu_touches).
  [[nodiscard]] virtual std::uint64_t cpu_touches() const = 0;

  // --- GPU memory
  // ----------------------------------------------------------------------------------------------------
  /// GPU memory lies linearly from here; the CPU cannot dereference these numbers.
  [[nodiscard]] virtual DevicePointer vram_base(std::uint32_t gpu) const = 0;
  /// Whose memory a device address stands for, by itself or by a mapping.
  [[nodiscard]] virtual std::optional<std::uint32_t> gpu_of(DevicePointer pointer) const = 0;
  /// Whether it is a device address at all, mapped or not: no CPU can dereference it.
  [[nodiscard]] virtual bool is_device_address(DevicePointer pointer) const = 0;
  /// Device addresses from here on (16 TiB and more) stand for nothing until they are mapped.
  [[nodiscard]] virtual DevicePointer device_window() const = 0;
  /// Makes a range of that window stand for GPU memory. One request crosses no two mappings.
  virtual void map_device(DevicePointer at, std::uint64_t length_bytes, DevicePointer memory) = 0;
  virtual void unmap_device(DevicePointer at) = 0;
  /// Flags a range as the driver's own in the ledger (a bounce cache inside the GPU); `internal`
  /// false takes it back.
  virtual void mark_internal(DevicePointer pointer, std::uint64_t length_bytes, bool internal) = 0;
  /// Gives the real memory behind a freed range back; it reads as zeros afterwards.
  virtual void discard_vram(DevicePointer pointer, std::uint64_t length_bytes) = 0;

  // --- BAR1
  // ----------------------------------------------------------------------------------------------------------
  /// Maps the 64 KiB windows that cover the range, side by side, and answers the bus address of its
  /// first byte. Origin fabric with detail "BAR1 exhausted" where no such run of windows is free.
  [[nodiscard]] virtual Result<BusAddress> map_bar1(DevicePointer pointer,
                                                    std::uint64_t length_bytes) = 0;
  /// Undoes one map_bar1 (the address it answered). False if there is no such mapping.
  virtual bool unmap_bar1(BusAddress address) = 0;
  [[nodiscard]] virtual std::uint64_t bar1_used_bytes(std::uint32_t gpu) const = 0;
  /// With a translating IOMMU: makes a range of bus addresses known to it, for every device.
  virtual void map_iommu(BusAddress address, std::uint64_t length_bytes) = 0;
  virtual void unmap_iommu(BusAddress address) = 0;

  // --- Registers
  /// The bus address of a drive's BAR0, whether anything answers there or not.
  [[nodiscard]] virtual BusAddress registers_of(std::uint32_t drive) const = 0;
  static constexpr std::uint64_t registers_bytes = 64u << 10;
  /// Makes a drive's registers answer. It must outlive detach_registers.
  virtual void attach_registers(std::uint32_t drive, RegisterFile& registers) = 0;
  virtual void detach_registers(std::uint32_t drive) = 0;
  /// Addresses of this process that stand for a drive's registers, for a driver to map for a GPU:
  /// address_of answers their bus address, and the CPU faults on them. Empty where the system has
  /// no room.
  [[nodiscard]] virtual std::span<std::byte> register_view(std::uint32_t drive) = 0;
  /// Whether a range lies in one of these views.
  [[nodiscard]] virtual bool is_register_view(const void* pointer, std::uint64_t bytes) const = 0;
  /// What the CPU's loads and stores through a mapped BAR do. All ones where nothing answers.
  [[nodiscard]] virtual std::uint64_t cpu_load_register(BusAddress source, std::size_t bytes) = 0;
  virtual void cpu_store_register(BusAddress target, std::uint64_t value, std::size_t bytes) = 0;

  // --- Movement
  // ------------------------------------------------------------------------------------------------------
  /// A DMA of a device. Drives and NICs: medium <-> address. A drive behind a NIC is moved by that
  /// NIC: name the drive as initiator, the bus puts the NIC in its place. Copy engines: vram <->
  /// DRAM address, vram <-> vram of the same GPU, vram <-> vram of a peer (NVLink where the pair
  /// has it, else PCIe; whether peer access was enabled is the driver's affair). The file system
  /// below a medium may move fewer bytes only at the end of a file.
  virtual Carried dma(Initiator initiator, const End& source, const End& target,
                      std::uint64_t length_bytes) = 0;

  /// A DMA of a drive between its own registers and an address: queue entries, lists. Aligned words
  /// of up to 8 bytes whole. A load that is lost answers all ones.
  virtual Carried device_load(std::uint32_t drive, BusAddress source,
                              std::span<std::byte> target) = 0;
  virtual Carried device_store(std::uint32_t drive, std::span<const std::byte> source,
                               BusAddress target) = 0;
  /// A DMA of an adapter between memory and a packet of its own, which has `wire_address` between
  /// adapters. A write that is lost on its way is lost in silence, as posted writes are: the answer
  /// is for whoever looks at the machine, not for the adapter.
  virtual Carried send_packet(std::uint32_t nic, BusAddress source, std::span<std::byte> packet,
                              std::uint64_t wire_address) = 0;
  virtual Carried receive_packet(std::uint32_t nic, std::span<const std::byte> packet,
                                 std::uint64_t wire_address, BusAddress target) = 0;

  /// Reads or writes a file into or from host memory on the CPU's order, as pread and pwrite do.
  virtual Carried read_file(const Medium& medium, FileOffset offset, BusAddress target,
                            std::uint64_t length_bytes, FileIo io) = 0;
  virtual Carried write_file(const Medium& medium, FileOffset offset, BusAddress source,
                             std::uint64_t length_bytes, FileIo io) = 0;

  /// A CPU copy inside host DRAM. May overlap.
  virtual Carried cpu_copy(BusAddress target, BusAddress source, std::uint64_t length_bytes) = 0;
  /// A GPU fills its own memory.
  virtual Carried fill_vram(DevicePointer target, std::uint8_t value,
                            std::uint64_t length_bytes) = 0;

  /// What a kernel's thread does: GPU memory, its own or a peer's, or DRAM; to and from registers.
  /// Whether the GPU has it mapped is the driver's affair. A load that is lost answers all ones.
  virtual Carried kernel_load(std::uint32_t gpu, const End& source,
                              std::span<std::byte> target) = 0;
  virtual Carried kernel_store(std::uint32_t gpu, std::span<const std::byte> source,
                               const End& target) = 0;
  /// What the front end of a GPU sees of 8 aligned bytes that a stream waits for. Counted nowhere:
  /// how often it looks is nobody's traffic. 0 where nothing lies there.
  [[nodiscard]] virtual std::uint64_t watch_word(const End& source) const = 0;
  /// Atomic for all kernels; `before` is what was there.
  virtual Carried kernel_update(std::uint32_t gpu, const End& target, const BusUpdate& order,
                                std::uint64_t& before) = 0;

  // --- For looking at, unrecorded: tests and oracles
  // ----------------------------------------------------------------
  virtual bool inspect(const End& source, std::span<std::byte> target) const = 0;
  virtual bool plant(const End& target, std::span<const std::byte> source) = 0;
  /// The extents that arrivals() is asked about. A medium's `internal` and memory's are filled in.
  [[nodiscard]] virtual Extent extent_of(const End& end) const = 0;
  /// Address ranges of this process that are GPU memory, for an oracle to leave out.
  [[nodiscard]] virtual std::vector<std::span<const std::byte>> vram_mappings() const = 0;
};

}  // namespace nobounce::fabric
