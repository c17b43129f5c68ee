// One line of an NCCL or RCCL log: who says it, and what a line of transport in use means. Wordings
// of 2.3 to 2.30.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nobounce::captures {

/// `node:pid:tid [dev] file:line NCCL INFO body`, of which anything may be missing.
struct NcclLine {
  std::string_view host;
  std::string_view process;  ///< `node:pid`
  std::optional<std::uint32_t> device;
  std::string_view body;
  bool marked = false;  ///< the words NCCL INFO, WARN or TRACE are there
};
/// `from`: there is no `NCCL` before it.
[[nodiscard]] NcclLine nccl_line(std::string_view text, std::size_t from = 0);

/// A rank as a line names it: `3[3]` (device), `3[21000]` (bus id), `3`.
struct NcclRank {
  std::uint32_t rank = 0;
  std::string_view bracket;  ///< empty where there is none
};

enum class NcclUseKind : std::uint8_t { peer, shared_memory, network, collective };

/// `Channel 05/0 : 0[0] -> 2[0] [receive] via NET/IB/1(3)/GDRDMA/Shared`.
struct NcclUse {
  NcclUseKind kind = NcclUseKind::peer;
  NcclRank source;
  NcclRank target;
  std::string_view direction;  ///< send, receive; empty for local transports
  std::string_view transport;  ///< all behind `via`
  std::string_view plugin;     ///< IB, Socket, AWS Libfabric
  std::optional<std::uint32_t> adapter;
  std::optional<std::uint32_t> proxy;
  bool gdrdma = false;
  bool cut = false;  ///< the end is missing: cannot be told
};
/// Where ` via ` stands.
[[nodiscard]] std::size_t nccl_via(std::string_view body);
/// Nothing where the body is no such line.
[[nodiscard]] std::optional<NcclUse> nccl_use(std::string_view body);

/// 2.20.5 as 22005.
[[nodiscard]] std::uint32_t nccl_version_number(std::string_view version);
/// Name of a distance in that version: PIX, PXB, PHB, ...; empty where nobody can tell.
[[nodiscard]] std::string_view nccl_distance_name(std::uint32_t version, std::uint64_t distance);

}  // namespace nobounce::captures
