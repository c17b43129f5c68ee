// From verdicts to an exit code: the worst row decides.
#pragma once

#include <vector>

#include <nobounce/words.hpp>

namespace nobounce::cli {

/// 1 broken or impossible, 3 staged or degraded, 4 unknown, 0. Broken is worse than staged, staged
/// is worse than unknown.
template <typename Row>
[[nodiscard]] int worst_exit_code(const std::vector<Row>& rows);

/// How bad a verdict is, 0 best; the exit codes are not in that order.
[[nodiscard]] int badness_of(Verdict verdict);
[[nodiscard]] int exit_code_of_badness(int badness);

template <typename Row>
int worst_exit_code(const std::vector<Row>& rows) {
  int worst = 0;
  for (const Row& row : rows) {
    if (badness_of(row.verdict) > worst) worst = badness_of(row.verdict);
  }
  return exit_code_of_badness(worst);
}

}  // namespace nobounce::cli
