// What verbs answer, as errors.
#include "provider/rdma/statuses.hpp"

#include <cstdint>
#include <utility>

#include "core/completion_status.hpp"

namespace nobounce::provider::rdma {

Error completion_error(int status, unsigned vendor_code, std::string attempted) {
  const auto number = static_cast<std::uint64_t>(status);
  const std::string_view name = core::completion_status_name(number);
  Error error{.origin = ErrorOrigin::verbs,
              .code = status,
              .attempted = std::move(attempted),
              .cause = core::cause_of_completion_status(number, vendor_code),
              .detail = name.empty() ? "another error" : std::string(name)};
  if (vendor_code != 0) error.detail += ", vendor code " + std::to_string(vendor_code);
  return error;
}

Error call_error(int code, std::string attempted, Cause cause) {
  return os_error(code, std::move(attempted), cause);
}

}  // namespace nobounce::provider::rdma
