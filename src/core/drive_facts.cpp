// What a user types so that a process may own a drive.
#include "core/drive_facts.hpp"

namespace nobounce::core {

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

}  // namespace nobounce::core
