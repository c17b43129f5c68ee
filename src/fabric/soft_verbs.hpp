// libibverbs of a software machine: its adapters as rdma-core shows them.
#pragma once

#include <memory>

#include "fabric/soft_nic.hpp"
#include "system/verbs.hpp"

namespace nobounce::fabric {

/// All parts must outlive the table.
[[nodiscard]] std::unique_ptr<system::Verbs> make_soft_verbs(const SoftNics::Parts& parts);

}  // namespace nobounce::fabric
