// The spelling of a machine's own vocabularies, as its JSON has them.
#include <nobounce/machine.hpp>

namespace nobounce {

std::string_view to_string(IommuMode value) {
  switch (value) {
    case IommuMode::off:
      return "off";
    case IommuMode::identity:
      return "identity";
    case IommuMode::translated:
      return "translated";
    case IommuMode::unknown:
      return "unknown";
    case IommuMode::inherit:
      return "inherit";
  }
  return "invalid";
}

std::string_view to_string(AcsMode value) {
  switch (value) {
    case AcsMode::off:
      return "off";
    case AcsMode::redirect:
      return "redirect";
    case AcsMode::source_validation:
      return "source_validation";
    case AcsMode::unknown:
      return "unknown";
    case AcsMode::inherit:
      return "inherit";
  }
  return "invalid";
}

std::string_view to_string(PeerForwarding value) {
  switch (value) {
    case PeerForwarding::refused:
      return "refused";
    case PeerForwarding::allowed:
      return "allowed";
    case PeerForwarding::unknown:
      return "unknown";
  }
  return "invalid";
}

std::string_view to_string(PeerStatus value) {
  switch (value) {
    case PeerStatus::ok:
      return "ok";
    case PeerStatus::cns:
      return "cns";
    case PeerStatus::gns:
      return "gns";
    case PeerStatus::tns:
      return "tns";
    case PeerStatus::ns:
      return "ns";
    case PeerStatus::dr:
      return "dr";
    case PeerStatus::unknown:
      return "unknown";
  }
  return "invalid";
}

std::string_view to_string(GpuMode value) {
  switch (value) {
    case GpuMode::whole:
      return "whole";
    case GpuMode::mig:
      return "mig";
    case GpuMode::vgpu:
      return "vgpu";
    case GpuMode::integrated:
      return "integrated";
  }
  return "invalid";
}

std::string_view to_string(LinkLayer value) {
  switch (value) {
    case LinkLayer::infiniband:
      return "infiniband";
    case LinkLayer::ethernet:
      return "ethernet";
    case LinkLayer::unknown:
      return "unknown";
  }
  return "invalid";
}

std::string_view to_string(Answer value) {
  switch (value) {
    case Answer::no:
      return "no";
    case Answer::yes:
      return "yes";
    case Answer::unknown:
      return "unknown";
  }
  return "invalid";
}

std::string_view to_string(FabricManager value) {
  switch (value) {
    case FabricManager::not_needed:
      return "not_needed";
    case FabricManager::running:
      return "running";
    case FabricManager::absent:
      return "absent";
    case FabricManager::unknown:
      return "unknown";
  }
  return "invalid";
}

std::string to_string(const Parent& parent) {
  const std::string index = std::to_string(parent.index);
  switch (parent.kind) {
    case Parent::Kind::host_bridge:
      return "host_bridge:" + index;
    case Parent::Kind::pci_switch:
      return "switch:" + index;
    case Parent::Kind::nic:
      return "nic:" + index;
  }
  return "invalid";
}

}  // namespace nobounce
