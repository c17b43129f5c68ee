// What stands behind a File: its descriptors, and for a file being written how it will appear.
#pragma once

#include <cstdint>
#include <string>

#include <nobounce/file.hpp>
#include "session/session_state.hpp"

namespace nobounce::session {

struct FileState {
  FileState(SessionState& owner, std::uint32_t file_id, std::string shown_path);
  /// Closes; a file that was to be replaced and was not committed leaves no trace.
  ~FileState();
  FileState(const FileState&) = delete;
  FileState& operator=(const FileState&) = delete;

  [[nodiscard]] Status commit(bool durable);
  void close();
  /// Whether all that was to be written to it is there.
  [[nodiscard]] Status check_written() const;

  SessionState& session;
  std::uint32_t id;
  std::string path;            ///< as shown
  std::string final_path;      ///< where it appears, symbolic links resolved
  std::string temporary_path;  ///< empty: written in place, or read
  bool writable = false;
  bool in_place = false;
  bool committed = false;
  bool closed = false;
  bool replaces = false;  ///< opened to be replaced, though perhaps written in place
  FileGaps gaps = FileGaps::refused;
  std::uint64_t length_bytes = 0;
};

/// Whether somebody changed an open file since it was opened, as its status tells. A status that
/// cannot be read tells nothing.
[[nodiscard]] bool changed_since_opening(const SessionState& state, std::uint32_t file);

}  // namespace nobounce::session
