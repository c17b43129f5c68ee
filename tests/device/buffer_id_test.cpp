// The driver's numbers of allocations: what a plan that is used again takes for proof that memory
// is still the same.
#include "device/device_rig.hpp"
#include "system/cuda.hpp"
#include "system/live_host.hpp"

namespace nobounce::device {
namespace {

namespace cuda = system::cuda;
constexpr std::size_t bytes = 4u << 20;

class BufferIdTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    host_ = system::make_live_host();
    const Result<system::Cuda*> table = host_->cuda();
    ASSERT_TRUE(table.ok());
    api_ = *table;
  }
  [[nodiscard]] unsigned long long id_of(Pointer pointer, int* code = nullptr) {
    unsigned long long id = 0;
    const int answer = api_->pointer_get_attribute(&id, cuda::pointer_buffer_id, pointer);
    if (code != nullptr) *code = answer;
    return answer == cuda::success ? id : 0;
  }
  std::unique_ptr<system::Host> host_;
  system::Cuda* api_ = nullptr;
};

TEST_F(BufferIdTest, IsOneOfAnAllocationAndNeverUsedTwice) {
  const Primary primary(driver(), 0);
  Pointer first = 0;
  Pointer second = 0;
  ASSERT_EQ(driver().allocate(&first, bytes), 0);
  ASSERT_EQ(driver().allocate(&second, bytes), 0);
  const unsigned long long id = id_of(first);
  EXPECT_NE(id, 0u);
  EXPECT_EQ(id_of(first + bytes - 1), id);
  EXPECT_NE(id_of(second), id);
  bool again_at_the_same_address = false;
  for (int i = 0; i < 8; ++i) {
    const Pointer before = first;
    const unsigned long long id_before = id_of(first);
    ASSERT_EQ(driver().free(first), 0);
    int code = 0;
    (void)id_of(before, &code);
    EXPECT_EQ(code, cuda::error_invalid_value) << "of memory that was freed";
    ASSERT_EQ(driver().allocate(&first, bytes), 0);
    EXPECT_NE(id_of(first), id_before);
    again_at_the_same_address = again_at_the_same_address || first == before;
  }
  EXPECT_TRUE(again_at_the_same_address) << "nothing was shown";
  (void)driver().free(first);
  (void)driver().free(second);
}

TEST_F(BufferIdTest, IsGoneWithItsContext) {
  const Ended ended = run_scenario("buffer_id_after_reset", {}, std::chrono::seconds(60));
  EXPECT_EQ(ended.code, 0) << ended.said;
}

}  // namespace

/// A reset in a process of its own.
int buffer_id_after_reset(const std::vector<std::string>&) {
  if (driver().gpus() < 1) return failed("no GPU");
  void* context = nullptr;
  if (driver().retain(&context, 0) != 0 || driver().push(context) != 0) return failed("no context");
  Pointer pointer = 0;
  if (driver().allocate(&pointer, bytes) != 0) return failed("no memory");
  if (driver().reset(0) != 0) return failed("no reset");
  const auto host = system::make_live_host();
  const Result<system::Cuda*> table = host->cuda();
  if (!table.ok()) return failed("no driver");
  unsigned long long id = 0;
  const int code = (*table)->pointer_get_attribute(&id, cuda::pointer_buffer_id, pointer);
  return code == cuda::success ? failed("memory of a context that is gone has a number") : 0;
}

}  // namespace nobounce::device
