// Facts about a host: what each file, library and variable says, and that unreadable is unknown.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "preconditions/read_facts.hpp"
#include "support/memory_host.hpp"

namespace nobounce::preconditions {
namespace {

using core::Fact;

core::StorageHostFacts storage_facts(support::MemoryHost& host, const Machine& machine = {}) {
  return read_host_facts(host, machine, false).storage;
}

void expect_fact(const Fact& fact, std::optional<bool> value) {
  EXPECT_EQ(fact.value, value) << fact.observed;
  EXPECT_FALSE(fact.observed.empty());
  EXPECT_FALSE(fact.source.empty());
}

/// A libcufile of some version.
class FakeCufile : public system::Cufile {
 public:
  int version = 1150;
  CUfileError_t get_version(int* value) override {
    *value = version;
    return {version > 0 ? 0 : 5030, 0};
  }
};

TEST(LibcufileFacts, TellAbsentPresentAndItsVersion) {
  support::MemoryHost host;
  expect_fact(storage_facts(host).cufile_library, false);
  EXPECT_NE(storage_facts(host).cufile_library.observed.find("libcufile.so.0"), std::string::npos);
  FakeCufile cufile;
  host.cufile_table = &cufile;
  expect_fact(storage_facts(host).cufile_library, true);
  EXPECT_EQ(storage_facts(host).cufile_version.value, "1.15");
  cufile.version = 1070;
  EXPECT_EQ(storage_facts(host).cufile_version.value, "1.7");
  cufile.version = 0;
  EXPECT_EQ(storage_facts(host).cufile_version.value, std::nullopt);
}

TEST(ConfigurationFact, IsLeftToWhoeverTries) {
  support::MemoryHost host;
  const Fact fact = storage_facts(host).cufile_config_ours;
  EXPECT_FALSE(fact.value.has_value());
  EXPECT_TRUE(fact.observed.empty());
}

TEST(NvidiaFsFact, IsReadFromTheModuleList) {
  support::MemoryHost host;
  expect_fact(storage_facts(host).nvidia_fs_loaded, std::nullopt);
  host.tree.text("/proc/modules", "nvidia_fs_other 1 0 - Live 0x0\nnvme 1 0 - Live 0x0\n");
  expect_fact(storage_facts(host).nvidia_fs_loaded, false);
  host.tree.text("/proc/modules", "nvme 1 0 - Live 0x0\nnvidia_fs 1 0 - Live 0x0\n");
  expect_fact(storage_facts(host).nvidia_fs_loaded, true);
  host.tree.text("/proc/modules", "nvidia_fs 1 0 - Live 0x0\n");
  expect_fact(storage_facts(host).nvidia_fs_loaded, true);
  host.tree.refuse("/proc/modules", EACCES);
  expect_fact(storage_facts(host).nvidia_fs_loaded, std::nullopt);
  host.tree.text("/proc/sys/kernel/osrelease", "6.8.0\n");
  expect_fact(storage_facts(host).nvidia_fs_loaded, std::nullopt);
  host.tree.text("/proc/driver/nvidia-fs/version", "version: 2.26\n");
  expect_fact(storage_facts(host).nvidia_fs_loaded, true);
}

TEST(NvidiaFsFact, IsFalseOfAKernelWithoutModules) {
  support::MemoryHost host;
  host.tree.text("/proc/sys/kernel/osrelease", "6.8.0\n");
  expect_fact(storage_facts(host).nvidia_fs_loaded, false);
}

TEST(P2pdmaFact, IsUnknownWhereNothingCanBeRead) {
  support::MemoryHost host;
  Machine machine;
  machine.kernel.release = "6.8.0";
  expect_fact(storage_facts(host, machine).p2pdma_kernel, std::nullopt);
  host.tree.text("/boot/config-6.8.0", "");
  expect_fact(storage_facts(host, machine).p2pdma_kernel, false);
  machine.kernel.pci_p2pdma = true;
  expect_fact(storage_facts(host, machine).p2pdma_kernel, true);
}

TEST(UdevFact, IsTheDirectory) {
  support::MemoryHost host;
  expect_fact(storage_facts(host).udev_database, false);
  host.tree.directory("/run/udev/data");
  expect_fact(storage_facts(host).udev_database, true);
}

TEST(IommuFact, IsTheMachinesOrUnknown) {
  support::MemoryHost host;
  Machine machine;
  machine.kernel.iommu = IommuMode::translated;
  EXPECT_EQ(storage_facts(host, machine).iommu.value, "translated");
  machine.kernel.iommu = IommuMode::unknown;
  EXPECT_EQ(storage_facts(host, machine).iommu.value, std::nullopt);
}

TEST(CounterFact, IsReadFromTheStatistics) {
  support::MemoryHost host;
  const std::string path = "/proc/driver/nvidia-fs/stats";
  expect_fact(storage_facts(host).nvidia_fs_counters_enabled, std::nullopt);
  host.tree.text(path, "GDS Version: 1\nIO stats: Disabled, peer IO stats: Enabled\n");
  expect_fact(storage_facts(host).nvidia_fs_counters_enabled, false);
  host.tree.text(path, "GDS Version: 1\nIO stats: Enabled, peer IO stats: Disabled\n");
  expect_fact(storage_facts(host).nvidia_fs_counters_enabled, true);
  host.tree.text(path, "");
  expect_fact(storage_facts(host).nvidia_fs_counters_enabled, std::nullopt);
}

// --- forced compatibility mode -----------------------------------------------------------------

constexpr const char* forcing =
    "{ // installed\n \"properties\": { \"force_compat_mode\": true } }\n";
constexpr const char* not_forcing =
    "{ \"properties\": { /* no */ \"force_compat_mode\": false } }\n";

TEST(CompatForced, IsNotByDefault) {
  support::MemoryHost host;
  expect_fact(storage_facts(host).compat_forced, false);
}

TEST(CompatForced, IsReadFromTheInstalledConfiguration) {
  support::MemoryHost host;
  host.tree.text("/usr/local/cuda/gds/cufile.json", forcing);
  expect_fact(storage_facts(host).compat_forced, true);
  host.tree.text("/etc/cufile.json", not_forcing);
  expect_fact(storage_facts(host).compat_forced, false);
  EXPECT_EQ(storage_facts(host).compat_forced.source, "/etc/cufile.json");
}

TEST(CompatForced, FollowsTheConfigurationThatAVariableNames) {
  support::MemoryHost host;
  host.tree.text("/etc/cufile.json", not_forcing);
  host.tree.text("/home/cufile.json", forcing);
  host.variables.variables["CUFILE_ENV_PATH_JSON"] = "/home/cufile.json";
  expect_fact(storage_facts(host).compat_forced, true);
}

TEST(CompatForced, ReadsAConfigurationThatLiesInMemory) {
  support::MemoryHost host;
  host.tree.text("/etc/cufile.json", forcing);
  Result<system::Storage::MemoryFile> file = host.storage().memory_file("cufile.json", not_forcing);
  ASSERT_TRUE(file) << to_string(file.error());
  host.variables.variables["CUFILE_ENV_PATH_JSON"] = file->path;
  expect_fact(storage_facts(host).compat_forced, false);
  EXPECT_EQ(storage_facts(host).compat_forced.source, file->path);
  (void)host.storage().close(file->file);
}

TEST(CompatForced, ByTheEnvironmentWinsOverEveryFile) {
  support::MemoryHost host;
  host.tree.text("/etc/cufile.json", not_forcing);
  host.variables.variables["CUFILE_FORCE_COMPAT_MODE"] = "true";
  expect_fact(storage_facts(host).compat_forced, true);
  host.tree.text("/etc/cufile.json", forcing);
  host.variables.variables["CUFILE_FORCE_COMPAT_MODE"] = "false";
  expect_fact(storage_facts(host).compat_forced, false);
  host.variables.variables["CUFILE_FORCE_COMPAT_MODE"] = "perhaps";
  expect_fact(storage_facts(host).compat_forced, true);
}

TEST(CompatForced, IsUnknownWhereTheConfigurationIsBroken) {
  support::MemoryHost host;
  host.tree.text("/etc/cufile.json", "{ \"properties\": ");
  expect_fact(storage_facts(host).compat_forced, std::nullopt);
}

TEST(CompatForced, ByANumberIsNotByATruthValue) {
  support::MemoryHost host;
  host.tree.text("/etc/cufile.json", "{ \"properties\": { \"force_compat_mode\": 1 } }");
  expect_fact(storage_facts(host).compat_forced, false);
}

// --- GPUs --------------------------------------------------------------------------------------

/// A driver that shows GPUs in an order of its own.
class FakeCuda : public system::Cuda {
 public:
  std::vector<std::string> bdfs;
  int supported = 1;
  CUresult answer = 0;
  CUresult device_get_count(int* count) override {
    *count = static_cast<int>(bdfs.size());
    return 0;
  }
  CUresult device_get(CUdevice* device, int ordinal) override {
    *device = ordinal;
    return 0;
  }
  CUresult device_get_pci_bus_id(char* text, int length, CUdevice device) override {
    std::snprintf(text, static_cast<std::size_t>(length), "%s",
                  bdfs[static_cast<std::size_t>(device)].c_str());
    return 0;
  }
  CUresult device_get_attribute(int* value, int attribute, CUdevice device) override {
    EXPECT_EQ(attribute, 116);
    *value = device == 0 ? supported : 0;
    return answer;
  }
};

/// An NVML with one GPU.
class FakeNvml : public system::Nvml {
 public:
  int initialised = 0;
  nvmlReturn_t init() override { return ++initialised, 0; }
  nvmlReturn_t shutdown() override { return --initialised, 0; }
  nvmlReturn_t device_get_count(unsigned* count) override { return *count = 1, 0; }
  nvmlReturn_t device_get_handle_by_index(unsigned, nvmlDevice_t* device) override {
    return *device = this, 0;
  }
  nvmlReturn_t device_get_pci_info(nvmlDevice_t, nvmlPciInfo_t* info) override {
    std::snprintf(info->busId, sizeof info->busId, "00000000:C1:00.0");
    return 0;
  }
  nvmlReturn_t device_get_bar1_memory_info(nvmlDevice_t, nvmlBAR1Memory_t* info) override {
    *info = {1000, 400, 600};
    return 0;
  }
};

Machine two_gpus() {
  Machine machine;
  machine.gpus.resize(2);
  machine.gpus[0].bdf = "0000:41:00.0";
  machine.gpus[0].bar1_bytes = 77;
  machine.gpus[1].bdf = "0000:c1:00.0";
  return machine;
}

TEST(GpuFacts, AreMatchedByBusAddress) {
  support::MemoryHost host;
  FakeCuda cuda;
  cuda.bdfs = {"0000:C1:00.0", "0000:41:00.0"};
  host.cuda_table = &cuda;
  FakeNvml nvml;
  host.nvml_table = &nvml;
  const std::vector<core::GpuFacts> gpus = read_host_facts(host, two_gpus(), true).gpus;
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].gpu, 0u);
  expect_fact(gpus[0].gpudirect_rdma, false);
  expect_fact(gpus[1].gpudirect_rdma, true);
  EXPECT_EQ(gpus[0].bar1_total_bytes, 77u) << "the bus shows the size where NVML does not";
  EXPECT_EQ(gpus[0].bar1_free_bytes, std::nullopt);
  EXPECT_EQ(gpus[0].bar1_source, "/sys/bus/pci/devices/0000:41:00.0/resource");
  EXPECT_EQ(gpus[1].bar1_total_bytes, 1000u);
  EXPECT_EQ(gpus[1].bar1_free_bytes, 400u);
  EXPECT_EQ(nvml.initialised, 0);
}

TEST(GpuFacts, AreUnknownWithoutCuda) {
  support::MemoryHost host;
  Machine machine = two_gpus();
  expect_fact(read_host_facts(host, machine, true).gpus[0].gpudirect_rdma, std::nullopt);
  FakeCuda cuda;
  cuda.bdfs = {"0000:41:00.0"};
  host.cuda_table = &cuda;
  expect_fact(read_host_facts(host, machine, false).gpus[0].gpudirect_rdma, std::nullopt);
  expect_fact(read_host_facts(host, machine, true).gpus[0].gpudirect_rdma, true);
  expect_fact(read_host_facts(host, machine, true).gpus[1].gpudirect_rdma, std::nullopt);
  cuda.answer = 801;
  expect_fact(read_host_facts(host, machine, true).gpus[0].gpudirect_rdma, std::nullopt);
  machine.gpus[0].bar1_bytes = 0;
  EXPECT_EQ(read_host_facts(host, machine, false).gpus[0].bar1_total_bytes, std::nullopt);
}

}  // namespace
}  // namespace nobounce::preconditions
