// Runs sequences in child processes, so that one which crashes or hangs costs itself alone.
#pragma once

#include <string>
#include <vector>

#include <nobounce/machine.hpp>

#include "conformance/answers.hpp"
#include "conformance/sequence.hpp"

namespace nobounce::conformance {

struct RunOptions {
  const Machine* soft = nullptr;  ///< null: the live machine
  std::string folder;             ///< for the files of cuFile sequences; exists
  std::string only;               ///< a prefix of names; empty: all
  /// Live only: a udev record for the folder's drive may be made for the sequences that need it,
  /// and is removed again.
  bool may_write_udev = false;
  int seconds_per_sequence = 30;
};

[[nodiscard]] Answers run_all(const Catalogue& catalogue, const RunOptions& options);

}  // namespace nobounce::conformance
