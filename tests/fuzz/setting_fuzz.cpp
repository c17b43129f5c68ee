// Fuzzes --set: whatever is written, the machine stays valid or the error says what is wrong.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/machine_json.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nobounce::core;
  static const nobounce::Machine base =
      machine_from_text(R"({"name":"base","switches":[{},{"parent":"switch:0"}],
        "gpus":[{"parent":"switch:0"},{"parent":"switch:1"}],"nics":[{"parent":"switch:0"}],
        "drives":[{"parent":"switch:1"},{"parent":"nic:0","driver":"nvme_rdma"}],
        "nvlinks":[{"target_gpu":1}],"environment":{"A":"b"}})",
                        "base")
          .value();
  // One setting per line.
  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<MachineSetting> settings;
  while (!text.empty() && settings.size() < 4) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() < text.size() ? line.size() + 1 : text.size());
    const auto setting = parse_setting(line);
    if (!setting.ok()) {
      require(!setting.error().remedy.empty());
      continue;
    }
    require(setting->pointer + "=" + setting->value == line);
    settings.push_back(*setting);
  }
  const auto machine = apply_settings(base, settings);
  if (!machine.ok()) {
    require(!machine.error().detail.empty());
    return 0;
  }
  require(validate(*machine).ok());
  const auto again = machine_from_text(dump_json(machine_to_json(*machine)), "again");
  require(again.ok() && *again == *machine);
  return 0;
}
