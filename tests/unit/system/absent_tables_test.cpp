// What every function answers where its library is absent.
#include <gtest/gtest.h>

#include <cerrno>

#include "system/cuda.hpp"
#include "system/cufile.hpp"
#include "system/host.hpp"
#include "system/nvml.hpp"
#include "system/verbs.hpp"

namespace nobounce::system {
namespace {

template <typename Table, typename R, typename... A>
R call_with_nothing(Table& table, R (Table::*method)(A...)) {
  return (table.*method)(A{}...);
}

TEST(AbsentCuda, AnswersNotSupportedToEverything) {
  Cuda table;
#define NOBOUNCE_CUDA(method, symbol, parameters, arguments) \
  EXPECT_EQ(call_with_nothing(table, &Cuda::method), cuda::error_not_supported) << symbol;
#include "system/cuda_functions.inc"
#undef NOBOUNCE_CUDA
}

TEST(AbsentNvml, AnswersFunctionNotFoundToEverything) {
  Nvml table;
#define NOBOUNCE_NVML(method, symbol, parameters, arguments) \
  EXPECT_EQ(call_with_nothing(table, &Nvml::method), nvml::error_function_not_found) << symbol;
#include "system/nvml_functions.inc"
#undef NOBOUNCE_NVML
}

TEST(AbsentCufile, AnswersPlatformNotSupportedAndTransfersSayItInErrno) {
  Cufile table;
  EXPECT_EQ(table.driver_open().err, cufile::error_absent);
  EXPECT_EQ(table.driver_open().cu_err, 0);
  EXPECT_EQ(table.set_stats_level(3).err, cufile::error_absent);
  EXPECT_EQ(table.use_count(), 0);
  table.handle_deregister(nullptr);
  errno = 0;
  EXPECT_EQ(table.read(nullptr, nullptr, 1, 0, 0), -1);
  EXPECT_EQ(errno, cufile::error_absent);
  errno = 0;
  EXPECT_EQ(table.write(nullptr, nullptr, 1, 0, 0), -1);
  EXPECT_EQ(errno, cufile::error_absent);
}

TEST(AbsentVerbs, AnswersThatThereIsNoSuchFunction) {
  Verbs table;
#define NOBOUNCE_VERBS(method, symbol, parameters, arguments) \
  EXPECT_EQ(call_with_nothing(table, &Verbs::method), ENOSYS) << symbol;
#include "system/verbs_functions.inc"
#undef NOBOUNCE_VERBS
}

TEST(HostKind, HasAWordForEachKind) {
  EXPECT_EQ(to_string(HostKind::live), "live");
  EXPECT_EQ(to_string(HostKind::soft), "soft");
  EXPECT_EQ(to_string(HostKind::recorded), "recorded");
}

TEST(LiveHost, CanBeMadeByAUserAndSaysThatItIsLive) {
  const HostPointer host = live_host();
  ASSERT_NE(host, nullptr);
  EXPECT_EQ(host->kind(), HostKind::live);
}

}  // namespace
}  // namespace nobounce::system
