// The parsers and what they rest on link without the rest of the library: the fuzzers need that,
// and where there is no clang only this program says so.
#include <cstdio>

int main() {
  std::puts("what the fuzzers link is complete");
  return 0;
}
