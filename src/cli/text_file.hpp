// Whole text files of the user, through the host's storage.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nobounce/result.hpp>
#include "cli/console.hpp"
#include "system/host.hpp"

namespace nobounce::cli {

/// At most 64 MiB.
[[nodiscard]] Result<std::string> read_text_file(system::Host& host, const std::string& path);

/// What became of it.
struct WrittenFile {
  bool printed = false;                         ///< it is this process's standard output
  std::optional<std::uint64_t> replaced_bytes;  ///< how long the file was that stood there
};

/// Whether write_text_file will find room and a place there, as far as that can be known before:
/// nothing stays behind. For what takes long to come by.
[[nodiscard]] Status try_text_file(system::Host& host, const std::string& path);

/// A regular file, behind links too, appears whole or not at all: it is written under another name
/// in the same folder, synced, then renamed. A pipe, a terminal or a device like /dev/null is
/// written to and stays what it is; what is this process's standard output is printed. Folders,
/// drives and sockets are refused.
[[nodiscard]] Status write_text_file(Console& console, system::Host& host, const std::string& path,
                                     const std::string& text, WrittenFile* written = nullptr);

}  // namespace nobounce::cli
