// Loading foreign libraries: symbols resolved at once, and kept from other libraries of the
// process.
#include "system/live_library.hpp"

#include <dlfcn.h>

#include <cerrno>
#include <cstring>
#include <string_view>

namespace nobounce::system {

Result<void*> load_library(const std::string& file) {
  if (void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL); library != nullptr) {
    return library;
  }
  const char* const said = dlerror();
  std::string text = said != nullptr ? said : file + ": the loader gave no reason";
  // The loader keeps its errno to itself, so its text decides; both texts come from one catalogue.
  const bool missing = text.find(std::strerror(ENOENT)) != std::string::npos;
  Error error = os_error(missing ? ENOENT : ELIBACC, "load " + file);
  error.detail = std::move(text);
  return error;
}

void* find_symbol(void* library, const char* symbol) {
  return dlsym(library, symbol);
}

void* find_symbol(void* library, const char* symbol, const char* version) {
  return dlvsym(library, symbol, version);
}

}  // namespace nobounce::system
