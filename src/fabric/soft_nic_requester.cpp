// Adapters of a software machine: queue pairs that ask: states, requests, what becomes of them.
#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "fabric/soft_nic.hpp"
#include "fabric/soft_nic_facts.hpp"

namespace nobounce::fabric {

namespace verbs = system::verbs;

namespace {

constexpr std::uint64_t unacknowledged_bytes_max =
    8u << 20;  ///< sent and not yet acknowledged, per pair
constexpr std::uint32_t vendor_error = 0x51;

constexpr int init_mask =
    verbs::qp_mask_pkey_index | verbs::qp_mask_port | verbs::qp_mask_access_flags;
constexpr int rtr_mask = verbs::qp_mask_av | verbs::qp_mask_path_mtu | verbs::qp_mask_dest_qpn |
                         verbs::qp_mask_rq_psn | verbs::qp_mask_max_dest_rd_atomic |
                         verbs::qp_mask_min_rnr_timer;
constexpr int rts_mask = verbs::qp_mask_sq_psn | verbs::qp_mask_timeout |
                         verbs::qp_mask_retry_count | verbs::qp_mask_rnr_retry |
                         verbs::qp_mask_max_rd_atomic;

/// What a change of state must bring, and may, for reliable connections; the state itself aside.
struct Change {
  int required = 0;
  int allowed = 0;
};

std::optional<Change> change_between(int from, int to) {
  if (to == verbs::qp_reset) return Change{};
  // A pair that was never told anything has nothing to fail with.
  if (to == verbs::qp_error && from != verbs::qp_reset) return Change{};
  if (from == verbs::qp_reset && to == verbs::qp_init) return Change{init_mask, 0};
  if (from == verbs::qp_init && to == verbs::qp_init) return Change{0, init_mask};
  if (from == verbs::qp_init && to == verbs::qp_rtr) {
    return Change{rtr_mask, verbs::qp_mask_access_flags | verbs::qp_mask_pkey_index};
  }
  constexpr int later = verbs::qp_mask_access_flags | verbs::qp_mask_min_rnr_timer;
  if (from == verbs::qp_rtr && to == verbs::qp_rts) return Change{rts_mask, later};
  if (from == verbs::qp_rts && to == verbs::qp_rts) return Change{0, later};
  return std::nullopt;
}

std::uint64_t port_in(const verbs::ibv_gid& gid) {
  std::uint64_t port = 0;
  for (int i = 8; i < 16; ++i) port = port << 8 | gid.raw[i];
  return port;
}

bool is_read(const NicSend& work) {
  return work.opcode == verbs::wr_rdma_read;
}

int completion_opcode(int opcode) {
  switch (opcode) {
    case verbs::wr_rdma_read:
      return verbs::wc_op_rdma_read;
    case verbs::wr_rdma_write:
    case verbs::wr_rdma_write_with_imm:
      return verbs::wc_op_rdma_write;
    default:
      return verbs::wc_op_send;
  }
}

WireHeader::Kind packet_kind(int opcode) {
  switch (opcode) {
    case verbs::wr_rdma_write:
      return WireHeader::Kind::write;
    case verbs::wr_rdma_write_with_imm:
      return WireHeader::Kind::write_with_imm;
    case verbs::wr_send:
      return WireHeader::Kind::send;
    case verbs::wr_send_with_imm:
      return WireHeader::Kind::send_with_imm;
    default:
      return WireHeader::Kind::read_request;
  }
}

/// 0.01 ms << ... as the specification's table has it, near enough: the wait after a refusal for
/// want of a receive.
std::uint64_t not_ready_wait_ns(std::uint8_t timer) {
  return timer == 0 ? 655'360'000 : std::uint64_t{10'000} << std::min<int>(timer / 2, 15);
}

}  // namespace

int SoftNics::modify(NicPair* pair, const verbs::ibv_qp_attr& wanted, int mask) {
  const std::lock_guard lock(mutex_);
  if (pairs_.count(pair) == 0) return EINVAL;
  // Without a state it is the present one that is kept.
  const int to = (mask & verbs::qp_mask_state) != 0 ? wanted.qp_state : pair->state();
  const std::optional<Change> change = change_between(pair->state(), to);
  const int given = mask & ~verbs::qp_mask_state;
  if (!change || (given & change->required) != change->required ||
      (given & ~(change->required | change->allowed)) != 0) {
    return EINVAL;
  }
  if ((mask & verbs::qp_mask_port) != 0 && wanted.port_num != 1) return EINVAL;
  if ((mask & verbs::qp_mask_pkey_index) != 0 && wanted.pkey_index != 0) return EINVAL;
  verbs::ibv_qp_attr& own = pair->attributes;
  if (to == verbs::qp_rtr) {
    const bool mtu = wanted.path_mtu >= verbs::mtu_256 && wanted.path_mtu <= verbs::mtu_4096;
    const Nic& nic = machine().nics.at(pair->nic);
    const bool ethernet = is_ethernet(nic);
    const bool addressed = wanted.ah_attr.is_global != 0 && wanted.ah_attr.port_num == 1 &&
                           wanted.ah_attr.grh.sgid_index < gids_of(nic);
    if (!mtu || !addressed || (!ethernet && wanted.ah_attr.dlid == 0)) return EINVAL;
    if (!nic.active) return ENETDOWN;
    own.ah_attr = wanted.ah_attr;
    own.path_mtu = wanted.path_mtu;
    own.dest_qp_num = wanted.dest_qp_num;
    own.rq_psn = wanted.rq_psn;
    own.max_dest_rd_atomic = wanted.max_dest_rd_atomic;
  }
  if (to == verbs::qp_rts && (mask & verbs::qp_mask_timeout) != 0) {
    if (wanted.timeout > 31 || wanted.retry_cnt > 7 || wanted.rnr_retry > 7) return EINVAL;
    own.sq_psn = wanted.sq_psn;
    own.timeout = wanted.timeout;
    own.retry_cnt = wanted.retry_cnt;
    own.rnr_retry = wanted.rnr_retry;
    own.max_rd_atomic = wanted.max_rd_atomic;
  }
  if ((mask & verbs::qp_mask_min_rnr_timer) != 0) own.min_rnr_timer = wanted.min_rnr_timer;
  if ((mask & verbs::qp_mask_access_flags) != 0) own.qp_access_flags = wanted.qp_access_flags;
  own.port_num = 1;
  own.qp_state = to;
  if (to == verbs::qp_error) fail(*pair);
  if (to == verbs::qp_reset) {
    pair->sends.clear();
    pair->receives.clear();
    pair->inbox.clear();
    pair->answers.clear();
    pair->next_message = 0;
    pair->expected_message = 0;
    pair->expected_offset = 0;
  }
  wake();
  return 0;
}

int SoftNics::query(NicPair* pair, verbs::ibv_qp_attr* attributes,
                    verbs::ibv_qp_init_attr* initial) {
  const std::lock_guard lock(mutex_);
  if (pairs_.count(pair) == 0) return EINVAL;
  *attributes = pair->attributes;
  attributes->cur_qp_state = attributes->qp_state;
  attributes->cap = pair->capacity;
  *initial = {};
  initial->send_cq = reinterpret_cast<verbs::ibv_cq*>(pair->send_queue);
  initial->recv_cq = reinterpret_cast<verbs::ibv_cq*>(pair->receive_queue);
  initial->cap = pair->capacity;
  initial->qp_type = verbs::qp_type_rc;
  initial->sq_sig_all = pair->all_signaled ? 1 : 0;
  return 0;
}

int SoftNics::post_send(NicPair* pair, verbs::ibv_send_wr* requests, verbs::ibv_send_wr** refused) {
  const std::lock_guard lock(mutex_);
  int code = 0;
  verbs::ibv_send_wr* at = requests;
  for (; at != nullptr && code == 0; at = code == 0 ? at->next : at) {
    if (pairs_.count(pair) == 0) code = EINVAL;
    if (code != 0) break;
    const bool failed = pair->state() == verbs::qp_error;
    const bool known = at->opcode >= verbs::wr_rdma_write && at->opcode <= verbs::wr_rdma_read;
    const bool inlined = (at->send_flags & verbs::send_inline) != 0;
    std::uint64_t length = 0;
    if (pair->state() != verbs::qp_rts && !failed) code = EINVAL;
    if (!known || at->num_sge < 0 ||
        static_cast<std::uint32_t>(at->num_sge) > pair->capacity.max_send_sge) {
      code = EINVAL;
    }
    if (pair->sends.size() >= pair->capacity.max_send_wr) code = ENOMEM;
    if (code != 0) break;
    for (int i = 0; i < at->num_sge; ++i) length += at->sg_list[i].length;
    const bool inline_fits = length <= pair->capacity.max_inline_data;
    if (length > (std::uint64_t{1} << 31) ||
        (inlined && (!inline_fits || at->opcode == verbs::wr_rdma_read))) {
      code = EINVAL;
      break;
    }
    NicSend work;
    work.id = at->wr_id;
    work.opcode = at->opcode;
    work.fenced = (at->send_flags & verbs::send_fence) != 0;
    work.signaled = pair->all_signaled || (at->send_flags & verbs::send_signaled) != 0;
    work.imm_data = at->imm_data;
    work.pieces.assign(at->sg_list, at->sg_list + at->num_sge);
    work.length_bytes = length;
    work.remote_address = at->wr.rdma.remote_addr;
    work.remote_key = at->wr.rdma.rkey;
    work.message = pair->next_message++;
    if (inlined) {  // taken now: the caller may use its memory again
      for (const verbs::ibv_sge& piece : work.pieces) {
        const auto* from = reinterpret_cast<const std::byte*>(piece.addr);
        work.inline_data.insert(work.inline_data.end(), from, from + piece.length);
      }
    }
    pair->sends.push_back(std::move(work));
    if (failed) fail(*pair);
  }
  if (code != 0 && refused != nullptr) *refused = at;
  wake();
  return code;
}

int SoftNics::post_receive(NicPair* pair, verbs::ibv_recv_wr* requests,
                           verbs::ibv_recv_wr** refused) {
  const std::lock_guard lock(mutex_);
  int code = 0;
  for (verbs::ibv_recv_wr* at = requests; at != nullptr; at = at->next) {
    if (pairs_.count(pair) == 0 || pair->state() == verbs::qp_reset || at->num_sge < 0 ||
        static_cast<std::uint32_t>(at->num_sge) > pair->capacity.max_recv_sge) {
      code = EINVAL;
    } else if (pair->receives.size() >= pair->capacity.max_recv_wr) {
      code = ENOMEM;
    }
    if (code != 0) {
      if (refused != nullptr) *refused = at;
      break;
    }
    pair->receives.push_back({at->wr_id, {at->sg_list, at->sg_list + at->num_sge}});
    if (pair->state() == verbs::qp_error) fail(*pair);
  }
  wake();
  return code;
}

void SoftNics::complete(NicQueue& queue, const NicPair& pair, verbs::ibv_wc completion) {
  completion.qp_num = pair.number;
  if (is(Mutant::rdma_completion_lost) && queue.completions.empty() &&
      completion.status == verbs::wc_success && completion.opcode == verbs::wc_op_rdma_write) {
    return;
  }
  if (is(Mutant::rdma_status_wrong)) {
    completion.status =
        completion.status == verbs::wc_flushed ? verbs::wc_flushed : verbs::wc_success;
  }
  // A queue that overflows is an error of its owner; what does not fit is lost.
  if (queue.completions.size() < queue.capacity) queue.completions.push_back(completion);
  parts_.workers.notify();
}

void SoftNics::fail(NicPair& pair) {
  pair.attributes.qp_state = verbs::qp_error;
  for (const NicSend& work : pair.sends) {
    verbs::ibv_wc completion{};
    completion.wr_id = work.id;
    completion.status = verbs::wc_flushed;
    complete(*pair.send_queue, pair, completion);
  }
  pair.sends.clear();
  for (const NicReceive& receive : pair.receives) {
    verbs::ibv_wc completion{};
    completion.wr_id = receive.id;
    completion.status = verbs::wc_flushed;
    completion.opcode = verbs::wc_op_recv;
    complete(*pair.receive_queue, pair, completion);
  }
  pair.receives.clear();
  pair.inbox.clear();
  pair.answers.clear();
}

std::uint64_t SoftNics::timeout_ns(const NicPair& pair) {
  return pair.attributes.timeout == 0 ? 0 : std::uint64_t{4096} << pair.attributes.timeout;
}

void SoftNics::resend(NicPair& pair) {
  for (NicSend& work : pair.sends) {
    if (work.done || work.status != verbs::wc_success) continue;
    work.started = false;
    work.sent = false;
    work.sent_bytes = 0;
    work.read_bytes = 0;
  }
}

bool SoftNics::time_out(NicPair& pair, std::uint64_t now_ns) {
  const std::uint64_t timeout = timeout_ns(pair);
  const auto oldest = std::find_if(pair.sends.begin(), pair.sends.end(),
                                   [](const NicSend& work) { return !work.done; });
  if (timeout == 0 || oldest == pair.sends.end() || !oldest->started ||
      oldest->status != verbs::wc_success || now_ns < pair.progress_ns + timeout) {
    return false;
  }
  pair.progress_ns = now_ns;
  if (pair.retries++ < pair.attributes.retry_cnt) {
    resend(pair);
    return true;
  }
  oldest->status = verbs::wc_retry_exceeded;
  oldest->done = true;
  return true;
}

bool SoftNics::send_packet(NicPair& pair, NicSend& work, std::uint64_t now_ns) {
  WirePacket packet;
  WireHeader& header = packet.header;
  header.kind = packet_kind(work.opcode);
  header.source_pair = pair.number;
  header.target_pair = pair.attributes.dest_qp_num;
  header.source_port = port_of(pair.nic);
  header.target_port = port_in(pair.attributes.ah_attr.grh.dgid);
  header.message = work.message;
  header.imm_data = work.imm_data;
  header.key = work.remote_key;
  header.address = work.remote_address;
  header.offset = work.sent_bytes;
  header.total_bytes = work.length_bytes;
  if (!work.started) {
    const int access = is_read(work) ? verbs::access_local_write : 0;
    if (work.inline_data.empty()) work.status = check_pieces(pair, work.pieces, access);
  }
  if (work.status == verbs::wc_success && !is_read(work)) {
    const std::uint64_t length =
        std::min<std::uint64_t>(SoftWire::payload_max_bytes, work.length_bytes - work.sent_bytes);
    header.wire_address = next_wire_address(length);
    packet.payload = WirePayload(static_cast<std::size_t>(length));
    work.status = fetch(pair, work, work.sent_bytes, packet.payload.bytes(), header.wire_address);
    work.sent_bytes += length;
  }
  if (work.status != verbs::wc_success) {
    work.done = true;
    return true;
  }
  work.started = true;
  work.sent = is_read(work) || work.sent_bytes == work.length_bytes;
  header.last = work.sent ? 1 : 0;
  pair.progress_ns = now_ns;
  put_on_wire(std::move(packet));
  if (is(Mutant::rdma_completion_early) && !is_read(work) && work.sent) work.done = true;
  return true;
}

bool SoftNics::send_some(NicPair& pair, std::uint64_t now_ns) {
  if (now_ns < pair.not_ready_until_ns) return false;
  const std::uint64_t target = port_in(pair.attributes.ah_attr.grh.dgid);
  std::uint64_t under_way = 0;
  unsigned reads = 0;
  bool moved = false;
  for (NicSend& work : pair.sends) {
    if (work.status != verbs::wc_success) break;
    if (work.done) continue;
    if (is_read(work) && !work.started && reads >= pair.attributes.max_rd_atomic) break;
    const bool fenced = work.fenced && !is(Mutant::rdma_fence_ignored);
    if (fenced && !work.started && reads > 0) break;
    reads += is_read(work) ? 1 : 0;
    while (!work.sent && work.status == verbs::wc_success) {
      if (under_way + work.sent_bytes >= unacknowledged_bytes_max || !wire_.has_room(target))
        return moved;
      moved = send_packet(pair, work, now_ns) || moved;
    }
    under_way += is_read(work) ? 0 : work.sent_bytes;
  }
  return moved;
}

bool SoftNics::complete_ready(NicPair& pair) {
  bool completed = false;
  while (!pair.sends.empty() && pair.sends.front().done) {
    const NicSend work = std::move(pair.sends.front());
    pair.sends.pop_front();
    completed = true;
    const bool failed = work.status != verbs::wc_success;
    if (failed || work.signaled) {
      verbs::ibv_wc completion{};
      completion.wr_id = work.id;
      completion.status = work.status;
      completion.opcode = completion_opcode(work.opcode);
      completion.vendor_err = failed ? vendor_error : 0;
      completion.byte_len = static_cast<std::uint32_t>(work.length_bytes);
      complete(*pair.send_queue, pair, completion);
    }
    if (failed) {
      fail(pair);
      return true;
    }
  }
  return completed;
}

bool SoftNics::advance(NicPair& pair, std::uint64_t now_ns) {
  if (pair.state() != verbs::qp_rts && pair.state() != verbs::qp_rtr) return false;
  bool moved = send_answers(pair);
  while (pair.answers.empty() && !pair.inbox.empty()) {
    WirePacket packet = std::move(pair.inbox.front());
    pair.inbox.pop_front();
    take(pair, packet);
    moved = true;
  }
  if (pair.state() != verbs::qp_rts) return moved;
  moved = time_out(pair, now_ns) || moved;
  moved = send_some(pair, now_ns) || moved;
  return complete_ready(pair) || moved;
}

void SoftNics::hear_read(NicPair& pair, NicSend& work, const WirePacket& packet) {
  // Parts of an answer before the last retry are told by their place.
  if (packet.header.offset != work.read_bytes) return;
  const std::span<const std::byte> payload = packet.payload.bytes();
  if (payload.size() > work.length_bytes - work.read_bytes) {
    work.status = verbs::wc_bad_response_error;
  } else {
    work.status = scatter(pair, work.pieces, work.read_bytes, payload, packet.header.wire_address);
  }
  work.read_bytes += payload.size();
  const bool whole = packet.header.last != 0;
  if (whole && work.read_bytes != work.length_bytes && work.status == verbs::wc_success) {
    work.status = verbs::wc_bad_response_error;
  }
  work.done = whole || work.status != verbs::wc_success;
}

void SoftNics::hear(NicPair& pair, const WirePacket& packet, std::uint64_t now_ns) {
  const auto work =
      std::find_if(pair.sends.begin(), pair.sends.end(), [&packet](const NicSend& each) {
        return each.message == packet.header.message && each.started && !each.done;
      });
  if (work == pair.sends.end()) return;  // an answer that came twice
  pair.progress_ns = now_ns;
  pair.retries = 0;
  switch (packet.header.kind) {
    case WireHeader::Kind::read_response:
      if (is_read(*work)) hear_read(pair, *work, packet);
      return;
    case WireHeader::Kind::acknowledge:
      pair.not_ready_retries = 0;
      work->done = work->sent && !is_read(*work);
      return;
    case WireHeader::Kind::refuse:
      work->status = packet.header.status;
      work->done = true;
      return;
    case WireHeader::Kind::not_ready:
      if (pair.attributes.rnr_retry != 7 && pair.not_ready_retries++ >= pair.attributes.rnr_retry) {
        work->status = verbs::wc_rnr_retry_exceeded;
        work->done = true;
        return;
      }
      resend(pair);
      pair.not_ready_until_ns = now_ns + not_ready_wait_ns(pair.attributes.min_rnr_timer);
      return;
    default:
      return;
  }
}

}  // namespace nobounce::fabric
