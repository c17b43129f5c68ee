// Puts the caller's name of a file into errors.
#include "session/file_names.hpp"

#include <utility>

namespace nobounce::session {

namespace {

constexpr int errno_not_found = 2;  // ENOENT

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

Error shown_as(Error error, const std::string& temporary, const std::string& shown) {
  if (temporary.empty()) return error;
  replace_all(error.attempted, temporary, shown);
  replace_all(error.detail, temporary, shown);
  return error;
}

Error missing_directory(system::Storage& storage, Error error, const std::string& path) {
  if (error.origin != ErrorOrigin::os || error.code != errno_not_found) return error;
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return error;
  const std::string directory = path.substr(0, slash);
  if (storage.status_of(directory).ok()) {  // /proc and the like
    error.detail = directory + " takes no new files";
    error.remedy = "write to an ordinary file system";
    return error;
  }
  error.detail = "there is no directory " + directory;
  error.remedy = "mkdir -p " + directory;
  return error;
}

}  // namespace nobounce::session
