// A tree of small files in memory: text, text made on reading, directories and symbolic links.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nobounce/result.hpp>

#include "system/files.hpp"

namespace nobounce::fabric {

/// Filled by one thread, then read by any number. Paths are absolute and without `.` and `..`.
class FileTree : public system::Files {
 public:
  FileTree();

  /// Parents are created on the way; a second file of the same path replaces the first.
  void add_text(std::string_view path, std::string text);
  void add_made_text(std::string_view path, std::function<std::string()> make);
  void add_directory(std::string_view path);
  /// A link with a relative target, as sysfs makes them, from its own directory to an absolute
  /// path.
  void add_link(std::string_view path, std::string_view absolute_target);
  /// Hides a path and all below it while `visible()` is false.
  void show_while(std::string_view path, std::function<bool()> visible);

  [[nodiscard]] Result<std::string> read(std::string_view path) override;
  [[nodiscard]] Result<std::vector<std::string>> list(std::string_view path) override;
  [[nodiscard]] Result<std::string> read_link(std::string_view path) override;
  [[nodiscard]] Result<std::string> real_path(std::string_view path) override;
  [[nodiscard]] bool exists(std::string_view path) override;

 private:
  struct Node {
    enum class Kind : std::uint8_t { directory, text, made_text, link };
    Kind kind = Kind::directory;
    std::string text;  ///< content, or the target of a link
    std::function<std::string()> make;
  };

  void add(std::string_view path, Node node);
  [[nodiscard]] const Node* find(const std::string& path) const;
  [[nodiscard]] bool hidden(std::string_view path) const;
  /// The path with links resolved (the last component's only if asked), or an errno.
  [[nodiscard]] std::pair<std::string, int> resolve(std::string_view path, bool follow_last) const;

  std::map<std::string, Node, std::less<>> nodes_;
  std::vector<std::pair<std::string, std::function<bool()>>> conditions_;
};

/// `../../devices/x`: the way from a directory to a path, both absolute.
[[nodiscard]] std::string relative_path(std::string_view from_directory, std::string_view to);

}  // namespace nobounce::fabric
