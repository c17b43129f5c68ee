// How adapters end work requests: the status of a completion in words, and the cause it stands for.
#pragma once

#include <cstdint>
#include <string_view>

#include <nobounce/cause.hpp>

namespace nobounce::core {

/// `remote access error` for 10; empty for a number that the list does not have.
[[nodiscard]] std::string_view completion_status_name(std::uint64_t status);

/// Of a status that is not success. `vendor_code`: what the adapter says beside it, 0 for nothing.
[[nodiscard]] Cause cause_of_completion_status(std::uint64_t status, std::uint64_t vendor_code);

}  // namespace nobounce::core
