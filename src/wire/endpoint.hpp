// What two processes tell each other so that their adapters can talk: queue pairs, and memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <nobounce/cause.hpp>

namespace nobounce::wire {

/// One end of a reliable connection, as the other end must know it to bring its own queue pair to
/// RTR and RTS. Numbers as the specification has them; nothing here is a secret.
struct QueuePairEndpoint {
  std::uint32_t queue_pair = 0;       ///< 24 bits
  std::uint32_t packet_sequence = 0;  ///< 24 bits, drawn anew for each connection
  std::array<std::byte, 16> gid{};
  std::uint8_t gid_index = 0;  ///< at its own port: for messages, and for logs
  std::uint8_t mtu = 0;        ///< the specification's code: 1 (256) to 5 (4096)
  std::uint16_t lid = 0;       ///< 0 over Ethernet
  std::uint8_t port = 1;
  std::uint8_t reads_max = 1;  ///< RDMA reads that it answers at once
  bool ethernet = true;
  bool operator==(const QueuePairEndpoint&) const = default;
};

/// Memory that one end registered for the other: valid for one connection alone.
struct RemoteKey {
  std::uint64_t address = 0;  ///< the adapter's address of the first byte
  std::uint64_t length_bytes = 0;
  std::uint32_t key = 0;  ///< rkey
  bool operator==(const RemoteKey&) const = default;
};

}  // namespace nobounce::wire
