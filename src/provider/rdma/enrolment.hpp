// Registers memory with every lane of a connection, in the order of the ways there are, each
// believed only after its probe.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <nobounce/error.hpp>
#include <nobounce/finding.hpp>
#include "provider/rdma/adapters.hpp"
#include "provider/rdma/connection.hpp"
#include "provider/rdma/probe.hpp"
#include "provider/rdma/registration.hpp"

namespace nobounce::provider::rdma {

using ConnectionPointer = std::shared_ptr<Connection>;

/// Thread-safe. Blocks while it probes.
class Enroller {
 public:
  Enroller(system::Host& host, system::CudaContexts* contexts, const Machine& machine,
           Adapters& adapters)
      : host_(host), contexts_(contexts), machine_(machine), adapters_(adapters) {}

  [[nodiscard]] LaneRegistrations enroll(const Connection& connection,
                                         const core::RegionView& region, int access);
  [[nodiscard]] std::uint64_t buffer_of(const Place& place);
  /// Probes the first way of registering that is good for a pair.
  void rehearse(std::uint32_t gpu, const std::shared_ptr<const Adapter>& adapter);

 private:
  [[nodiscard]] std::shared_ptr<Registration> enroll_with(const QueuePair& pair,
                                                          const core::RegionView& region,
                                                          int access,
                                                          std::vector<Finding>& findings);
  [[nodiscard]] bool ready();

  system::Host& host_;
  system::CudaContexts* contexts_;
  const Machine& machine_;
  Adapters& adapters_;
  std::mutex mutex_;
  std::unique_ptr<Registrar> registrar_;
  std::unique_ptr<Prober> prober_;
};

/// The distinct causes of what is unmet, the first first, at most rdma_causes_max.
[[nodiscard]] std::vector<Cause> causes_of(const std::vector<Finding>& findings);
[[nodiscard]] Finding finding_of(const Error& error, std::string subject);
/// What the far end gives as a reason why its memory is staged.
[[nodiscard]] Finding far_finding(Cause cause);
/// Local memory that nobody has tried to register yet.
[[nodiscard]] Finding not_tried(const Place& local);

}  // namespace nobounce::provider::rdma
