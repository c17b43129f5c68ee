// A server in memory, put together function by function as sysfs shows it.
#pragma once

#include <cstdint>
#include <string>

#include "support/memory_host.hpp"

namespace nobounce::topology {

/// Configuration space of 4096 bytes whose extended capabilities are AER, then ACS with that
/// control word.
inline std::string config_with_acs(std::uint16_t control) {
  std::string bytes(4096, '\0');
  const auto put = [&](std::size_t at, std::uint32_t value) {
    for (int i = 0; i < 4; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
  };
  put(0x100, 0x0001u | 2u << 16 | 0x150u << 20);
  put(0x150, 0x000du | 1u << 16);
  put(0x154, 0x005fu | static_cast<std::uint32_t>(control) << 16);
  return bytes;
}

class Server {
 public:
  support::MemoryHost host;

  Server() {
    file("/proc/cpuinfo",
         "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nflags\t\t: fpu sse2 lm\n\n"
         "processor\t: 1\n");
    file("/proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
    file("/proc/modules", "nvidia_fs 262144 0 - Live 0x0\nnvme 65536 2 - Live 0x0\n");
    file("/proc/self/mountinfo",
         "21 1 259:0 / / rw,relatime - ext4 /dev/nvme0n1 rw,data=ordered\n");
    file("/proc/kallsyms", "0 T vfs_read\n");
    for (int node = 0; node < 2; ++node) {
      const std::string number = std::to_string(node);
      const std::string path = "/sys/devices/system/node/node" + number;
      file(path + "/cpulist", node == 0 ? "0-3,8-11\n" : "4-7,12-15\n");
      file(path + "/meminfo", "Node " + number + " MemTotal:       1048576 kB\nNode " + number +
                                  " MemFree:        17 kB\n");
    }
    file("/sys/devices/system/cpu/cpu0/topology/physical_package_id", "0\n");
    file("/sys/devices/system/cpu/cpu4/topology/physical_package_id", "1\n");
  }

  void file(const std::string& path, std::string text) { host.tree.text(path, std::move(text)); }

  /// A function at `path` below /sys/devices; the last part is its address.
  std::string function(const std::string& path, const char* vendor, const char* device,
                       const char* class_code, int numa = 0) {
    const std::string full = "/sys/devices/" + path;
    file(full + "/vendor", std::string(vendor) + "\n");
    file(full + "/device", std::string(device) + "\n");
    file(full + "/class", std::string(class_code) + "\n");
    file(full + "/numa_node", std::to_string(numa) + "\n");
    host.tree.link("/sys/bus/pci/devices/" + path.substr(path.rfind('/') + 1), full);
    return full;
  }

  std::string root(const std::string& path, const char* device = "0x3ec2", int numa = 0) {
    return function(path, "0x8086", device, "0x060000", numa);
  }

  std::string port(const std::string& path, std::uint16_t acs = 0, int numa = 0) {
    const std::string full = function(path, "0x1000", "0xc030", "0x060400", numa);
    file(full + "/config", config_with_acs(acs));
    return full;
  }

  std::string link(const std::string& full, const char* speed, int width, const char* speed_max,
                   int width_max) {
    file(full + "/current_link_speed", std::string(speed) + " GT/s PCIe\n");
    file(full + "/current_link_width", std::to_string(width) + "\n");
    file(full + "/max_link_speed", std::string(speed_max) + " GT/s PCIe\n");
    file(full + "/max_link_width", std::to_string(width_max) + "\n");
    return full;
  }

  std::string gpu(const std::string& path) {
    const std::string full = function(path, "0x10de", "0x2330", "0x030200");
    file(full + "/resource",
         "0x00000000a0000000 0x00000000a0ffffff 0x0000000000040200\n"
         "0x0000010000000000 0x00000100ffffffff 0x000000000014220c\n");
    return link(full, "32.0", 16, "32.0", 16);
  }

  std::string nic(const std::string& path, const std::string& name) {
    const std::string full =
        link(function(path, "0x15b3", "0x1021", "0x020700"), "32.0", 16, "32.0", 16);
    file(full + "/infiniband/" + name + "/fw_ver", "28\n");
    host.tree.link("/sys/class/infiniband/" + name, full + "/infiniband/" + name);
    file(full + "/net/" + name + "_net/operstate", "up\n");
    host.tree.link(full + "/net/" + name + "_net/device", full);
    host.tree.link("/sys/class/net/" + name + "_net", full + "/net/" + name + "_net");
    return full;
  }

  std::string nvme(const std::string& path, int controller, const char* number) {
    const std::string name = "nvme" + std::to_string(controller);
    const std::string full =
        link(function(path, "0x144d", "0xa80a", "0x010802"), "16.0", 4, "16.0", 4);
    file(full + "/nvme/" + name + "/transport", "pcie\n");
    block(full + "/nvme/" + name + "/" + name + "n1", number);
    host.tree.link(full + "/nvme/" + name + "/" + name + "n1/device", full + "/nvme/" + name);
    return full;
  }

  void block(const std::string& full, const std::string& number) {
    file(full + "/dev", number + "\n");
    file(full + "/size", "4096\n");
    const std::string name = full.substr(full.rfind('/') + 1);
    host.tree.link("/sys/block/" + name, full);
    host.tree.link("/sys/class/block/" + name, full);
  }

  void partition(const std::string& disk, const std::string& name, const std::string& number) {
    file(disk + "/" + name + "/dev", number + "\n");
    file(disk + "/" + name + "/partition", "1\n");
    host.tree.link("/sys/class/block/" + name, disk + "/" + name);
  }

  /// Host bridge 0 with a switch that holds a GPU, a drive and, one switch further down, a NIC;
  /// host bridge 1 with a GPU on a root port of its own.
  void two_sockets() {
    const std::string zero = "pci0000:00/";
    root(zero + "0000:00:00.0");
    port(zero + "0000:00:01.0");
    const std::string upstream = zero + "0000:00:01.0/0000:01:00.0";
    port(upstream);
    port(upstream + "/0000:02:00.0");
    gpu(upstream + "/0000:02:00.0/0000:03:00.0");
    port(upstream + "/0000:02:01.0");
    nvme(upstream + "/0000:02:01.0/0000:04:00.0", 0, "259:0");
    port(upstream + "/0000:02:02.0");
    const std::string inner = upstream + "/0000:02:02.0/0000:05:00.0";
    port(inner);
    port(inner + "/0000:06:00.0");
    nic(inner + "/0000:06:00.0/0000:07:00.0", "mlx5_0");
    const std::string one = "pci0000:80/";
    root(one + "0000:80:00.0", "0x3ec2", 1);
    port(one + "0000:80:01.0", 0, 1);
    gpu(one + "0000:80:01.0/0000:81:00.0");
  }
};

}  // namespace nobounce::topology
