// A double of libcufile: every function of the list under its real name.
#include <cerrno>

#include "system/cufile_types.hpp"
#include "system/doubles/answer.hpp"

using namespace nobounce::system::cufile;

namespace {

std::uint64_t last_void_answer = 0;

CUfileError_t answer_CUfileError_t(std::uint64_t hash) {
  return {doubles::code_of(hash), doubles::code_of(hash >> 32)};
}
long answer_long(std::uint64_t hash) {
  return static_cast<long>(hash);
}
ssize_t answer_ssize_t(std::uint64_t hash) {
  errno = doubles::code_of(hash >> 32);
  return static_cast<ssize_t>(hash);
}
void answer_void(std::uint64_t hash) {
  last_void_answer = hash;
}

}  // namespace

/// How a test sees that a function without an answer was called.
extern "C" std::uint64_t nobounce_double_last_void_answer() {
  return last_void_answer;
}

#define NOBOUNCE_CUFILE(type, method, symbol, parameters, arguments) \
  type double_##method parameters asm(symbol);                       \
  type double_##method parameters {                                  \
    return answer_##type(doubles::Answer{#method} arguments);        \
  }
#include "system/cufile_functions.inc"
#undef NOBOUNCE_CUFILE
