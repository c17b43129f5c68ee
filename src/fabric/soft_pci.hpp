// The PCI functions of a software machine that a process may own: drives bound to vfio-pci, each
// with its register-level controller and a real file behind it.
#pragma once

#include <memory>
#include <optional>

#include <nobounce/machine.hpp>
#include "fabric/bus.hpp"
#include "fabric/soft_host.hpp"
#include "fabric/soft_workers.hpp"
#include "system/pci.hpp"

namespace nobounce::fabric {

class SoftPci : public system::Pci {
 public:
  /// What a drive holds; nothing where it is not ours to have.
  [[nodiscard]] virtual std::optional<Medium> raw_medium(std::uint32_t drive) = 0;
};

/// All references must outlive it.
[[nodiscard]] std::unique_ptr<SoftPci> make_soft_pci(Bus& bus, SoftWorkers& workers,
                                                     const SoftFaults& faults, std::uint64_t seed);

/// The driver that lets a process own a function.
inline constexpr std::string_view vfio_driver = "vfio-pci";

}  // namespace nobounce::fabric
