// Facts: what preconditions/ read from a host that can make a member impossible. Plain values,
// judged by judge/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nobounce/machine.hpp>

namespace nobounce::core {

/// A yes/no that may be unreadable, with where it was read.
struct Fact {
  std::optional<bool> value;
  std::string observed;  ///< in words: "nvidia_fs is not in /proc/modules"
  std::string source;    ///< file or call
};

/// A string that may be unreadable.
struct TextFact {
  std::optional<std::string> value;
  std::string source;
};

/// Facts about the whole host that concern storage.
struct StorageHostFacts {
  Fact cufile_library;      ///< libcufile could be loaded
  TextFact cufile_version;  ///< "1.15"
  Fact cufile_config_ours;  ///< our private configuration is the one in force (empty until the
                            ///< session tried)
  Fact nvidia_fs_loaded;
  Fact p2pdma_kernel;               ///< CONFIG_PCI_P2PDMA
  Fact udev_database;               ///< /run/udev/data exists
  Fact compat_forced;               ///< CUFILE_FORCE_COMPAT_MODE or a configuration file forces it
  Fact nvidia_fs_counters_enabled;  ///< IO stats: Enabled
  TextFact iommu;                   ///< off | identity | translated
};

/// Facts about one file and what lies under it.
struct StorageFileFacts {
  std::string path;                    ///< absolute, symbolic links resolved
  std::optional<Mount> mount;          ///< of the path
  std::optional<std::uint32_t> drive;  ///< index in the machine
  std::string block_driver;            ///< nvme, virtio_blk, dm, md, nvme_rdma, nfs; empty: none
  Fact direct_io;                      ///< an O_DIRECT open succeeded
  Fact driver_registered;              ///< the block driver is in /proc/driver/nvidia-fs/modules
  Fact udev_record;                    ///< /run/udev/data/bMAJOR:MINOR exists
  Fact regular_file;
  std::string mount_source;  ///< where the mount line was read
};

/// Facts about one GPU.
struct GpuFacts {
  std::uint32_t gpu = 0;
  Fact gpudirect_rdma;  ///< CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED
  std::optional<std::uint64_t> bar1_total_bytes;
  std::optional<std::uint64_t> bar1_free_bytes;
  std::string bar1_source;  ///< who told: NVML, or the bus (the size only)
};

/// The configuration that libcufile uses for programs other than ours.
struct CufileFacts {
  std::string path;       ///< empty: none exists, the library's defaults
  std::string chosen_by;  ///< `CUFILE_ENV_PATH_JSON`, or `first that exists`
  std::string error;      ///< why it could not be read; the library then uses its defaults
  /// What stages, or allows it in silence: `/properties/force_compat_mode` -> `true`.
  std::vector<std::pair<std::string, std::string>> staging;
};

/// What the drivers say about one ordered pair of GPUs: a capability, which says nothing about use.
struct PeerFacts {
  std::uint32_t source = 0;
  std::uint32_t target = 0;
  Fact can_access;  ///< cuDeviceCanAccessPeer: the source may map the target's memory
  std::optional<PeerStatus> read;  ///< nvmlDeviceGetP2PStatus; empty: not read
  std::optional<PeerStatus> write;
};

/// Facts about the whole host that concern adapters.
struct RdmaHostFacts {
  Fact verbs_library;  ///< libibverbs could be loaded
  /// Names in /sys/kernel/mm/memory_peers; empty: the kernel has no such folder.
  std::optional<std::vector<std::string>> memory_peers;
};

struct HostFacts {
  StorageHostFacts storage;
  RdmaHostFacts rdma;
  std::vector<GpuFacts> gpus;
  std::vector<PeerFacts> peers;  ///< pairs that nobody asked about are absent
  CufileFacts cufile;
};

}  // namespace nobounce::core
