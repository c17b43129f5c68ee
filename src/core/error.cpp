// Errors as one line of text, and the remedy that goes with them.
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
  return error.remedy.empty() ? cause_row(error.cause).remedy : std::string_view(error.remedy);
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
