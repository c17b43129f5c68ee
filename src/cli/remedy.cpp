// Remedies by errno and origin.
#include "cli/remedy.hpp"

#include <cerrno>

namespace nobounce::cli {

namespace {

const char* os_remedy(std::int64_t code) {
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
    case ENOMEM:
      return "free memory, or stage through less: --pinned-bytes 8MiB";
    case EFBIG:
      return "ulimit -f shows the limit of this shell; else the file system takes no file of that "
             "size";
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
      error.remedy = "nobounce --help; nobounce topo shows the devices there are";
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
