// The machine's GPUs among CUDA's devices: order, hiding, retaining, releasing, forking.
#include "system/cuda_contexts.hpp"

#include <gtest/gtest.h>

#include "unit/system/scripted_host.hpp"

namespace nobounce::system {
namespace {

using test::ScriptedCuda;

class Contexts : public testing::Test {
 protected:
  Contexts() {
    machine_.gpus.resize(3);
    machine_.gpus[0].uuid = "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f";
    machine_.gpus[1].uuid = "GPU-20212223-2425-2627-2829-2A2B2C2D2E2F";
    machine_.gpus[2].bdf = "0000:c1:00.0";  // no UUID known
  }
  std::unique_ptr<CudaContexts> open() {
    auto contexts = CudaContexts::open(host_, machine_);
    EXPECT_TRUE(contexts) << to_string(contexts.error());
    return contexts ? std::move(*contexts) : nullptr;
  }
  ScriptedCuda& driver() { return host_.driver; }

  Machine machine_;
  test::ScriptedHost host_;
};

TEST_F(Contexts, AreMappedByUuidAndWhereThatIsMissingByBusId) {
  driver().devices = {
      {0x20, true, "0000:B1:00.0"}, {0x30, true, "00000000:C1:00.0"}, {0x10, true, "0000:a1:00.0"}};
  const auto contexts = open();
  ASSERT_NE(contexts, nullptr);
  EXPECT_EQ(*contexts->device(0), 52);
  EXPECT_EQ(*contexts->device(1), 50);
  EXPECT_EQ(*contexts->device(2), 51);
  EXPECT_EQ(*contexts->gpu_of_ordinal(0), 1u);
  EXPECT_EQ(*contexts->gpu_of_ordinal(1), 2u);
  EXPECT_EQ(*contexts->gpu_of_ordinal(2), 0u);
  EXPECT_EQ(contexts->gpu_of_ordinal(3).error().origin, ErrorOrigin::input);
  EXPECT_EQ(&contexts->table(), &driver());
}

TEST_F(Contexts, AreMappedByBusIdWhereTheDriverKnowsNoUuid) {
  machine_.gpus[0].bdf = "0000:01:00.0";
  driver().devices = {{0, false, "0000:01:00.0"}};
  const auto contexts = open();
  ASSERT_NE(contexts, nullptr);
  EXPECT_EQ(*contexts->device(0), 50);
}

TEST_F(Contexts, DoNotMistakeAnotherGpuAtTheSameBusIdForThisOne) {
  machine_.gpus[0].bdf = "0000:01:00.0";
  driver().devices = {{0x77, true, "0000:01:00.0"}};
  const auto contexts = open();
  ASSERT_NE(contexts, nullptr);
  EXPECT_FALSE(contexts->device(0));
}

TEST_F(Contexts, AreRetainedOnFirstUseAndReleasedOnce) {
  driver().devices = {{0x10, true, ""}, {0x20, true, ""}};
  auto contexts = open();
  ASSERT_NE(contexts, nullptr);
  EXPECT_TRUE(driver().retained.empty());
  const auto context = contexts->context(1);
  ASSERT_TRUE(context);
  EXPECT_EQ(*context, ScriptedCuda::context_of(51));
  EXPECT_EQ(*contexts->context(1), *context);
  EXPECT_EQ(driver().retained[51], 1);
  EXPECT_EQ(driver().retained[50], 0);
  contexts.reset();
  EXPECT_EQ(driver().retained[51], 0);
  EXPECT_EQ(driver().retained[50], 0);
}

TEST_F(Contexts, SayThatCudaVisibleDevicesHidesAGpu) {
  driver().devices = {{0x10, true, ""}};
  host_.scripted_environment.variables["CUDA_VISIBLE_DEVICES"] = "0";
  const auto contexts = open();
  ASSERT_NE(contexts, nullptr);
  const auto hidden = contexts->context(1);
  ASSERT_FALSE(hidden);
  EXPECT_EQ(hidden.error().origin, ErrorOrigin::input);
  EXPECT_NE(hidden.error().detail.find("CUDA_VISIBLE_DEVICES=0"), std::string::npos);
  const auto beyond = contexts->context(3);
  ASSERT_FALSE(beyond);
  EXPECT_NE(beyond.error().detail.find("gpu:2"), std::string::npos) << beyond.error().detail;
}

TEST_F(Contexts, ReportAMachineWithoutGpu) {
  EXPECT_EQ(CudaContexts::open(host_, machine_).error().cause, Cause::machine_no_gpu);
  driver().init_code = cuda::error_no_device;
  const auto none = CudaContexts::open(host_, machine_);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().cause, Cause::machine_no_gpu);
  EXPECT_EQ(none.error().origin, ErrorOrigin::cuda);
  EXPECT_EQ(none.error().code, cuda::error_no_device);
}

TEST_F(Contexts, ReportAnAbsentDriverAndCallItNoGpuOnlyWhereThereIsNone) {
  host_.driver_absent = true;
  const auto driverless = CudaContexts::open(host_, machine_);
  ASSERT_FALSE(driverless);
  EXPECT_EQ(driverless.error().origin, ErrorOrigin::os);
  EXPECT_EQ(driverless.error().cause, Cause::none) << "the machine has GPUs, the driver is missing";
  machine_.gpus.clear();
  EXPECT_EQ(CudaContexts::open(host_, machine_).error().cause, Cause::machine_no_gpu);
}

TEST_F(Contexts, ReportTheDriversRefusalToRetain) {
  driver().devices = {{0x10, true, ""}};
  const auto contexts = open();
  ASSERT_NE(contexts, nullptr);
  driver().retain_code = cuda::error_out_of_memory;
  const auto refused = contexts->context(0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, cuda::error_out_of_memory);
  driver().retain_code = 0;
  EXPECT_TRUE(contexts->context(0)) << "a refusal is not remembered";
}

TEST_F(Contexts, TouchNothingInAForkedChild) {
  driver().devices = {{0x10, true, ""}};
  auto contexts = open();
  ASSERT_NE(contexts, nullptr);
  ASSERT_TRUE(contexts->context(0));
  host_.scripted_process.number = 101;
  const auto forked = contexts->context(0);
  ASSERT_FALSE(forked);
  EXPECT_EQ(forked.error().origin, ErrorOrigin::session);
  EXPECT_EQ(forked.error().cause, Cause::session_forked);
  contexts.reset();
  EXPECT_EQ(driver().retained[50], 1) << "the parent still uses it";
}

TEST(ContextGuard, RestoresWhatWasCurrent) {
  ScriptedCuda driver;
  {
    const ContextGuard guard(driver, ScriptedCuda::context_of(1));
    EXPECT_EQ(guard.status(), cuda::success);
    EXPECT_EQ(driver.current.size(), 1u);
  }
  EXPECT_TRUE(driver.current.empty());
}

TEST(CudaError, NamesTheCodeInTheDriversWordsOrByNumber) {
  ScriptedCuda driver;
  const Error named = cuda_error(driver, cuda::error_out_of_memory, "allocate");
  EXPECT_EQ(named.origin, ErrorOrigin::cuda);
  EXPECT_EQ(named.code, 2);
  EXPECT_EQ(named.detail, "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_EQ(named.attempted, "allocate");
  EXPECT_EQ(cuda_error(driver, 12345, "x").detail, "CUDA error 12345");
}

}  // namespace
}  // namespace nobounce::system
