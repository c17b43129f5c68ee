// A finding: one precondition judged, with what was seen, what is needed and how to mend it.
#pragma once

#include <string>
#include <vector>

#include <nobounce/cause.hpp>
#include <nobounce/words.hpp>

namespace nobounce {

struct Finding {
  Cause cause = Cause::none;  ///< the cause this finding would be if unmet
  std::string subject;  ///< a device (`gpu:0`), a pair (`drive:nvme0n1 -> gpu:0`) or a file path
  FindingState state = FindingState::unknown;
  std::string observed;  ///< "kernel module nvidia_fs is not loaded"
  std::string needed;    ///< "nvidia_fs loaded"
  std::string remedy;    ///< a command where one exists; empty when met
  std::string source;    ///< the file or call it rests on: `/proc/modules`

  bool operator==(const Finding&) const = default;
};

/// The first unmet finding's cause, else `none`.
[[nodiscard]] Cause first_unmet(const std::vector<Finding>& findings);

}  // namespace nobounce
