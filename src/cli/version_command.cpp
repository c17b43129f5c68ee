// `nobounce --version`: which build this is.
#include <string>

#include "cli/commands.hpp"

namespace nobounce::cli {

namespace {

#ifdef __OPTIMIZE__
constexpr bool optimised = true;
#else
constexpr bool optimised = false;
#endif

}  // namespace

int run_version(Console& console) {
  if (console.json()) {
    console.document(core::JsonObject{{"schema", "nobounce.version/1"},
                                      {"version", NOBOUNCE_VERSION},
                                      {"compiler", __VERSION__},
                                      {"optimised", optimised}});
  } else {
    console.text(std::string("nobounce ") + NOBOUNCE_VERSION +
                 (optimised ? "\n" : " (not optimised)\n"));
  }
  return exit_done;
}

}  // namespace nobounce::cli
