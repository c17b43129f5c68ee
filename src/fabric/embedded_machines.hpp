/// @file
/// The software machines that travel inside the binary: the files of machines/, embedded by the
/// build.
#pragma once

#include <span>
#include <string_view>

namespace nobounce::fabric {

/// One file of machines/: `name` without folder and extension, `json` its text byte for byte.
struct EmbeddedMachine {
  std::string_view name;
  std::string_view json;
};

/// All embedded machines, sorted by name. The text lives as long as the program.
[[nodiscard]] std::span<const EmbeddedMachine> embedded_machines();

}  // namespace nobounce::fabric
