// What an installed library makes of a machine where that is not so. Pure.
#pragma once

#include <string>
#include <vector>

#include <nobounce/cause.hpp>
#include <nobounce/machine.hpp>
#include "core/facts.hpp"

namespace nobounce::judge {

/// What an installed library would make of this machine where that differs from what is so: one
/// sentence each, empty: it agrees.
struct LibraryView {
  std::string library;  ///< `NCCL 2.21.5`
  Cause cause = Cause::none;
  std::string sentence;
};
[[nodiscard]] std::vector<LibraryView> library_views(const Machine& machine,
                                                     const core::HostFacts& host);

}  // namespace nobounce::judge
