// Reads /sys/class/infiniband: one entry per RDMA device, its function on the bus, and its port.
#include "topology/nics.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "topology/sysfs_text.hpp"

namespace nobounce::topology {
namespace {

/// Whole gigabits of `400 Gb/sec (4X NDR)` and `2.5 Gb/sec (1X SDR)`.
std::uint32_t rate_of(std::string_view text) {
  const std::string_view whole = text.substr(0, text.find_first_of(". "));
  const auto number = number_of(whole);
  constexpr std::int64_t rate_max = 100000;
  return number.has_value() && *number > 0 && *number < rate_max
             ? static_cast<std::uint32_t>(*number)
             : 0;
}

LinkLayer layer_of(std::string_view text) {
  if (text == "InfiniBand") return LinkLayer::infiniband;
  if (text == "Ethernet") return LinkLayer::ethernet;
  return LinkLayer::unknown;
}

/// Adapters whose queue pairs are of other types only: AWS EFA (SRD), Cisco usNIC (UD).
bool has_reliable_connections(std::string_view driver) {
  return driver != "efa" && driver != "enic" && driver != "usnic_verbs";
}

class NicReader {
 public:
  NicReader(system::Files& files, const PciTree& tree) : files_(files), tree_(tree) {}

  FoundNic read(const std::string& name) {
    FoundNic found;
    Nic& nic = found.nic;
    nic = Nic{};
    nic.name = name;
    const Result<std::string> path = files_.real_path("/sys/class/infiniband/" + name);
    if (path) found.function = tree_.owner_of(*path);
    const std::string folder = path ? *path : "/sys/class/infiniband/" + name;
    nic.firmware = text_at(files_, folder + "/fw_ver");
    nic.driver.clear();
    nic.ats = Answer::unknown;
    if (found.function != nullptr) read_function(*found.function, nic);
    nic.reliable_connections = has_reliable_connections(nic.driver);
    const std::string port = read_port(folder, nic);
    nic.netdev = text_at(files_, port + "/gid_attrs/ndevs/0");
    if (nic.netdev.empty() && found.function != nullptr) {
      std::vector<std::string> names = names_in(files_, found.function->path + "/net");
      std::sort(names.begin(), names.end(),
                [](const std::string& a, const std::string& b) { return natural_less(a, b); });
      if (!names.empty()) nic.netdev = names.front();
    }
    return found;
  }

 private:
  void read_function(const PciFunction& function, Nic& nic) {
    nic.bdf = function.bdf;
    nic.link = tree_.link_of(function);
    nic.pci_id = function.id();
    nic.driver = tree_.driver_of(function);
    nic.ats = tree_.ats_of(function);
  }

  /// The first active port, else the first. Its folder.
  std::string read_port(const std::string& folder, Nic& nic) {
    std::vector<std::string> ports = names_in(files_, folder + "/ports");
    std::sort(ports.begin(), ports.end(),
              [](const std::string& a, const std::string& b) { return natural_less(a, b); });
    nic.active = false;
    nic.rate_gbps = 0;
    nic.link_layer = LinkLayer::unknown;
    std::string chosen;
    for (const std::string& number : ports) {
      const std::string port = folder + "/ports/" + number;
      const bool active = text_at(files_, port + "/state").find("ACTIVE") != std::string::npos;
      if (!chosen.empty() && !active) continue;
      chosen = port;
      nic.active = active;
      nic.rate_gbps = rate_of(text_at(files_, port + "/rate"));
      nic.link_layer = layer_of(text_at(files_, port + "/link_layer"));
      if (active) break;
    }
    return chosen.empty() ? folder + "/ports/1" : chosen;
  }

  system::Files& files_;
  const PciTree& tree_;
};

}  // namespace

std::vector<FoundNic> read_nics(system::Files& files, const PciTree& tree) {
  std::vector<std::string> names = names_in(files, "/sys/class/infiniband");
  std::sort(names.begin(), names.end(),
            [](const std::string& a, const std::string& b) { return natural_less(a, b); });
  NicReader reader(files, tree);
  std::vector<FoundNic> nics;
  for (const std::string& name : names) nics.push_back(reader.read(name));
  return nics;
}

}  // namespace nobounce::topology
