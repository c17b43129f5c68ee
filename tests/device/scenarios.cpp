// Scenarios that break what a session stands on: the context, the memory, the stream, the process.
#include <fcntl.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "device/device_rig.hpp"

namespace nobounce::device {

// In peer_scenarios.cpp.
int peer_context_reset(const std::vector<std::string>& arguments);
int ipc_consumer(const std::vector<std::string>& arguments);
// In async_scenarios.cpp.
int stream_ordered(const std::vector<std::string>& arguments);
int what_waits(const std::vector<std::string>& arguments);
int buffer_id_after_reset(const std::vector<std::string>& arguments);

namespace {

using Arguments = std::vector<std::string>;
constexpr std::uint64_t mib = 1u << 20;
constexpr auto soon = std::chrono::seconds(10);

/// A session with GPU memory and a file of the same length, which one transfer has gone through.
struct Warm {
  explicit Warm(std::uint64_t bytes = 64 * mib) {
    if (!live.session) return;
    test::write_file(directory.file("source"), test::random_bytes(bytes, 50));
    auto opened = live.session->open_file(directory.file("source"));
    auto allocated = live.session->allocate(0, bytes);
    if (!opened.ok() || !allocated.ok()) return;
    file.emplace(std::move(*opened));
    region.emplace(std::move(*allocated));
    const Outcome outcome = live.session->transfer(file->place(), region->place(), within(soon));
    failure = outcome.ok() ? "" : why(outcome);
  }
  test::TemporaryDirectory directory;
  Live live;
  std::optional<File> file;
  std::optional<Region> region;
  std::string failure = "no session, file or memory";
};

/// After the break every transfer must end in an error that says something, in time.
int expect_clear_error(Warm& warm) {
  for (int i = 0; i < 2; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const Outcome outcome =
        warm.live.session->transfer(warm.file->place(), warm.region->place(), within(soon));
    if (outcome.ok()) return failed("a transfer succeeded on a broken context");
    if (outcome.error->attempted.empty()) return failed("an error that says nothing");
    std::fprintf(stderr, "as it should: %s\n", why(outcome).c_str());
    if (std::chrono::steady_clock::now() - begin > 2 * soon)
      return failed("long after its deadline");
  }
  warm.region.reset();
  warm.file.reset();
  warm.live.session.reset();
  return 0;
}

int context_reset(const Arguments&) {
  Warm warm;
  if (!warm.failure.empty()) return failed(warm.failure);
  if (const int code = driver().reset(0); code != 0) {
    return failed("cuDevicePrimaryCtxReset: " + std::to_string(code));
  }
  return expect_clear_error(warm);
}

int stream_error(const Arguments&) {
  Warm warm;
  if (!warm.failure.empty()) return failed(warm.failure);
  Primary primary(driver(), 0);
  primary.give_up();
  const test::Kernels kernels(driver());
  if (const int code = kernels.launch("trap_now", 1, {}, nullptr); code != 0) {
    return failed("launch: " + std::to_string(code));
  }
  if (driver().context_synchronize() == 0) return failed("a trap went unnoticed");
  return expect_clear_error(warm);
}

/// Memory that fills the GPU, in pieces.
std::vector<Pointer> fill_the_gpu() {
  std::vector<Pointer> pieces;
  for (const std::uint64_t bytes : {4096 * mib, 256 * mib, 16 * mib, 2 * mib}) {
    Pointer pointer = 0;
    while (driver().allocate(&pointer, bytes) == 0) pieces.push_back(pointer);
  }
  return pieces;
}

int out_of_memory(const Arguments&) {
  Warm warm;
  if (!warm.failure.empty()) return failed(warm.failure);
  const Primary primary(driver(), 0);
  const std::vector<Pointer> pieces = fill_the_gpu();
  const auto refused = warm.live.session->allocate(0, 256 * mib);
  if (refused.ok()) return failed("256 MiB of a full GPU");
  if (refused.error().cause != Cause::memory_gpu_out_of_memory) {
    return failed("another cause: " + to_string(refused.error()));
  }
  const Outcome full =
      warm.live.session->transfer(warm.file->place(), warm.region->place(), within(soon));
  if (!full.ok()) return failed("into memory that was there before: " + why(full));
  for (const Pointer pointer : pieces) (void)driver().free(pointer);
  const auto allocated = warm.live.session->allocate(0, 256 * mib);
  return allocated.ok() ? 0 : failed("after all was freed: " + to_string(allocated.error()));
}

/// The first transfer of a session on a full GPU works or says what is missing.
int opened_on_a_full_gpu(const Arguments&) {
  const Primary primary(driver(), 0);
  GpuBuffer target(Kind::plain, 64 * mib);
  std::vector<Pointer> pieces = fill_the_gpu();
  test::TemporaryDirectory directory;
  test::write_file(directory.file("source"), test::random_bytes(64 * mib, 51));
  Live live;
  if (!live.session) return failed(live.failure);
  const auto region = live.session->adopt(DevicePointer{target.pointer()}, 64 * mib);
  const auto file = live.session->open_file(directory.file("source"));
  if (!region.ok() || !file.ok()) return failed("no region or no file");
  const Outcome full = live.session->transfer(file->place(), region->place(), within(soon));
  std::fprintf(stderr, "on a full GPU: %s\n", why(full).c_str());
  if (!full.ok() && full.error->attempted.empty()) return failed("an error that says nothing");
  for (const Pointer pointer : pieces) (void)driver().free(pointer);
  const Outcome after = live.session->transfer(file->place(), region->place(), within(soon));
  return after.ok() ? 0 : failed("after all was freed: " + why(after));
}

int teardown(const Arguments&) {
  const Primary primary(driver(), 0);
  test::TemporaryDirectory directory;
  write_large_file(directory.file("source"), 1024 * mib, 52);
  std::int64_t pinned_before = 0;
  std::size_t free_before = 0;
  for (int round = 0; round < 4; ++round) {
    {
      Live live;
      if (!live.session) return failed(live.failure);
      const auto file = live.session->open_file(directory.file("source"));
      const auto region = live.session->allocate(0, 1024 * mib);
      if (!file.ok() || !region.ok()) return failed("no file or no region");
      std::vector<Transfer> running;
      for (int i = 0; i < 4; ++i) {
        auto started = live.session->start(file->place(), region->place());
        if (!started.ok()) return failed(to_string(started.error()));
        running.push_back(std::move(*started));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(round * 5));
      // Dropped here while they run, and the session right after them.
    }
    std::size_t free_now = 0;
    std::size_t total = 0;
    (void)driver().memory_info(&free_now, &total);
    const std::int64_t pinned_now = host_bytes_used();
    if (round == 1) {  // what the first session left for good (modules, pools) is no leak
      free_before = free_now;
      pinned_before = pinned_now;
    }
    if (round > 1 && free_now + 2 * mib < free_before) {
      return failed("GPU memory lost: " + std::to_string(free_before - free_now));
    }
    if (round > 1 && pinned_now > pinned_before + static_cast<std::int64_t>(64 * mib)) {
      return failed("host memory lost: " + std::to_string(pinned_now - pinned_before));
    }
  }
  return 0;
}

int deadline(const Arguments&) {
  test::TemporaryDirectory directory;
  const std::uint64_t bytes = 2048 * mib;
  write_large_file(directory.file("source"), bytes, 53);
  Live live;
  if (!live.session) return failed(live.failure);
  const auto file = live.session->open_file(directory.file("source"));
  const auto region = live.session->allocate(0, bytes);
  if (!file.ok() || !region.ok()) return failed("no file or no region");
  const Outcome warm = live.session->transfer(file->place(0, mib), region->place(0, mib));
  if (!warm.ok()) return failed(why(warm));
  TransferOptions options;
  options.deadline_ns = 2'000'000;  // 2 ms: at most an eighth of it at any rate a bus has today
  const auto begin = std::chrono::steady_clock::now();
  const Outcome late = live.session->transfer(file->place(), region->place(), options);
  if (std::chrono::steady_clock::now() - begin > soon) return failed("long after its deadline");
  if (late.ok()) return failed("2 GiB within 2 ms");
  if (late.error->cause != Cause::session_deadline_passed) return failed(why(late));
  if (late.receipt.bytes.total() >= bytes) return failed("all arrived, and yet it was late");
  const Outcome after = live.session->transfer(file->place(), region->place(), within(soon));
  return after.ok() ? 0 : failed("the next one: " + why(after));
}

int forked(const Arguments&) {
  Warm warm;
  if (!warm.failure.empty()) return failed(warm.failure);
  const pid_t child = ::fork();
  if (child == 0) {
    const Outcome outcome =
        warm.live.session->transfer(warm.file->place(), warm.region->place(), within(soon));
    const bool as_promised = !outcome.ok() && outcome.error->cause == Cause::session_forked;
    const auto allocated = warm.live.session->allocate(0, mib);
    ::_exit(as_promised && !allocated.ok() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return failed("the child: status " + std::to_string(status));
  }
  const Outcome after =
      warm.live.session->transfer(warm.file->place(), warm.region->place(), within(soon));
  return after.ok() ? 0 : failed("the parent afterwards: " + why(after));
}

/// Transfers until it is killed. Says so in the file that its argument names.
int transfer_forever(const Arguments& arguments) {
  Warm warm(512 * mib);
  if (!warm.failure.empty()) return failed(warm.failure);
  std::ofstream(arguments.at(0)) << "moving";
  for (;;) {
    const Outcome outcome = warm.live.session->transfer(warm.file->place(), warm.region->place());
    if (!outcome.ok()) return failed(why(outcome));
  }
}

}  // namespace

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all = {{"context_reset", context_reset},
                                            {"stream_error", stream_error},
                                            {"out_of_memory", out_of_memory},
                                            {"opened_on_a_full_gpu", opened_on_a_full_gpu},
                                            {"teardown", teardown},
                                            {"deadline", deadline},
                                            {"forked", forked},
                                            {"transfer_forever", transfer_forever},
                                            {"buffer_id_after_reset", buffer_id_after_reset},
                                            {"peer_context_reset", peer_context_reset},
                                            {"ipc_consumer", ipc_consumer},
                                            {"stream_ordered", stream_ordered},
                                            {"what_waits", what_waits}};
  return all;
}

}  // namespace nobounce::device
