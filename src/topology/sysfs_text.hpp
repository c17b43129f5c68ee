// Values as the kernel writes them into /sys and /proc: trimmed text, numbers, lists of lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "system/files.hpp"

namespace nobounce::topology {

/// Without blanks and line ends around it.
[[nodiscard]] std::string_view trimmed(std::string_view text);

/// The parts between separators, empty ones left out. Views into `text`.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

/// Decimal, negative, or hexadecimal after 0x, all of the text.
[[nodiscard]] std::optional<std::int64_t> number_of(std::string_view text);

/// The trimmed content of a file; empty where it cannot be read.
[[nodiscard]] std::string text_at(system::Files& files, const std::string& path);

[[nodiscard]] std::optional<std::int64_t> number_at(system::Files& files, const std::string& path);

/// Names in a directory; none where it cannot be read.
[[nodiscard]] std::vector<std::string> names_in(system::Files& files, const std::string& path);

/// The last part of a path.
[[nodiscard]] std::string_view last_part(std::string_view path);

/// nvme2n1 before nvme10n1: digits compare as numbers.
[[nodiscard]] bool natural_less(std::string_view a, std::string_view b);

}  // namespace nobounce::topology
