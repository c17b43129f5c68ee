// `--set /json/pointer=value`: changes to a machine that can only touch what exists.
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
  return MachineSetting{std::string(pointer), std::string(text.substr(equals + 1))};
}

Result<Machine> apply_settings(const Machine& machine,
                               const std::vector<MachineSetting>& settings) {
  Json document = machine_to_json(machine);
  for (const MachineSetting& setting : settings) {
    Json* field = resolve_pointer(document, setting.pointer);
    if (field == nullptr) {
      const std::string meant = nearest_pointer(document, setting.pointer);
      return setting_error(
          setting.pointer,
          "machine " + machine.name + " has no such field, the nearest is " + meant,
          "did you mean " + meant + "?");
    }
    *field = value_from(setting.value, *field);
  }
  return machine_from_json(document, "--set");
}

}  // namespace nobounce::core
