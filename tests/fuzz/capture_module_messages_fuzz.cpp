// Fuzzes the parser of captured text of the format module_messages.
#include "fuzz/capture_fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return nobounce::test::fuzz_captures("module_messages", data, size);
}
