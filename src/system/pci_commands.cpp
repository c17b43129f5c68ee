// The commands that give a PCI function to vfio-pci.
#include "system/pci_commands.hpp"

namespace nobounce::system {

std::string commands_to_bind(std::string_view bdf, std::string_view driver) {
  const std::string function(bdf);
  std::string commands = "sudo modprobe vfio-pci";
  commands += " && echo vfio-pci | sudo tee /sys/bus/pci/devices/" + function + "/driver_override";
  if (!driver.empty()) {
    commands += " && echo " + function + " | sudo tee /sys/bus/pci/drivers/" + std::string(driver) +
                "/unbind";
  }
  return commands + " && echo " + function + " | sudo tee /sys/bus/pci/drivers_probe";
}

Error not_bound_to_vfio(std::string_view bdf, std::string_view driver) {
  const std::string function(bdf);
  Error error;
  error.origin = ErrorOrigin::input;
  error.attempted = "take the PCI function " + function;
  error.cause = Cause::nvme_not_vfio;
  error.detail = driver.empty() ? function + " has no driver"
                                : function + " is bound to the driver " + std::string(driver);
  error.remedy = commands_to_bind(bdf, driver);
  return error;
}

}  // namespace nobounce::system
