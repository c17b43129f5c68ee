// Whole text files of the user, through the host's storage.
#pragma once

#include <string>

#include <nobounce/result.hpp>
#include "system/host.hpp"

namespace nobounce::cli {

/// At most 64 MiB.
[[nodiscard]] Result<std::string> read_text_file(system::Host& host, const std::string& path);

/// Under another name in the same directory, synced, then renamed: the file appears whole or not at
/// all.
[[nodiscard]] Status write_text_file(system::Host& host, const std::string& path,
                                     const std::string& text);

}  // namespace nobounce::cli
