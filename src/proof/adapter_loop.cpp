// Serving to oneself, under a token that nobody else learns.
#include "proof/adapter_loop.hpp"

#include <array>
#include <cstddef>
#include <utility>

namespace nobounce::proof {

namespace {

std::string fresh_token(system::Host& host) {
  std::array<std::byte, 32> drawn{};
  host.entropy().fill(drawn);
  constexpr const char* digits = "0123456789abcdef";
  std::string token;
  for (const std::byte byte : drawn) {
    const auto value = std::to_integer<unsigned>(byte);
    token += digits[value >> 4];
    token += digits[value & 15];
  }
  return token;
}

}  // namespace

AdapterLoop::AdapterLoop(Region region, Server server, Export offered, Peer peer)
    : region_(std::move(region)),
      server_(std::move(server)),
      offered_(std::move(offered)),
      peer_(std::move(peer)) {}

Result<std::unique_ptr<AdapterLoop>> AdapterLoop::open(Session& session, system::Host& host,
                                                       std::uint32_t gpu,
                                                       const std::string& adapter,
                                                       std::uint64_t length_bytes,
                                                       std::uint64_t seed) {
  Result<Region> region = session.allocate(gpu, length_bytes);
  if (!region.ok()) return std::move(region).error();
  if (Status filled = session.fill_pattern(region->place(), seed); !filled.ok()) {
    return std::move(filled).error();
  }
  ListenOptions listening;
  listening.token = fresh_token(host);
  listening.name = "loop";
  listening.adapters = {adapter};
  Result<Server> server = session.listen(listening);
  if (!server.ok()) return std::move(server).error();
  Result<Export> offered = server->serve(*region, export_name, RemoteAccess::write);
  if (!offered.ok()) return std::move(offered).error();
  ConnectOptions connecting;
  connecting.token = listening.token;
  connecting.adapters = {adapter};
  Result<Peer> peer = session.connect(server->address(), connecting);
  if (!peer.ok()) return std::move(peer).error();
  return std::unique_ptr<AdapterLoop>(new AdapterLoop(std::move(*region), std::move(*server),
                                                      std::move(*offered), std::move(*peer)));
}

}  // namespace nobounce::proof
