// FaultyHost: each call of each part fails when planned, does not reach the inner host then, and no
// other does.
#include "system/faulty_host.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "support/temporary_directory.hpp"
#include "system/live_host.hpp"

namespace nobounce::system {
namespace {

int reached = 0;  // calls that reached the inner tables

class CountingCuda : public Cuda {
 public:
#define NOBOUNCE_CUDA(method, symbol, parameters, arguments) \
  CUresult method parameters override {                      \
    ++reached;                                               \
    return Cuda::method arguments;                           \
  }
#include "system/cuda_functions.inc"
#undef NOBOUNCE_CUDA
};

class CountingNvml : public Nvml {
 public:
#define NOBOUNCE_NVML(method, symbol, parameters, arguments) \
  nvmlReturn_t method parameters override {                  \
    ++reached;                                               \
    return Nvml::method arguments;                           \
  }
#include "system/nvml_functions.inc"
#undef NOBOUNCE_NVML
};

class CountingCufile : public Cufile {
 public:
#define NOBOUNCE_CUFILE(type, method, symbol, parameters, arguments) \
  type method parameters override {                                  \
    ++reached;                                                       \
    return Cufile::method arguments;                                 \
  }
#include "system/cufile_functions.inc"
#undef NOBOUNCE_CUFILE
};

/// Live parts under counting tables.
class InnerHost : public Host {
 public:
  HostKind kind() const override { return HostKind::soft; }
  std::string_view name() const override { return "inner"; }
  Result<Cuda*> cuda() override { return &cuda_; }
  Result<Nvml*> nvml() override { return &nvml_; }
  Result<Cufile*> cufile() override { return &cufile_; }
  Files& files() override { return live_->files(); }
  Storage& storage() override { return live_->storage(); }
  Memory& memory() override { return live_->memory(); }
  Workers& workers() override { return live_->workers(); }
  Counters& counters() override { return live_->counters(); }
  Environment& environment() override { return live_->environment(); }
  Process& process() override { return live_->process(); }
  Clock& clock() override { return live_->clock(); }
  Entropy& entropy() override { return live_->entropy(); }

 private:
  std::unique_ptr<Host> live_ = make_live_host();
  CountingCuda cuda_;
  CountingNvml nvml_;
  CountingCufile cufile_;
};

/// The functions that give something back are never failed.
const std::set<std::string> never_failed = {"cuda.mem_free",
                                            "cuda.mem_free_host",
                                            "cuda.mem_release",
                                            "cuda.mem_host_unregister",
                                            "cuda.stream_destroy",
                                            "cuda.event_destroy",
                                            "cuda.device_primary_ctx_release",
                                            "cuda.ctx_pop_current",
                                            "cuda.ctx_disable_peer_access",
                                            "nvml.shutdown",
                                            "cufile.driver_close",
                                            "cufile.handle_deregister",
                                            "cufile.buf_deregister",
                                            "cufile.use_count"};

class Faults : public testing::Test {
 protected:
  std::unique_ptr<FaultyHost> plan(const std::string& only, std::uint64_t call,
                                   bool all_after = false) {
    FaultPlan faults;
    faults.fail_call = call;
    faults.only = only;
    faults.fail_all_after = all_after;
    faults.cuda_code = 71;
    faults.nvml_code = 72;
    faults.cufile_code = 5073;
    faults.errno_value = ENOSPC;
    return FaultyHost::wrap(inner_, faults);
  }

  /// Calls a method three times with the second planned to fail; `failed` judges an answer.
  template <typename Table, typename R, typename... A, typename Failed>
  void second_of_three_fails(FaultyHost& host, Table& table, R (Table::*method)(A...),
                             const std::string& name, Failed failed) {
    const bool counted = never_failed.count(name) == 0;
    for (int call = 1; call <= 3; ++call) {
      reached = 0;
      errno = 0;
      const bool must_fail = counted && call == 2;
      bool did_fail = false;
      if constexpr (std::is_void_v<R>) {
        (table.*method)(A{}...);
      } else {
        did_fail = failed((table.*method)(A{}...));
      }
      EXPECT_EQ(did_fail, must_fail) << name << ", call " << call;
      EXPECT_EQ(reached, must_fail ? 0 : 1) << name << ", call " << call;
    }
    EXPECT_EQ(host.calls(), counted ? 3u : 0u) << name;
    EXPECT_EQ(host.failed_call(), counted ? name : "");
  }

