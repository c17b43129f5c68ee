// RecordedHost: a recording as a host. It is judged and reported, and moves no bytes.
#pragma once

#include <memory>

#include "recording/recording.hpp"
#include "system/host.hpp"

namespace nobounce::recording {

/// `around` lends what a recording has none of (clock, workers, entropy) and must outlive it.
[[nodiscard]] std::unique_ptr<system::Host> make_recorded_host(Recording recording,
                                                               system::Host& around);

}  // namespace nobounce::recording
