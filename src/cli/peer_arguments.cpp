// Reads tokens, and looks for the adapters that were named.
#include "cli/peer_arguments.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/text_file.hpp"
#include "system/verbs.hpp"
#include "wire/token.hpp"

namespace nobounce::cli {

namespace {

constexpr const char* token_variable = "NOBOUNCE_TOKEN";
constexpr unsigned others_may_use = 0066;

/// A secret that others may read, or put in place, is none.
std::optional<Problem> check_file(system::Host& live, const std::string& path) {
  const Result<system::FileStatus> status = live.storage().status_of(path);
  if (!status.ok()) return Problem{status.error()};
  if (status->type == system::FileType::regular && (status->mode & others_may_use) != 0) {
    return Problem{Error{.origin = ErrorOrigin::input,
                         .attempted = "read the token in " + path,
                         .detail = "other users may read or change that file",
                         .remedy = "chmod 600 " + path}};
  }
  return std::nullopt;
}

/// None where the library is missing or lists nothing.
std::vector<std::string> listed_adapters(system::Host& host) {
  namespace verbs = system::verbs;
  std::vector<std::string> names;
  const Result<system::Verbs*> table = host.verbs();
  if (!table.ok()) return names;
  verbs::ibv_device** devices = nullptr;
  int count = 0;
  if ((*table)->get_device_list(&devices, &count) != verbs::success) return names;
  for (int i = 0; i < count; ++i) {
    const char* name = nullptr;
    if ((*table)->get_device_name(&name, devices[i]) == verbs::success && name != nullptr)
      names.emplace_back(name);
  }
  (void)(*table)->free_device_list(devices);
  return names;
}

}  // namespace

std::optional<Problem> unknown_adapter(const PeerArguments& arguments, system::Host& host) {
  if (arguments.adapters.empty()) return std::nullopt;
  const std::vector<std::string> known = listed_adapters(host);
  if (known.empty()) return std::nullopt;
  for (const std::string& name : arguments.adapters) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string list;
    for (const std::string& each : known) list += (list.empty() ? "" : ", ") + each;
    return usage_problem("--nic: read \"" + name + "\"", "there is no adapter " + name + " here",
                         "use " + std::string(known.size() > 1 ? "one of " : "") + list);
  }
  return std::nullopt;
}

Attempt<std::string> token_of(const PeerArguments& arguments, system::Host& live) {
  std::string text = arguments.token;
  std::string origin = "--token";
  if (!arguments.token_file.empty()) {
    if (auto problem = check_file(live, arguments.token_file)) return std::move(*problem);
    Result<std::string> read = read_text_file(live, arguments.token_file);
    if (!read.ok()) return Problem{std::move(read).error()};
    text = std::move(*read);
    origin = arguments.token_file;
  } else if (text.empty()) {
    text = live.environment().get(token_variable).value_or("");
    origin = token_variable;
    if (text.empty()) return std::string();
  }
  const Result<wire::Token> token = wire::Token::from_text(text);
  if (token.ok()) return std::string(token->text());
  Error error = token.error();
  error.attempted = "read the token of " + origin;
  return Problem{std::move(error), exit_usage};
}

}  // namespace nobounce::cli
