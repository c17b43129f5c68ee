// Routes over the links of a machine: which ports payload crosses, and whether a host bridge lets
// it pass.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nobounce/machine.hpp>
#include <nobounce/words.hpp>
#include "fabric/mutant.hpp"

namespace nobounce::fabric {

/// One link that payload crosses, in the direction of the data.
struct BusHop {
  std::string link;
  bool towards_device =
      false;  ///< away from the root complex; for links between equals: to the higher number
};

struct BusRoute {
  std::vector<BusHop> hops;      ///< in the order of the data
  std::size_t hops_if_lost = 0;  ///< of these, how many are crossed before a bridge refuses
  Link link = Link::none;
  bool redirected = false;  ///< an ACS port sends it up although the ends share a switch
  bool allowed = true;      ///< nobody on the way refuses it
};

/// All routes of a machine, made once. Devices are GPUs, NICs and drives; a drive behind a NIC
/// travels as that NIC.
class BusRoutes {
 public:
  explicit BusRoutes(const Machine& machine, Mutant mutant = Mutant::none);

  /// Between a device and a NUMA node's memory.
  [[nodiscard]] const BusRoute& to_dram(DeviceRef device, std::uint32_t node) const;
  [[nodiscard]] const BusRoute& from_dram(std::uint32_t node, DeviceRef device) const;
  /// Between two devices over PCIe, as ACS wills; `upwards`: by the host bridge whatever the
  /// switches could do.
  [[nodiscard]] const BusRoute& peer(DeviceRef source, DeviceRef target) const;
  [[nodiscard]] const BusRoute& peer_upwards(DeviceRef source, DeviceRef target) const;
  /// Between two GPUs over NVLink, or null where they have none.
  [[nodiscard]] const BusRoute* nvlink(std::uint32_t source, std::uint32_t target) const;

  /// Who moves a drive's data: the drive, or the NIC it hangs behind.
  [[nodiscard]] DeviceRef mover_of_drive(std::uint32_t drive) const;
  /// The NUMA node beside a device.
  [[nodiscard]] std::uint32_t node_of(DeviceRef device) const;

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;
  [[nodiscard]] static std::uint64_t number(DeviceRef device);
  [[nodiscard]] Parent parent_of(DeviceRef device) const;
  [[nodiscard]] std::uint32_t bridge_of(DeviceRef device) const;
  [[nodiscard]] std::vector<std::string> chain_of(DeviceRef device) const;
  [[nodiscard]] BusRoute make_to_dram(DeviceRef device, std::uint32_t node) const;
  [[nodiscard]] BusRoute make_peer(DeviceRef source, DeviceRef target, bool upwards) const;
  void add_socket_hop(BusRoute& route, std::uint32_t source, std::uint32_t target) const;

  const Machine& machine_;
  const Mutant mutant_;
  std::map<Key, BusRoute> to_dram_;
  std::map<Key, BusRoute> from_dram_;
  std::map<Key, BusRoute> peer_;
  std::map<Key, BusRoute> upwards_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, BusRoute> nvlink_;
};

}  // namespace nobounce::fabric
