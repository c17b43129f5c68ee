// What the process's own pages are, where the driver's answer to a registration depends on it.
#pragma once

#include <cstddef>

#include <nobounce/machine.hpp>

namespace nobounce::fabric {

/// Whether the kernel of that machine would pin these pages for a device that writes to them: not
/// where nothing is mapped or may not be written, and since Linux 6.5 not in a shared writable
/// mapping of a file on a file system that writes back, whose pages could change behind its back.
[[nodiscard]] bool pinnable_pages(const Machine& machine, const void* pointer, std::size_t bytes,
                                  bool read_only);

}  // namespace nobounce::fabric
