// Session: the place where a host's stages are wired together. Opens files, owns memory, transfers,
// keeps the ledger.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nobounce/batch.hpp>
#include <nobounce/drive.hpp>
#include <nobounce/file.hpp>
#include <nobounce/finding.hpp>
#include <nobounce/host.hpp>
#include <nobounce/ledger.hpp>
#include <nobounce/machine.hpp>
#include <nobounce/peer.hpp>
#include <nobounce/region.hpp>
#include <nobounce/result.hpp>
#include <nobounce/route.hpp>
#include <nobounce/transfer.hpp>

namespace nobounce {

namespace session {
struct SessionState;
struct SessionAccess;
}  // namespace session

struct SessionOptions {
  std::uint64_t pinned_bytes_max =
      128u << 20;  ///< bounce memory in host DRAM, at most, for the whole session
  std::uint64_t slot_bytes = 4u << 20;  ///< of one bounce slot; a multiple of 4096
  std::uint32_t readers = 0;  ///< workers that read and write files; 0: by the number of CPUs
  bool rotate_slots =
      false;  ///< staging uses all of pinned_bytes_max in turn, so that no cache holds its slots
  bool warn_on_close = true;  ///< one line on stderr when the session staged under direct_preferred
  bool configure_cufile =
      true;  ///< give libcufile our private configuration, where we are the first to open it
  bool publish_ledger = true;  ///< in a shared segment, for `nobounce stat`
};

/// Move-only. Thread-safe: any number of threads may transfer at once. Every Region, File,
/// Transfer and Batch must be gone before it. In a forked child every call answers `session.forked`
/// and touches nothing.
class Session {
 public:
  /// Reads the machine and opens what is there. A machine without GPU opens too; what needs one
  /// then answers machine.no_gpu. The host must outlive the session.
  [[nodiscard]] static Result<Session> open(Host& host, const SessionOptions& options = {});
  explicit Session(std::unique_ptr<session::SessionState> state);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  [[nodiscard]] const Machine& machine() const;
  [[nodiscard]] HostKind host_kind() const;

  /// GPU memory (cuMemAlloc) of machine GPU `gpu`, owned by the region.
  [[nodiscard]] Result<Region> allocate(std::uint32_t gpu, std::uint64_t length_bytes);
  /// Pinned host memory that the caller may touch, owned by the region; plain memory on a machine
  /// without GPU.
  [[nodiscard]] Result<Region> allocate_host(std::uint64_t length_bytes, std::uint32_t numa = 0);
  /// Memory that stays the caller's: its kind and GPU are asked of the driver.
  [[nodiscard]] Result<Region> adopt(DevicePointer address, std::uint64_t length_bytes);
  [[nodiscard]] Result<Region> adopt_host(std::byte* address, std::uint64_t length_bytes);

  /// Origin os with the path for what cannot be opened; origin input for directories, FIFOs and
  /// devices.
  [[nodiscard]] Result<File> open_file(std::string_view path, const FileOptions& options = {});

  /// Takes a raw NVMe drive by its PCI address. Refused where a partition is mounted, holds swap or
  /// is built on (nvme.in_use), where the drive is not bound to vfio-pci (nvme.not_vfio, with the
  /// commands that bind it), and without DriveOptions::take (nvme.take_needed).
  [[nodiscard]] Result<OwnedDrive> take_drive(std::string_view bdf, const DriveOptions& options);

  /// What would happen: every candidate with its findings, the segments, the causes. Moves nothing.
  [[nodiscard]] Result<Route> plan(const Place& source, const Place& target, Policy policy);

  /// Moves length_bytes(source) bytes, which must equal those of the target. The two may not share
  /// a byte: origin input, and nothing moves. Blocks until the end.
  [[nodiscard]] Outcome transfer(const Place& source, const Place& target,
                                 const TransferOptions& options = {});
  /// The same without waiting. Errors that need no I/O to be seen come back here, with no receipt.
  [[nodiscard]] Result<Transfer> start(const Place& source, const Place& target,
                                       const TransferOptions& options = {});
  /// Many at once. What is wrong with one request is that request's outcome and stops no other; an
  /// error here means that none was started. Planning allocates; moving does not.
  [[nodiscard]] Result<Batch> start_batch(std::span<const TransferRequest> requests,
                                          const BatchOptions& options = {});

  /// Offers regions to other processes. Nothing is offered before Server::serve.
  [[nodiscard]] Result<Server> listen(const ListenOptions& options = {});
  /// Connects to a server at `HOST:PORT` and shakes hands. Origin remote or os:
  /// remote.unreachable, remote.authentication_failed, remote.handshake_invalid,
  /// remote.too_many_connections.
  [[nodiscard]] Result<Peer> connect(std::string_view address, const ConnectOptions& options = {});

  /// XXH3 (128 bit, 32 hex digits) of a place's bytes. Files are read with O_DIRECT where possible,
  /// GPU memory through plain host memory, a peer's memory over the connection. For verification,
  /// outside any receipt.
  [[nodiscard]] Result<std::string> checksum(const Place& place);

  /// Fills a place in memory with the seeded pattern that the command line uses as a source.
  [[nodiscard]] Status fill_pattern(const Place& place, std::uint64_t seed);

  /// Enables peer access and answers the pointer that a kernel on `gpu` may dereference to reach a
  /// region of another GPU. Valid as long as the region, and as nobody disables the access. A
  /// kernel's own stores are in no receipt. Origin cuda where the pair cannot: nothing is staged
  /// instead.
  [[nodiscard]] Result<DevicePointer> map_peer(const Region& region, std::uint32_t gpu);

  /// The findings for storage between a path (existing, or to be created) and a GPU, in the given
  /// direction.
  [[nodiscard]] Result<std::vector<Finding>> check_storage(std::string_view path, std::uint32_t gpu,
                                                           bool writing);

  [[nodiscard]] LedgerSnapshot ledger() const;
  /// `gpu:0`, `drive:nvme0n1`, `file:/data/a.bin`, `host:0`, `rdma://127.0.0.1:4711/weights`.
  [[nodiscard]] std::string name_of(DeviceRef device) const;
  /// What a receipt is shown with (<nobounce/receipt_text.hpp>). While its files are open.
  [[nodiscard]] ReceiptNames names_of(const Receipt& receipt) const;

 private:
  friend struct session::SessionAccess;
  std::unique_ptr<session::SessionState> state_;
};

/// The ledgers of all running sessions of this user, or of one process (0: all). Ledgers that a
/// killed process left behind are shown once as not alive and removed.
[[nodiscard]] Result<std::vector<LedgerSnapshot>> read_ledgers(Host& host,
                                                               std::uint64_t process_id = 0);

}  // namespace nobounce
