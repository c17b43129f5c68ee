// LiveHost: this machine. Foreign libraries are loaded on first use; nothing is loaded that is not
// asked for.
#pragma once

#include <memory>
#include <string>

#include "system/host.hpp"

namespace nobounce::system {

struct LiveOptions {
  std::string root = "/";  ///< prefix of files()
  std::string cuda_library = "libcuda.so.1";
  std::string nvml_library = "libnvidia-ml.so.1";
  std::string cufile_library = "libcufile.so.0";
  std::string verbs_library = "libibverbs.so.1";
};

[[nodiscard]] std::unique_ptr<Host> make_live_host(const LiveOptions& options = {});

/// The parts that a software machine borrows from the real one: files of the user's, shared
/// segments, process, entropy, threads and monotonic time.
[[nodiscard]] std::unique_ptr<Storage> make_live_storage();
[[nodiscard]] std::unique_ptr<Process> make_live_process();
[[nodiscard]] std::unique_ptr<Workers> make_threaded_workers(Clock& clock);
[[nodiscard]] std::unique_ptr<Clock> make_live_clock();
[[nodiscard]] std::unique_ptr<Counters> make_live_counters();
[[nodiscard]] std::unique_ptr<Network> make_live_network();
[[nodiscard]] std::unique_ptr<Entropy> make_live_entropy();

}  // namespace nobounce::system
