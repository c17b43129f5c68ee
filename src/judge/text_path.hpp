// Which ports that redirect lie between two devices, as far as texts show it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "judge/text_case.hpp"

namespace nobounce::judge {

enum class OnPath : std::uint8_t { no, unknown, yes };

/// Whether the port lies between the two devices of the row. Only a tree (lspci -t) shows it.
[[nodiscard]] OnPath port_on_path(const TextCase& text, const TextRow& row,
                                  const std::string& port);

/// Ports that redirect and of which this is so, some of them; an empty name where a text shows
/// the bits without the port.
[[nodiscard]] std::vector<const core::CaptureSign*> redirects_between(const TextCase& text,
                                                                      const TextRow& row,
                                                                      OnPath where);

}  // namespace nobounce::judge
