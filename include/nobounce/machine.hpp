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

/// `inherit`: as the kernel facts say (devices only).
enum class IommuMode : std::uint8_t { off, identity, translated, unknown, inherit };

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

/// What an RDMA port speaks: InfiniBand, or RoCE and iWARP over Ethernet.
enum class LinkLayer : std::uint8_t { infiniband, ethernet, unknown };

/// A yes or no that may be unreadable.
enum class Answer : std::uint8_t { no, yes, unknown };

/// The service without which GPUs behind NVSwitches cannot use their NVLinks. `not_needed`: there
/// are no NVSwitches.
enum class FabricManager : std::uint8_t { not_needed, running, absent, unknown };

struct KernelFacts {
  std::string release = "6.8.0";
  bool pci_p2pdma = false;                  ///< CONFIG_PCI_P2PDMA and a driver that uses it
  bool dmabuf = true;                       ///< dma-buf export of GPU memory works
  IommuMode iommu = IommuMode::off;         ///< of devices that do not say otherwise
  std::string nvidia_driver = "580.95.05";  ///< version; empty: not loaded
  bool operator==(const KernelFacts&) const = default;
};

struct ModuleFacts {
  bool nvidia_fs = false;
  bool nvidia_peermem = false;
  bool nvme = true;
  /// Modules that concern transfers, by name; those that tell no version are absent.
  std::map<std::string, std::string> versions;
  /// Parameters that concern transfers and can be read: `nvidia_peermem.peerdirect_support`,
  /// `nvidia.RegistryDwords`.
  std::map<std::string, std::string> parameters;
  bool operator==(const ModuleFacts&) const = default;
};

struct ProcessorFacts {
  std::string architecture = "x86_64";  ///< as `uname -m`
  std::string vendor = "GenuineIntel";  ///< as in /proc/cpuinfo; empty on other architectures
  std::uint32_t family = 6;
  std::uint32_t model = 143;
  std::string name = "software processor";
  bool operator==(const ProcessorFacts&) const = default;
};

struct ContainerFacts {
  bool inside = false;
  std::string runtime;             ///< docker, podman, kubernetes, lxc ...; empty: not known
  bool infiniband_hidden = false;  ///< RDMA devices in /sys, but no /dev/infiniband
  bool operator==(const ContainerFacts&) const = default;
};

/// What this process may do.
struct ProcessFacts {
  bool root = true;                   ///< reads what only an administrator may read
  std::string memlock = "unlimited";  ///< as in /proc/self/limits: bytes, or unlimited
  std::string seccomp = "off";        ///< off, strict, filter, unknown
  bool operator==(const ProcessFacts&) const = default;
};

/// Something that would have been of use and could not be read.
struct Unread {
  std::string what;         ///< `ACS of 12 ports`
  std::string path;         ///< `/sys/bus/pci/devices/*/config`
  bool needs_root = false;  ///< an administrator could
  bool operator==(const Unread&) const = default;
};

struct NumaNode {
  std::uint32_t socket = 0;
  std::uint64_t memory_bytes = 0;
  bool operator==(const NumaNode&) const = default;
};

/// A downstream port of a switch, or a root port: the device below it (`gpu:0`, `nic:0`, `drive:0`,
/// `switch:1`) and its ACS.
struct SwitchPort {
  std::string device;
  AcsMode acs = AcsMode::inherit;
  /// The control word as read, `0x005d`; empty: the usual one of its mode. It counts only while it
  /// agrees with the mode.
  std::string acs_control;
  bool operator==(const SwitchPort&) const = default;
};

struct HostBridge {
  std::uint32_t numa = 0;
  PeerForwarding peer_forwarding = PeerForwarding::refused;
  AcsMode acs = AcsMode::off;     ///< of its root ports
  std::vector<SwitchPort> ports;  ///< root ports that differ
  bool operator==(const HostBridge&) const = default;
};

/// What a device hangs under. JSON: `host_bridge:0`, `switch:1`, or for remote media `nic:0`.
struct Parent {
  enum class Kind : std::uint8_t { host_bridge, pci_switch, nic };
  Kind kind = Kind::host_bridge;
  std::uint32_t index = 0;
  bool operator==(const Parent&) const = default;
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
  std::string pci_id;                ///< `10de:2330`; filled in by default
  std::string driver = "nvidia";     ///< of the PCI function; empty: none
  bool coherent = false;             ///< NVLink-C2C joins it to the processor (Grace)
  std::uint64_t bar1_bytes_max = 0;  ///< what a resizable BAR would allow; 0: not known
  std::uint32_t nvlinks_down = 0;    ///< NVLinks it has and that are not active
  IommuMode iommu = IommuMode::inherit;
  std::string iommu_group;  ///< its number; empty: none, or not known
  bool operator==(const Gpu&) const = default;
};

