// Software machines as a user gets them: by name from those built in, or from a description.
#include <nobounce/software_machine.hpp>

#include <utility>

#include "core/machine_json.hpp"
#include "fabric/embedded_machines.hpp"
#include "fabric/soft_host.hpp"

namespace nobounce {

std::vector<std::string> software_machine_names() {
  std::vector<std::string> names;
  for (const fabric::EmbeddedMachine& machine : fabric::embedded_machines()) {
    names.emplace_back(machine.name);
  }
  return names;
}

Result<Machine> software_machine_description(std::string_view name) {
  std::string known;
  for (const fabric::EmbeddedMachine& machine : fabric::embedded_machines()) {
    if (machine.name == name) {
      return core::machine_from_text(machine.json, "soft:" + std::string(name));
    }
    known += (known.empty() ? "" : ", ") + std::string(machine.name);
  }
  Error error;
  error.origin = ErrorOrigin::input;
  error.attempted = "find the software machine \"" + std::string(name) + "\"";
  error.detail = "there is no machine of that name";
  error.remedy = "use one of: " + known;
  return error;
}

Result<HostPointer> software_machine(const Machine& machine,
                                     const SoftwareMachineOptions& options) {
  fabric::SoftOptions soft;
  soft.deterministic = options.deterministic;
  soft.seed = options.seed;
  Result<std::unique_ptr<fabric::SoftHost>> host = fabric::SoftHost::create(machine, soft);
  if (!host.ok()) return std::move(host).error();
  return HostPointer(std::move(host).value().release());
}

}  // namespace nobounce
