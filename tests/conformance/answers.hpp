// Answers: what a machine said to every sequence. Written and read as `nobounce.conformance/1`, and
// compared.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nobounce/result.hpp>

namespace nobounce::conformance {

struct Answer {
  std::string name;
  std::string skipped;  ///< why it was not run; empty: it was
  std::vector<std::string> lines;
};

struct Answers {
  std::map<std::string, std::string>
      facts;  ///< of the machine: kind, driver, cuda, libcufile, gpus
  std::vector<Answer> sequences;
};

[[nodiscard]] std::string to_json(const Answers& answers);
[[nodiscard]] Result<Answers> answers_from_json(std::string_view text, std::string_view name);

/// The foreign names that an answer shows calls of.
[[nodiscard]] std::vector<std::string> functions_of(const Answer& answer);

struct Difference {
  std::string sequence;
  std::string explanation;         ///< empty: unexplained
  std::vector<std::string> lines;  ///< `- left`, `+ right`, with their line numbers
};

struct Comparison {
  std::vector<std::string> equal;
  std::vector<std::string> skipped;  ///< `name: why`, on either side
  std::vector<Difference> different;
  std::vector<std::string> stale;  ///< explanations of sequences that are equal or do not exist;
                                   ///< what was skipped may still need its own
  [[nodiscard]] std::size_t unexplained() const;
};

/// `explained`: lines `NAME: why`; `#` starts a comment. A NAME may end in `*`. `NAME [KEY=VALUE]`
/// is for live answers with that fact alone.
[[nodiscard]] Comparison compare(const Answers& live, const Answers& soft,
                                 std::string_view explained);
[[nodiscard]] std::string to_text(const Comparison& comparison);

/// Functions of the three tables that no sequence in `equal` shows.
[[nodiscard]] std::vector<std::string> unconfirmed(const Comparison& comparison,
                                                   const Answers& live);

}  // namespace nobounce::conformance
