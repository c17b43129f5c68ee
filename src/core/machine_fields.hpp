// The fields of every part of a machine document, named once for reading and writing.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include <nobounce/machine.hpp>

namespace nobounce::core {

template <typename T>
concept Enum = std::is_enum_v<T>;

/// Every spelling of an enum whose values count up from zero.
template <Enum E>
std::vector<std::string> words_of() {
  std::vector<std::string> words;
  for (std::uint8_t i = 0; to_string(static_cast<E>(i)) != "invalid"; ++i) {
    words.emplace_back(to_string(static_cast<E>(i)));
  }
  return words;
}

template <typename Part, typename Wanted>
constexpr bool is = std::is_same_v<std::remove_const_t<Part>, Wanted>;

template <typename Fields, typename Part>
void describe_device(Fields& f, Part& part) {
  if constexpr (is<Part, Gpu>) {
    f("parent", part.parent);
    f("memory_bytes", part.memory_bytes);
    f("bar1_bytes", part.bar1_bytes);
    f("peer_status", part.peer_status);
    f("mode", part.mode);
    f("product", part.product);
    f("gpudirect_rdma", part.gpudirect_rdma);
    f("bdf", part.bdf);
    f("uuid", part.uuid);
    f("link", part.link);
    f("pci_id", part.pci_id);
    f("driver", part.driver);
    f("coherent", part.coherent);
    f("bar1_bytes_max", part.bar1_bytes_max);
    f("nvlinks_down", part.nvlinks_down);
    f("iommu", part.iommu);
    f("iommu_group", part.iommu_group);
  } else if constexpr (is<Part, Nic>) {
    f("parent", part.parent);
    f("name", part.name);
    f("bdf", part.bdf);
    f("link", part.link);
    f("netdev", part.netdev);
    f("driver", part.driver);
    f("pci_id", part.pci_id);
    f("firmware", part.firmware);
    f("link_layer", part.link_layer);
    f("rate_gbps", part.rate_gbps);
    f("active", part.active);
    f("reliable_connections", part.reliable_connections);
    f("ats", part.ats);
    f("iommu", part.iommu);
    f("iommu_group", part.iommu_group);
  } else if constexpr (is<Part, OtherGpu>) {
    f("parent", part.parent);
    f("vendor", part.vendor);
    f("pci_id", part.pci_id);
    f("bdf", part.bdf);
    f("driver", part.driver);
    f("link", part.link);
  } else if constexpr (is<Part, Drive>) {
    f("parent", part.parent);
    f("name", part.name);
    f("driver", part.driver);
    f("nvidia_fs_registered", part.nvidia_fs_registered);
    f("bdf", part.bdf);
    f("link", part.link);
    f("major", part.major);
    f("minor", part.minor);
    f("pci_id", part.pci_id);
    f("model", part.model);
    f("firmware", part.firmware);
    f("namespace_id", part.namespace_id);
    f("logical_block_bytes", part.logical_block_bytes);
    f("layer", part.layer);
    f("parts", part.parts);
    f("iommu", part.iommu);
    f("iommu_group", part.iommu_group);
  } else {
    static_assert(is<Part, PcieLink>);
    f("generation", part.generation);
    f("width", part.width);
    f("generation_max", part.generation_max);
    f("width_max", part.width_max);
  }
}

template <typename Fields, typename Part>
void describe_process(Fields& f, Part& part) {
  if constexpr (is<Part, ProcessorFacts>) {
    f("architecture", part.architecture);
    f("vendor", part.vendor);
    f("family", part.family);
    f("model", part.model);
    f("name", part.name);
  } else if constexpr (is<Part, ContainerFacts>) {
    f("inside", part.inside);
    f("runtime", part.runtime);
    f("infiniband_hidden", part.infiniband_hidden);
  } else if constexpr (is<Part, ProcessFacts>) {
    f("root", part.root);
    f("memlock", part.memlock);
    f("seccomp", part.seccomp);
  } else if constexpr (is<Part, Unread>) {
    f("what", part.what);
    f("path", part.path);
    f("needs_root", part.needs_root);
  } else {
    describe_device(f, part);
  }
}

template <typename Fields, typename Part>
void describe_system(Fields& f, Part& part) {
  if constexpr (is<Part, KernelFacts>) {
    f("release", part.release);
    f("pci_p2pdma", part.pci_p2pdma);
    f("dmabuf", part.dmabuf);
    f("iommu", part.iommu);
    f("nvidia_driver", part.nvidia_driver);
  } else if constexpr (is<Part, ModuleFacts>) {
    f("nvidia_fs", part.nvidia_fs);
    f("nvidia_peermem", part.nvidia_peermem);
    f("nvme", part.nvme);
    f("versions", part.versions);
    f("parameters", part.parameters);
  } else if constexpr (is<Part, NumaNode>) {
    f("socket", part.socket);
    f("memory_bytes", part.memory_bytes);
  } else if constexpr (is<Part, HostBridge>) {
    f("numa", part.numa);
    f("peer_forwarding", part.peer_forwarding);
    f("acs", part.acs);
    f("ports", part.ports);
  } else if constexpr (is<Part, Switch>) {
    f.place_of(part.parent);
    f("acs", part.acs);
    f("ports", part.ports);
  } else if constexpr (is<Part, SwitchPort>) {
    f("device", part.device);
    f("acs", part.acs);
    f("acs_control", part.acs_control);
  } else if constexpr (is<Part, Mount>) {
    f("point", part.point);
    f("drive", part.drive);
    f("type", part.type);
    f("options", part.options);
    f("direct_io", part.direct_io);
  } else if constexpr (is<Part, NvLink>) {
    f("source_gpu", part.source_gpu);
    f("target_gpu", part.target_gpu);
    f("count", part.count);
  } else {
    describe_process(f, part);
  }
}

/// Calls `f(name, field)` for each field of a part, in the order of the document; for a switch's
/// place `f.place_of(parent)`. `Part` is const when writing.
template <typename Fields, typename Part>
void describe(Fields& f, Part& part) {
  if constexpr (is<Part, Machine>) {
    f("name", part.name);
    f("kernel", part.kernel);
    f("modules", part.modules);
    f("libcufile", part.libcufile);
    f("udev", part.udev);
    f("guest", part.guest);
    f("confidential", part.confidential);
    f("processor", part.processor);
    f("container", part.container);
    f("process", part.process);
    f("fabric_manager", part.fabric_manager);
    f("nvswitches", part.nvswitches);
    f("cufile_settings", part.cufile_settings);
    f("libraries", part.libraries);
    f("numa_nodes", part.numa_nodes);
    f("host_bridges", part.host_bridges);
    f("switches", part.switches);
    f("gpus", part.gpus);
    f("nics", part.nics);
    f("drives", part.drives);
    f("mounts", part.mounts);
    f("nvlinks", part.nvlinks);
    f("other_gpus", part.other_gpus);
    f("environment", part.environment);
    f("unread", part.unread);
  } else {
    describe_system(f, part);
  }
}

}  // namespace nobounce::core
