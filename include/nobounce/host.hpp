// Hosts as a user sees them: this machine, to be handed to a Session.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace nobounce {

/// What a host is: the real machine, a software machine, or a recording (judged and reported, moves
/// nothing).
enum class HostKind : std::uint8_t { live, soft, recorded };
[[nodiscard]] std::string_view to_string(HostKind kind);

/// Where sessions are opened. What it consists of is no promise.
class Host;

struct HostDeleter {
  void operator()(Host* host) const;
};
using HostPointer = std::unique_ptr<Host, HostDeleter>;

/// This machine. Loads no library until it is needed. Must outlive every session opened on it.
[[nodiscard]] HostPointer live_host();

}  // namespace nobounce
