// Programming errors abort with a sentence, also in release builds.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace nobounce::session {

inline void check(bool condition, const char* sentence) {
  if (condition) return;
  std::fprintf(stderr, "nobounce: %s\n", sentence);
  std::abort();
}

}  // namespace nobounce::session
