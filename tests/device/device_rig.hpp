// What the device tests share: a GPU or the reason to skip, memory of every kind, files, and
// scenarios that run in a process of their own.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nobounce/session.hpp>

#include "support/cuda_driver.hpp"
#include "support/temporary_directory.hpp"
#include "system/host.hpp"
#include "system/live_host.hpp"

namespace nobounce::device {

using test::CudaDriver;
using test::Pointer;
using test::Primary;

/// The driver of this process, loaded once.
[[nodiscard]] const CudaDriver& driver();

/// Skipped, with the reason, where there are not enough GPUs.
class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override { need_gpus(1); }
  static void need_gpus(int count) {
    if (!driver().missing.empty()) GTEST_SKIP() << "no " << driver().missing << " here";
    const int there = driver().gpus();
    if (there < count) GTEST_SKIP() << "needs " << count << " GPUs, there are " << there;
  }
};

enum class Kind : std::uint8_t { plain, mapped, pool, managed };
[[nodiscard]] std::string to_string(Kind kind);

/// GPU memory of a kind, made by somebody else than the session. `error` says why there is none.
/// Needs a current context of that device.
class GpuBuffer {
 public:
  /// `access`: devices besides its own that may use a mapping.
  GpuBuffer(Kind kind, std::size_t bytes, int device = 0, std::vector<int> access = {});
  ~GpuBuffer();
  GpuBuffer(const GpuBuffer&) = delete;
  GpuBuffer& operator=(const GpuBuffer&) = delete;
  [[nodiscard]] Pointer pointer() const { return pointer_; }
  /// The context is gone: there is nothing to free.
  void forget() { pointer_ = 0; }
  int error = 0;

 private:
  Kind kind_;
  std::size_t reserved_ = 0;
  Pointer pointer_ = 0;
};

/// Bytes of GPU memory, and bytes into it, over the driver alone.
[[nodiscard]] std::vector<std::byte> look(Pointer pointer, std::size_t bytes);
void put(Pointer pointer, const std::vector<std::byte>& bytes);

/// A live host and a session that says nothing at its end.
struct Live {
  Live() : host(system::make_live_host()) {
    SessionOptions options;
    options.warn_on_close = false;
    options.publish_ledger = false;
    auto opened = Session::open(*host, options);
    if (opened.ok()) {
      session.emplace(std::move(*opened));
    } else {
      failure = nobounce::to_string(opened.error());
    }
  }
  std::unique_ptr<system::Host> host;
  std::optional<Session> session;
  std::string failure;
};

[[nodiscard]] inline std::string why(const Outcome& outcome) {
  return outcome.error ? nobounce::to_string(*outcome.error) : "done";
}

/// A transfer with a deadline, so that nothing here hangs for long.
[[nodiscard]] inline TransferOptions within(std::chrono::seconds limit,
                                            Policy policy = Policy::direct_preferred) {
  TransferOptions options;
  options.policy = policy;
  options.deadline_ns = static_cast<std::uint64_t>(limit.count()) * 1'000'000'000;
  return options;
}

/// Writes seeded bytes piece by piece.
void write_large_file(const std::string& path, std::uint64_t bytes, std::uint64_t seed);

/// GPU memory in use, as NVML counts it for all processes; -1 where it cannot be read.
[[nodiscard]] std::int64_t gpu_bytes_used(unsigned gpu = 0);
/// Host memory that is neither free nor cache.
[[nodiscard]] std::int64_t host_bytes_used();

/// A part of a test that runs as a process of its own, because it breaks its context or dies.
/// Returns 0 if all was as it should be, else it has said on stderr what was not.
struct Scenario {
  const char* name;
  int (*run)(const std::vector<std::string>& arguments);
};
[[nodiscard]] const std::vector<Scenario>& scenarios();

/// The exit code of a scenario (128 + N: signal N; -1: killed after `limit`), and its stderr.
struct Ended {
  int code = -1;
  std::string said;
};
[[nodiscard]] Ended run_scenario(const std::string& name, std::vector<std::string> arguments = {},
                                 std::chrono::seconds limit = std::chrono::seconds(60));
/// The same without waiting: its process id.
[[nodiscard]] pid_t start_scenario(const std::string& name, std::vector<std::string> arguments,
                                   int stderr_descriptor);

/// Says why a scenario failed, and answers its exit code.
inline int failed(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return 1;
}

}  // namespace nobounce::device
