// The spelling of every closed vocabulary, exactly as it is written in reports and JSON.
#include <nobounce/words.hpp>

namespace nobounce {

namespace {

// For a value outside its enum, which only a programming error can make.
constexpr std::string_view not_a_word = "invalid";

}  // namespace

std::string_view to_string(Member value) {
  switch (value) {
    case Member::host:
      return "host";
    case Member::p2p:
      return "p2p";
    case Member::rdma:
      return "rdma";
    case Member::storage:
      return "storage";
    case Member::async:
      return "async";
  }
  return not_a_word;
}

std::string_view to_string(Carriage value) {
  switch (value) {
    case Carriage::direct:
      return "direct";
    case Carriage::device_bounced:
      return "device_bounced";
    case Carriage::in_place:
      return "in_place";
    case Carriage::cpu_mapped:
      return "cpu_mapped";
    case Carriage::staged:
      return "staged";
    case Carriage::unattributed:
      return "unattributed";
  }
  return not_a_word;
}

std::string_view to_string(Link value) {
  switch (value) {
    case Link::none:
      return "none";
    case Link::nvlink:
      return "nvlink";
    case Link::pcie_switch:
      return "pcie_switch";
    case Link::host_bridge:
      return "host_bridge";
    case Link::inter_socket:
      return "inter_socket";
    case Link::c2c:
      return "c2c";
  }
  return not_a_word;
}

std::string_view to_string(Issuer value) {
  switch (value) {
    case Issuer::host:
      return "host";
    case Issuer::stream:
      return "stream";
    case Issuer::kernel:
      return "kernel";
  }
  return not_a_word;
}

std::string_view to_string(Poster value) {
  switch (value) {
    case Poster::cpu:
      return "cpu";
    case Poster::cpu_proxy:
      return "cpu_proxy";
    case Poster::gpu:
      return "gpu";
  }
  return not_a_word;
}

std::string_view to_string(Policy value) {
  switch (value) {
    case Policy::direct_required:
      return "direct_required";
    case Policy::direct_preferred:
      return "direct_preferred";
    case Policy::staged_only:
      return "staged_only";
  }
  return not_a_word;
}

std::string_view to_string(Known value) {
  switch (value) {
    case Known::claimed:
      return "claimed";
    case Known::counted:
      return "counted";
    case Known::witnessed:
      return "witnessed";
  }
  return not_a_word;
}

std::string_view to_string(Verdict value) {
  switch (value) {
    case Verdict::direct:
      return "direct";
    case Verdict::staged:
      return "staged";
    case Verdict::degraded:
      return "degraded";
    case Verdict::impossible:
      return "impossible";
    case Verdict::broken:
      return "broken";
    case Verdict::unknown:
      return "unknown";
  }
  return not_a_word;
}

std::string_view to_string(FindingState value) {
  switch (value) {
    case FindingState::met:
      return "met";
    case FindingState::unmet:
      return "unmet";
    case FindingState::unknown:
      return "unknown";
  }
  return not_a_word;
}

std::string_view to_string(CauseKind value) {
  switch (value) {
    case CauseKind::precondition:
      return "precondition";
    case CauseKind::observed:
      return "observed";
    case CauseKind::measured:
      return "measured";
  }
  return not_a_word;
}

std::string_view to_string(PathLevel value) {
  switch (value) {
    case PathLevel::self:
      return "X";
    case PathLevel::nvlink:
      return "NV";
    case PathLevel::pix:
      return "PIX";
    case PathLevel::pxb:
      return "PXB";
    case PathLevel::phb:
      return "PHB";
    case PathLevel::node:
      return "NODE";
    case PathLevel::sys:
      return "SYS";
  }
  return not_a_word;
}

std::string_view to_string(TransferState value) {
  switch (value) {
    case TransferState::done:
      return "done";
    case TransferState::refused:
      return "refused";
    case TransferState::failed:
      return "failed";
    case TransferState::cancelled:
      return "cancelled";
  }
  return not_a_word;
}

std::optional<Policy> policy_from_string(std::string_view name) {
  for (const Policy policy :
       {Policy::direct_required, Policy::direct_preferred, Policy::staged_only}) {
    if (name == to_string(policy)) return policy;
  }
  return std::nullopt;
}

}  // namespace nobounce
