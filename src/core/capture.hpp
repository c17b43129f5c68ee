// What captured text says: its pieces with their facts, and signs, which a judge turns into
// verdicts. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.hpp"

namespace nobounce::core {

/// One line of a text, as evidence.
struct TextLine {
  std::string file;
  std::uint64_t line = 0;  ///< from 1, of the text as it was given
  std::string text;        ///< well-formed UTF-8, without escapes, cut at some hundred bytes

  bool operator==(const TextLine&) const = default;
};

/// A stretch of a text in one format.
struct CapturePiece {
  std::string kind;  ///< `topo_m`, `nccl_log`, ...
  std::string file;
  std::uint64_t first_line = 0;
  std::uint64_t last_line = 0;
  JsonObject facts;

  bool operator==(const CapturePiece&) const = default;
};

/// What one or a few lines say. Devices are named as the text names them: `GPU0`, `mlx5_0`, a bus
/// address, a path.
enum class SignKind : std::uint8_t {
  // What the machine is like: context for other signs, never a use.
  level,             ///< source, target, word: PIX, NV18, ...
  nic_name,          ///< source NIC0, word mlx5_0
  product,           ///< source GPU0, word: the product's name
  gpu_address,       ///< source GPU0, word: its bus address
  gpu_memory,        ///< source GPU0 or nothing, value: MiB
  bar1_size,         ///< source GPU0 or an address or nothing, value: MiB
  guest,             ///< a virtual machine
  coherent,          ///< GPUs are joined to processors by a coherent link
  peer_status,       ///< source, target, word: OK, NS, CNS, ...; other: the property that was asked
  peer_access,       ///< source, target, value: 1 can, 0 cannot
  module_loaded,     ///< word, value: use count
  module_absent,     ///< word
  memory_peers,      ///< value: 1 the directory is there, 0 it is not
  acs_redirect,      ///< source: the port, or nothing
  acs_validation,    ///< a port that validates sources and redirects nothing
  acs_clear,         ///< a port whose control bits are clear
  acs_unreadable,    ///< no ACS lines without root
  nic_shown,         ///< a text shows network adapters
  link_downtrained,  ///< source, word: what LnkSta says
  iommu_translated,  ///< a risk that a text names
  iommu_off,         ///< the command line switches it off
  driver_registered,  ///< word: with nvidia-fs
  mount,              ///< source device, target mount point, word file system
  library_version,    ///< word nccl, rccl; value: 2.20.5 as 22005
  setting,            ///< word: name, other: value
  topology_shown,     ///< devices and distances, no use
  nvlink_hidden,      ///< a form of topo that shows PCIe only
  // GPU to GPU.
  peer_use,          ///< source, target, word: P2P/CUMEM
  shared_memory,     ///< source, target, word: SHM/direct/direct
  peer_disabled,     ///< source, target: the driver says not OK; value 1: over NVLink
  peer_measured,     ///< source, target, numbers: bandwidth off, on; both ways off, on; latency ...
  peer_connected,    ///< source, target: a matrix says it is possible
  peer_bandwidth,    ///< source, target, value: of a test that checks data and needs a mapping
  peer_waived,       ///< a test was left out because the mapping is refused
  peer_mismatch,     ///< wrong data; source and target may be empty
  peer_data_good,    ///< source, target: the owner of the target saw the data
  peer_data_bad,     ///< source, target: the owner of the target did not
  iommu_fault,       ///< source: the device, word: its driver
  peer_unmapped,     ///< source, target: not mapped through the IOMMU
  peer_dma_refused,  ///< source client, target provider, word: its driver
  // GPU and adapter.
  net_use,              ///< source GPU, target adapter, direction, word: plugin, value 1: GDRDMA;
                        ///< numbers: where it goes through another GPU, that one's, or -1
  collective_timeout,   ///< a collective of the job did not end
  net_error,            ///< value: status, second: vendor error, direction
  gdr_off_adapter,      ///< target adapter, word: plugin: it cannot take GPU memory
  gdr_on_adapter,       ///< target adapter: a capability
  gdr_off_distance,     ///< source GPU, target adapter, value: distance, second: limit
  gdr_on_distance,      ///< the same, allowed: policy, no use
  gdr_off_plugin,       ///< word: plugin: it says so itself
  gdr_off_topology,     ///< a topology file: gdr is 0; source GPU, target adapter
  gpu_dmabuf,           ///< source GPU: a capability
  sockets_chosen,       ///< the library chose sockets; value 1: no verbs library or device;
                        ///< second 1: transports are shown, and none leaves the node
  adapters_chosen,      ///< the library found RDMA adapters
  graph_shown,          ///< a library's own view of the machine
  module_refused,       ///< word: the module that did not load
  registration_failed,  ///< value: bytes asked for, other: why
  buffer_registered,  ///< perftest: source GPU, target adapter, value: rate, second: of host memory
  host_memory_run,    ///< a measurement without GPU memory
  protocol,           ///< UCX: direction: inter or intra, word: zero_copy, emulated, ...
  registered_bytes,   ///< value: through a peer-memory client
  transport_skipped,  ///< RDMA left out because no peer-memory module was found
  port_down,          ///< source: adapter
  port_active,        ///< source: adapter
  // GPU and storage.
  route_row,             ///< gdscheck: source row, word: supported, unsupported, or routes
  storage_check,         ///< gdscheck as a whole: word: summary of its settings
  storage_benchmark,     ///< gdsio: word XferType, other IoType, value: operations
  register_refused,      ///< source: the file
  driver_counter,        ///< nvidia-fs: source reads or writes, value: before, second: after;
                         ///< numbers: ok, err, MiB, each before and after, below zero: not shown
  driver_counting,       ///< value 1: on, 0: off
  storage_direct,        ///< cuFile says so; value: operations
  storage_posix,         ///< cuFile says that it staged; value: operations
  storage_obstacle,      ///< cuFile names a reason; word: cause id, source: device
  storage_failed,        ///< cuFile says that a request failed; other: the process
  window_exhausted,      ///< value: bytes asked for, second: bytes left
  module_without_users,  ///< nvidia-fs is loaded and nothing uses it
  pin_refused,           ///< word: who asked for GPU pages and was refused
  // Who issues.
  cpu_rings,          ///< a CPU thread rings the doorbell
  doorbell_unmapped,  ///< the GPU cannot reach the doorbell
  memops_absent,      ///< stream memory operations
  device_fallback,    ///< the library left a GPU-initiated mode
  // Counters that say nothing by themselves.
  counters_alone,
  net_unreached,  ///< target adapter, word: what the call to connect answered
  fabric_down,    ///< NVSwitches are not set up
  gpu_lost,       ///< source: its bus address; the driver cannot reach it any more
};

struct CaptureSign {
  SignKind kind = SignKind::topology_shown;
  std::string source;
  std::string target;
  std::string direction;
  std::string word;
  std::string other;
  std::string host;  ///< the node, in texts of several
  double value = 0;
  double second = 0;
  std::vector<double> numbers;
  std::vector<TextLine> lines;
  std::uint64_t piece = 0;  ///< index in Captures::pieces

  bool operator==(const CaptureSign&) const = default;
};

struct Captures {
  std::vector<CapturePiece> pieces;
  std::vector<CaptureSign> signs;

  bool operator==(const Captures&) const = default;
};

}  // namespace nobounce::core
