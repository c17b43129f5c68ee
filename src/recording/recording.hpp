// A recording: what was read of a machine, as one value, and its document `nobounce.recording/1`.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nobounce/result.hpp>
#include "core/json.hpp"

namespace nobounce::recording {

/// Paths are absolute as on the machine. What is in none of the maps was not there.
struct FileRecord {
  std::map<std::string, std::string, std::less<>> texts;
  std::map<std::string, std::vector<std::string>, std::less<>> folders;  ///< names in it
  std::map<std::string, std::string, std::less<>> links;  ///< path -> path it leads to
  std::map<std::string, int, std::less<>> unreadable;     ///< path -> errno
};

struct Recording {
  std::string name = "machine";
  std::string taken_with;  ///< version of nobounce
  FileRecord files;
  std::map<std::string, std::string, std::less<>> environment;
  /// Folders that files were asked about in: their real paths, or the errno that came instead.
  std::map<std::string, std::string, std::less<>> places;
  std::map<std::string, int, std::less<>> missing_places;
  core::Json nvml;  ///< what the tables answered; null: not asked
  core::Json cuda;
  core::Json cufile;
  core::Json verbs;
};

[[nodiscard]] core::Json to_json(const Recording& recording);

/// Origin input; the detail names the pointer.
[[nodiscard]] Result<Recording> recording_from_json(const core::Json& document,
                                                    std::string_view name);

/// Whether a document says that it is a recording.
[[nodiscard]] bool is_recording(const core::Json& document);

/// A failed call as a value, and back.
[[nodiscard]] core::Json error_json(const Error& error);
[[nodiscard]] Error error_from_json(const core::Json& json);

}  // namespace nobounce::recording
