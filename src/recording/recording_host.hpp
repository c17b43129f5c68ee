// RecordingHost: another host, with a note of every file that was asked for.
#pragma once

#include <memory>

#include "recording/recording.hpp"
#include "system/host.hpp"

namespace nobounce::recording {

/// Whatever is read through this host's files and environment is added to `recording`, long files
/// cut to the lines that matter. Both must outlive it.
[[nodiscard]] std::unique_ptr<system::Host> make_recording_host(system::Host& inner,
                                                                Recording& recording);

/// Writes down that a folder is there, or why it cannot be looked at.
void note_place(system::Host& host, const std::string& path, Recording& recording);

}  // namespace nobounce::recording
