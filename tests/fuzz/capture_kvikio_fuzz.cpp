// Fuzzes the parser of captured text of the format kvikio.
#include "fuzz/capture_fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return nobounce::test::fuzz_captures("kvikio", data, size);
}
