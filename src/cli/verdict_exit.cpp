// The order of verdicts and their exit codes.
#include "cli/verdict_exit.hpp"

#include "cli/exit_code.hpp"

namespace nobounce::cli {

int badness_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::broken:
    case Verdict::impossible:
      return 3;
    case Verdict::staged:
    case Verdict::degraded:
      return 2;
    case Verdict::unknown:
      return 1;
    case Verdict::direct:
      return 0;
  }
  return 3;
}

int exit_code_of_badness(int badness) {
  switch (badness) {
    case 0:
      return exit_done;
    case 1:
      return exit_unknown;
    case 2:
      return exit_refused;
    default:
      return exit_error;
  }
}

}  // namespace nobounce::cli
