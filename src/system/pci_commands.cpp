// The error of a PCI function that another driver has.
#include "system/pci_commands.hpp"

#include <string>

#include "core/drive_facts.hpp"

namespace nobounce::system {

Error not_bound_to_vfio(std::string_view bdf, std::string_view driver) {
  const std::string function(bdf);
  Error error;
  error.origin = ErrorOrigin::input;
  error.attempted = "take the PCI function " + function;
  error.cause = Cause::nvme_not_vfio;
  error.detail = driver.empty() ? function + " has no driver"
                                : function + " is bound to the driver " + std::string(driver);
  error.remedy = core::commands_to_bind(bdf, driver);
  return error;
}

}  // namespace nobounce::system
