// Would the direct path help? Where the staged control spends its time, and the most that direct
// could win.
#pragma once

#include <cstdint>

#include <nobounce/machine.hpp>
#include <nobounce/proof.hpp>
#include "proof/prove.hpp"
#include "proof/row_places.hpp"

namespace nobounce::proof {

/// From link widths, and from what the control's bytes were per payload byte where that was counted
/// (null: nothing was). A model, marked as such. Pure.
[[nodiscard]] Benefit model_benefit(const Machine& machine, const Subject& subject,
                                    const PhysicalLayer* counted);

/// Measured here and now: the two legs of staging alone, at the row's largest volume, beside the
/// control's and the transfer's best times (0: not known). Direct waits for the slower end at
/// least. Nothing but a bottleneck in words where a leg cannot be timed.
[[nodiscard]] Benefit measured_benefit(Session& session, system::Host& host, const Subject& subject,
                                       RowPlaces& places, std::uint64_t volume_bytes,
                                       std::uint64_t control_ns, std::uint64_t transfer_ns);

}  // namespace nobounce::proof
