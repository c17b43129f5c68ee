// Fuzzes machine documents: what parses comes back the same from its own text, and its paths can be
// walked.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/machine_json.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void walk(const nobounce::Machine& machine) {
  using nobounce::DeviceRef;
  constexpr std::size_t walked_max = 8;
  for (std::size_t i = 0; i < machine.gpus.size() && i < walked_max; ++i) {
    const DeviceRef gpu{DeviceRef::Kind::gpu, static_cast<std::uint16_t>(i)};
    for (std::size_t j = 0; j < machine.drives.size() && j < walked_max; ++j) {
      const DeviceRef drive{DeviceRef::Kind::drive, static_cast<std::uint16_t>(j)};
      require(!level_text(path_between(machine, gpu, drive)).empty());
    }
    require(device_from_name(machine, device_name(machine, gpu)).value() == gpu);
  }
  require(mount_of(machine, "/") != nullptr);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nobounce::core;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto document = parse_json(text, "fuzz");
  if (!document.ok()) {
    require(!document.error().detail.empty());
    return 0;
  }
  require(parse_json(dump_json(*document), "again").value() == *document);
  require(parse_json(dump_json(*document, true), "again").value() == *document);
  const auto machine = machine_from_json(*document, "fuzz");
  if (!machine.ok()) {
    require(!to_string(machine.error()).empty());
    return 0;
  }
  require(validate(*machine).ok());
  const auto again = machine_from_text(dump_json(machine_to_json(*machine)), "again");
  require(again.ok() && *again == *machine);
  walk(*machine);
  return 0;
}
