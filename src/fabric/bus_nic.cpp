// What adapters do on the bus: DMA between memory and their packets.
#include <cstring>

#include "fabric/bus_soft.hpp"

namespace nobounce::fabric {

namespace {

DeviceRef nic_ref(std::uint32_t nic) {
  return {DeviceRef::Kind::nic, static_cast<std::uint16_t>(nic)};
}

Extent wire_at(std::uint64_t address) {
  return {Space{Space::Kind::wire, 0}, address, 0, false};
}

}  // namespace

Carried SoftBus::send_packet(std::uint32_t nic, BusAddress source, std::span<std::byte> packet,
                             std::uint64_t wire_address) {
  if (packet.empty()) return {};
  reseal();
  const End end = End::at(source);
  const auto memory = memory_at(end, packet.size());
  if (!memory || nic >= machine_.nics.size()) return {.outcome = BusOutcome::bad_address};
  const Request request{{Initiator::Kind::nic, nic},
                        memory->extent,
                        wire_at(wire_address),
                        packet.size(),
                        Link::none,
                        false};
  const Way way = way_between(nic_ref(nic), *memory, end, false, packet.size());
  if (way.outcome != BusOutcome::done) return lose(way, request);
  std::memcpy(packet.data(), memory->pointer, packet.size());
  return write_down(way.route, request);
}

Carried SoftBus::receive_packet(std::uint32_t nic, std::span<const std::byte> packet,
                                std::uint64_t wire_address, BusAddress target) {
  if (packet.empty()) return {};
  reseal();
  const End end = End::at(target);
  const auto memory = memory_at(end, packet.size());
  if (!memory || nic >= machine_.nics.size()) return {.outcome = BusOutcome::bad_address};
  const Request request{{Initiator::Kind::nic, nic},
                        wire_at(wire_address),
                        memory->extent,
                        packet.size(),
                        Link::none,
                        false};
  const Way way = way_between(nic_ref(nic), *memory, end, true, packet.size());
  if (way.outcome != BusOutcome::done) return lose(way, request);
  if (!planted(Mutant::bus_write_dropped)) {
    std::memcpy(landing(*memory), packet.data(), landing_bytes(packet.size()));
  }
  return write_down(way.route, request);
}

}  // namespace nobounce::fabric
