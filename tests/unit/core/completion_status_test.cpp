// Statuses of completions: their names and causes are those of the pages.
#include <gtest/gtest.h>

#include <cstdint>

#include "core/completion_status.hpp"

namespace nobounce::core {
namespace {

TEST(CompletionStatus, HasTheNamesOfTheList) {
  EXPECT_EQ(completion_status_name(0), "success");
  EXPECT_EQ(completion_status_name(4), "local protection error");
  EXPECT_EQ(completion_status_name(5), "flushed");
  EXPECT_EQ(completion_status_name(12), "transport retries exceeded");
  EXPECT_EQ(completion_status_name(21), "general error");
  EXPECT_EQ(completion_status_name(23), "tag matching rendezvous incomplete");
  EXPECT_EQ(completion_status_name(24), "");
  EXPECT_EQ(completion_status_name(~std::uint64_t{0}), "");
}

TEST(CompletionStatus, OfARefusedAccessIsOneCauseAtEitherEnd) {
  for (const std::uint64_t status : {4u, 8u, 10u})
    EXPECT_EQ(cause_of_completion_status(status, 0), Cause::rdma_remote_access_error) << status;
  for (const std::uint64_t status : {12u, 13u})
    EXPECT_EQ(cause_of_completion_status(status, 0), Cause::rdma_retry_exceeded) << status;
  for (const std::uint64_t status : {1u, 2u, 5u, 9u, 11u, 19u, 21u, 99u})
    EXPECT_EQ(cause_of_completion_status(status, 0), Cause::rdma_completion_error) << status;
  EXPECT_EQ(cause_of_completion_status(2, 0x51), Cause::rdma_remote_access_error);
}

}  // namespace
}  // namespace nobounce::core
