// `--set /json/pointer=value`: changes to a machine that can only touch what exists.
#include <algorithm>
#include <optional>

#include "core/machine_json.hpp"

namespace nobounce::core {

namespace {

constexpr std::string_view shape = "write --set /modules/nvidia_fs=false";

Error setting_error(std::string_view pointer, std::string detail, std::string remedy) {
  return Error{.origin = ErrorOrigin::input,
               .code = 0,
               .attempted = "set " + std::string(pointer.substr(0, 200)),
               .cause = Cause::none,
               .detail = std::move(detail),
               .remedy = std::move(remedy)};
}

// JSON where it reads as JSON, except that a text stays a text: `--set /libcufile=1.15` is no
// number.
Json value_from(const std::string& text, const Json& present) {
  Result<Json> parsed = parse_json(text, "--set");
  if (!parsed.ok()) return Json(text);
  if (present.as_text() != nullptr && parsed->as_text() == nullptr) return Json(text);
  return *std::move(parsed);
}

Error no_such_field(const Machine& machine, const Json& document, const std::string& pointer) {
  const std::string meant = nearest_pointer(document, pointer);
  return setting_error(pointer,
                       "machine " + machine.name + " has no such field, the nearest is " + meant,
                       "did you mean " + meant + "?");
}

// Where `gpu:0` or `switch:1` hangs, in this document. Null for what is not there.
const Json* parent_in(const Json& document, const std::string& device) {
  const auto colon = device.find(':');
  if (colon == std::string::npos) return nullptr;
  const std::string kind = device.substr(0, colon);
  const std::string list = kind == "switch" ? "/switches/" : "/" + kind + "s/";
  const Json* item = resolve_pointer(document, list + device.substr(colon + 1));
  if (item == nullptr) return nullptr;
  const Json* parent = item->find("parent");
  return parent != nullptr ? parent : item->find("host_bridge");
}

// `--set /gpus/0/parent=switch:1` moves a GPU. The port it had, which the user need not know of,
// goes with it.
void drop_ports_of_moved_devices(const Machine& before, Json& document) {
  const Json old_document = machine_to_json(before);
  for (std::size_t i = 0; i < before.switches.size(); ++i) {
    Json* ports = resolve_pointer(document, "/switches/" + std::to_string(i) + "/ports");
    JsonArray* items = ports == nullptr ? nullptr : ports->as_array();
    if (items == nullptr) continue;
    const auto moved = [&](const Json& port) {
      const Json* device = port.find("device");
      if (device == nullptr || device->as_text() == nullptr) return false;
      const Json* old_parent = parent_in(old_document, *device->as_text());
      const Json* parent = parent_in(document, *device->as_text());
      const Json self("switch:" + std::to_string(i));
      return old_parent != nullptr && parent != nullptr && *old_parent == self && *parent != self;
    };
    items->erase(std::remove_if(items->begin(), items->end(), moved), items->end());
  }
}

}  // namespace

Result<MachineSetting> parse_setting(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) {
    return setting_error(text, "there is no = and no value", std::string(shape));
  }
  const std::string_view pointer = text.substr(0, equals);
  if (pointer.empty() || pointer.front() != '/') {
    return setting_error(pointer, "a field is named by a JSON pointer, which begins with /",
                         std::string(shape));
  }
  if (!is_plain_utf8(text)) {
    return setting_error("a field", "the setting is no well-formed UTF-8", std::string(shape));
  }
  return MachineSetting{std::string(pointer), std::string(text.substr(equals + 1))};
}

Result<Machine> apply_settings(const Machine& machine,
                               const std::vector<MachineSetting>& settings) {
  Machine changed = machine;
  Json document = machine_to_json(machine);
  // Of the last setting that left a machine which does not hold together; a later one may mend it.
  std::optional<Error> broken;
  for (const MachineSetting& setting : settings) {
    Json* field = resolve_pointer(document, setting.pointer);
    if (field == nullptr) {
      return broken.has_value() ? *broken : no_such_field(machine, document, setting.pointer);
    }
    *field = value_from(setting.value, *field);
    drop_ports_of_moved_devices(changed, document);
    Result<Machine> result = machine_from_json(document, "--set");
    if (!result.ok()) {
      broken = std::move(result).error();
      continue;
    }
    broken.reset();
    changed = *std::move(result);
    document = machine_to_json(changed);  // what the setting added has every field now
  }
  if (broken.has_value()) return *broken;
  return changed;
}

}  // namespace nobounce::core
