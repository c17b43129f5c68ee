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
  } else if constexpr (is<Part, Nic>) {
    f("parent", part.parent);
    f("name", part.name);
    f("bdf", part.bdf);
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
  } else {
    static_assert(is<Part, PcieLink>);
    f("generation", part.generation);
    f("width", part.width);
    f("generation_max", part.generation_max);
    f("width_max", part.width_max);
  }
}

template <typename Fields, typename Part>
void describe_system(Fields& f, Part& part) {
  if constexpr (is<Part, KernelFacts>) {
    f("release", part.release);
    f("pci_p2pdma", part.pci_p2pdma);
    f("dmabuf", part.dmabuf);
    f("iommu", part.iommu);
  } else if constexpr (is<Part, ModuleFacts>) {
    f("nvidia_fs", part.nvidia_fs);
    f("nvidia_peermem", part.nvidia_peermem);
    f("nvme", part.nvme);
  } else if constexpr (is<Part, NumaNode>) {
    f("socket", part.socket);
    f("memory_bytes", part.memory_bytes);
  } else if constexpr (is<Part, HostBridge>) {
    f("numa", part.numa);
    f("peer_forwarding", part.peer_forwarding);
    f("acs", part.acs);
  } else if constexpr (is<Part, Switch>) {
    f.place_of(part.parent);
    f("acs", part.acs);
    f("ports", part.ports);
  } else if constexpr (is<Part, SwitchPort>) {
    f("device", part.device);
    f("acs", part.acs);
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
    describe_device(f, part);
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
    f("numa_nodes", part.numa_nodes);
    f("host_bridges", part.host_bridges);
    f("switches", part.switches);
    f("gpus", part.gpus);
    f("nics", part.nics);
    f("drives", part.drives);
    f("mounts", part.mounts);
    f("nvlinks", part.nvlinks);
    f("environment", part.environment);
  } else {
    describe_system(f, part);
  }
}

}  // namespace nobounce::core