/// A GPU that nobounce moves nothing of: another vendor's.
struct OtherGpu {
  Parent parent;
  std::string vendor = "amd";  ///< amd, intel
  std::string pci_id;
  std::string bdf;
  std::string driver;
  PcieLink link;
  bool operator==(const OtherGpu&) const = default;
};

/// An RDMA adapter, with the port that carries traffic: the first active one, else the first.
struct Nic {
  Parent parent;
  std::string name = "mlx5_0";
  std::string bdf;
  PcieLink link;
  std::string netdev;                ///< network interface; `<name>_net` by default
  std::string driver = "mlx5_core";  ///< of the PCI function
  std::string pci_id;                ///< `15b3:1021`; filled in by default
  std::string firmware = "28.42.1000";
  LinkLayer link_layer = LinkLayer::infiniband;
  std::uint32_t rate_gbps = 400;     ///< of the port; 0: not known
  bool active = true;                ///< the port is up
  bool reliable_connections = true;  ///< it has queue pairs of type RC (AWS EFA has not)
  Answer ats = Answer::no;           ///< address translation service enabled
  IommuMode iommu = IommuMode::inherit;
  std::string iommu_group;
  bool operator==(const Nic&) const = default;
};

struct Drive {
  Parent parent;
  /// The block device's name; of a controller that a driver for user space holds, its bus address.
  std::string name = "nvme0n1";
  std::string driver = "nvme";       ///< nvme, virtio_blk, nvme_rdma, dm, md, nfs, vfio-pci ...
  bool nvidia_fs_registered = true;  ///< the block driver registered with nvidia-fs
  std::string bdf;
  PcieLink link;
  std::uint32_t major = 0;  ///< device number as in /proc/self/mountinfo; filled in by default
  std::uint32_t minor = 0;
  std::string pci_id;  ///< `144d:a80a`; filled in by default
  std::string model;   ///< as the drive says
  std::string firmware;
  std::uint32_t namespace_id = 1;  ///< of NVMe
  std::uint32_t logical_block_bytes = 512;
  std::string layer;               ///< of dm and md: raid0, linear, crypt, multipath ...
  std::vector<std::string> parts;  ///< names of the drives below a dm or md
  IommuMode iommu = IommuMode::inherit;
  std::string iommu_group;
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
  ProcessorFacts processor;
  ContainerFacts container;
  ProcessFacts process;
  FabricManager fabric_manager = FabricManager::not_needed;
  std::uint32_t nvswitches = 0;
  /// Settings of the effective cufile.json that can stage, by pointer:
  /// `/properties/force_compat_mode` -> `true`.
  std::map<std::string, std::string> cufile_settings;
  std::map<std::string, std::string> libraries;  ///< installed: nccl -> 2.21.5, ucx, ...
  std::vector<NumaNode> numa_nodes;
  std::vector<HostBridge> host_bridges;
  std::vector<Switch> switches;
  std::vector<Gpu> gpus;
  std::vector<Nic> nics;
  std::vector<Drive> drives;
  std::vector<Mount> mounts;
  std::vector<NvLink> nvlinks;
  std::vector<OtherGpu> other_gpus;
  std::map<std::string, std::string> environment;  ///< variables a software machine's programs see
  std::vector<Unread> unread;                      ///< empty on software machines
  bool operator==(const Machine&) const = default;
};

/// One port on a path, with its ACS.
struct PathPort {
  std::string name;  ///< `switch:0/gpu:0`, `host_bridge:0/switch:0`
  AcsMode acs = AcsMode::off;
  std::uint32_t control = 0;  ///< ACS control word
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

/// What the IOMMU does to a device's requests: its own mode, or the kernel's.
[[nodiscard]] IommuMode iommu_of(const Machine& machine, DeviceRef device);

/// Bits of an ACS control word.
namespace acs_bits {
inline constexpr std::uint32_t source_validation = 0x01;
inline constexpr std::uint32_t translation_blocking = 0x02;
inline constexpr std::uint32_t request_redirect = 0x04;
inline constexpr std::uint32_t completion_redirect = 0x08;
inline constexpr std::uint32_t upstream_forwarding = 0x10;
inline constexpr std::uint32_t egress_control = 0x20;
inline constexpr std::uint32_t direct_translated = 0x40;
inline constexpr std::uint32_t usual_redirect = 0x1d;  ///< what Linux sets with an IOMMU
}  // namespace acs_bits

/// The control word of a port: `word` where it agrees with the mode, else the mode's usual one.
[[nodiscard]] std::uint32_t acs_control(AcsMode mode, std::string_view word = {});

/// What a control word does to peer requests.
[[nodiscard]] AcsMode acs_mode(std::uint32_t control);

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
[[nodiscard]] std::string_view to_string(LinkLayer value);
[[nodiscard]] std::string_view to_string(Answer value);
[[nodiscard]] std::string_view to_string(FabricManager value);
[[nodiscard]] std::string to_string(const Parent& parent);

}  // namespace nobounce
