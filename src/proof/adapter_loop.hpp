// A GPU joined to itself by an adapter of the same machine: what an adapter's row needs where no
// other machine is at hand.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <nobounce/peer.hpp>
#include <nobounce/result.hpp>
#include <nobounce/session.hpp>
#include "system/host.hpp"

namespace nobounce::proof {

/// Memory of the GPU, served on loopback under a token that nobody else learns, and used by the
/// same session over that adapter alone. Must be gone before the session.
class AdapterLoop {
 public:
  static constexpr const char* export_name = "loop";

  /// The served memory is filled with the pattern of `seed`.
  [[nodiscard]] static Result<std::unique_ptr<AdapterLoop>> open(
      Session& session, system::Host& host, std::uint32_t gpu, const std::string& adapter,
      std::uint64_t length_bytes, std::uint64_t seed);
  [[nodiscard]] Peer& peer() { return peer_; }

 private:
  AdapterLoop(Region region, Server server, Export offered, Peer peer);

  Region region_;
  Server server_;
  Export offered_;
  Peer peer_;
};

}  // namespace nobounce::proof
