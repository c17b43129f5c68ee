// What a drive's driver says of what it is.
#pragma once

#include <string_view>

#include <nobounce/machine.hpp>

namespace nobounce::core {

/// A type of mount whose files come from servers.
[[nodiscard]] bool is_network_file_system(std::string_view type);

/// A drive with a PCI function of its own: no layer over others, no server's export, nothing behind
/// an adapter.
[[nodiscard]] bool is_pci_drive(const Drive& drive);

}  // namespace nobounce::core
