// Errors as text and JSON.
#include "report/error_report.hpp"

#include <utility>

#include <fmt/core.h>

namespace nobounce::report {

namespace {

/// One line: a library's message may bring line ends of its own.
std::string on_one_line(std::string text) {
  for (char& character : text) {
    if (character == '\n' || character == '\r') character = ' ';
  }
  return text;
}

}  // namespace

std::string error_text(const Error& error, Style style) {
  std::string text = fmt::format("{} {}\n", painted("nobounce:", Paint::bad, style),
                                 on_one_line(to_string(error)));
  const std::string_view remedy = remedy_of(error);
  if (!remedy.empty()) text += fmt::format("try: {}\n", on_one_line(std::string(remedy)));
  return text;
}

core::Json error_json(const Error& error, std::vector<core::Json> receipts) {
  core::JsonObject document{
      {"schema", "nobounce.error/1"},
      {"origin", to_string(error.origin)},
      {"code", error.code},
      {"attempted", error.attempted},
      {"cause",
       error.cause == Cause::none ? core::Json(nullptr) : core::Json(to_string(error.cause))},
      {"detail", error.detail},
      {"remedy", remedy_of(error)},
  };
  if (!receipts.empty()) document.emplace_back("receipts", core::JsonArray(std::move(receipts)));
  return document;
}

}  // namespace nobounce::report
