// libcufile 1.15 over nvidia-fs as a model, silences included: it stages without a word where it is
// allowed to.
#pragma once

#include <memory>

#include <nobounce/machine.hpp>

#include "fabric/bus.hpp"
#include "fabric/soft_cufile_module.hpp"
#include "fabric/soft_gpu.hpp"
#include "fabric/soft_host.hpp"
#include "fabric/soft_random.hpp"
#include "fabric/soft_storage.hpp"
#include "system/cufile.hpp"
#include "system/files.hpp"
#include "system/host.hpp"

namespace nobounce::fabric {

/// What the library stands on. All must outlive it.
struct SoftCufileParts {
  Bus& bus;
  const Machine& machine;
  const SoftFaults& faults;
  SoftRandom& random;
  GpuAllocations& allocations;
  SoftStorage& storage;
  system::Files& files;              ///< /etc/cufile.json, /run/udev
  system::Environment& environment;  ///< CUFILE_*
  NvfsModule& module;
};

/// For machines whose `libcufile` is not empty. Calls are synchronous and thread-safe; state is per
/// SoftHost, as the real library's is per process. With the fault cufile_opened_before the driver
/// is open already, by defaults.
[[nodiscard]] std::unique_ptr<system::Cufile> make_soft_cufile(const SoftCufileParts& parts);

}  // namespace nobounce::fabric
