// Where recorded folders are.
#include "recording/refusing_storage.hpp"

#include <cerrno>
#include <utility>

namespace nobounce::recording {

Error recording_only(std::string attempted) {
  return Error{
      .origin = ErrorOrigin::session,
      .code = 0,
      .attempted = std::move(attempted),
      .cause = Cause::evidence_recording_only,
      .detail = "this is a recording of a machine: it can be judged and reported, not used",
      .remedy = {}};
}

Result<std::string> RefusingStorage::real_path(std::string_view path) {
  const auto place = recording_.places.find(path);
  if (place != recording_.places.end()) return place->second;
  const auto missing = recording_.missing_places.find(path);
  const int code = missing == recording_.missing_places.end() ? ENOENT : missing->second;
  return os_error(code, "resolve " + std::string(path));
}

Result<system::FileStatus> RefusingStorage::status_of(std::string_view path) {
  if (recording_.places.find(path) == recording_.places.end()) {
    return os_error(ENOENT, "look at " + std::string(path));
  }
  system::FileStatus status;
  status.type = system::FileType::directory;
  return status;
}

}  // namespace nobounce::recording
