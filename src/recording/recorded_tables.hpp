// NVML, CUDA and libcufile as they answered when a recording was taken: questions only.
#pragma once

#include <memory>
#include <optional>

#include "core/json.hpp"
#include "system/host.hpp"

namespace nobounce::recording {

/// Asks what judging a machine needs. A table that is absent becomes its error.
[[nodiscard]] core::Json ask_nvml(system::Host& host);
[[nodiscard]] core::Json ask_cuda(system::Host& host);
[[nodiscard]] core::Json ask_cufile(system::Host& host);
[[nodiscard]] core::Json ask_verbs(system::Host& host);

/// Tables that answer from such a document; what they were not asked is answered as absent
/// functions are.
[[nodiscard]] std::unique_ptr<system::Nvml> recorded_nvml(const core::Json& answers);
[[nodiscard]] std::unique_ptr<system::Cuda> recorded_cuda(const core::Json& answers);
[[nodiscard]] std::unique_ptr<system::Cufile> recorded_cufile(const core::Json& answers);

/// Why there is no table, where the document says so.
[[nodiscard]] std::optional<Error> absence(const core::Json& answers, const char* library);

}  // namespace nobounce::recording
