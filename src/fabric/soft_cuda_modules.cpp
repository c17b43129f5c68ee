// The soft CUDA driver: modules and launches. A software machine runs no PTX: it knows the
// project's own kernels by name, as host code that reaches memory over the bus.
#include <algorithm>
#include <string>
#include <string_view>

#include "fabric/soft_cuda_driver.hpp"
#include "fabric/soft_kernels.hpp"

namespace nobounce::fabric {

namespace cuda = system::cuda;

namespace {

constexpr std::string_view entry_word = ".entry ";
constexpr unsigned threads_per_block_max = 1024;
constexpr CUresult error_invalid_image = 200;

/// The names of the kernels in PTX text.
std::set<std::string> entries_of(std::string_view text) {
  std::set<std::string> names;
  for (std::size_t at = text.find(entry_word); at != std::string_view::npos;
       at = text.find(entry_word, at + 1)) {
    const std::string_view rest = text.substr(at + entry_word.size());
    names.emplace(rest.substr(0, rest.find_first_of("( \t\n")));
  }
  return names;
}

}  // namespace

CUresult SoftCuda::module_load_data(CUmodule* module, const void* image) {
  CUresult code = cuda::success;
  if (current(code) == nullptr) return code;
  if (module == nullptr || image == nullptr) return cuda::error_invalid_value;
  const std::string_view text(static_cast<const char*>(image));
  if (text.find(".version") == std::string_view::npos) return error_invalid_image;
  const std::lock_guard lock(mutex_);
  *module = next_handle();
  modules_[*module].entries = entries_of(text);
  return cuda::success;
}

CUresult SoftCuda::module_unload(CUmodule module) {
  CUresult code = cuda::success;
  if (current(code) == nullptr) return code;
  const std::lock_guard lock(mutex_);
  const auto found = modules_.find(module);
  if (found == modules_.end()) return cuda::error_invalid_handle;
  for (const auto& [name, function] : found->second.functions) functions_.erase(function);
  modules_.erase(found);
  return cuda::success;
}

CUresult SoftCuda::module_get_function(CUfunction* function, CUmodule module, const char* name) {
  CUresult code = cuda::success;
  if (current(code) == nullptr) return code;
  if (function == nullptr || name == nullptr) return cuda::error_invalid_value;
  const std::lock_guard lock(mutex_);
  const auto found = modules_.find(module);
  if (found == modules_.end()) return cuda::error_invalid_handle;
  if (found->second.entries.count(name) == 0) return cuda::error_not_found;
  const SoftKernelMaker* maker = soft_kernel(name);
  if (maker == nullptr) return cuda::error_no_binary_for_gpu;
  CUfunction& handle = found->second.functions[name];
  if (handle == nullptr) handle = next_handle();
  functions_[handle] = maker;
  *function = handle;
  return cuda::success;
}

CUresult SoftCuda::launch_kernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                 unsigned grid_z, unsigned block_x, unsigned block_y,
                                 unsigned block_z, unsigned, CUstream stream, void** parameters,
                                 void** extra) {
  CUresult code = cuda::success;
  if (current(code) == nullptr) return code;
  const SoftKernelMaker* maker = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto found = functions_.find(function);
    if (found == functions_.end()) return cuda::error_invalid_handle;
    maker = found->second;
  }
  const std::uint64_t threads = std::uint64_t{block_x} * block_y * block_z;
  const std::uint64_t blocks = std::uint64_t{grid_x} * grid_y * grid_z;
  if (threads == 0 || threads > threads_per_block_max || blocks == 0 || parameters == nullptr ||
      extra != nullptr) {
    return cuda::error_invalid_value;
  }
  return launch(stream, (*maker)({.blocks = static_cast<std::uint32_t>(blocks),
                                  .threads = static_cast<std::uint32_t>(threads)},
                                 parameters));
}

}  // namespace nobounce::fabric
