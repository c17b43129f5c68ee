// One look at all providers: how often the clock is read for it, and what it stamps.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "session/completion_sink.hpp"
#include "system/host.hpp"

namespace nobounce {
namespace {

class CountedClock final : public system::Clock {
 public:
  std::uint64_t now_ns() override { return ++readings * 1000; }
  std::uint64_t readings = 0;
};

/// Hands out what it was given to hand out, and keeps the times at which it was asked.
class Shelf final : public core::Provider {
 public:
  [[nodiscard]] ProviderKind kind() const override { return ProviderKind::staged; }
  [[nodiscard]] Assessment assess(const Segment&) override { return {}; }
  [[nodiscard]] Status attach(const core::RegionView&) override { return {}; }
  void detach(const core::RegionView&) override {}
  void submit(std::span<const core::Operation>) override {}
  [[nodiscard]] std::size_t poll(std::uint64_t now_ns,
                                 std::span<core::Completion> completions) override {
    asked_ns.push_back(now_ns);
    const std::size_t count = std::min(ready.size(), completions.size());
    std::copy_n(ready.begin(), count, completions.begin());
    ready.erase(ready.begin(), ready.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
  void cancel(core::OperationId) override {}
  bool close(std::uint64_t) override { return true; }

  std::vector<core::Completion> ready;
  std::vector<std::uint64_t> asked_ns;
};

struct Ends final : session::CompletionSink {
  void on_completion(const core::Completion& completion) override {
    ended_ns.push_back(completion.ended_ns);
  }
  std::vector<std::uint64_t> ended_ns;
};

class Looks : public ::testing::Test {
 protected:
  void make_ready(std::size_t count, std::uint64_t ended_ns = 0) {
    for (std::size_t i = 0; i < count; ++i) {
      core::Completion completion;
      completion.id = dispatcher_.expect(ends_);
      completion.ended_ns = ended_ns;
      second_.ready.push_back(completion);
    }
  }

  CountedClock clock_;
  Shelf first_;
  Shelf second_;
  Ends ends_;
  session::Dispatcher dispatcher_{clock_, {&first_, &second_}};
};

TEST_F(Looks, ReadTheClockOnceForAllProviders) {
  EXPECT_EQ(dispatcher_.dispatch(), 0u);
  EXPECT_EQ(clock_.readings, 1u);
  EXPECT_EQ(first_.asked_ns, std::vector<std::uint64_t>{1000});
  EXPECT_EQ(second_.asked_ns, std::vector<std::uint64_t>{1000});
}

TEST_F(Looks, StampWhatEndedWithTheirTime) {
  make_ready(40);  // more than are handed out at once
  EXPECT_EQ(dispatcher_.dispatch(), 40u);
  EXPECT_EQ(clock_.readings, 1u);
  EXPECT_EQ(ends_.ended_ns, std::vector<std::uint64_t>(40, 1000));
}

TEST_F(Looks, LeaveATimeThatAProviderKnows) {
  make_ready(1, 700);
  EXPECT_EQ(dispatcher_.dispatch(second_), 1u);
  EXPECT_EQ(ends_.ended_ns, std::vector<std::uint64_t>{700});
}

TEST_F(Looks, ByAnEarlierReadingReadNoneWhereNothingEnded) {
  EXPECT_EQ(dispatcher_.dispatch(second_, 500), 0u);
  EXPECT_EQ(clock_.readings, 0u);
  EXPECT_EQ(second_.asked_ns, std::vector<std::uint64_t>{500});
  EXPECT_TRUE(first_.asked_ns.empty());
}

/// Otherwise a transfer that another thread began after that reading would end before it began.
TEST_F(Looks, ByAnEarlierReadingReadItAnewForWhatEnded) {
  make_ready(2);
  EXPECT_EQ(dispatcher_.dispatch(second_, 500), 2u);
  EXPECT_EQ(clock_.readings, 1u);
  EXPECT_EQ(ends_.ended_ns, std::vector<std::uint64_t>(2, 1000));
}

}  // namespace
}  // namespace nobounce
