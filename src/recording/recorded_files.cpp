// Answers from the maps of a recording.
#include "recording/recorded_files.hpp"

#include <algorithm>
#include <cerrno>
#include <set>

namespace nobounce::recording {

std::string RecordedFiles::resolved(std::string_view path, bool last_too) const {
  std::string current(path);
  constexpr int links_max = 40;  // as the kernel counts them
  for (int links = 0; links < links_max; ++links) {
    bool changed = false;
    // The shortest prefix that is a link goes first, as the kernel walks.
    for (std::size_t slash = current.find('/', 1); !changed; slash = current.find('/', slash + 1)) {
      const bool whole = slash == std::string::npos;
      if (whole && !last_too) break;
      const auto link = record_.links.find(std::string_view(current).substr(0, slash));
      const std::string_view prefix = std::string_view(current).substr(0, slash);
      if (link != record_.links.end() && link->second != prefix) {
        current = link->second + (whole ? std::string() : current.substr(slash));
        changed = true;
      }
      if (whole) break;
    }
    if (!changed) break;
  }
  return current;
}

bool RecordedFiles::has_below(const std::string& path) const {
  const std::string prefix = path == "/" ? path : path + "/";
  const auto below = [&prefix](const auto& map) {
    const auto at = map.lower_bound(prefix);
    return at != map.end() && at->first.compare(0, prefix.size(), prefix) == 0;
  };
  return below(record_.texts) || below(record_.folders) || below(record_.links) ||
         below(record_.unreadable);
}

bool RecordedFiles::known(const std::string& path) const {
  return record_.texts.count(path) != 0 || record_.folders.count(path) != 0 ||
         record_.unreadable.count(path) != 0 || has_below(path);
}

Error RecordedFiles::failure(const std::string& path, const char* verb) const {
  const auto refused = record_.unreadable.find(path);
  const int code = refused == record_.unreadable.end() ? ENOENT : refused->second;
  return os_error(code, std::string(verb) + " " + path);
}

Result<std::string> RecordedFiles::read(std::string_view path) {
  for (const std::string& each : {std::string(path), resolved(path, true)}) {
    const auto text = record_.texts.find(each);
    if (text != record_.texts.end()) return text->second;
  }
  Error error = failure(resolved(path, true), "read");
  error.attempted = "read " + std::string(path);
  return error;
}

Result<std::vector<std::string>> RecordedFiles::list(std::string_view path) {
  for (const std::string& each : {std::string(path), resolved(path, true)}) {
    const auto names = record_.folders.find(each);
    if (names != record_.folders.end()) return names->second;
  }
  const std::string folder = resolved(path, true);
  const std::string prefix = folder == "/" ? folder : folder + "/";
  std::set<std::string> names;
  const auto gather = [&](const auto& map) {
    for (auto at = map.lower_bound(prefix); at != map.end(); ++at) {
      if (at->first.compare(0, prefix.size(), prefix) != 0) break;
      const std::size_t end = at->first.find('/', prefix.size());
      names.insert(at->first.substr(prefix.size(), end - prefix.size()));
    }
  };
  gather(record_.texts);
  gather(record_.folders);
  gather(record_.links);
  gather(record_.unreadable);
  if (names.empty()) {
    Error error = failure(folder, "list");
    error.attempted = "list " + std::string(path);
    return error;
  }
  return std::vector<std::string>(names.begin(), names.end());
}

Result<std::string> RecordedFiles::read_link(std::string_view path) {
  const auto link = record_.links.find(resolved(path, false));
  if (link != record_.links.end()) return link->second;
  return os_error(ENOENT, "read the link " + std::string(path));
}

Result<std::string> RecordedFiles::real_path(std::string_view path) {
  const bool linked = record_.links.find(path) != record_.links.end();
  std::string real = resolved(path, true);
  if (linked || known(real)) return real;
  return os_error(ENOENT, "resolve " + std::string(path));
}

bool RecordedFiles::exists(std::string_view path) {
  const std::string real = resolved(path, true);
  return known(real) || record_.links.find(path) != record_.links.end();
}

}  // namespace nobounce::recording
