// Who makes room where too many knock at once.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace nobounce::session {

/// Of those who wait, by the host each came from and the oldest first: the oldest of the host that
/// most came from, so that one that knocks all the time is in nobody's way but its own. `hosts` is
/// not empty.
[[nodiscard]] std::size_t oldest_of_the_most(std::span<const std::string_view> hosts);

}  // namespace nobounce::session
