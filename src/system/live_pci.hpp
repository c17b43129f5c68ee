// PCI functions of this machine, through VFIO.
#pragma once

#include <memory>

#include "system/files.hpp"
#include "system/pci.hpp"

namespace nobounce::system {

/// One type1 container for all functions that are open, so that each may map another's BAR. Opens
/// nothing before it is asked. `files` must outlive it.
[[nodiscard]] std::unique_ptr<Pci> make_live_pci(Files& files);

}  // namespace nobounce::system
