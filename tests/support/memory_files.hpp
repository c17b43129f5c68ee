// Files in memory: texts, directories and symbolic links by path, for tests of whatever reads /sys
// and /proc.
#pragma once

#include <cerrno>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "system/files.hpp"

namespace nobounce::support {

class MemoryFiles : public system::Files {
 public:
  void text(const std::string& path, std::string content) { texts_[path] = std::move(content); }
  /// The target is absolute.
  void link(const std::string& path, std::string target) { links_[path] = std::move(target); }
  void directory(const std::string& path) { directories_.insert(path); }
  void remove(const std::string& path) {
    std::erase_if(texts_, [&](const auto& entry) { return within(entry.first, path); });
    std::erase_if(links_, [&](const auto& entry) { return within(entry.first, path); });
    std::erase_if(directories_, [&](const auto& entry) { return within(entry, path); });
  }
  /// Reading or listing it answers this errno.
  void refuse(const std::string& path, int code) { refused_[path] = code; }

  Result<std::string> read(std::string_view path) override {
    const std::string real = resolve(path);
    if (const auto code = refused_.find(real); code != refused_.end())
      return failed(code->second, path);
    const auto at = texts_.find(real);
    if (at == texts_.end()) return failed(is_directory(real) ? EISDIR : ENOENT, path);
    return at->second;
  }

  Result<std::vector<std::string>> list(std::string_view path) override {
    const std::string real = resolve(path);
    if (const auto code = refused_.find(real); code != refused_.end())
      return failed(code->second, path);
    if (!is_directory(real)) return failed(texts_.count(real) != 0 ? ENOTDIR : ENOENT, path);
    std::set<std::string> names;
    const auto add = [&](const std::string& each) {
      if (each.size() <= real.size() + 1 || each.compare(0, real.size() + 1, real + "/") != 0)
        return;
      const std::string rest = each.substr(real.size() + 1);
      names.insert(rest.substr(0, rest.find('/')));
    };
    for (const auto& entry : texts_) add(entry.first);
    for (const auto& entry : links_) add(entry.first);
    for (const std::string& entry : directories_) add(entry);
    return std::vector<std::string>(names.begin(), names.end());
  }

  Result<std::string> read_link(std::string_view path) override {
    const auto at = links_.find(std::string(path));
    if (at == links_.end()) return failed(EINVAL, path);
    return at->second;
  }

  Result<std::string> real_path(std::string_view path) override {
    const std::string real = resolve(path);
    if (texts_.count(real) == 0 && !is_directory(real)) return failed(ENOENT, path);
    return real;
  }

  bool exists(std::string_view path) override { return real_path(path).ok(); }

 private:
  static bool within(const std::string& path, const std::string& above) {
    return path == above || path.compare(0, above.size() + 1, above + "/") == 0;
  }

  static Error failed(int code, std::string_view path) {
    return os_error(code, "read " + std::string(path));
  }

  [[nodiscard]] bool is_directory(const std::string& path) const {
    const auto below = [&](const std::string& each) { return each != path && within(each, path); };
    for (const auto& entry : texts_) {
      if (below(entry.first)) return true;
    }
    for (const auto& entry : links_) {
      if (below(entry.first)) return true;
    }
    for (const std::string& entry : directories_) {
      if (within(entry, path)) return true;
    }
    return false;
  }

  /// Follows links component by component.
  [[nodiscard]] std::string resolve(std::string_view path) const {
    std::string open(path);
    std::string done;
    for (int links = 0; !open.empty() && links < 40;) {
      const std::size_t end = open.find('/', 1);
      const std::string next = done + open.substr(0, end);
      open = end == std::string::npos ? std::string() : open.substr(end);
      const auto at = links_.find(next);
      if (at == links_.end()) {
        done = next;
        continue;
      }
      open = at->second + open;
      done.clear();
      ++links;
    }
    return done;
  }

  std::map<std::string, std::string> texts_;
  std::map<std::string, std::string> links_;
  std::set<std::string> directories_;
  std::map<std::string, int> refused_;
};

}  // namespace nobounce::support
