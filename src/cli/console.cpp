// The only file that prints.
#include "cli/console.hpp"

#include <cstdio>
#include <utility>

#include "cli/remedy.hpp"
#include "report/error_report.hpp"

namespace nobounce::cli {

namespace {

void put(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
}

}  // namespace

void Console::text(std::string_view text) {
  put(stdout, text);
}

void Console::document(const core::Json& json) {
  put(stdout, core::dump_json(json));
  put(stdout, "\n");
}

void Console::line(const core::Json& json) {
  put(stdout, core::dump_json(json, true));
  put(stdout, "\n");
  flush();
}

void Console::flush() {
  std::fflush(stdout);
}

void Console::progress_text(std::string_view text) {
  if (!options_.progress) return;
  put(stderr, text);
  std::fflush(stderr);
}

int Console::problem(const Problem& problem, std::vector<core::Json> receipts) {
  const Error error = with_remedy(problem.error);
  if (options_.json) {
    document(report::error_json(error, std::move(receipts)));
  } else {
    // What was printed before comes first, also where both streams end up in one file.
    std::fflush(stdout);
    put(stderr, report::error_text(error, {options_.colour_error}));
  }
  return problem.exit_code;
}

bool Console::finish() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return true;
  const Error error{.origin = ErrorOrigin::session,
                    .attempted = "write the report to standard output",
                    .detail = "not all of it could be written",
                    .remedy = "look at the disk or pipe behind standard output"};
  put(stderr, report::error_text(error, {options_.colour_error}));
  return false;
}

}  // namespace nobounce::cli
