// Captured text from files and standard input.
#pragma once

#include <cstdint>
#include <string>

#include <nobounce/result.hpp>
#include "captures/read_text.hpp"
#include "system/host.hpp"

namespace nobounce::cli {

/// Whose file it is: what helps where it cannot be read.
enum class CaptureUse : std::uint8_t { explain, topology };

/// One text, begun and ended: of a file, or `-` for standard input. In chunks: memory is bounded.
[[nodiscard]] Status read_capture(system::Host& host, const std::string& path,
                                  captures::TextReader& reader,
                                  CaptureUse use = CaptureUse::explain);

}  // namespace nobounce::cli
