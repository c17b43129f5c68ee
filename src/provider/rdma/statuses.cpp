// Statuses of completions in words, and the cause that each stands for.
#include "provider/rdma/statuses.hpp"

#include <cerrno>
#include <utility>

#include "system/verbs_types.hpp"

namespace nobounce::provider::rdma {

namespace verbs = system::verbs;

std::string_view status_text(int status) {
  switch (status) {
    case verbs::wc_success:
      return "success";
    case verbs::wc_local_length_error:
      return "local length error";
    case verbs::wc_local_qp_operation_error:
      return "local queue pair operation error";
    case verbs::wc_local_protection_error:
      return "local protection error";
    case verbs::wc_flushed:
      return "flushed, because the queue pair had failed before";
    case verbs::wc_bad_response_error:
      return "bad response";
    case verbs::wc_local_access_error:
      return "local access error";
    case verbs::wc_remote_invalid_request:
      return "remote invalid request";
    case verbs::wc_remote_access_error:
      return "remote access error";
    case verbs::wc_remote_operation_error:
      return "remote operation error";
    case verbs::wc_retry_exceeded:
      return "transport retry counter exceeded";
    case verbs::wc_rnr_retry_exceeded:
      return "receiver-not-ready retry counter exceeded";
    case verbs::wc_fatal:
      return "fatal error";
    case verbs::wc_general:
      return "general error";
    default:
      return "another error";
  }
}

Error completion_error(int status, unsigned vendor_code, std::string attempted) {
  Cause cause = Cause::rdma_completion_error;
  switch (status) {
    case verbs::wc_retry_exceeded:
    case verbs::wc_rnr_retry_exceeded:
      cause = Cause::rdma_retry_exceeded;
      break;
    case verbs::wc_remote_access_error:
    case verbs::wc_remote_operation_error:
      cause = Cause::rdma_remote_access_error;
      break;
    case verbs::wc_local_protection_error:
      // What adapters say of GPU memory that they cannot reach, with this code of the vendor.
      if (vendor_code == 0x51) cause = Cause::rdma_remote_access_error;
      break;
    default:
      break;
  }
  Error error{.origin = ErrorOrigin::verbs,
              .code = status,
              .attempted = std::move(attempted),
              .cause = cause,
              .detail = std::string(status_text(status))};
  if (vendor_code != 0) error.detail += ", vendor code " + std::to_string(vendor_code);
  return error;
}

Error call_error(int code, std::string attempted, Cause cause) {
  return os_error(code, std::move(attempted), cause);
}

}  // namespace nobounce::provider::rdma
