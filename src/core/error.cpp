// Errors as one line of text, and the remedy that goes with them.
#include <cerrno>
#include <cstring>
#include <utility>

#include <nobounce/error.hpp>

namespace nobounce {

namespace {

// strerror_r comes in two shapes, chosen by the C library.
[[maybe_unused]] const char* text_of(const char* returned, const char* /*buffer*/) {
  return returned;
}
[[maybe_unused]] const char* text_of(int /*returned*/, const char* buffer) {
  return buffer;
}

bool has_native_codes(ErrorOrigin origin) {
  return origin == ErrorOrigin::os || origin == ErrorOrigin::cuda || origin == ErrorOrigin::nvml ||
         origin == ErrorOrigin::cufile || origin == ErrorOrigin::verbs ||
         origin == ErrorOrigin::nvme;
}

std::string_view errno_remedy(std::int64_t code) {
  switch (code) {
    case ENOENT:
      return "look at the spelling; ls -l shows what is there";
    case EACCES:
    case EPERM:
      return "ls -l shows who may; run it as that user, or ask for the right";
    case ENOSPC:
    case EDQUOT:
      return "df -h shows the free space; make room, or write elsewhere";
    case EROFS:
      return "the file system is mounted read-only; write elsewhere";
    case EISDIR:
      return "it is a directory: name a file in it";
    case ENOTDIR:
      return "a part of the path is a file and no directory; look at the spelling";
    case EIO:
      return "dmesg may name the device at fault";
    case EMFILE:
    case ENFILE:
      return "ulimit -n shows the limit of open files; raise it";
    case EFBIG:
      return "ulimit -f shows the limit of this process; else the file system takes no file of "
             "that size";
    default:
      return {};
  }
}

}  // namespace

std::string_view to_string(ErrorOrigin origin) {
  switch (origin) {
    case ErrorOrigin::os:
      return "os";
    case ErrorOrigin::cuda:
      return "cuda";
    case ErrorOrigin::nvml:
      return "nvml";
    case ErrorOrigin::cufile:
      return "cufile";
    case ErrorOrigin::policy:
      return "policy";
    case ErrorOrigin::input:
      return "input";
    case ErrorOrigin::session:
      return "session";
    case ErrorOrigin::verbs:
      return "verbs";
    case ErrorOrigin::nvme:
      return "nvme";
    case ErrorOrigin::remote:
      return "remote";
    case ErrorOrigin::fabric:
      return "fabric";
  }
  return "invalid";
}

std::string to_string(const Error& error) {
  std::string line = error.attempted;
  const auto add = [&line](std::string_view text) {
    if (text.empty()) return;
    if (!line.empty()) line += ": ";
    line += text;
  };
  if (!error.detail.empty()) {
    add(error.detail);
  } else if (error.cause != Cause::none) {
    add(cause_row(error.cause).sentence);
  } else {
    add("failed");
  }
  if (has_native_codes(error.origin) || error.code != 0) {
    line += " (";
    line += to_string(error.origin);
    line += ' ';
    line += std::to_string(error.code);
    line += ')';
  }
  if (error.cause != Cause::none) {
    line += " [";
    line += to_string(error.cause);
    line += ']';
  }
  return line;
}

std::string_view remedy_of(const Error& error) {
  if (!error.remedy.empty()) return error.remedy;
  const std::string_view of_cause = cause_row(error.cause).remedy;
  if (!of_cause.empty() || error.origin != ErrorOrigin::os) return of_cause;
  return errno_remedy(error.code);
}

Error os_error(int errno_value, std::string attempted, Cause cause) {
  char buffer[256] = "";
  const char* text = text_of(strerror_r(errno_value, buffer, sizeof(buffer)), buffer);
  return Error{.origin = ErrorOrigin::os,
               .code = errno_value,
               .attempted = std::move(attempted),
               .cause = cause,
               .detail = text,
               .remedy = {}};
}

}  // namespace nobounce
