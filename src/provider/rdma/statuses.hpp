// What verbs answer, as errors: errno values of calls and statuses of completions.
#pragma once

#include <string>

#include <nobounce/error.hpp>

namespace nobounce::provider::rdma {

/// The error of a work request that ended with that status of the adapter.
[[nodiscard]] Error completion_error(int status, unsigned vendor_code, std::string attempted);

/// The error of a call that answered that errno.
[[nodiscard]] Error call_error(int code, std::string attempted, Cause cause = Cause::none);

}  // namespace nobounce::provider::rdma
