// open and write, in order and without offsets.
#include "system/append.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstddef>
#include <string>

#include "system/descriptor.hpp"

namespace nobounce::system {

Status append_to(std::string_view path, std::string_view text) {
  const std::string name(path);
  const auto failed = [&name](int code) { return os_error(code, "write " + name); };
  // O_NONBLOCK for the open alone: it would wait for a reader that never comes.
  const Descriptor file(
      ::open(name.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file.valid()) return failed(errno);
  const int flags = ::fcntl(file.number(), F_GETFL);
  if (flags < 0 || ::fcntl(file.number(), F_SETFL, flags & ~O_NONBLOCK) != 0) return failed(errno);
  while (!text.empty()) {
    const ssize_t put = ::write(file.number(), text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return failed(errno);
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

}  // namespace nobounce::system
