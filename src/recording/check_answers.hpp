// Whether what libraries answered has the types that are read of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/json.hpp"

namespace nobounce::recording {

struct WrongAnswer {
  std::string pointer;  ///< below the library's own member
  std::string what;     ///< `needs a number`
};

/// `library`: nvml, cuda, cufile or verbs. Null is a library that was not asked.
[[nodiscard]] std::optional<WrongAnswer> wrong_answer(std::string_view library,
                                                      const core::Json& answers);

}  // namespace nobounce::recording
