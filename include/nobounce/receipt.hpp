// The receipt of one transfer: what happened, by which carriage, and how strongly that is known.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

#include <nobounce/cause.hpp>
#include <nobounce/words.hpp>

namespace nobounce {

/// Which device of the session's machine an end of a transfer lies on. Names come from the session.
struct DeviceRef {
  enum class Kind : std::uint8_t { none, gpu, nic, drive, host, file, remote };
  Kind kind = Kind::none;
  std::uint16_t index = 0;  ///< gpu/nic/drive index in the machine; file id; NUMA node for host
  constexpr bool operator==(const DeviceRef&) const = default;
};

/// What happened to one transfer. Trivially copyable, allocates nothing, at most 256 bytes.
/// On refusal every byte count is zero and `causes` says why; on failure the bytes that did arrive
/// are counted.
struct Receipt {
  static constexpr std::size_t causes_max = 8;

  std::uint64_t transfer_id = 0;
  std::uint64_t requested_bytes = 0;
  CarriageBytes bytes;             ///< bytes that arrived, by carriage
  std::uint64_t started_ns = 0;    ///< session clock (monotonic)
  std::uint64_t elapsed_ns = 0;    ///< submission to completion; verification lies outside
  std::uint64_t pinned_bytes = 0;  ///< bounce memory in host DRAM that this transfer used, at most
  Member member = Member::host;
  TransferState state = TransferState::done;
  Link link = Link::none;
  Issuer issuer = Issuer::host;
  Poster poster = Poster::cpu;
  Policy policy = Policy::direct_preferred;
  Known known = Known::claimed;
  std::uint8_t cause_count = 0;
  bool durable = false;  ///< the target file and its directory entry were synced before completion
  bool software_machine = false;  ///< moved by a software machine: times mean nothing
  bool degraded = false;          ///< direct, but slower than it should be
  std::uint16_t segments = 0;     ///< segments of the route
  DeviceRef source;
  DeviceRef target;
  std::array<Cause, causes_max> causes{};  ///< the first `cause_count` hold, most important first

  /// Adds a cause once; further ones than fit are dropped (the route keeps them all).
  constexpr void add_cause(Cause cause) {
    if (cause == Cause::none) return;
    for (std::uint8_t i = 0; i < cause_count; ++i) {
      if (causes[i] == cause) return;
    }
    if (cause_count < causes_max) causes[cause_count++] = cause;
  }
};

/// What a receipt is shown with and only its session knows (Session::names_of).
struct ReceiptNames {
  std::string source;  ///< `file:/data/a.bin`, `gpu:0`
  std::string target;
  std::string machine_kind;  ///< live or soft
  std::string machine_name;
};

static_assert(std::is_trivially_copyable_v<Receipt>);
static_assert(sizeof(Receipt) <= 256);

}  // namespace nobounce
