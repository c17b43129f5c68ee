// NVML of a software machine: identity, windows, links, and counters that follow the bus.
#include "system/nvml.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "cuda_rig.hpp"

namespace nobounce::fabric {
namespace {

namespace nvml = system::nvml;

class SoftNvmlTest : public ::testing::Test {
 protected:
  void make(const BusMachineShape& shape) {
    rig_ = std::make_unique<CudaRig>(bus_machine(shape));
    rig_->start();
    api_ = *rig_->host->nvml();
    ASSERT_EQ(api_->init(), nvml::success);
    for (unsigned i = 0; i < 2; ++i) {
      ASSERT_EQ(api_->device_get_handle_by_index(i, &gpus_[i]), nvml::success);
    }
  }
  [[nodiscard]] nvml::nvmlFieldValue_t field(unsigned gpu, unsigned id,
                                             unsigned scope = nvml::scope_all_links) {
    nvml::nvmlFieldValue_t value{};
    value.fieldId = id;
    value.scopeId = scope;
    EXPECT_EQ(api_->device_get_field_values(gpus_[gpu], 1, &value), nvml::success);
    return value;
  }
  [[nodiscard]] int status_of(unsigned first, unsigned second, int capability) {
    int status = -7;
    EXPECT_EQ(api_->device_get_p2p_status(gpus_[first], gpus_[second], capability, &status),
              nvml::success);
    return status;
  }
  static constexpr int p2p_caps_atomics = 3;
  static constexpr int p2p_caps_pci = 4;
  std::unique_ptr<CudaRig> rig_;
  system::Nvml* api_ = nullptr;
  nvml::nvmlDevice_t gpus_[2] = {};
};

TEST_F(SoftNvmlTest, NeedsInit) {
  CudaRig rig;
  unsigned count = 0;
  system::Nvml* api = *rig.host->nvml();
  EXPECT_EQ(api->device_get_count(&count), nvml::error_uninitialized);
  EXPECT_EQ(api->shutdown(), nvml::error_uninitialized);
  EXPECT_EQ(api->init(), nvml::success);
  EXPECT_EQ(api->device_get_count(&count), nvml::success);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(api->shutdown(), nvml::success);
  EXPECT_EQ(api->device_get_count(&count), nvml::error_uninitialized);
}

TEST_F(SoftNvmlTest, IdentifiesGpus) {
  make({});
  const Machine& machine = rig_->host->machine();
  char text[96];
  EXPECT_EQ(api_->device_get_uuid(gpus_[1], text, sizeof text), nvml::success);
  EXPECT_EQ(machine.gpus[1].uuid, text);
  EXPECT_EQ(api_->device_get_name(gpus_[1], text, 2), 7) << "insufficient size";
  nvml::nvmlPciInfo_t info{};
  EXPECT_EQ(api_->device_get_pci_info(gpus_[1], &info), nvml::success);
  EXPECT_EQ(std::string(info.busId).size(), 16u);
  EXPECT_EQ(api_->device_get_name(nullptr, text, sizeof text), nvml::error_invalid_argument);
  EXPECT_EQ(api_->device_get_handle_by_index(2, &gpus_[0]), nvml::error_invalid_argument);
}

TEST_F(SoftNvmlTest, Bar1AndMemoryFollowTheirUse) {
  make({.bar1_bytes = 1u << 20});
  nvml::nvmlBAR1Memory_t window{};
  EXPECT_EQ(api_->device_get_bar1_memory_info(gpus_[0], &window), nvml::success);
  EXPECT_EQ(window.bar1Total, 1u << 20);
  EXPECT_EQ(window.bar1Used, 0u);
  Bus& bus = rig_->host->bus();
  const BusAddress address = *bus.map_bar1(bus.vram_base(0), 65536);
  EXPECT_EQ(api_->device_get_bar1_memory_info(gpus_[0], &window), nvml::success);
  EXPECT_EQ(window.bar1Used, 65536u);
  EXPECT_EQ(window.bar1Free, (1u << 20) - 65536u);
  EXPECT_TRUE(bus.unmap_bar1(address));
  (void)rig_->allocate(5u << 20);
  nvml::nvmlMemory_t memory{};
  EXPECT_EQ(api_->device_get_memory_info(gpus_[0], &memory), nvml::success);
  EXPECT_EQ(memory.used, 6u << 20);
}

TEST_F(SoftNvmlTest, CountersFollowThePayload) {
  make({.nvlinks = 4});
  constexpr std::size_t length = 3u << 20;
  std::byte* pinned = rig_->allocate_pinned(length);
  const cuda::CUdeviceptr a = rig_->allocate(length);
  ASSERT_EQ(rig_->api->memcpy_htod_async(a, pinned, length, nullptr), cuda::success);
  ASSERT_EQ(rig_->api->ctx_synchronize(), cuda::success);
  EXPECT_EQ(field(0, nvml::field_pcie_count_rx_bytes).value.uiVal, length);
  EXPECT_EQ(field(0, nvml::field_pcie_count_tx_bytes).value.uiVal, 0u);
  ASSERT_EQ(rig_->api->ctx_push_current(rig_->contexts[1]), cuda::success);
  const cuda::CUdeviceptr b = rig_->allocate(length);
  ASSERT_EQ(rig_->api->ctx_pop_current(nullptr), cuda::success);
  ASSERT_EQ(rig_->api->ctx_enable_peer_access(rig_->contexts[1], 0), cuda::success);
  ASSERT_EQ(rig_->api->memcpy_dtod_async(b, a, length, nullptr), cuda::success);
  ASSERT_EQ(rig_->api->ctx_synchronize(), cuda::success);
  EXPECT_EQ(field(0, nvml::field_nvlink_throughput_data_tx).value.ullVal, length / 1024);
  EXPECT_EQ(field(0, nvml::field_nvlink_throughput_data_rx).value.ullVal, 0u);
  EXPECT_EQ(field(1, nvml::field_nvlink_throughput_data_rx).value.ullVal, length / 1024);
  EXPECT_EQ(field(0, nvml::field_pcie_count_rx_bytes).value.uiVal, length) << "PCIe stays still";
  EXPECT_EQ(field(0, 4711).nvmlReturn, nvml::error_invalid_argument) << "no such field";
  // Asked for one link, NVML tells of that one only: an eighteenth of the whole on an H200.
  const unsigned sent = nvml::field_nvlink_throughput_data_tx;
  EXPECT_EQ(field(0, sent, 0).value.ullVal, length / 4 / 1024);
  EXPECT_EQ(field(0, sent, 3).value.ullVal, length / 4 / 1024);
  EXPECT_EQ(field(0, sent, 4).nvmlReturn, nvml::error_not_supported);
}

TEST_F(SoftNvmlTest, PcieCountersWrapAtFourGibibytes) {
  make({});
  constexpr std::size_t length = 64u << 20;
  const cuda::CUdeviceptr a = rig_->allocate(length);
  ASSERT_EQ(rig_->api->ctx_push_current(rig_->contexts[1]), cuda::success);
  const cuda::CUdeviceptr b = rig_->allocate(length);
  ASSERT_EQ(rig_->api->ctx_pop_current(nullptr), cuda::success);
  ASSERT_EQ(rig_->api->ctx_enable_peer_access(rig_->contexts[1], 0), cuda::success);
  // Sixty-five times 64 MiB of memory that was never written, from one GPU to the other.
  for (int i = 0; i < 65; ++i) {
    ASSERT_EQ(rig_->api->memcpy_dtod_async(b, a, length, nullptr), cuda::success);
  }
  ASSERT_EQ(rig_->api->ctx_synchronize(), cuda::success);
  EXPECT_EQ(field(0, nvml::field_pcie_count_tx_bytes).value.uiVal, length);
  EXPECT_EQ(field(1, nvml::field_pcie_count_rx_bytes).value.uiVal, length);
}

TEST_F(SoftNvmlTest, LinksAndPeerStatus) {
  make({.nvlinks = 3});
  unsigned active = 0;
  EXPECT_EQ(api_->device_get_nvlink_state(gpus_[0], 2, &active), nvml::success);
  EXPECT_EQ(active, 1u);
  // It has three, and none of them is down.
  EXPECT_EQ(api_->device_get_nvlink_state(gpus_[0], 3, &active), nvml::error_invalid_argument);
  nvml::nvmlPciInfo_t remote{};
  nvml::nvmlPciInfo_t peer{};
  EXPECT_EQ(api_->device_get_nvlink_remote_pci_info(gpus_[0], 2, &remote), nvml::success);
  EXPECT_EQ(api_->device_get_pci_info(gpus_[1], &peer), nvml::success);
  EXPECT_STREQ(remote.busId, peer.busId);
  int status = -1;
  EXPECT_EQ(api_->device_get_p2p_status(gpus_[0], gpus_[1], nvml::p2p_caps_nvlink, &status),
            nvml::success);
  EXPECT_EQ(status, nvml::p2p_status_ok);
  EXPECT_EQ(status_of(0, 1, p2p_caps_pci), nvml::p2p_status_not_supported) << "NVLink alone";
  EXPECT_EQ(status_of(0, 1, p2p_caps_atomics), nvml::p2p_status_ok);
  EXPECT_EQ(status_of(0, 1, 4711), nvml::p2p_status_ok) << "of what does not exist";
  EXPECT_EQ(status_of(0, 0, nvml::p2p_caps_nvlink), nvml::p2p_status_ok) << "with itself";
  EXPECT_EQ(status_of(0, 0, p2p_caps_pci), nvml::p2p_status_not_supported);
  EXPECT_EQ(status_of(0, 0, 4711), nvml::p2p_status_ok);
  make({});
  EXPECT_EQ(status_of(0, 0, nvml::p2p_caps_nvlink), nvml::p2p_status_not_supported)
      << "with itself, without NVLink";
  EXPECT_EQ(status_of(0, 1, p2p_caps_pci), nvml::p2p_status_ok);
  EXPECT_EQ(status_of(0, 1, p2p_caps_atomics), nvml::p2p_status_not_supported);
  EXPECT_EQ(field(0, nvml::field_nvlink_throughput_data_tx).nvmlReturn, nvml::error_not_supported);
  EXPECT_EQ(api_->device_get_nvlink_state(gpus_[0], 0, &active), nvml::error_not_supported);
  EXPECT_EQ(api_->device_get_p2p_status(gpus_[0], gpus_[1], nvml::p2p_caps_nvlink, &status),
            nvml::success);
  EXPECT_EQ(status, nvml::p2p_status_not_supported);
  EXPECT_EQ(api_->device_get_p2p_status(gpus_[0], gpus_[1], nvml::p2p_caps_read, &status),
            nvml::success);
  EXPECT_EQ(status, nvml::p2p_status_ok);
}

}  // namespace
}  // namespace nobounce::fabric
