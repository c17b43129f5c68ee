// Opens the machine that was asked for.
#include "cli/machine_argument.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nobounce/software_machine.hpp>
#include "core/machine_json.hpp"
#include "recording/recorded_host.hpp"
#include "topology/read_machine.hpp"

namespace nobounce::cli {

namespace {

constexpr const char* machine_remedy =
    "--machine live, --machine recorded:PATH, --machine soft:NAME or --machine soft:PATH (a path "
    "holds a / or ends in .json)";

constexpr const char* description_remedy =
    "correct that field; nobounce topo --json --machine soft:workstation prints a description that "
    "is right";

bool begins_with(std::string_view text, std::string_view head) {
  return text.substr(0, head.size()) == head;
}

bool looks_like_path(std::string_view text) {
  return text.find('/') != std::string_view::npos ||
         (text.size() > 5 && text.substr(text.size() - 5) == ".json");
}

/// Behind `soft:` a path is one by its slash or its ending.
std::string path_of_machine(const std::string& path) {
  return looks_like_path(path) ? path : "./" + path;
}

enum class DocumentUse : std::uint8_t { recording, machine };

Error with_document_remedy(Error error, const std::string& path, DocumentUse use) {
  error.attempted = "read " + path;
  if (error.code == EACCES || error.code == EPERM) return error;
  error.remedy = use == DocumentUse::recording
                     ? "name a recording, as nobounce record -o FILE writes it; captured text is "
                       "for nobounce explain FILE"
                     : "name a description, as nobounce topo --json prints it, or a recording, as "
                       "nobounce record -o FILE writes it";
  return error;
}

/// Relative paths are seen from the working directory.
Attempt<core::Json> document_from_file(const std::string& path, system::Host& live,
                                       DocumentUse use) {
  std::string absolute = path;
  if (absolute.empty() || absolute.front() != '/') {
    Result<std::string> real = live.storage().real_path(path);
    if (!real.ok()) return Problem{with_document_remedy(std::move(real).error(), path, use)};
    absolute = std::move(real).value();
  }
  Result<std::string> text = live.files().read(absolute);
  if (!text.ok()) return Problem{with_document_remedy(std::move(text).error(), path, use)};
  Result<core::Json> document = core::parse_json(*text, path);
  if (!document.ok()) return Problem{with_document_remedy(std::move(document).error(), path, use)};
  return std::move(document).value();
}

/// A description where a recording is asked for.
bool is_description(const core::Json& document) {
  const core::Json* schema = document.find("schema");
  return schema != nullptr && schema->as_text() != nullptr &&
         begins_with(*schema->as_text(), "nobounce.machine/");
}

Attempt<std::unique_ptr<system::Host>> recorded_host(const core::Json& document,
                                                     const std::string& path, system::Host& live) {
  Result<recording::Recording> recording = recording::recording_from_json(document, path);
  if (!recording.ok()) {
    Error error = std::move(recording).error();
    if (is_description(document))
      error.remedy = "it describes a machine: soft:" + path_of_machine(path) + " reads it";
    return Problem{std::move(error)};
  }
  return recording::make_recorded_host(*std::move(recording), live);
}

/// The software twin of a recorded machine.
Attempt<Machine> twin_of(const core::Json& document, const std::string& path, system::Host& live) {
  Attempt<std::unique_ptr<system::Host>> host = recorded_host(document, path, live);
  if (auto* problem = std::get_if<Problem>(&host)) return std::move(*problem);
  Result<Machine> machine = topology::read_machine(*std::get<std::unique_ptr<system::Host>>(host));
  if (!machine.ok()) return Problem{std::move(machine).error()};
  machine->unread.clear();
  core::complete_machine(*machine);
  return *std::move(machine);
}

/// The description in a file, or the twin of a recording.
Attempt<Machine> machine_from_file(const std::string& path, system::Host& live) {
  Attempt<core::Json> document = document_from_file(path, live, DocumentUse::machine);
  if (auto* problem = std::get_if<Problem>(&document)) return std::move(*problem);
  const core::Json& json = std::get<core::Json>(document);
  if (recording::is_recording(json)) return twin_of(json, path, live);
  Result<Machine> machine = core::machine_from_json(json, path);
  if (!machine.ok()) {
    if (machine.error().remedy.empty()) {
      Error error = std::move(machine).error();
      error.remedy = description_remedy;
      return Problem{std::move(error)};
    }
    return Problem{std::move(machine).error()};
  }
  return std::move(machine).value();
}

Attempt<OpenMachine> open_recording(const MachineSelection& selection, system::Host& live) {
  const std::string path = selection.machine.substr(std::string_view("recorded:").size());
  if (path.empty()) {
    return usage_problem("read --machine recorded:", "it names no recording", machine_remedy);
  }
  if (!selection.settings.empty()) {
    return usage_problem("read --set " + selection.settings.front(), "a recording says what was",
                         "--machine soft:" + path_of_machine(path) + " is its twin");
  }
  if (selection.deterministic) {
    return usage_problem("read --deterministic", "nothing runs on a recording",
                         "--machine soft:" + path_of_machine(path) + " is its twin");
  }
  Attempt<core::Json> document = document_from_file(path, live, DocumentUse::recording);
  if (auto* problem = std::get_if<Problem>(&document)) return std::move(*problem);
  Attempt<std::unique_ptr<system::Host>> host =
      recorded_host(std::get<core::Json>(document), path, live);
  if (auto* problem = std::get_if<Problem>(&host)) return std::move(*problem);
  OpenMachine opened;
  opened.host = HostPointer(std::get<std::unique_ptr<system::Host>>(std::move(host)).release());
  opened.label = {std::string(to_string(opened.host->kind())), std::string(opened.host->name())};
  return opened;
}

Attempt<Machine> described_machine(const std::string& name, system::Host& live) {
  if (name.empty())
    return usage_problem("read --machine soft:", "it names no software machine", machine_remedy);
  const std::vector<std::string> known = software_machine_names();
  const bool built_in = std::find(known.begin(), known.end(), name) != known.end();
  if (!built_in && looks_like_path(name)) return machine_from_file(name, live);
  Result<Machine> machine = software_machine_description(name);
  if (!machine.ok()) return Problem{std::move(machine).error(), exit_usage};
  return std::move(machine).value();
}

Problem wrong_setting(Error error, const std::string& machine) {
  if (error.remedy.empty()) {
    error.remedy = "nobounce topo --json --machine " + machine +
                   " shows the fields and what they hold: --set /FIELD/FIELD=VALUE";
  }
  return Problem{std::move(error), exit_usage};
}

/// A software GPU that a setting left without memory would get a default size, which nobody asked
/// for. A description that says "not known" is another matter.
std::optional<Problem> find_gpu_without_memory(const Machine& before, const Machine& after) {
  for (std::size_t i = 0; i < after.gpus.size(); ++i) {
    if (after.gpus[i].memory_bytes != 0) continue;
    if (i < before.gpus.size() && before.gpus[i].memory_bytes == 0) continue;
    return usage_problem("read --set",
                         "/gpus/" + std::to_string(i) + "/memory_bytes: a GPU has some memory",
                         "--set /gpus/" + std::to_string(i) + "/memory_bytes=17179869184");
  }
  return std::nullopt;
}

Attempt<OpenMachine> open_software_machine(const MachineSelection& selection, system::Host& live) {
  Attempt<Machine> described = described_machine(selection.machine.substr(5), live);
  if (auto* problem = std::get_if<Problem>(&described)) return std::move(*problem);
  std::vector<core::MachineSetting> settings;
  for (const std::string& text : selection.settings) {
    Result<core::MachineSetting> setting = core::parse_setting(text);
    if (!setting.ok()) return wrong_setting(std::move(setting).error(), selection.machine);
    settings.push_back(std::move(setting).value());
  }
  Result<Machine> machine = core::apply_settings(std::get<Machine>(described), settings);
  if (!machine.ok()) return wrong_setting(std::move(machine).error(), selection.machine);
  if (auto problem = find_gpu_without_memory(std::get<Machine>(described), *machine))
    return std::move(*problem);
  fabric::SoftOptions options;
  options.deterministic = selection.deterministic;
  options.seed = selection.seed.value_or(options.seed);
  Result<std::unique_ptr<fabric::SoftHost>> soft = fabric::SoftHost::create(*machine, options);
  if (!soft.ok()) {
    Error error = std::move(soft).error();
    if (error.origin == ErrorOrigin::os && error.code == ENOMEM)
      error.remedy =
          "a software machine maps the memory of its GPUs: raise what ulimit -v shows, or "
          "take less, --set /gpus/0/memory_bytes=1073741824";
    return Problem{std::move(error)};
  }
  OpenMachine opened;
  opened.soft = soft->get();
  opened.host = HostPointer(std::move(soft).value().release());
  opened.label = {std::string(to_string(opened.host->kind())), std::string(opened.host->name())};
  return opened;
}

}  // namespace

Problem recording_moves_nothing(const std::string& machine) {
  const std::string path = machine.substr(machine.find(':') + 1);
  return Problem{Error{.origin = ErrorOrigin::input,
                       .attempted = "move bytes on --machine " + machine,
                       .cause = Cause::evidence_recording_only,
                       .detail = "a recording can be judged and reported, not asked to move bytes",
                       .remedy = "--machine soft:" + path_of_machine(path) +
                                 " is its software twin; nobounce check judges the recording"}};
}

Attempt<OpenMachine> open_machine(const MachineSelection& selection, system::Host& live) {
  if (begins_with(selection.machine, "soft:")) return open_software_machine(selection, live);
  if (begins_with(selection.machine, "recorded:")) return open_recording(selection, live);
  if (selection.machine != "live") {
    return usage_problem("read --machine", "there is no machine \"" + selection.machine + "\"",
                         machine_remedy);
  }
  if (!selection.settings.empty()) {
    return usage_problem("read --set " + selection.settings.front(), "a live machine is what it is",
                         "--set together with --machine soft:NAME");
  }
  if (selection.deterministic) {
    return usage_problem("read --deterministic", "a live machine runs in its own order",
                         "--deterministic together with --machine soft:NAME");
  }
  OpenMachine opened;
  opened.host = live_host();
  opened.label = {std::string(to_string(opened.host->kind())), std::string(opened.host->name())};
  return opened;
}

}  // namespace nobounce::cli
