// The statuses of completions.
#include "core/completion_status.hpp"

#include <array>

namespace nobounce::core {

namespace {

/// By number, as enum ibv_wc_status has them (rdma-core, libibverbs/verbs.h).
constexpr std::array<const char*, 24> status_names = {
    "success",
    "local length error",
    "local queue pair operation error",
    "local EE context operation error",
    "local protection error",
    "flushed",
    "memory window bind error",
    "bad response",
    "local access error",
    "remote invalid request",
    "remote access error",
    "remote operation error",
    "transport retries exceeded",
    "receiver-not-ready retries exceeded",
    "local RDD violation",
    "remote invalid read request",
    "remote abort",
    "invalid EE context number",
    "invalid EE context state",
    "fatal error",
    "response timeout",
    "general error",
    "tag matching error",
    "tag matching rendezvous incomplete",
};

/// What adapters of one vendor say of GPU memory that they cannot reach.
constexpr std::uint64_t syndrome_of_gpu_memory = 0x51;

}  // namespace

std::string_view completion_status_name(std::uint64_t status) {
  return status < status_names.size() ? status_names.at(status) : std::string_view{};
}

Cause cause_of_completion_status(std::uint64_t status, std::uint64_t vendor_code) {
  switch (status) {
    case 4:
    case 8:
    case 10:
      return Cause::rdma_remote_access_error;
    case 12:
    case 13:
      return Cause::rdma_retry_exceeded;
    default:
      return vendor_code == syndrome_of_gpu_memory ? Cause::rdma_remote_access_error
                                                   : Cause::rdma_completion_error;
  }
}

}  // namespace nobounce::core
