// Machine: a plain value that says what a host is made of and what is installed on it
// (`nobounce.machine/1`).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nobounce/receipt.hpp>
#include <nobounce/result.hpp>
#include <nobounce/words.hpp>

namespace nobounce {

enum class IommuMode : std::uint8_t { off, identity, translated, unknown };

/// Access control services of a port, as far as peer traffic cares. `inherit`: as the switch says
/// (ports only). `redirect`: RR, CR or EC set. `source_validation`: SV alone, harmless. `unknown`:
/// not readable.
enum class AcsMode : std::uint8_t { off, redirect, source_validation, unknown, inherit };

/// Does the host bridge forward peer requests that reach it? `unknown` on machines where nobody can
/// tell.
enum class PeerForwarding : std::uint8_t { refused, allowed, unknown };

/// NVIDIA's peer status words (`nvidia-smi topo -p2p`).
enum class PeerStatus : std::uint8_t { ok, cns, gns, tns, ns, dr, unknown };

/// What a GPU is to this machine: `whole`; split into instances (`mig`); a share of one that a
/// hypervisor hands out (`vgpu`); or on the processor's own memory (`integrated`).
enum class GpuMode : std::uint8_t { whole, mig, vgpu, integrated };

struct KernelFacts {
  std::string release = "6.8.0";
  bool pci_p2pdma = false;  ///< CONFIG_PCI_P2PDMA and a driver that uses it
  bool dmabuf = true;       ///< dma-buf export of GPU memory works
  IommuMode iommu = IommuMode::off;
  bool operator==(const KernelFacts&) const = default;
};

struct ModuleFacts {
  bool nvidia_fs = false;
  bool nvidia_peermem = false;
  bool nvme = true;
  bool operator==(const ModuleFacts&) const = default;
};

struct NumaNode {
  std::uint32_t socket = 0;
  std::uint64_t memory_bytes = 0;
  bool operator==(const NumaNode&) const = default;
};

struct HostBridge {
  std::uint32_t numa = 0;
  PeerForwarding peer_forwarding = PeerForwarding::refused;
  AcsMode acs = AcsMode::off;  ///< of its root ports
  bool operator==(const HostBridge&) const = default;
};

/// What a device hangs under. JSON: `host_bridge:0`, `switch:1`, or for remote media `nic:0`.
struct Parent {
  enum class Kind : std::uint8_t { host_bridge, pci_switch, nic };
  Kind kind = Kind::host_bridge;
  std::uint32_t index = 0;
  bool operator==(const Parent&) const = default;
};

/// A downstream port of a switch: the device below it (`gpu:0`, `nic:0`, `drive:0`, `switch:1`) and
/// its ACS.
struct SwitchPort {
  std::string device;
  AcsMode acs = AcsMode::inherit;
  bool operator==(const SwitchPort&) const = default;
};

struct Switch {
  Parent parent;  ///< JSON: `host_bridge` (a number), or `parent` for a switch below a switch
  AcsMode acs = AcsMode::off;
  std::vector<SwitchPort> ports;  ///< only ports that differ need listing
  bool operator==(const Switch&) const = default;
};

/// A PCIe link's present and best state. Zero: not known.
struct PcieLink {
  std::uint32_t generation = 0;
  std::uint32_t width = 0;
  std::uint32_t generation_max = 0;
  std::uint32_t width_max = 0;
  bool operator==(const PcieLink&) const = default;
};

struct Gpu {
  Parent parent;
  std::uint64_t memory_bytes = 0;
  std::uint64_t bar1_bytes = 0;
  PeerStatus peer_status = PeerStatus::ok;
  GpuMode mode = GpuMode::whole;
  std::string product = "software GPU";
  bool gpudirect_rdma = true;  ///< the driver can pin its memory for third parties
  std::string bdf;             ///< `0000:01:00.0`; filled in by default on software machines
  std::string uuid;            ///< `GPU-...`
  PcieLink link;
  bool operator==(const Gpu&) const = default;
};

struct Nic {
  Parent parent;
  std::string name = "mlx5_0";
  std::string bdf;
  PcieLink link;
  bool operator==(const Nic&) const = default;
};

struct Drive {
  Parent parent;
  std::string name = "nvme0n1";      ///< the block device's name
  std::string driver = "nvme";       ///< nvme, virtio_blk, nvme_rdma, dm, md, nfs ...
  bool nvidia_fs_registered = true;  ///< the block driver registered with nvidia-fs
  std::string bdf;
  PcieLink link;
  std::uint32_t major = 0;  ///< device number as in /proc/self/mountinfo; filled in by default
  std::uint32_t minor = 0;
  bool operator==(const Drive&) const = default;
};

struct Mount {
  std::string point = "/";
  std::string drive;  ///< a drive's name; empty: none (tmpfs, overlay)
  std::string type = "ext4";
  std::string options = "rw";
  bool direct_io = true;  ///< O_DIRECT works on it
  bool operator==(const Mount&) const = default;
};

struct NvLink {
  std::uint32_t source_gpu = 0;
  std::uint32_t target_gpu = 0;
  std::uint32_t count = 1;  ///< links of this pair, both directions
  bool operator==(const NvLink&) const = default;
};

struct Machine {
  std::string name = "machine";
  KernelFacts kernel;
  ModuleFacts modules;
  std::string libcufile = "1.15.1";  ///< version of the installed libcufile; empty: not installed
  bool udev = true;                  ///< /run/udev/data has records
  bool guest = false;                ///< a virtual machine: the real PCIe topology is hidden
  bool confidential = false;         ///< confidential computing: devices cannot reach each other
  std::vector<NumaNode> numa_nodes;
  std::vector<HostBridge> host_bridges;
  std::vector<Switch> switches;
  std::vector<Gpu> gpus;
  std::vector<Nic> nics;
  std::vector<Drive> drives;
  std::vector<Mount> mounts;
  std::vector<NvLink> nvlinks;
  std::map<std::string, std::string> environment;  ///< variables a software machine's programs see
  bool operator==(const Machine&) const = default;
};

/// One port on a path, with its ACS.
struct PathPort {
  std::string name;  ///< `switch:0/gpu:0`, `host_bridge:0/switch:0`
  AcsMode acs = AcsMode::off;
  bool operator==(const PathPort&) const = default;
};

/// How two devices of one machine are joined over PCIe (and, for two GPUs, NVLink).
struct Path {
  PathLevel level = PathLevel::sys;
  std::uint32_t nvlink_count = 0;              ///< links of a GPU pair; `level` is then nvlink
  PathLevel pcie_level = PathLevel::sys;       ///< the level without NVLink
  std::vector<PathPort> ports;                 ///< every port a peer request passes, in order
  std::optional<std::uint32_t> common_switch;  ///< where they meet, if below a host bridge
  bool crosses_host_bridge = false;
  bool crosses_socket = false;
  bool redirected = false;  ///< some port on the path redirects upstream
  PeerForwarding forwarding =
      PeerForwarding::refused;    ///< of the host bridges concerned, where they are used
  Link link = Link::pcie_switch;  ///< what a direct transfer would travel over
};

/// Checks references, cycles, duplicate names, mounts (`/` exists, drives exist). The error names
/// the JSON pointer.
[[nodiscard]] Status validate(const Machine& machine);

/// The path between two devices (gpu, nic, drive, or host = NUMA node). Both must exist: asserts.
[[nodiscard]] Path path_between(const Machine& machine, DeviceRef source, DeviceRef target);

/// `PIX`, `PXB`, `PHB`, `NODE`, `SYS`, `NV18`, `X`.
[[nodiscard]] std::string level_text(const Path& path);

/// NUMA node and socket of a device; 0 where a guest hides it.
[[nodiscard]] std::uint32_t numa_of(const Machine& machine, DeviceRef device);
[[nodiscard]] std::uint32_t socket_of(const Machine& machine, DeviceRef device);

/// The mount that holds an absolute path: the longest mount point that is a path prefix, the later
/// of equals.
[[nodiscard]] const Mount* mount_of(const Machine& machine, std::string_view absolute_path);

/// The index of the drive behind a mount, if it has one.
[[nodiscard]] std::optional<std::uint32_t> drive_of(const Machine& machine, const Mount& mount);

/// `gpu:0`, `nic:mlx5_0`, `drive:nvme0n1`, `host:0`.
[[nodiscard]] std::string device_name(const Machine& machine, DeviceRef device);

/// Resolves `gpu:N`, `gpu:UUID`, `gpu:BDF`, `nic:NAME`, `drive:NAME`. The error names what exists.
[[nodiscard]] Result<DeviceRef> device_from_name(const Machine& machine, std::string_view name);

[[nodiscard]] std::string_view to_string(IommuMode value);
[[nodiscard]] std::string_view to_string(AcsMode value);
[[nodiscard]] std::string_view to_string(PeerForwarding value);
[[nodiscard]] std::string_view to_string(PeerStatus value);
[[nodiscard]] std::string_view to_string(GpuMode value);
[[nodiscard]] std::string to_string(const Parent& parent);

}  // namespace nobounce
