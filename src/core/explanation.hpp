// What captured texts amount to: verdicts per pair and direction, each with the lines it rests on.
#pragma once

#include <string>
#include <vector>

#include <nobounce/cause.hpp>
#include <nobounce/words.hpp>
#include "core/capture.hpp"

namespace nobounce::core {

struct ExplainedVerdict {
  Member member = Member::p2p;
  std::string subject;    ///< `GPU0-GPU1`, `GPU3-mlx5_0`, a device, a path
  std::string direction;  ///< `forward`, `both`, `send`, `receive`, `read`, `write`
  Verdict verdict = Verdict::unknown;
  std::string reason;  ///< one sentence: what was seen, or what is missing
  std::vector<Cause> causes;
  std::vector<TextLine> evidence;
  std::string remedy;
};

struct Explanation {
  std::vector<CapturePiece> pieces;
  std::vector<ExplainedVerdict> verdicts;  ///< worst first
  Verdict overall = Verdict::unknown;      ///< of all verdicts the worst
  std::vector<std::string> unrecognised;   ///< texts of which nothing was recognised
};

}  // namespace nobounce::core
