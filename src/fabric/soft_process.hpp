// The process of a software machine is the real one: same id, same standard error.
#pragma once

#include <memory>

#include "system/host.hpp"
#include "system/live_host.hpp"

namespace nobounce::fabric {

[[nodiscard]] inline std::unique_ptr<system::Process> make_soft_process() {
  return system::make_live_process();
}

}  // namespace nobounce::fabric