  InnerHost inner_;
};

TEST_F(Faults, HitEveryCudaFunctionOfTheList) {
  int functions = 0;
#define NOBOUNCE_CUDA(method, symbol, parameters, arguments)              \
  {                                                                       \
    const auto host = plan("cuda." #method, 2);                           \
    const auto table = host->cuda();                                      \
    ASSERT_TRUE(table);                                                   \
    second_of_three_fails(*host, **table, &Cuda::method, "cuda." #method, \
                          [](int code) { return code == 71; });           \
    ++functions;                                                          \
  }
#include "system/cuda_functions.inc"
#undef NOBOUNCE_CUDA
  EXPECT_GE(functions, 40);
}

TEST_F(Faults, HitEveryNvmlFunctionOfTheList) {
#define NOBOUNCE_NVML(method, symbol, parameters, arguments)              \
  {                                                                       \
    const auto host = plan("nvml." #method, 2);                           \
    const auto table = host->nvml();                                      \
    ASSERT_TRUE(table);                                                   \
    second_of_three_fails(*host, **table, &Nvml::method, "nvml." #method, \
                          [](int code) { return code == 72; });           \
  }
#include "system/nvml_functions.inc"
#undef NOBOUNCE_NVML
}

/// How each return type of cuFile says that it failed.
struct CufileFailed {
  bool operator()(cufile::CUfileError_t answer) const { return answer.err == 5073; }
  bool operator()(long answer) const { return answer == -1 && errno == 5073; }
};

TEST_F(Faults, HitEveryCufileFunctionOfTheList){
#define NOBOUNCE_CUFILE(type, method, symbol, parameters, arguments)                           \
  {                                                                                            \
    const auto host = plan("cufile." #method, 2);                                              \
    const auto table = host->cufile();                                                         \
    ASSERT_TRUE(table);                                                                        \
    second_of_three_fails(*host, **table, &Cufile::method, "cufile." #method, CufileFailed()); \
  }
#include "system/cufile_functions.inc"
#undef NOBOUNCE_CUFILE
}

TEST_F(Faults, HitTheAccessorsOfTheTables) {
  const auto host = plan("host.", 1, true);
  for (const auto& error : {host->cuda().error(), host->nvml().error(), host->cufile().error()}) {
    EXPECT_EQ(error.origin, ErrorOrigin::os);
    EXPECT_EQ(error.code, ENOSPC);
  }
  EXPECT_EQ(host->calls(), 3u);
  EXPECT_EQ(host->failed_call(), "host.cuda");
}

TEST_F(Faults, CountAllCallsInOrderWhenNoNameIsGiven) {
  const auto host = plan("", 3);
  const auto table = host->cuda();  // 1
  ASSERT_TRUE(table);
  EXPECT_EQ((*table)->init(0), cuda::error_not_supported);  // 2
  EXPECT_FALSE(host->files().read("/proc/self/status"));    // 3
  EXPECT_TRUE(host->files().read("/proc/self/status"));     // 4
  EXPECT_EQ(host->calls(), 4u);
  EXPECT_EQ(host->failed_call(), "files.read");
}

TEST_F(Faults, GoOnAfterTheFirstWherePlanned) {
  const auto host = plan("files.", 2, true);
  EXPECT_TRUE(host->files().read("/proc/self/status"));
  EXPECT_FALSE(host->files().read("/proc/self/status"));
  EXPECT_FALSE(host->files().list("/proc"));
  EXPECT_FALSE(host->files().read_link("/proc/self/exe"));
  EXPECT_FALSE(host->files().real_path("/proc"));
  EXPECT_TRUE(host->files().exists("/proc")) << "cannot fail";
  EXPECT_EQ(host->failed_call(), "files.read");
}

TEST_F(Faults, NeverHappenWithoutAPlan) {
  const auto host = FaultyHost::wrap(inner_, {});
  EXPECT_TRUE(host->files().read("/proc/self/status"));
  EXPECT_TRUE(host->counters().cpu_time_ns());
  EXPECT_EQ(host->calls(), 2u);
  EXPECT_EQ(host->failed_call(), "");
  EXPECT_EQ(host->kind(), HostKind::soft);
  EXPECT_EQ(host->name(), "inner");
}

TEST_F(Faults, HitEveryStorageCallThatCanFail) {
  const test::TemporaryDirectory folder;
  const std::string path = folder.file("data");
  test::write_file(path, test::random_bytes(10, 1));
  const auto opened = inner_.storage().open(path, {.access = FileAccess::read_write});
  ASSERT_TRUE(opened);
  const FileHandle file = *opened;
  std::byte byte{};
  const auto host = plan("storage.", 1, true);
  Storage& storage = host->storage();
  std::uint64_t failures = 0;
  const auto expect_fault = [&](const auto& answer, const char* name) {
    ++failures;
    ASSERT_FALSE(answer) << name;
    EXPECT_EQ(answer.error().origin, ErrorOrigin::os) << name;
    EXPECT_EQ(answer.error().code, ENOSPC) << name;
    EXPECT_NE(answer.error().attempted.find(name), std::string::npos) << answer.error().attempted;
  };
  expect_fault(storage.open(path, {}), "storage.open");
  expect_fault(storage.status(file), "storage.status");
  expect_fault(storage.status_of(path), "storage.status_of");
  expect_fault(storage.real_path(path), "storage.real_path");
  expect_fault(storage.read(file, &byte, 1, FileOffset{0}), "storage.read");
  expect_fault(storage.write(file, &byte, 1, FileOffset{0}), "storage.write");
  expect_fault(storage.allocate(file, 100), "storage.allocate");
  expect_fault(storage.truncate(file, 0), "storage.truncate");
  expect_fault(storage.sync(file), "storage.sync");
  expect_fault(storage.sync_directory(folder.path().string()), "storage.sync_directory");
  expect_fault(storage.rename(path, path + "2"), "storage.rename");
  expect_fault(storage.remove(path), "storage.remove");
  expect_fault(storage.copy_attributes(file, file), "storage.copy_attributes");
  expect_fault(storage.resident_bytes(file, FileOffset{0}, 1), "storage.resident_bytes");
  expect_fault(storage.memory_file("m", "x"), "storage.memory_file");
  expect_fault(storage.create_segment("faults", 10), "storage.create_segment");
  expect_fault(storage.open_segment("faults"), "storage.open_segment");
  expect_fault(storage.list_segments(""), "storage.list_segments");
  EXPECT_EQ(host->calls(), failures);
  storage.remove_segment("faults");
  EXPECT_TRUE(storage.close(file)) << "giving back is never failed";
  EXPECT_EQ(host->calls(), failures);
  EXPECT_EQ(test::read_file(path), test::random_bytes(10, 1)) << "no failed call reached the file";
}

TEST_F(Faults, HitMemoryWorkersCountersAndEnvironment) {
  class Nothing : public Worker {
   public:
    Step step() override { return Step::done(); }
  } worker;
  const auto host = plan("", 1, true);
  EXPECT_EQ(host->memory().allocate_pinned(1, 0, MemoryUse::bounce).error().code, ENOSPC);
  EXPECT_EQ(host->memory().allocate_plain(1, 0).error().code, ENOSPC);
  EXPECT_EQ(host->workers().start(worker, "nothing").error().code, ENOSPC);
  EXPECT_EQ(host->counters().cpu_time_ns().error().code, ENOSPC);
  EXPECT_EQ(host->counters().perf_event("software", "config=1").error().code, ENOSPC);
  EXPECT_EQ(host->environment().set("NOBOUNCE_FAULT", "1").error().code, ENOSPC);
  EXPECT_EQ(host->calls(), 6u);
  EXPECT_FALSE(host->environment().get("NOBOUNCE_FAULT").has_value());
  EXPECT_TRUE(host->workers().wait([] { return true; }, 1));
  EXPECT_GT(host->clock().now_ns(), 0u);
  EXPECT_EQ(host->calls(), 6u) << "what cannot fail is not counted";
}

TEST_F(Faults, PassEverythingElseThrough) {
  const auto host = plan("storage.rename", 1);
  const auto buffer = host->memory().allocate_plain(4096, 0);
  ASSERT_TRUE(buffer);
  std::byte byte{7};
  host->memory().copy(buffer->address, &byte, 1);
  EXPECT_EQ(buffer->address[0], byte);
  host->memory().free(*buffer);
  EXPECT_EQ(host->process().id(), inner_.process().id());
  EXPECT_EQ(host->workers().concurrency(), inner_.workers().concurrency());
  EXPECT_EQ(host->calls(), 0u);
}

}  // namespace
}  // namespace nobounce::system
