// The files of a recording, as the machine showed them.
#pragma once

#include "recording/recording.hpp"
#include "system/files.hpp"

namespace nobounce::recording {

/// A path below a recorded link leads to what lies below the link's target. Folders whose names
/// were not recorded hold what is recorded below them.
class RecordedFiles final : public system::Files {
 public:
  explicit RecordedFiles(const FileRecord& record) : record_(record) {}

  [[nodiscard]] Result<std::string> read(std::string_view path) override;
  [[nodiscard]] Result<std::vector<std::string>> list(std::string_view path) override;
  [[nodiscard]] Result<std::string> read_link(std::string_view path) override;
  [[nodiscard]] Result<std::string> real_path(std::string_view path) override;
  [[nodiscard]] bool exists(std::string_view path) override;

 private:
  /// The path with recorded links in front of it resolved; of the last step only where asked.
  [[nodiscard]] std::string resolved(std::string_view path, bool last_too) const;
  [[nodiscard]] bool has_below(const std::string& path) const;
  [[nodiscard]] bool known(const std::string& path) const;
  [[nodiscard]] Error failure(const std::string& path, const char* verb) const;

  const FileRecord& record_;
};

}  // namespace nobounce::recording
