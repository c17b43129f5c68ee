// A GPU joined to itself by an adapter of the same machine: what `prove` needs where no other
// machine is at hand.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <nobounce/peer.hpp>
#include <nobounce/result.hpp>
#include <nobounce/session.hpp>
#include "system/host.hpp"

namespace nobounce::cli {

/// A region of the GPU, served on loopback and used by the same session, over that adapter alone.
/// Gone before its session.
class AdapterLoop {
 public:
  static constexpr const char* export_name = "loop";

  [[nodiscard]] static Result<std::unique_ptr<AdapterLoop>> open(Session& session,
                                                                 system::Host& host,
                                                                 std::uint32_t gpu,
                                                                 const std::string& adapter,
                                                                 std::uint64_t length_bytes);
  [[nodiscard]] Peer& peer() { return peer_; }

 private:
  AdapterLoop(Region region, Server server, Export offered, Peer peer);

  Region region_;
  Server server_;
  Export offered_;
  Peer peer_;
};

}  // namespace nobounce::cli
