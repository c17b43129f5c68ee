// Errors are values: where they came from, the native code, what was attempted, and how to go on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nobounce/cause.hpp>

namespace nobounce {

/// Who reported the error; `code` is in that origin's own numbering.
enum class ErrorOrigin : std::uint8_t {
  os,       ///< code is an errno
  cuda,     ///< code is a CUresult
  nvml,     ///< code is an nvmlReturn_t
  cufile,   ///< code is a CUfileOpError (5000 + n)
  policy,   ///< the policy of the transfer refused it; code is 0
  input,    ///< an argument, file or field is wrong; code is 0
  session,  ///< misuse or state of the session (closed, forked, deadline passed, cancelled); code
            ///< is 0
  fabric,   ///< the software machine itself refused; code is 0
  verbs,    ///< code is an ibv_wc_status
  nvme,     ///< code is the status field of a completion entry: type << 8 | status code
  remote,   ///< the far side of a connection refused or failed; code is 0
};

[[nodiscard]] std::string_view to_string(ErrorOrigin origin);

struct Error {
  ErrorOrigin origin = ErrorOrigin::session;
  std::int64_t code = 0;
  std::string attempted;      ///< "open /data/a.bin for reading"
  Cause cause = Cause::none;  ///< the table's cause, where one fits
  std::string detail;         ///< what exactly was wrong, in the origin's words; may be empty
  std::string remedy;         ///< how to go on; empty means the cause's remedy

  bool operator==(const Error&) const = default;
};

/// One line: `open /data/a.bin for reading: No such file or directory (os 2)`, then the cause id if
/// any.
[[nodiscard]] std::string to_string(const Error& error);

/// The remedy to show: the error's own, else its cause's, else that of its errno where it is a
/// common one (origin os), else empty.
[[nodiscard]] std::string_view remedy_of(const Error& error);

/// An Error of origin `os` with strerror text as detail.
[[nodiscard]] Error os_error(int errno_value, std::string attempted, Cause cause = Cause::none);

}  // namespace nobounce
