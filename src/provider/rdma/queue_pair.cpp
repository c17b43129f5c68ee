// Queue pairs: made, joined, used, ended.
#include "provider/rdma/queue_pair.hpp"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "provider/rdma/statuses.hpp"

namespace nobounce::provider::rdma {

namespace verbs = system::verbs;

namespace {

constexpr std::uint8_t retries = 7;
constexpr std::uint8_t retries_for_ever = 7;  ///< of a receiver that is not ready
constexpr std::uint8_t not_ready_timer = 12;  ///< 0.64 ms
constexpr std::uint32_t number_mask = 0xffffff;

/// The exponent with which all tries together end within that time. Adapters take up to four times
/// what they are told.
std::uint8_t timeout_for(std::uint64_t silence_ns) {
  const std::uint64_t each_ns = silence_ns / (retries + 1);
  std::uint8_t exponent = 8;  // a millisecond: less is no network
  while (exponent < 20 && (std::uint64_t{4096} << (exponent + 1)) <= each_ns) ++exponent;
  return exponent;
}

/// A call that was to set a queue pair up.
Error not_set_up(int code, std::string attempted) {
  return call_error(code, std::move(attempted), Cause::rdma_completion_error);
}

/// Only these answers say that the adapter has none of that kind; others may be of the moment.
Error not_made(int code, std::string attempted) {
  const bool absent = code == EOPNOTSUPP || code == ENOSYS || code == EPROTONOSUPPORT;
  return call_error(code, std::move(attempted),
                    absent ? Cause::rdma_no_reliable_connection : Cause::rdma_completion_error);
}

}  // namespace

Result<std::unique_ptr<QueuePair>> QueuePair::create(system::Verbs& table,
                                                     std::shared_ptr<const Adapter> adapter,
                                                     std::uint32_t first_packet,
                                                     const QueuePairOptions& options) {
  std::unique_ptr<QueuePair> made(new QueuePair(table, std::move(adapter)));
  if (Status done = made->make(first_packet & number_mask, options); !done.ok()) {
    return done.error();
  }
  return made;
}

Status QueuePair::make(std::uint32_t first_packet, const QueuePairOptions& options) {
  options_ = options;
  first_packet_ = first_packet;
  if (const int code = table_.alloc_pd(&domain_, adapter_->context); code != verbs::success) {
    domain_ = nullptr;
    return not_set_up(code, "make a protection domain of " + name());
  }
  const auto entries = static_cast<int>(options.sends + options.receives);
  if (const int code = table_.create_cq(&queue_, adapter_->context, entries);
      code != verbs::success) {
    queue_ = nullptr;
    return not_set_up(code, "make a completion queue of " + name());
  }
  verbs::ibv_qp_init_attr initial{};
  initial.send_cq = queue_;
  initial.recv_cq = queue_;
  initial.cap = {options.sends, options.receives, 1, 1, 0};
  initial.qp_type = verbs::qp_type_rc;
  if (const int code = table_.create_qp(&pair_, domain_, &initial); code != verbs::success) {
    pair_ = nullptr;
    return not_made(code, "make a queue pair of " + name());
  }
  if (const int code = table_.get_qp_number(&number_, pair_); code != verbs::success) {
    return not_set_up(code, "read the number of a queue pair of " + name());
  }
  verbs::ibv_qp_attr attributes{};
  attributes.qp_state = verbs::qp_init;
  attributes.port_num = 1;
  attributes.qp_access_flags = static_cast<unsigned>(
      verbs::access_local_write | verbs::access_remote_write | verbs::access_remote_read);
  const int code = table_.modify_qp(pair_, &attributes,
                                    verbs::qp_mask_state | verbs::qp_mask_pkey_index |
                                        verbs::qp_mask_port | verbs::qp_mask_access_flags);
  if (code != verbs::success)
    return not_set_up(code, "bring a queue pair of " + name() + " to INIT");
  return {};
}

QueuePair::~QueuePair() {
  destroy();
  if (queue_ != nullptr) (void)table_.destroy_cq(queue_);
  if (domain_ != nullptr) (void)table_.dealloc_pd(domain_);
}

void QueuePair::destroy() {
  if (pair_ != nullptr) (void)table_.destroy_qp(pair_);
  pair_ = nullptr;
}

wire::QueuePairEndpoint QueuePair::endpoint() const {
  wire::QueuePairEndpoint endpoint;
  endpoint.queue_pair = number_;
  endpoint.packet_sequence = first_packet_;
  static_assert(sizeof endpoint.gid == sizeof adapter_->gid.raw);
  std::transform(std::begin(adapter_->gid.raw), std::end(adapter_->gid.raw), endpoint.gid.begin(),
                 [](std::uint8_t byte) { return static_cast<std::byte>(byte); });
  endpoint.gid_index = adapter_->gid_index;
  endpoint.mtu = static_cast<std::uint8_t>(adapter_->port.active_mtu);
  endpoint.lid = adapter_->port.lid;
  endpoint.port = 1;
  endpoint.reads_max = adapter_->reads_max;
  endpoint.ethernet = adapter_->ethernet();
  return endpoint;
}

Status QueuePair::join(const wire::QueuePairEndpoint& remote) {
  if (remote.ethernet != adapter_->ethernet()) {
    return Error{.origin = ErrorOrigin::verbs,
                 .attempted = "join a queue pair of " + name(),
                 .cause = Cause::remote_unreachable,
                 .detail = "one adapter speaks InfiniBand, the other one RoCE"};
  }
  verbs::ibv_qp_attr attributes{};
  attributes.qp_state = verbs::qp_rtr;
  attributes.path_mtu = std::clamp<int>(std::min<int>(remote.mtu, adapter_->port.active_mtu),
                                        verbs::mtu_256, verbs::mtu_4096);
  attributes.dest_qp_num = remote.queue_pair & number_mask;
  attributes.rq_psn = remote.packet_sequence & number_mask;
  attributes.max_dest_rd_atomic = adapter_->reads_max;
  attributes.min_rnr_timer = not_ready_timer;
  verbs::ibv_ah_attr& address = attributes.ah_attr;
  address.dlid = remote.lid;
  address.port_num = 1;
  address.is_global = 1;
  std::transform(remote.gid.begin(), remote.gid.end(), std::begin(address.grh.dgid.raw),
                 [](std::byte byte) { return std::to_integer<std::uint8_t>(byte); });
  address.grh.sgid_index = adapter_->gid_index;
  address.grh.hop_limit = 64;
  int code = table_.modify_qp(pair_, &attributes,
                              verbs::qp_mask_state | verbs::qp_mask_av | verbs::qp_mask_path_mtu |
                                  verbs::qp_mask_dest_qpn | verbs::qp_mask_rq_psn |
                                  verbs::qp_mask_max_dest_rd_atomic | verbs::qp_mask_min_rnr_timer);
  if (code != verbs::success)
    return not_set_up(code, "bring a queue pair of " + name() + " to RTR");
  attributes = {};
  attributes.qp_state = verbs::qp_rts;
  attributes.sq_psn = first_packet_;
  attributes.timeout = timeout_for(options_.silence_ns);
  attributes.retry_cnt = retries;
  attributes.rnr_retry = retries_for_ever;
  attributes.max_rd_atomic =
      std::min(adapter_->reads_max, std::max<std::uint8_t>(remote.reads_max, 1));
  code = table_.modify_qp(pair_, &attributes,
                          verbs::qp_mask_state | verbs::qp_mask_sq_psn | verbs::qp_mask_timeout |
                              verbs::qp_mask_retry_count | verbs::qp_mask_rnr_retry |
                              verbs::qp_mask_max_rd_atomic);
  if (code != verbs::success)
    return not_set_up(code, "bring a queue pair of " + name() + " to RTS");
  return {};
}

void QueuePair::fail() {
  if (pair_ == nullptr) return;
  verbs::ibv_qp_attr attributes{};
  attributes.qp_state = verbs::qp_error;
  (void)table_.modify_qp(pair_, &attributes, verbs::qp_mask_state);
}

int QueuePair::post(verbs::ibv_send_wr& request) {
  verbs::ibv_send_wr* refused = nullptr;
  return pair_ == nullptr ? EINVAL : table_.post_send(pair_, &request, &refused);
}

int QueuePair::post(verbs::ibv_recv_wr& request) {
  verbs::ibv_recv_wr* refused = nullptr;
  return pair_ == nullptr ? EINVAL : table_.post_recv(pair_, &request, &refused);
}

int QueuePair::poll(std::span<verbs::ibv_wc> completions, std::size_t& count) {
  int found = 0;
  const int code =
      table_.poll_cq(&found, queue_, static_cast<int>(completions.size()), completions.data());
  count = code == verbs::success ? static_cast<std::size_t>(found) : 0;
  return code;
}

}  // namespace nobounce::provider::rdma
