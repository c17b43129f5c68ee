// The words for yes and no in variables of libcufile.
#pragma once

#include <optional>
#include <string_view>

namespace nobounce::core {

/// Nothing for words that libcufile does not take.
[[nodiscard]] inline std::optional<bool> cufile_flag(std::string_view text) {
  if (text == "true" || text == "TRUE" || text == "True" || text == "1") return true;
  if (text == "false" || text == "FALSE" || text == "False" || text == "0") return false;
  return std::nullopt;
}

}  // namespace nobounce::core
