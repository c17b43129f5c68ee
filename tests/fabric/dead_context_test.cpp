// A context that somebody reset under a session: what was made in it is not touched any more, since
// the real driver dies of a destroyed stream or event.
#include <gtest/gtest.h>

#include "support/around_host.hpp"
#include "support/soft_session.hpp"

namespace nobounce {
namespace {

namespace cuda = system::cuda;

/// A driver whose contexts are gone from a moment on. Counts what would kill the real one.
class DyingCuda : public support::AroundCuda {
 public:
  using AroundCuda::AroundCuda;
  bool dead = false;
  int touched = 0;

  CUresult event_create(CUevent* event, unsigned flags) override {
    if (dead) return cuda::error_context_is_destroyed;
    return AroundCuda::event_create(event, flags);
  }
  CUresult memcpy_htod_async(CUdeviceptr target, const void* source, std::size_t bytes,
                             CUstream stream) override {
    if (dead) return cuda::error_context_is_destroyed;
    return AroundCuda::memcpy_htod_async(target, source, bytes, stream);
  }
  /// Memory goes with its context (asked of an H200: tests/device/buffer_id_test.cpp).
  CUresult pointer_get_attribute(void* data, int attribute, CUdeviceptr pointer) override {
    if (dead) return cuda::error_invalid_value;
    return AroundCuda::pointer_get_attribute(data, attribute, pointer);
  }
  CUresult pointer_get_attributes(unsigned count, int* attributes, void** data,
                                  CUdeviceptr pointer) override {
    if (dead) return cuda::error_invalid_value;
    return AroundCuda::pointer_get_attributes(count, attributes, data, pointer);
  }
  CUresult ctx_enable_peer_access(CUcontext peer, unsigned flags) override {
    if (dead) return cuda::error_context_is_destroyed;
    return AroundCuda::ctx_enable_peer_access(peer, flags);
  }
  CUresult memcpy_dtod_async(CUdeviceptr target, CUdeviceptr source, std::size_t bytes,
                             CUstream stream) override {
    touched += dead ? 1 : 0;
    return AroundCuda::memcpy_dtod_async(target, source, bytes, stream);
  }
  CUresult memcpy_peer_async(CUdeviceptr target, CUcontext target_context, CUdeviceptr source,
                             CUcontext source_context, std::size_t bytes,
                             CUstream stream) override {
    touched += dead ? 1 : 0;
    return AroundCuda::memcpy_peer_async(target, target_context, source, source_context, bytes,
                                         stream);
  }
  CUresult event_destroy(CUevent event) override {
    touched += dead ? 1 : 0;
    return AroundCuda::event_destroy(event);
  }
  CUresult stream_destroy(CUstream stream) override {
    touched += dead ? 1 : 0;
    return AroundCuda::stream_destroy(stream);
  }
};

class DeadContext : public ::testing::Test {
 protected:
  DeadContext() {
    Result<std::unique_ptr<fabric::SoftHost>> made =
        fabric::SoftHost::create(test::machine_with("workstation"), {});
    if (!made.ok()) throw std::runtime_error(to_string(made.error()));
    soft_ = std::move(*made);
    cuda_ = std::make_unique<DyingCuda>(**soft_->cuda());
    around_ = std::make_unique<support::AroundHost>(*soft_);
    around_->cuda_table = cuda_.get();
  }
  void run(const char* what, std::uint32_t source_gpu, bool from_host) {
    SCOPED_TRACE(what);
    constexpr std::uint64_t bytes = 3u << 20;
    Result<Session> session = Session::open(*around_, test::SoftSession::quiet());
    ASSERT_TRUE(session.ok());
    Result<Region> source =
        from_host ? session->allocate_host(bytes) : session->allocate(source_gpu, bytes);
    Result<Region> target = session->allocate(1, bytes);
    ASSERT_TRUE(source.ok() && target.ok());
    const Policy policy = from_host ? Policy::direct_preferred : Policy::direct_required;
    ASSERT_TRUE(session->transfer(source->place(), target->place(), {.policy = policy}).ok());
    cuda_->dead = true;
    const Outcome outcome = session->transfer(source->place(), target->place(), {.policy = policy});
    ASSERT_FALSE(outcome.ok());
    if (from_host) {
      EXPECT_EQ(outcome.error->origin, ErrorOrigin::cuda);
      EXPECT_EQ(outcome.error->code, cuda::error_context_is_destroyed);
    } else {  // seen before anything is asked of a context
      EXPECT_EQ(outcome.receipt.state, TransferState::refused);
      EXPECT_EQ(outcome.error->cause, Cause::memory_kind_unknown);
    }
  }
  std::unique_ptr<fabric::SoftHost> soft_;
  std::unique_ptr<DyingCuda> cuda_;
  std::unique_ptr<support::AroundHost> around_;
};

TEST_F(DeadContext, OfATargetIsAClearErrorAndNothingInItIsTouched) {
  run("from host memory", 0, true);
  EXPECT_EQ(cuda_->touched, 0);
}

TEST_F(DeadContext, OfAPeerIsAClearErrorAndNothingInItIsTouched) {
  run("from a GPU", 0, false);
  EXPECT_EQ(cuda_->touched, 0);
}

TEST_F(DeadContext, UnderStagingIsAClearErrorAndNothingInItIsTouched) {
  const test::TemporaryDirectory directory;
  {
    constexpr std::uint64_t bytes = 3u << 20;
    test::write_file(directory.file("source"), test::random_bytes(bytes, 1));
    Result<Session> session = Session::open(*around_, test::SoftSession::quiet());
    ASSERT_TRUE(session.ok());
    Result<File> file = session->open_file(directory.file("source"));
    Result<Region> target = session->allocate(0, bytes);
    ASSERT_TRUE(file.ok() && target.ok());
    const TransferOptions staged{.policy = Policy::staged_only};
    ASSERT_TRUE(session->transfer(file->place(), target->place(), staged).ok());
    cuda_->dead = true;
    const Outcome outcome = session->transfer(file->place(), target->place(), staged);
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error->origin, ErrorOrigin::cuda);
  }
  EXPECT_EQ(cuda_->touched, 0);
}

}  // namespace
}  // namespace nobounce
