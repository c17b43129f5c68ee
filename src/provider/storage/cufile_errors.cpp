// cuFile's error codes as Errors.
#include "provider/storage/cufile_errors.hpp"

#include <utility>

#include "system/cufile_types.hpp"

namespace nobounce::provider::storage {

namespace {

constexpr int first_cufile_code = 5000;

struct Row {
  int code;
  const char* name;
  Cause cause;
};

/// Codes that we can meet. Cause none: the caller knows better what the call was for.
constexpr Row rows[] = {
    {5001, "CU_FILE_DRIVER_NOT_INITIALIZED", Cause::storage_cufile_driver_failed},
    {5004, "CU_FILE_DRIVER_VERSION_MISMATCH", Cause::storage_cufile_driver_failed},
    {5005, "CU_FILE_DRIVER_VERSION_READ_ERROR", Cause::storage_cufile_driver_failed},
    {5006, "CU_FILE_DRIVER_CLOSING", Cause::storage_cufile_driver_failed},
    {5007, "CU_FILE_PLATFORM_NOT_SUPPORTED", Cause::storage_compat_refused},
    {5008, "CU_FILE_IO_NOT_SUPPORTED", Cause::storage_compat_refused},
    {5009, "CU_FILE_DEVICE_NOT_SUPPORTED", Cause::storage_gpu_not_supported},
    {5010, "CU_FILE_NVFS_DRIVER_ERROR", Cause::none},
    {5011, "CU_FILE_CUDA_DRIVER_ERROR", Cause::none},
    {5012, "CU_FILE_CUDA_POINTER_INVALID", Cause::memory_kind_unknown},
    {5013, "CU_FILE_CUDA_MEMORY_TYPE_INVALID", Cause::none},
    {5014, "CU_FILE_CUDA_POINTER_RANGE_ERROR", Cause::none},
    {5015, "CU_FILE_CUDA_CONTEXT_MISMATCH", Cause::none},
    {5016, "CU_FILE_INVALID_MAPPING_SIZE", Cause::machine_bar1_too_small},
    {5017, "CU_FILE_INVALID_MAPPING_RANGE", Cause::none},
    {5018, "CU_FILE_INVALID_FILE_TYPE", Cause::storage_not_a_regular_file},
    {5019, "CU_FILE_INVALID_FILE_OPEN_FLAG", Cause::none},
    {5020, "CU_FILE_DIO_NOT_SET", Cause::storage_direct_io_refused},
    {5022, "CU_FILE_INVALID_VALUE", Cause::none},
    {5023, "CU_FILE_MEMORY_ALREADY_REGISTERED", Cause::none},
    {5024, "CU_FILE_MEMORY_NOT_REGISTERED", Cause::none},
    {5025, "CU_FILE_PERMISSION_DENIED", Cause::none},
    {5026, "CU_FILE_DRIVER_ALREADY_OPEN", Cause::none},
    {5027, "CU_FILE_HANDLE_NOT_REGISTERED", Cause::storage_compat_refused},
    {5028, "CU_FILE_HANDLE_ALREADY_REGISTERED", Cause::none},
    {5029, "CU_FILE_DEVICE_NOT_FOUND", Cause::none},
    {5030, "CU_FILE_INTERNAL_ERROR", Cause::none},
    {5031, "CU_FILE_GETNEWFD_FAILED", Cause::none},
    {5033, "CU_FILE_NVFS_SETUP_ERROR", Cause::none},
    {5034, "CU_FILE_IO_DISABLED", Cause::storage_compat_refused},
    {5036, "CU_FILE_GPU_MEMORY_PINNING_FAILED", Cause::storage_not_attached},
    {5043, "CU_FILE_NOMEM_ERROR", Cause::none},
    {5044, "CU_FILE_IO_ERROR", Cause::none},
    {5045, "CU_FILE_INTERNAL_BUF_REGISTER_ERROR", Cause::storage_not_attached},
    {5046, "CU_FILE_HASH_OPR_ERROR", Cause::none},
    {5047, "CU_FILE_INVALID_CONTEXT_ERROR", Cause::none},
    {5048, "CU_FILE_NVFS_INTERNAL_DRIVER_ERROR", Cause::none},
};

const Row* row_of(int code) {
  for (const Row& row : rows) {
    if (row.code == code) return &row;
  }
  return nullptr;
}

}  // namespace

Cause cause_of_code(int code, Cause otherwise) {
  const Row* row = row_of(code);
  return row != nullptr && row->cause != Cause::none ? row->cause : otherwise;
}

const char* name_of_code(int code) {
  const Row* row = row_of(code);
  return row != nullptr ? row->name : "";
}

Error error_of_code(int code, std::string attempted, Cause otherwise) {
  if (code < first_cufile_code) return os_error(code, std::move(attempted), otherwise);
  return Error{.origin = ErrorOrigin::cufile,
               .code = code,
               .attempted = std::move(attempted),
               .cause = cause_of_code(code, otherwise),
               .detail = name_of_code(code)};
}

}  // namespace nobounce::provider::storage
