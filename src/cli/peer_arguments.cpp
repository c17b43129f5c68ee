// Reads tokens.
#include "cli/peer_arguments.hpp"

#include <utility>

#include "cli/text_file.hpp"
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

}  // namespace

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
