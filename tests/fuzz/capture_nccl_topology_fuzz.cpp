// Fuzzes the parser of captured text of the format nccl_topo_xml.
#include "fuzz/capture_fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return nobounce::test::fuzz_captures("nccl_topo_xml", data, size);
}
