// The RDMA adapters of this machine, opened when first used, and which of them serve which memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <nobounce/finding.hpp>
#include <nobounce/machine.hpp>
#include <nobounce/result.hpp>
#include "provider/rdma/rdma_provider.hpp"
#include "system/host.hpp"
#include "system/verbs.hpp"

namespace nobounce::provider::rdma {

/// An opened adapter, at its first port.
struct Adapter {
  std::string name;
  std::optional<std::uint32_t> nic;  ///< in Machine::nics; software adapters have no place there
  system::verbs::ibv_context* context = nullptr;
  system::verbs::ibv_port_attr port{};
  system::verbs::ibv_gid gid{};
  std::uint8_t gid_index = 0;
  std::uint8_t reads_max = 1;  ///< RDMA reads at once, as asker and as answerer
  [[nodiscard]] bool ethernet() const {
    return port.link_layer == system::verbs::link_layer_ethernet;
  }
};

struct ChosenAdapters {
  std::vector<std::shared_ptr<const Adapter>> adapters;
  std::vector<Finding> findings;
};

/// Thread-safe.
class Adapters {
 public:
  Adapters(system::Host& host, const Machine& machine) : host_(host), machine_(machine) {}
  ~Adapters();
  Adapters(const Adapters&) = delete;
  Adapters& operator=(const Adapters&) = delete;

  /// libibverbs, or rdma.verbs_absent.
  [[nodiscard]] Result<system::Verbs*> table();
  /// The adapters that are to serve a connection: those named, or the nearest usable ones.
  [[nodiscard]] Result<ChosenAdapters> choose(const RdmaConnectionOptions& options);

 private:
  struct Device {
    std::string name;
    system::verbs::ibv_device* handle = nullptr;
    std::optional<std::uint32_t> nic;
  };
  [[nodiscard]] Status list();
  [[nodiscard]] Result<std::shared_ptr<const Adapter>> open(const Device& device);
  [[nodiscard]] Status read_port(Adapter& adapter) const;
  [[nodiscard]] bool choose_gid(Adapter& adapter) const;
  [[nodiscard]] Result<ChosenAdapters> choose_named(const RdmaConnectionOptions& options);
  [[nodiscard]] std::vector<std::vector<const Device*>> by_distance(DeviceRef near) const;
  void judge_distance(const Adapter& adapter, DeviceRef near, std::vector<Finding>& findings) const;

  system::Host& host_;
  const Machine& machine_;
  std::mutex mutex_;
  system::Verbs* table_ = nullptr;
  system::verbs::ibv_device** list_ = nullptr;
  std::vector<Device> devices_;
  std::map<std::string, std::shared_ptr<const Adapter>> opened_;
};

}  // namespace nobounce::provider::rdma
