// What this machine says of itself: MIG, confidential computing, virtualisation, integrated GPUs.
// Read only; the values go to the log, so that a run on another machine can be compared.
#include <dlfcn.h>

#include "device/device_rig.hpp"

namespace nobounce::device {
namespace {

namespace nvml = system::nvml;

class FactsTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    library_ = ::dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library_ == nullptr) GTEST_SKIP() << "no libnvidia-ml.so.1 here";
    ASSERT_EQ(call<int()>("nvmlInit_v2"), nvml::success);
    ASSERT_EQ(call<int(unsigned, void**)>("nvmlDeviceGetHandleByIndex_v2", 0u, &device_), 0);
  }
  void TearDown() override {
    if (device_ != nullptr) (void)call<int()>("nvmlShutdown");
  }
  /// Calls a function that may be absent: then error_function_not_found.
  template <typename Signature, typename... Arguments>
  int call(const char* name, Arguments... arguments) {
    auto* function = reinterpret_cast<Signature*>(::dlsym(library_, name));
    return function == nullptr ? nvml::error_function_not_found : function(arguments...);
  }
  static void tell(const std::string& name, int code, const std::string& value) {
    const std::string text = code == nvml::success ? value : "code " + std::to_string(code);
    std::printf("fact  %s: %s\n", name.c_str(), text.c_str());
    ::testing::Test::RecordProperty(name, text);
  }
  /// Answered, or said to be unsupported: anything else is a call of ours that is wrong.
  static void expect_answer(const std::string& name, int code) {
    EXPECT_TRUE(code == nvml::success || code == nvml::error_not_supported ||
                code == nvml::error_function_not_found || code == nvml::error_no_permission)
        << name << " answered " << code;
  }
  void* library_ = nullptr;
  void* device_ = nullptr;
};

TEST_F(FactsTest, MigModeIsToldOrUnsupported) {
  unsigned current = 7;
  unsigned pending = 7;
  const int code =
      call<int(void*, unsigned*, unsigned*)>("nvmlDeviceGetMigMode", device_, &current, &pending);
  tell("mig_mode", code, std::to_string(current) + ", pending " + std::to_string(pending));
  expect_answer("nvmlDeviceGetMigMode", code);
}

TEST_F(FactsTest, ConfidentialComputingIsToldOrUnsupported) {
  struct State {  // nvmlConfComputeSystemState_t
    unsigned environment = 7;
    unsigned cc_feature = 7;
    unsigned dev_tools_mode = 7;
  } state;
  const int code = call<int(State*)>("nvmlSystemGetConfComputeState", &state);
  tell("confidential_computing", code,
       "environment " + std::to_string(state.environment) + ", feature " +
           std::to_string(state.cc_feature) + ", dev tools " +
           std::to_string(state.dev_tools_mode));
  expect_answer("nvmlSystemGetConfComputeState", code);
}

TEST_F(FactsTest, VirtualisationModeIsToldOrUnsupported) {
  unsigned mode = 7;  // 0 none, 1 passthrough, 2 vGPU, 3 host vGPU, 4 host vSGA
  const int code = call<int(void*, unsigned*)>("nvmlDeviceGetVirtualizationMode", device_, &mode);
  tell("virtualization_mode", code, std::to_string(mode));
  expect_answer("nvmlDeviceGetVirtualizationMode", code);
}

TEST_F(FactsTest, TheMachineIsReadAsTheDriverDescribesIt) {
  int integrated = 7;
  ASSERT_EQ(driver().device_attribute(&integrated, system::cuda::attribute_integrated, 0), 0);
  std::printf("fact  integrated: %d\n", integrated);
  Live live;
  ASSERT_TRUE(live.session) << live.failure;
  const Machine& machine = live.session->machine();
  ASSERT_GE(static_cast<int>(machine.gpus.size()), driver().gpus());
  char name[96] = "";
  ASSERT_EQ(driver().device_name(name, sizeof name, 0), 0);
  EXPECT_EQ(machine.gpus[0].product, name);
  EXPECT_GT(machine.gpus[0].memory_bytes, 0u);
  EXPECT_GT(machine.gpus[0].bar1_bytes, 0u);
  std::printf("fact  guest: %d, BAR1 %llu MiB, nvidia_fs %d, udev %d\n", machine.guest ? 1 : 0,
              static_cast<unsigned long long>(machine.gpus[0].bar1_bytes >> 20),
              machine.modules.nvidia_fs ? 1 : 0, machine.udev ? 1 : 0);
}

}  // namespace
}  // namespace nobounce::device
