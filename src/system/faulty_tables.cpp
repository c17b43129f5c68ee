// The generated bodies of the faulty tables, and the list of functions that are passed through.
#include "system/faulty_tables.hpp"

#include <cerrno>
#include <string_view>

namespace nobounce::system {
namespace {

/// Functions that give something back: nobody can react to their failure, so they are not counted.
constexpr std::string_view releasing_functions[] = {
    "cuda.mem_free",
    "cuda.mem_free_host",
    "cuda.mem_release",
    "cuda.mem_host_unregister",
    "cuda.stream_destroy",
    "cuda.event_destroy",
    "cuda.device_primary_ctx_release",
    "cuda.ctx_pop_current",
    "cuda.ctx_disable_peer_access",
    "nvml.shutdown",
    "cufile.driver_close",
    "cufile.handle_deregister",
    "cufile.buf_deregister",
    "cufile.use_count",  // has no answer that means failure
    "verbs.free_device_list",
    "verbs.close_device",
    "verbs.dealloc_pd",
    "verbs.dereg_mr",
    "verbs.destroy_cq",
    "verbs.destroy_qp",
    "verbs.close_dmabuf",
    "verbs.get_keys",  // fields of a handle: reading them cannot fail
    "verbs.get_qp_number",
    "verbs.get_device_types",
};

constexpr bool is_counted(std::string_view name) {
  for (const std::string_view releasing : releasing_functions) {
    if (name == releasing) return false;
  }
  return true;
}

// Picked by the name of the return type in the list: long and ssize_t are one type.
cufile::CUfileError_t failed_CUfileError_t(int code) {
  return {code, 0};
}
void failed_void(int) {}
long failed_long(int) {
  return 0;
}
ssize_t failed_ssize_t(int code) {
  errno = code;
  return -1;
}

}  // namespace

#define NOBOUNCE_CUDA(method, symbol, parameters, arguments)                          \
  cuda::CUresult FaultyCuda::method parameters {                                      \
    constexpr bool counted = is_counted("cuda." #method);                             \
    if (counted && counter_.fails("cuda." #method)) return counter_.plan().cuda_code; \
    return inner_.method arguments;                                                   \
  }
#include "system/cuda_functions.inc"
#undef NOBOUNCE_CUDA

#define NOBOUNCE_NVML(method, symbol, parameters, arguments)                          \
  nvml::nvmlReturn_t FaultyNvml::method parameters {                                  \
    constexpr bool counted = is_counted("nvml." #method);                             \
    if (counted && counter_.fails("nvml." #method)) return counter_.plan().nvml_code; \
    return inner_.method arguments;                                                   \
  }
#include "system/nvml_functions.inc"
#undef NOBOUNCE_NVML

#define NOBOUNCE_CUFILE(type, method, symbol, parameters, arguments) \
  auto FaultyCufile::method parameters->type {                       \
    constexpr bool counted = is_counted("cufile." #method);          \
    if (counted && counter_.fails("cufile." #method)) {              \
      return failed_##type(counter_.plan().cufile_code);             \
    }                                                                \
    return inner_.method arguments;                                  \
  }
#include "system/cufile_functions.inc"
#undef NOBOUNCE_CUFILE

#define NOBOUNCE_VERBS(method, symbol, parameters, arguments)                            \
  int FaultyVerbs::method parameters {                                                   \
    constexpr bool counted = is_counted("verbs." #method);                               \
    if (counted && counter_.fails("verbs." #method)) return counter_.plan().errno_value; \
    return inner_.method arguments;                                                      \
  }
#include "system/verbs_functions.inc"
#undef NOBOUNCE_VERBS

}  // namespace nobounce::system
