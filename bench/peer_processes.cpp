// A pair whose source another process exported (CUDA IPC): one process owns it, the other copies.
#include <cstdio>
#include <cstring>
#include <fstream>

#include "bench/in_turn.hpp"
#include "bench/measure.hpp"
#include "bench/peer.hpp"
#include "bench/peer_session.hpp"
#include "support/temporary_directory.hpp"
#include "system/cuda.hpp"
#include "system/live_host.hpp"

namespace nobounce::bench {

namespace {

constexpr std::uint64_t bytes = 1u << 30;
constexpr std::uint64_t sizes[] = {4096, 64u << 20, bytes};

std::uint64_t repeats_for(std::uint64_t length) {
  return length > (1u << 20) ? 10 : 500;
}

/// What the driver says of reaching imported memory, with access between the GPUs and without,
/// beside what a copy then does.
core::Json access_of_import(system::Host& host, const Pair& pair) {
  core::JsonArray rows;
  const Result<system::Cuda*> api = host.cuda();
  if (!api.ok()) return core::Json(std::move(rows));
  const auto reached = [&](int from, test::Pointer pointer) {
    const Pair::Current current(pair, from);
    unsigned long long answer = 0;
    return (*api)->pointer_get_attribute(&answer, system::cuda::pointer_device_pointer, pointer) ==
               system::cuda::success &&
           answer == pointer;
  };
  for (const bool on : {false, true}) {
    pair.enable(on);
    Samples rates;
    for (int i = 0; i < 5; ++i) (void)time_rate(rates, bytes, [&] { return pair.copy(bytes); });
    core::JsonObject row;
    row.emplace_back("access", on);
    row.emplace_back("import_has_a_pointer_in_its_own_context", reached(0, pair.memory[0]));
    row.emplace_back("import_has_a_pointer_in_the_targets_context", reached(1, pair.memory[0]));
    row.emplace_back("target_has_a_pointer_in_the_sources_context", reached(0, pair.memory[1]));
    row.emplace_back("plain_gb_per_s", rates.median());
    rows.emplace_back(std::move(row));
  }
  return core::Json(std::move(rows));
}

}  // namespace

core::Json peer_in_two_processes(const test::CudaDriver& driver, int source, int target,
                                 std::string& failure) {
  const test::Primary primary(driver, source);
  test::Pointer memory = 0;
  test::IpcMemory handle{};
  if (driver.allocate(&memory, bytes) != 0 || driver.ipc_handle(&handle, memory) != 0) {
    return failure = "the memory cannot be exported", core::Json();
  }
  const test::TemporaryDirectory folder;
  const std::string path = folder.file("handle");
  std::ofstream(path, std::ios::binary).write(handle.bytes, sizeof handle.bytes);
  const std::string command = "/proc/self/exe peer-import " + path + " " + std::to_string(source) +
                              " " + std::to_string(target);
  // The shell of popen is not this program: its own name for itself will not do.
  char self[4096] = {};
  std::string told;
  std::ifstream("/proc/self/cmdline", std::ios::binary).getline(self, sizeof self, '\0');
  FILE* other =
      ::popen((std::string(self) + command.substr(std::strlen("/proc/self/exe"))).c_str(), "r");
  if (other == nullptr) return failure = "the other process did not start", core::Json();
  char piece[4096];
  while (std::fgets(piece, sizeof piece, other) != nullptr) told += piece;
  const int code = ::pclose(other);
  (void)driver.free(memory);
  auto result = core::parse_json(told, "peer-import");
  if (code != 0 || !result.ok()) return failure = "the other process failed", core::Json();
  return *result;
}

/// HANDLE_FILE SOURCE TARGET: opens the memory in a context of its own GPU, and copies it to
/// another.
int peer_import(const std::vector<std::string>& words) {
  if (words.size() < 4) return failed("peer-import HANDLE_FILE SOURCE TARGET");
  const test::CudaDriver driver;
  const int source = std::stoi(words[2]);
  const int target = std::stoi(words[3]);
  if (driver.gpus() <= std::max(source, target)) return failed("no such GPU");
  test::IpcMemory handle{};
  std::ifstream(words[1], std::ios::binary).read(handle.bytes, sizeof handle.bytes);
  Pair pair(driver, source, target, bytes);
  const test::Pointer own = pair.memory[0];
  {
    const Pair::Current current(pair, 0);
    if (const int code = driver.ipc_open(&pair.memory[0], handle, 1); code != 0) {
      return failed("cuIpcOpenMemHandle: " + std::to_string(code));
    }
  }
  const auto host = system::make_live_host();
  core::JsonObject told;
  told.emplace_back("access", access_of_import(*host, pair));
  core::JsonArray rows;
  std::string failure;
  {
    SessionPair ours(*host, DevicePointer{pair.memory[0]}, target, bytes);
    failure = ours.failure;
    for (const std::uint64_t length : sizes) {
      if (!failure.empty()) break;
      InTurn measured;
      if (!measured.run(
              repeats_for(length), [&] { return pair.copy(length); },
              [&] { return ours.move(length, Policy::direct_required); })) {
        failure = ours.failure.empty() ? "the plain copy failed" : ours.failure;
      }
      core::JsonObject row = in_turn_json(measured);
      row.insert(row.begin(), {"bytes", length});
      rows.emplace_back(std::move(row));
    }
  }
  {
    const Pair::Current current(pair, 0);
    (void)driver.ipc_close(pair.memory[0]);
    pair.memory[0] = own;
  }
  if (!failure.empty()) return failed(failure);
  told.emplace_back("sizes", std::move(rows));
  return std::puts(core::dump_json(core::Json(std::move(told))).c_str()) < 0 ? 1 : 0;
}

}  // namespace nobounce::bench
