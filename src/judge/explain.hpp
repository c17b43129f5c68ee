// Captures -> verdicts. An absent error is evidence of nothing, and a capability is no use: only a
// transport in use, a counter that moved, a measured difference or a data check makes `direct`.
#pragma once

#include "core/explanation.hpp"

namespace nobounce::judge {

[[nodiscard]] core::Explanation explain(core::Captures captures);

/// The worst of two: broken, impossible, staged, degraded, unknown, direct.
[[nodiscard]] Verdict worse_of(Verdict a, Verdict b);

}  // namespace nobounce::judge
