// What a drive's status codes mean, as errors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nobounce/error.hpp>
#include "system/nvme_types.hpp"

namespace nobounce::provider::nvme {

/// `LBA out of range`, or the numbers of a code that has no words here.
[[nodiscard]] std::string status_text(const system::nvme::Completion& completion);

/// Origin nvme with the status as its code; cause nvme.command_failed.
[[nodiscard]] Error command_error(std::string attempted,
                                  const system::nvme::Completion& completion);

}  // namespace nobounce::provider::nvme
