// Reading small files whole, also those that report size 0, below a root.
#include "system/live_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <utility>

#include "system/descriptor.hpp"

namespace nobounce::system {
namespace {

constexpr std::size_t content_limit_bytes = std::size_t{16} << 20;
// The kernel composes many files anew for every read(), so a large buffer gives the most coherent
// text.
constexpr std::size_t read_step_bytes = std::size_t{64} << 10;

class LiveFiles final : public Files {
 public:
  explicit LiveFiles(std::string root) : root_(std::move(root)) {
    while (!root_.empty() && root_.back() == '/') root_.pop_back();
  }

  Result<std::string> read(std::string_view path) override;
  Result<std::vector<std::string>> list(std::string_view path) override;
  Result<std::string> read_link(std::string_view path) override;
  Result<std::string> real_path(std::string_view path) override;
  bool exists(std::string_view path) override {
    return ::access(below_root(path).c_str(), F_OK) == 0;
  }

 private:
  [[nodiscard]] std::string below_root(std::string_view path) const {
    std::string full = root_;
    if (path.empty() || path.front() != '/') full += '/';
    full += path;
    return full;
  }

  std::string root_;  // without a trailing slash: empty for /
};

Result<std::string> LiveFiles::read(std::string_view path) {
  const auto failed = [&](int code) { return os_error(code, "read " + std::string(path)); };
  // O_NONBLOCK: a FIFO put in place of a file must not hang us.
  const Descriptor file(
      ::open(below_root(path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid()) return failed(errno);
  std::string content;
  for (;;) {
    const std::size_t before = content.size();
    content.resize(before + read_step_bytes);
    const ssize_t got = ::read(file.number(), content.data() + before, read_step_bytes);
    const int code = errno;
    content.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && code == EINTR) continue;
    if (got < 0) return failed(code);
    if (got == 0) return content;
    if (content.size() > content_limit_bytes) return failed(EFBIG);
  }
}

Result<std::vector<std::string>> LiveFiles::list(std::string_view path) {
  const auto failed = [&](int code) { return os_error(code, "list " + std::string(path)); };
  DIR* const directory = ::opendir(below_root(path).c_str());
  if (directory == nullptr) return failed(errno);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  const int code = errno;
  ::closedir(directory);
  if (code != 0) return failed(code);
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> LiveFiles::read_link(std::string_view path) {
  char target[PATH_MAX];
  const ssize_t length = ::readlink(below_root(path).c_str(), target, sizeof target);
  if (length < 0) return os_error(errno, "read the link " + std::string(path));
  return std::string(target, static_cast<std::size_t>(length));
}

Result<std::string> LiveFiles::real_path(std::string_view path) {
  const auto failed = [&](int code) { return os_error(code, "resolve " + std::string(path)); };
  char resolved[PATH_MAX];
  if (::realpath(below_root(path).c_str(), resolved) == nullptr) return failed(errno);
  if (root_.empty()) return std::string(resolved);
  char resolved_root[PATH_MAX];
  if (::realpath(root_.c_str(), resolved_root) == nullptr) return failed(errno);
  const std::string_view full = resolved;
  const std::string_view prefix = resolved_root;
  if (full == prefix) return std::string("/");
  if (full.substr(0, prefix.size()) != prefix || full[prefix.size()] != '/') return failed(EXDEV);
  return std::string(full.substr(prefix.size()));
}

}  // namespace

std::unique_ptr<Files> make_live_files(std::string root) {
  return std::make_unique<LiveFiles>(std::move(root));
}

}  // namespace nobounce::system
