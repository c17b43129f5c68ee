// NVML's PCIe byte counters as a witness: 32 bits that wrap every 4 GiB, sampled, unwrapped, and
// normalised by a plain copy of the same run.
#include <algorithm>
#include <atomic>
#include <thread>

#include "device/device_rig.hpp"

namespace nobounce::device {
namespace {

namespace nvml = system::nvml;
constexpr std::uint64_t gib = 1u << 30;

/// Samples one field as fast as NVML answers, from construction to stop().
class PcieSampler {
 public:
  PcieSampler(system::Nvml& table, nvml::nvmlDevice_t device, unsigned field)
      : table_(table), device_(device), field_(field), thread_([this] { sample(); }) {
    while (samples_ == 0 && !failed_) std::this_thread::yield();
  }
  ~PcieSampler() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
  }
  PcieSampler(const PcieSampler&) = delete;
  PcieSampler& operator=(const PcieSampler&) = delete;
  /// Bytes since the first sample; 0 where a gap made a wrap possible or a reading failed.
  [[nodiscard]] std::uint64_t stop() {
    stopping_ = true;
    thread_.join();
    return failed_ || longest_gap_ > std::chrono::milliseconds(20) ? 0 : total_;
  }
  [[nodiscard]] std::chrono::microseconds longest_gap() const { return longest_gap_; }

 private:
  bool read(std::uint32_t& value) {
    nvml::nvmlFieldValue_t field{};
    field.fieldId = field_;
    if (table_.device_get_field_values(device_, 1, &field) != 0 || field.nvmlReturn != 0) {
      return false;
    }
    value = static_cast<std::uint32_t>(field.value.uiVal);
    return true;
  }
  void sample() {
    std::uint32_t last = 0;
    failed_ = !read(last);
    auto then = std::chrono::steady_clock::now();
    ++samples_;
    bool last_round = false;
    while (!failed_ && !last_round) {
      last_round = stopping_;  // one more after the end
      std::uint32_t now = 0;
      failed_ = !read(now);
      const auto time = std::chrono::steady_clock::now();
      longest_gap_ = std::max(longest_gap_,
                              std::chrono::duration_cast<std::chrono::microseconds>(time - then));
      then = time;
      total_ += static_cast<std::uint32_t>(now - last);
      last = now;
      ++samples_;
    }
  }
  system::Nvml& table_;
  nvml::nvmlDevice_t device_;
  unsigned field_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> failed_{false};
  std::atomic<std::uint64_t> samples_{0};
  std::uint64_t total_ = 0;
  std::chrono::microseconds longest_gap_{0};
  std::thread thread_;
};

class PcieCounterTest : public DeviceTest, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    host_ = system::make_live_host();
    const auto table = host_->nvml();
    ASSERT_TRUE(table.ok()) << nobounce::to_string(table.error());
    table_ = *table;
    ASSERT_EQ(table_->init(), nvml::success);
    ASSERT_EQ(table_->device_get_handle_by_index(0, &device_), nvml::success);
  }
  void TearDown() override {
    if (table_ != nullptr) (void)table_->shutdown();
  }
  /// Bytes that the counter saw during a plain pinned copy of `total`, in pieces; 0: void.
  std::uint64_t counted(bool to_device, std::uint64_t total, std::byte* host, Pointer pointer,
                        std::uint64_t piece) {
    PcieSampler sampler(
        *table_, device_,
        to_device ? nvml::field_pcie_count_rx_bytes : nvml::field_pcie_count_tx_bytes);
    for (std::uint64_t done = 0; done < total; done += piece) {
      const int code = to_device ? driver().to_device(pointer, host, piece, nullptr)
                                 : driver().to_host(host, pointer, piece, nullptr);
      if (code != 0) return 0;
    }
    if (driver().synchronize(nullptr) != 0) return 0;
    const std::uint64_t bytes = sampler.stop();
    std::printf("PCIe counter: %llu for a payload of %llu, ratio %.4f, longest gap %lld us\n",
                static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(total),
                static_cast<double>(bytes) / static_cast<double>(total),
                static_cast<long long>(sampler.longest_gap().count()));
    return bytes;
  }
  std::unique_ptr<system::Host> host_;
  system::Nvml* table_ = nullptr;
  nvml::nvmlDevice_t device_ = nullptr;
};

std::string direction_name(const ::testing::TestParamInfo<bool>& one) {
  return one.param ? "ToDevice" : "ToHost";
}

INSTANTIATE_TEST_SUITE_P(Both, PcieCounterTest, ::testing::Bool(), direction_name);

TEST_P(PcieCounterTest, EightGibibytesReadAsEightWithinFivePercent) {
  const bool to_device = GetParam();
  const Primary primary(driver(), 0);
  void* host = nullptr;
  ASSERT_EQ(driver().allocate_host(&host, gib, 0), 0);
  const GpuBuffer memory(Kind::plain, gib);
  ASSERT_EQ(memory.error, 0);
  auto* bytes = static_cast<std::byte*>(host);
  double ratio = 0;
  for (int attempt = 0; attempt < 3 && ratio == 0; ++attempt) {  // a void reading is taken again
    const std::uint64_t plain = counted(to_device, 2 * gib, bytes, memory.pointer(), gib);
    const std::uint64_t eight = counted(to_device, 8 * gib, bytes, memory.pointer(), gib);
    if (plain == 0 || eight == 0) continue;
    const double overhead = static_cast<double>(plain) / static_cast<double>(2 * gib);
    EXPECT_GT(overhead, 0.9);
    EXPECT_LT(overhead, 1.3);
    ratio = static_cast<double>(eight) / overhead / static_cast<double>(8 * gib);
  }
  (void)driver().free_host(host);
  ASSERT_NE(ratio, 0) << "every reading was void: gaps of more than 20 ms, or NVML refused";
  EXPECT_NEAR(ratio, 1.0, 0.05);
}

}  // namespace
}  // namespace nobounce::device
