// The project's own kernels as software machines run them, by the names they have in PTX.
#pragma once

#include <cstdint>
#include <string_view>

#include "fabric/soft_kernel.hpp"

namespace nobounce::fabric {

struct KernelShape {
  std::uint32_t blocks = 1;
  std::uint32_t threads = 1;  ///< of a block
};

/// Reads a launch's parameters, which are the caller's until it returns.
using SoftKernelMaker = Kernel (*)(const KernelShape& shape, void* const* parameters);

/// Null for a name that no kernel here has.
[[nodiscard]] const SoftKernelMaker* soft_kernel(std::string_view name);

/// nobounce_read_pages (core/kernel_jobs.hpp).
[[nodiscard]] Kernel make_read_pages(const KernelShape& shape, void* const* parameters);
/// nobounce_read_drive.
[[nodiscard]] Kernel make_read_drive(const KernelShape& shape, void* const* parameters);

}  // namespace nobounce::fabric
