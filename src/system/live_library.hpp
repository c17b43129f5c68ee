// A foreign shared library of this machine: opened by name, asked for symbols, never closed.
#pragma once

#include <string>

#include <nobounce/result.hpp>

namespace nobounce::system {

/// The handle of the library. The error (origin os) carries the loader's own text, which names the
/// file that was looked for. There is no close: libcufile crashes when unloaded with statistics
/// running, and the driver library keeps threads.
[[nodiscard]] Result<void*> load_library(const std::string& file);

/// A symbol's address, or null where this version of the library lacks it.
[[nodiscard]] void* find_symbol(void* library, const char* symbol);

/// The same of one version; libraries that keep an old interface under the same name answer that to
/// whoever names none.
[[nodiscard]] void* find_symbol(void* library, const char* symbol, const char* version);

}  // namespace nobounce::system
