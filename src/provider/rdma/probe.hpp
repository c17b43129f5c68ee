// One verified probe per GPU, adapter and way of registering: does what the adapter writes arrive
// in the GPU, and does what it reads come from there?
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include <nobounce/finding.hpp>
#include "provider/rdma/adapters.hpp"
#include "provider/rdma/registration.hpp"
#include "system/cuda_contexts.hpp"
#include "system/host.hpp"

namespace nobounce::provider::rdma {

/// Thread-safe; a probe blocks its caller, and others that want the same answer.
class Prober {
 public:
  Prober(system::Host& host, system::CudaContexts& contexts, Registrar& registrar,
         system::Verbs& table)
      : host_(host), contexts_(contexts), registrar_(registrar), table_(table) {}

  /// Nothing where the pair is believed; else why it is not. Asked once: the answer stays. What
  /// could not be tried at all (no memory for it, say) is said, and tried again ten seconds later
  /// at the earliest: until then the answer is the same.
  [[nodiscard]] std::optional<Finding> doubts(std::uint32_t gpu,
                                              const std::shared_ptr<const Adapter>& adapter,
                                              Method method);

 private:
  using Key = std::tuple<std::uint32_t, std::string, Method>;
  struct Answer {
    std::optional<Finding> doubt;
    std::uint64_t until_ns = 0;  ///< 0: it stays
  };
  struct Bench;
  [[nodiscard]] Status run(std::uint32_t gpu, const std::shared_ptr<const Adapter>& adapter,
                           Method method);
  [[nodiscard]] Status try_out(Bench& bench, std::uint32_t gpu,
                               const std::shared_ptr<const Adapter>& adapter, Method method);
  [[nodiscard]] Status set_up(Bench& bench, std::uint32_t gpu,
                              const std::shared_ptr<const Adapter>& adapter, Method method);
  [[nodiscard]] Status move(Bench& bench, int opcode);
  [[nodiscard]] Status copy(Bench& bench, std::byte* host, bool to_gpu);

  system::Host& host_;
  system::CudaContexts& contexts_;
  Registrar& registrar_;
  system::Verbs& table_;
  std::mutex mutex_;
  std::map<Key, Answer> answers_;
};

}  // namespace nobounce::provider::rdma
