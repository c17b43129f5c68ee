// The absent libcufile: every method of the base class answers error_absent in its own return type.
#include <cerrno>

#include "system/cufile.hpp"
#include "system/unused.hpp"

namespace nobounce::system {
namespace {

// Picked by the name of the return type in the list: long and ssize_t are one type, but answer
// differently.
cufile::CUfileError_t absent_CUfileError_t() {
  return {cufile::error_absent, 0};
}
void absent_void() {}
long absent_long() {
  return 0;
}  // a use count: nobody uses what is not there
ssize_t absent_ssize_t() {
  errno = cufile::error_absent;
  return -1;
}

}  // namespace

#define NOBOUNCE_CUFILE(type, method, symbol, parameters, arguments) \
  auto Cufile::method parameters->type {                             \
    unused arguments;                                                \
    return absent_##type();                                          \
  }
#include "system/cufile_functions.inc"
#undef NOBOUNCE_CUFILE

}  // namespace nobounce::system
