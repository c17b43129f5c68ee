// Remedies by errno and origin.
#include "cli/remedy.hpp"

#include <cerrno>

namespace nobounce::cli {

namespace {

/// Beside those that the library knows.
const char* os_remedy(std::int64_t code) {
  switch (code) {
    case ENOMEM:
      return "free -h shows what is free, ulimit -v and ulimit -l what this shell may use; of "
             "copy, "
             "--pinned-bytes 8MiB stages through less";
    case EADDRINUSE:
      return "another process listens there (ss -ltnp shows which): name another port, or port 0 "
             "for a free one";
    case EADDRNOTAVAIL:
      return "this machine has no such address: ip -brief address shows those it has";
    case ELOOP:
      return "symbolic links lead in a circle: readlink FILE shows where each leads";
    case ENAMETOOLONG:
      return "a name may have 255 bytes, a path 4095: use shorter ones, or go into the directory "
             "first";
    case EBUSY:
    case ETXTBSY:
      return "somebody uses it: fuser -v FILE shows who";
    case ENXIO:
    case ENODEV:
      return "the device behind it is not there; dmesg may say why";
    case EXDEV:
      return "the two names lie on different file systems: name a file on the same one";
    case EINVAL:
    case EOPNOTSUPP:
      return "what lies behind it does not take this; a regular file on a local disk does";
    case EINTR:
    case EAGAIN:
      return "run it again";
    case ENOLCK:
    case ESTALE:
      return "the file server no longer knows it: mount it anew";
    case ECONNREFUSED:
      return "nobody listens there: look at the address and port that nobounce serve printed";
    case ECONNRESET:
    case EPIPE:
      return "the other side ended the connection: look there for the reason";
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ETIMEDOUT:
      return "no way there, or a firewall: ping and ip route show more";
    case EPROTONOSUPPORT:
    case EAFNOSUPPORT:
      return "this kernel does not speak that kind of address: try the other one (IPv4, IPv6)";
    default:
      return "the number is an errno: its meaning is in errno(3)";
  }
}

}  // namespace

Error with_remedy(Error error) {
  if (!remedy_of(error).empty()) return error;
  switch (error.origin) {
    case ErrorOrigin::os:
      error.remedy = os_remedy(error.code);
      break;
    case ErrorOrigin::cuda:
    case ErrorOrigin::nvml:
      error.remedy = "nvidia-smi shows the state of the driver and of each GPU";
      break;
    case ErrorOrigin::cufile:
      error.remedy =
          "nobounce check shows what direct storage lacks; --policy staged_only does without";
      break;
    case ErrorOrigin::policy:
      error.remedy = "--policy direct_preferred admits staging";
      break;
    case ErrorOrigin::input:
      error.remedy = "nobounce COMMAND --help says what a command takes";
      break;
    case ErrorOrigin::verbs:
      error.remedy = "nobounce check --member rdma shows the adapters and what they lack";
      break;
    case ErrorOrigin::nvme:
      error.remedy = "the drive's own error log (nvme error-log) says more";
      break;
    case ErrorOrigin::remote:
      error.remedy = "the log of nobounce serve on the far side says more";
      break;
    case ErrorOrigin::session:
    case ErrorOrigin::fabric:
      error.remedy = "run it again; nobounce check shows what is missing";
      break;
  }
  return error;
}

}  // namespace nobounce::cli
