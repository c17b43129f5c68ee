// A bus over a machine made for the test, with a real file as its medium.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/machine_json.hpp"
#include "fabric/bus.hpp"
#include "fabric/soft_random.hpp"

namespace nobounce::fabric {

/// Two GPUs, a NIC, a drive and a drive behind the NIC, all below one switch, but for GPU 1 where
/// said.
struct BusMachineShape {
  bool second_gpu_on_other_socket = false;
  AcsMode acs = AcsMode::off;
  PeerForwarding forwarding = PeerForwarding::refused;
  IommuMode iommu = IommuMode::off;
  std::uint64_t bar1_bytes = 256u << 20;
  std::uint32_t nvlinks = 0;
};

inline Machine bus_machine(const BusMachineShape& shape = {}) {
  Machine machine;
  machine.name = "bus-test";
  machine.kernel.iommu = shape.iommu;
  machine.numa_nodes = {{0, 64u << 20}, {1, 64u << 20}};
  machine.host_bridges = {{0, shape.forwarding, AcsMode::off}, {1, shape.forwarding, AcsMode::off}};
  Switch plx;
  plx.acs = shape.acs;
  machine.switches = {plx};
  const Parent below_switch{Parent::Kind::pci_switch, 0};
  const Parent other_socket{Parent::Kind::host_bridge, 1};
  Gpu gpu;
  gpu.parent = below_switch;
  gpu.memory_bytes = 1u << 30;
  gpu.bar1_bytes = shape.bar1_bytes;
  machine.gpus = {gpu, gpu};
  if (shape.second_gpu_on_other_socket) machine.gpus[1].parent = other_socket;
  Nic nic;
  nic.parent = below_switch;
  machine.nics = {nic};
  Drive drive;
  drive.parent = below_switch;
  machine.drives = {drive, drive};
  machine.drives[1].name = "nvme1n1";
  machine.drives[1].driver = "nvme_rdma";
  machine.drives[1].parent = {Parent::Kind::nic, 0};
  if (shape.nvlinks > 0) machine.nvlinks = {{0, 1, shape.nvlinks}};
  core::complete_machine(machine);
  return machine;
}

inline std::vector<std::byte> random_payload(std::size_t length, std::uint64_t seed) {
  SoftRandom random(seed);
  std::vector<std::byte> bytes(length);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next() & 0xff);
  return bytes;
}

/// An unlinked temporary file with that content.
class TestFile {
 public:
  explicit TestFile(const std::vector<std::byte>& content) {
    char name[] = "/tmp/nobounce-bus-XXXXXX";
    descriptor_ = ::mkstemp(name);
    EXPECT_GE(descriptor_, 0);
    ::unlink(name);
    EXPECT_EQ(::write(descriptor_, content.data(), content.size()),
              static_cast<ssize_t>(content.size()));
  }
  ~TestFile() { ::close(descriptor_); }
  TestFile(const TestFile&) = delete;
  TestFile& operator=(const TestFile&) = delete;
  [[nodiscard]] Medium medium(std::optional<std::uint32_t> drive = 0) const {
    return {drive, descriptor_, 77};
  }
  [[nodiscard]] std::vector<std::byte> content() const {
    struct stat status {};
    ::fstat(descriptor_, &status);
    std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
    EXPECT_EQ(::pread(descriptor_, bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    return bytes;
  }

 private:
  int descriptor_ = -1;
};

inline std::unique_ptr<Bus> make_bus(const Machine& machine, BusOptions options = {}) {
  Result<std::unique_ptr<Bus>> bus = Bus::create(machine, std::move(options));
  if (!bus.ok()) {
    ADD_FAILURE() << to_string(bus.error());
    std::abort();
  }
  return std::move(bus).value();
}

inline std::vector<std::byte> inspect(const Bus& bus, const End& end, std::size_t length) {
  std::vector<std::byte> bytes(length);
  EXPECT_TRUE(bus.inspect(end, bytes));
  return bytes;
}

}  // namespace nobounce::fabric
