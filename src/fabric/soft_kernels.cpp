// The list of kernels that software machines know.
#include "fabric/soft_kernels.hpp"

#include "core/kernel_jobs.hpp"

namespace nobounce::fabric {

namespace {

struct Row {
  std::string_view name;
  SoftKernelMaker maker;
};

constexpr Row rows[] = {{core::read_pages_kernel, &make_read_pages},
                        {core::read_drive_kernel, &make_read_drive}};

}  // namespace

const SoftKernelMaker* soft_kernel(std::string_view name) {
  for (const Row& row : rows) {
    if (row.name == name) return &row.maker;
  }
  return nullptr;
}

}  // namespace nobounce::fabric
