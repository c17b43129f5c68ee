// Errors as text and JSON.
#include "report/error_report.hpp"

#include <utility>

#include <fmt/core.h>

namespace nobounce::report {

std::string error_text(const Error& error, Style style) {
  Error short_error = error;
  short_error.attempted = shortened(error.attempted);
  short_error.detail = shortened(error.detail);
  std::string text = fmt::format("{} {}\n", painted("nobounce:", Paint::bad, style),
                                 visible(to_string(short_error)));
  const std::string_view remedy = remedy_of(error);
  if (!remedy.empty()) text += fmt::format("try: {}\n", visible(shortened(remedy)));
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
      {"detail", error.detail.empty() && error.cause != Cause::none
                     ? cause_row(error.cause).sentence
                     : std::string_view(error.detail)},
      {"remedy", remedy_of(error)},
  };
  if (!receipts.empty()) document.emplace_back("receipts", core::JsonArray(std::move(receipts)));
  return document;
}

}  // namespace nobounce::report
