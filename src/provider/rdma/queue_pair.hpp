// A queue pair of one adapter with all that belongs to it, brought up step by step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nobounce/result.hpp>
#include "provider/rdma/adapters.hpp"
#include "system/verbs.hpp"
#include "wire/endpoint.hpp"

namespace nobounce::provider::rdma {

struct QueuePairOptions {
  std::uint32_t sends = 128;
  std::uint32_t receives = 64;
  std::uint64_t silence_ns = 4'000'000'000;
};

/// Protection domain, completion queue and queue pair. Not thread-safe, but for the domain.
class QueuePair {
 public:
  [[nodiscard]] static Result<std::unique_ptr<QueuePair>> create(
      system::Verbs& table, std::shared_ptr<const Adapter> adapter, std::uint32_t first_packet,
      const QueuePairOptions& options);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  [[nodiscard]] const Adapter& adapter() const { return *adapter_; }
  [[nodiscard]] const std::shared_ptr<const Adapter>& shared_adapter() const { return adapter_; }
  [[nodiscard]] system::verbs::ibv_pd* domain() const { return domain_; }
  [[nodiscard]] wire::QueuePairEndpoint endpoint() const;

  /// INIT -> RTR -> RTS.
  [[nodiscard]] Status join(const wire::QueuePairEndpoint& remote);
  /// Everything posted is flushed; nothing new is taken.
  void fail();
  /// Ends the queue pair for good: no DMA of it happens after this.
  void destroy();

  /// 0 or an errno.
  [[nodiscard]] int post(system::verbs::ibv_send_wr& request);
  [[nodiscard]] int post(system::verbs::ibv_recv_wr& request);
  [[nodiscard]] int poll(std::span<system::verbs::ibv_wc> completions, std::size_t& count);

 private:
  QueuePair(system::Verbs& table, std::shared_ptr<const Adapter> adapter)
      : table_(table), adapter_(std::move(adapter)) {}
  [[nodiscard]] Status make(std::uint32_t first_packet, const QueuePairOptions& options);
  [[nodiscard]] std::string name() const { return "nic:" + adapter_->name; }

  system::Verbs& table_;
  std::shared_ptr<const Adapter> adapter_;
  QueuePairOptions options_;
  system::verbs::ibv_pd* domain_ = nullptr;
  system::verbs::ibv_cq* queue_ = nullptr;
  system::verbs::ibv_qp* pair_ = nullptr;
  std::uint32_t number_ = 0;
  std::uint32_t first_packet_ = 0;
};

}  // namespace nobounce::provider::rdma
