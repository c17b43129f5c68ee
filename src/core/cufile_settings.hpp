// What a cufile.json says that makes libcufile stage, or lets it do so in silence. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.hpp"

namespace nobounce::core {

/// Pointer and value of each setting that stages: set so that it does, not merely left out. Sorted.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> staging_settings(
    const Json& document);

/// What such a setting does, in words.
[[nodiscard]] std::string_view staging_effect(std::string_view pointer);

}  // namespace nobounce::core
