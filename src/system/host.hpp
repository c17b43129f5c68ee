// Host: the one seam. Everything that touches the world goes through it; all code above is the same
// everywhere.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <nobounce/host.hpp>
#include <nobounce/result.hpp>
#include "system/cuda.hpp"
#include "system/cufile.hpp"
#include "system/files.hpp"
#include "system/memory.hpp"
#include "system/nvml.hpp"
#include "system/storage.hpp"
#include "system/workers.hpp"

namespace nobounce::system {

class Verbs;    // system/verbs.hpp
class Network;  // system/network.hpp
class Pci;      // system/pci.hpp

class Clock {
 public:
  virtual ~Clock() = default;
  /// Monotonic nanoseconds. A deterministic host advances it as its engines work.
  [[nodiscard]] virtual std::uint64_t now_ns() = 0;
};

class Counters {
 public:
  virtual ~Counters() = default;
  /// CPU time this process has used, user and system.
  [[nodiscard]] virtual Result<std::uint64_t> cpu_time_ns() = 0;
  /// The present value of a perf event, scaled as its .scale file says (uncore_imc: MiB), counting
  /// since the first call for it. Origin os where it cannot be read.
  [[nodiscard]] virtual Result<double> perf_event(std::string_view pmu, std::string_view event) = 0;
};

class Environment {
 public:
  virtual ~Environment() = default;
  [[nodiscard]] virtual std::optional<std::string> get(std::string_view name) = 0;
  /// Refuses (origin session) while the process has more than one thread: getenv elsewhere would
  /// race.
  [[nodiscard]] virtual Status set(std::string_view name, std::string_view value) = 0;
};

class Process {
 public:
  virtual ~Process() = default;
  [[nodiscard]] virtual std::uint64_t
  id() = 0;  ///< getpid, asked anew each time: a child sees its own
  [[nodiscard]] virtual bool alive(std::uint64_t process_id) = 0;
  [[nodiscard]] virtual std::uint32_t user() = 0;  ///< effective uid
  /// Writes one line to standard error (warnings of a closing session).
  virtual void warn(std::string_view line) = 0;
};

class Entropy {
 public:
  virtual ~Entropy() = default;
  virtual void fill(std::span<std::byte> target) = 0;
};

}  // namespace nobounce::system

namespace nobounce {

/// References stay valid as long as the Host. Parts are thread-safe unless they say otherwise.
class Host {
 public:
  Host() = default;
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  virtual ~Host() = default;

  [[nodiscard]] virtual HostKind kind() const = 0;
  /// The name shown with `software machine` or `recording`; the host name is never used.
  [[nodiscard]] virtual std::string_view name() const = 0;

  /// The foreign tables. Where the library is absent the error (origin os, ENOENT or what dlopen
  /// said) names the file it looked for.
  [[nodiscard]] virtual Result<system::Cuda*> cuda() = 0;
  [[nodiscard]] virtual Result<system::Nvml*> nvml() = 0;
  [[nodiscard]] virtual Result<system::Cufile*> cufile() = 0;
  /// RDMA verbs, TCP, and PCI functions that this process may own. A host that does not offer one
  /// says so (origin os, ENOSYS).
  [[nodiscard]] virtual Result<system::Verbs*> verbs();
  [[nodiscard]] virtual Result<system::Network*> network();
  [[nodiscard]] virtual Result<system::Pci*> pci();

  [[nodiscard]] virtual system::Files& files() = 0;
  [[nodiscard]] virtual system::Storage& storage() = 0;
  [[nodiscard]] virtual system::Memory& memory() = 0;
  [[nodiscard]] virtual system::Workers& workers() = 0;
  [[nodiscard]] virtual system::Counters& counters() = 0;
  [[nodiscard]] virtual system::Environment& environment() = 0;
  [[nodiscard]] virtual system::Process& process() = 0;
  [[nodiscard]] virtual system::Clock& clock() = 0;
  [[nodiscard]] virtual system::Entropy& entropy() = 0;
};

}  // namespace nobounce

namespace nobounce::system {

using nobounce::Host;

}  // namespace nobounce::system
