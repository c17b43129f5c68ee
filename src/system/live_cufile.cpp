// Loading the table of libcufile (libcufile.so.0): one pointer per function of the list.
#include "system/live_cufile.hpp"

#include "system/live_library.hpp"

namespace nobounce::system {

LiveCufile::LiveCufile(void* library) {
#define NOBOUNCE_CUFILE(type, method, symbol, parameters, arguments) \
  method##_ = reinterpret_cast<decltype(method##_)>(find_symbol(library, symbol));
#include "system/cufile_functions.inc"
#undef NOBOUNCE_CUFILE
}

#define NOBOUNCE_CUFILE(type, method, symbol, parameters, arguments)              \
  auto LiveCufile::method parameters->type {                                      \
    return method##_ != nullptr ? method##_ arguments : Cufile::method arguments; \
  }
#include "system/cufile_functions.inc"
#undef NOBOUNCE_CUFILE

}  // namespace nobounce::system
