// Libraries and providers that lie: what they stage in silence is counted as staged, as
// unattributed, or caught by the bus's account. A suite in which a lie passes is worth nothing, so
// the checker itself is checked.
#include <gtest/gtest.h>

#include "core/provider.hpp"
#include "provider/staged/staged_provider.hpp"
#include "support/soft_session.hpp"
#include "system/cuda_contexts.hpp"

namespace nobounce {
namespace {

using test::machine_with;
using test::random_bytes;
using test::SoftSession;
using test::TemporaryDirectory;
using test::write_file;

struct Lie {
  const char* name;
  fabric::SoftFaults faults;
  Carriage told;  ///< the bucket an honest receipt uses
};

void PrintTo(const Lie& lie, std::ostream* stream) {
  *stream << lie.name;
}

class LyingLibrary : public ::testing::TestWithParam<Lie> {
 protected:
  TemporaryDirectory directory_;
  std::vector<std::byte> bytes_ = random_bytes(2000001, 3);
};

TEST_P(LyingLibrary, IsNotBelieved) {
  write_file(directory_.file("data"), bytes_);
  fabric::SoftOptions options;
  options.faults = GetParam().faults;
  SoftSession soft(machine_with("workstation"), options);
  Result<File> file = soft->open_file(directory_.file("data"));
  Result<Region> region = soft->allocate(0, bytes_.size());
  ASSERT_TRUE(file.ok() && region.ok());
  soft.begin_account();
  const Outcome outcome = soft->transfer(file->place(), region->place());
  ASSERT_TRUE(outcome.ok()) << to_string(*outcome.error);
  EXPECT_EQ(outcome.receipt.bytes[Carriage::direct], 0u);
  EXPECT_EQ(outcome.receipt.bytes[GetParam().told], bytes_.size())
      << test::show(outcome.receipt.bytes);
  EXPECT_GT(outcome.receipt.cause_count, 0);
  EXPECT_TRUE(test::claims_no_more(outcome.receipt, soft.arrived(region->place())));
  EXPECT_EQ(soft.look_at(region->place()), bytes_);
}

TEST_P(LyingLibrary, FailsATransferThatRequiresTheDirectPath) {
  write_file(directory_.file("data"), bytes_);
  fabric::SoftOptions options;
  options.faults = GetParam().faults;
  SoftSession soft(machine_with("workstation"), options);
  Result<File> file = soft->open_file(directory_.file("data"));
  Result<Region> region = soft->allocate(0, bytes_.size());
  ASSERT_TRUE(file.ok() && region.ok());
  const Outcome outcome =
      soft->transfer(file->place(), region->place(), {.policy = Policy::direct_required});
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error->origin, ErrorOrigin::policy);
  EXPECT_NE(outcome.error->cause, Cause::none);
  EXPECT_EQ(outcome.receipt.bytes[Carriage::direct], 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Each, LyingLibrary,
    ::testing::Values(Lie{"StagesInSilence", {.compat_in_silence = true}, Carriage::staged},
                      Lie{"StagesWithStuckStatistics",
                          {.compat_in_silence = true, .statistics_stuck = true},
                          Carriage::unattributed},
                      Lie{"StagesWithoutStatistics",
                          {.compat_in_silence = true, .statistics_missing = true},
                          Carriage::unattributed}),
    [](const auto& tested) { return std::string(tested.param.name); });

/// Does what it is told by way of host memory, and claims that it was direct.
class LyingProvider : public core::Provider {
 public:
  explicit LyingProvider(std::unique_ptr<core::Provider> staged) : staged_(std::move(staged)) {}
  [[nodiscard]] ProviderKind kind() const override { return ProviderKind::storage; }
  [[nodiscard]] Assessment assess(const Segment& segment) override {
    return staged_->assess(segment);
  }
  [[nodiscard]] Status attach(const core::RegionView& region) override {
    return staged_->attach(region);
  }
  void detach(const core::RegionView& region) override { staged_->detach(region); }
  void submit(std::span<const core::Operation> operations) override { staged_->submit(operations); }
  [[nodiscard]] std::size_t poll(std::uint64_t now_ns,
                                 std::span<core::Completion> completions) override {
    const std::size_t count = staged_->poll(now_ns, completions);
    for (std::size_t i = 0; i < count; ++i) {
      core::Completion& completion = completions[i];
      completion.bytes[Carriage::direct] = std::exchange(completion.bytes[Carriage::staged], 0);
      completion.known = Known::counted;
    }
    return count;
  }
  void cancel(core::OperationId operation) override { staged_->cancel(operation); }
  bool close(std::uint64_t deadline_ns) override { return staged_->close(deadline_ns); }

 private:
  std::unique_ptr<core::Provider> staged_;
};

class NoFiles : public system::OpenFiles {
 public:
  explicit NoFiles(system::OpenFile file) : file_(std::move(file)) {}
  [[nodiscard]] const system::OpenFile* find(std::uint32_t) const override { return &file_; }

 private:
  system::OpenFile file_;
};

TEST(LyingProvider, ThatStagesAndClaimsDirectIsCaughtByTheBus) {
  const TemporaryDirectory directory;
  const std::vector<std::byte> bytes = random_bytes(1000001, 3);
  write_file(directory.file("data"), bytes);
  SoftSession soft(machine_with("workstation"));
  Result<Region> region = soft->allocate(0, bytes.size());
  ASSERT_TRUE(region.ok());
  system::OpenFile open;
  open.path = directory.file("data");
  open.buffered = *soft.host().storage().open(open.path, {});
  const NoFiles files(open);
  Result<std::unique_ptr<system::CudaContexts>> contexts =
      system::CudaContexts::open(soft.host(), soft->machine());
  ASSERT_TRUE(contexts.ok());
  LyingProvider liar(provider::make_staged_provider(soft.host(), contexts->get(), files, {}));
  soft.begin_account();
  const core::Operation operation{.id = 1,
                                  .segment = {.length_bytes = bytes.size(),
                                              .source = FileRange{0, FileOffset{0}, bytes.size()},
                                              .target = region->place(),
                                              .provider = ProviderKind::storage,
                                              .expected = Carriage::direct}};
  liar.submit(std::span(&operation, 1));
  core::Completion completion;
  ASSERT_TRUE(soft.host().workers().wait(
      [&] { return liar.poll(soft.host().clock().now_ns(), std::span(&completion, 1)) == 1; }, 0));
  ASSERT_FALSE(completion.error.has_value());
  Receipt receipt;
  receipt.bytes = completion.bytes;
  const CarriageBytes truth = soft.arrived(region->place());
  EXPECT_EQ(receipt.bytes[Carriage::direct], bytes.size());  // what it says
  EXPECT_EQ(truth[Carriage::staged], bytes.size());          // what it did
  EXPECT_FALSE(test::claims_no_more(receipt, truth))
      << "the check that the whole suite rests on let a lie pass";
  EXPECT_FALSE(test::equals_ledger(receipt, truth));
  EXPECT_TRUE(liar.close(0));
  (void)soft.host().storage().close(open.buffered);
}

}  // namespace
}  // namespace nobounce
