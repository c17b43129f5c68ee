// Copying attributes between open files. The order matters: chown clears set-id bits and
// capabilities, and a mode without write permission refuses attributes.
#include "system/file_attributes.hpp"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "system/descriptor.hpp"

namespace nobounce::system {
namespace {

Error attribute_error(int code, const std::string& what, int file) {
  return os_error(code, what + " of " + path_of_descriptor(file));
}

bool unsupported(int code) {
  return code == ENOTSUP || code == ENOSYS;
}

Result<std::vector<std::string>> attribute_names(int file) {
  std::string text;
  for (;;) {
    const ssize_t needed = ::flistxattr(file, nullptr, 0);
    if (needed < 0 && unsupported(errno)) return std::vector<std::string>();
    if (needed < 0) return attribute_error(errno, "list the attributes", file);
    text.resize(static_cast<std::size_t>(needed));
    if (needed == 0) break;
    const ssize_t got = ::flistxattr(file, text.data(), text.size());
    if (got < 0 && errno == ERANGE) continue;  // somebody added one in between
    if (got < 0) return attribute_error(errno, "list the attributes", file);
    text.resize(static_cast<std::size_t>(got));
    break;
  }
  std::vector<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    names.emplace_back(text.c_str() + at);
    at += names.back().size() + 1;
  }
  return names;
}

/// The value, or nothing where the file has no such attribute.
Result<std::optional<std::string>> attribute_value(int file, const std::string& name) {
  std::string value;
  for (;;) {
    const ssize_t needed = ::fgetxattr(file, name.c_str(), nullptr, 0);
    ssize_t got = needed;
    if (needed > 0) {
      value.resize(static_cast<std::size_t>(needed));
      got = ::fgetxattr(file, name.c_str(), value.data(), value.size());
    }
    if (got >= 0) {
      value.resize(static_cast<std::size_t>(got));
      return std::optional<std::string>(std::move(value));
    }
    if (errno == ENODATA || unsupported(errno)) return std::optional<std::string>();
    if (errno != ERANGE) return attribute_error(errno, "read the attribute " + name, file);
  }
}

Status copy_extended(int source, int target) {
  const auto wanted = attribute_names(source);
  if (!wanted) return wanted.error();
  for (const std::string& name : *wanted) {
    const auto value = attribute_value(source, name);
    if (!value) return value.error();
    if (!value->has_value()) continue;
    const auto present = attribute_value(target, name);
    if (present && *present == *value) continue;  // labels are often equal and may not be set
    if (::fsetxattr(target, name.c_str(), (*value)->data(), (*value)->size(), 0) != 0) {
      return attribute_error(errno, "set the attribute " + name, target);
    }
  }
  const auto present = attribute_names(target);
  if (!present) return present.error();
  for (const std::string& name : *present) {
    // A directory's default access list lands on new files and would grant what the source does
    // not.
    const bool grants = std::string_view(name).substr(0, 16) == "system.posix_acl";
    if (!grants || std::find(wanted->begin(), wanted->end(), name) != wanted->end()) continue;
    if (::fremovexattr(target, name.c_str()) != 0) {
      return attribute_error(errno, "remove the attribute " + name, target);
    }
  }
  return {};
}

}  // namespace

Status copy_file_attributes(int source, int target) {
  struct stat wanted {};
  struct stat present {};
  if (::fstat(source, &wanted) != 0) return attribute_error(errno, "read the status", source);
  if (::fstat(target, &present) != 0) return attribute_error(errno, "read the status", target);
  const bool same_owner = wanted.st_uid == present.st_uid && wanted.st_gid == present.st_gid;
  if (!same_owner && ::fchown(target, wanted.st_uid, wanted.st_gid) != 0) {
    return attribute_error(errno, "set the owner", target);
  }
  if (Status copied = copy_extended(source, target); !copied) return copied;
  if (::fchmod(target, wanted.st_mode & 07777u) != 0) {
    return attribute_error(errno, "set the mode", target);
  }
  return {};
}

}  // namespace nobounce::system
