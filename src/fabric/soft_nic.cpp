// Adapters of a software machine: their objects, and the engine that moves packets.
#include "fabric/soft_nic.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

namespace nobounce::fabric {

namespace verbs = system::verbs;

namespace {

constexpr int entries_max = 1 << 20;
constexpr std::uint32_t requests_max = 16384;
constexpr std::uint32_t pieces_max = 16;
constexpr std::uint32_t inline_max = 256;
constexpr std::uint64_t patience_ns = 20'000'000;  ///< of a wait for sockets
constexpr int packets_per_step = 32;
/// UC, UD, raw packets, XRC, the driver's own: there are such pairs, but not here.
constexpr int other_types[] = {3, 4, 8, 9, 10, 0xff};

/// No other process of this computer has it, but where one machine runs alone and in order.
std::uint64_t draw_port(bool deterministic, SoftRandom& random) {
  std::uint64_t drawn = 0;
  if (deterministic || ::getrandom(&drawn, sizeof drawn, 0) != sizeof drawn) drawn = random.next();
  return base_of_port(drawn >> 8 | std::uint64_t{0x02} << 56);  // as a local address
}

}  // namespace

SoftNics::SoftNics(const Parts& parts)
    : parts_(parts),
      base_port_(draw_port(parts.deterministic, parts.random)),
      wire_address_(base_port_ << 4 & ~(std::uint64_t{1} << 63)),
      wire_(base_port_, static_cast<std::uint32_t>(parts.bus.machine().nics.size())) {
  next_number_ = static_cast<std::uint32_t>(parts_.random.below(0x10000)) + 0x100;
}

SoftNics::~SoftNics() {
  if (engine_) parts_.workers.stop(*engine_);
  for (const auto& [known, region] : regions_) unmap(*region);
}

std::uint64_t SoftNics::next_wire_address(std::uint64_t length_bytes) {
  const std::uint64_t address = wire_address_;
  wire_address_ += length_bytes;
  return address;
}

std::uint32_t SoftNics::fresh_key() {
  for (;;) {
    const auto key = static_cast<std::uint32_t>(parts_.random.next() >> 32);
    if (key != 0 && by_local_key_.count(key) == 0 && by_remote_key_.count(key) == 0) return key;
  }
}

int SoftNics::make_domain(std::uint32_t nic, NicDomain** domain) {
  const std::lock_guard lock(mutex_);
  auto made = std::make_unique<NicDomain>();
  made->nic = nic;
  *domain = made.get();
  domains_.emplace(made.get(), std::move(made));
  return 0;
}

int SoftNics::drop_domain(NicDomain* domain) {
  const std::lock_guard lock(mutex_);
  if (domains_.count(domain) == 0) return EINVAL;
  if (domain->users > 0) return EBUSY;
  domains_.erase(domain);
  return 0;
}

int SoftNics::make_queue(std::uint32_t nic, int capacity, NicQueue** queue) {
  const std::lock_guard lock(mutex_);
  if (capacity < 1 || capacity > entries_max) return EINVAL;
  auto made = std::make_unique<NicQueue>();
  made->nic = nic;
  made->capacity = static_cast<std::size_t>(capacity);
  *queue = made.get();
  queues_.emplace(made.get(), std::move(made));
  return 0;
}

int SoftNics::drop_queue(NicQueue* queue) {
  const std::lock_guard lock(mutex_);
  if (queues_.count(queue) == 0) return EINVAL;
  if (queue->users > 0) return EBUSY;
  queues_.erase(queue);
  return 0;
}

int SoftNics::poll(NicQueue* queue, int capacity, verbs::ibv_wc* completions, int* count) {
  const std::lock_guard lock(mutex_);
  *count = 0;
  if (queues_.count(queue) == 0 || capacity < 0) return EINVAL;
  std::deque<verbs::ibv_wc>& ready = queue->completions;
  if (is(Mutant::rdma_completions_reordered) && ready.size() > 1) std::swap(ready[0], ready[1]);
  while (*count < capacity && !ready.empty()) {
    completions[(*count)++] = ready.front();
    ready.pop_front();
  }
  return 0;
}

int SoftNics::make_pair(NicDomain* domain, verbs::ibv_qp_init_attr* wanted, NicPair** pair) {
  const std::lock_guard lock(mutex_);
  if (domains_.count(domain) == 0) return EINVAL;
  auto* const send = reinterpret_cast<NicQueue*>(wanted->send_cq);
  auto* const receive = reinterpret_cast<NicQueue*>(wanted->recv_cq);
  if (queues_.count(send) == 0 || queues_.count(receive) == 0) return EINVAL;
  if (send->nic != domain->nic || receive->nic != domain->nic || wanted->srq != nullptr) {
    return EINVAL;
  }
  if (wanted->qp_type != verbs::qp_type_rc) {
    return std::find(std::begin(other_types), std::end(other_types), wanted->qp_type) ==
                   std::end(other_types)
               ? EINVAL
               : EOPNOTSUPP;
  }
  const verbs::ibv_qp_cap& cap = wanted->cap;
  if (cap.max_send_wr > requests_max || cap.max_recv_wr > requests_max ||
      cap.max_send_sge > pieces_max || cap.max_recv_sge > pieces_max ||
      cap.max_inline_data > inline_max) {
    return EINVAL;
  }
  // Whoever has a queue pair may be called by others.
  if (!parts_.deterministic && !wire_.open()) return ENOMEM;
  auto made = std::make_unique<NicPair>();
  made->nic = domain->nic;
  made->number = next_number_ & 0xffffff;
  next_number_ += 1 + static_cast<std::uint32_t>(parts_.random.below(16));
  made->domain = domain;
  made->send_queue = send;
  made->receive_queue = receive;
  made->all_signaled = wanted->sq_sig_all != 0;
  made->capacity = cap;
  ++domain->users;
  ++send->users;
  ++receive->users;
  by_number_[made->number] = made.get();
  *pair = made.get();
  pairs_.emplace(made.get(), std::move(made));
  if (!engine_) engine_ = parts_.workers.start_engine(*this, "adapters");
  return 0;
}

int SoftNics::drop_pair(NicPair* pair) {
  const std::lock_guard lock(mutex_);
  const auto found = pairs_.find(pair);
  if (found == pairs_.end()) return EINVAL;
  --pair->domain->users;
  --pair->send_queue->users;
  --pair->receive_queue->users;
  by_number_.erase(pair->number);
  pairs_.erase(found);
  return 0;
}

int SoftNics::number_of(NicPair* pair, std::uint32_t* number) {
  const std::lock_guard lock(mutex_);
  if (pairs_.count(pair) == 0) return EINVAL;
  *number = pair->number;
  return 0;
}

NicPair* SoftNics::pair_numbered(std::uint32_t number) const {
  const auto found = by_number_.find(number);
  return found == by_number_.end() ? nullptr : found->second;
}

void SoftNics::wake() {
  if (engine_) parts_.workers.wake(*engine_);
  wire_.poke();
}

void SoftNics::put_on_wire(WirePacket packet) {
  if (parts_.random.chance(parts_.faults.packet_loss)) return;
  wire_.send(std::move(packet));
}

void SoftNics::route(WirePacket packet, std::uint64_t now_ns) {
  NicPair* const pair = pair_numbered(packet.header.target_pair);
  // A pair talks to the one that it was told of, and to nobody else.
  if (pair == nullptr || port_of(pair->nic) != packet.header.target_port ||
      pair->attributes.dest_qp_num != packet.header.source_pair ||
      (pair->state() != verbs::qp_rtr && pair->state() != verbs::qp_rts)) {
    return;
  }
  switch (packet.header.kind) {
    case WireHeader::Kind::read_response:
    case WireHeader::Kind::acknowledge:
    case WireHeader::Kind::refuse:
    case WireHeader::Kind::not_ready:
      hear(*pair, packet, now_ns);
      return;
    default:
      answer(*pair, std::move(packet));
  }
}

std::uint64_t SoftNics::next_timer(std::uint64_t now_ns) const {
  std::uint64_t next_ns = 0;
  const auto earlier = [&](std::uint64_t time_ns) {
    if (next_ns == 0 || time_ns < next_ns) next_ns = time_ns;
  };
  for (const auto& [known, pair] : pairs_) {
    if (pair->state() != verbs::qp_rts || pair->sends.empty()) continue;
    if (pair->not_ready_until_ns > now_ns) earlier(pair->not_ready_until_ns);
    const std::uint64_t timeout = timeout_ns(*pair);
    const bool waits = std::any_of(pair->sends.begin(), pair->sends.end(),
                                   [](const NicSend& work) { return work.started && !work.done; });
    if (timeout != 0 && waits) earlier(pair->progress_ns + timeout);
  }
  return next_ns;
}

system::Step SoftNics::step() {
  std::uint64_t timer_ns = 0;
  bool moved = false;
  bool listens = false;
  bool idle = false;
  std::uint64_t now_ns = parts_.clock.now_ns();
  {
    const std::lock_guard lock(mutex_);
    moved = wire_.pump();
    for (int i = 0; i < packets_per_step; ++i) {
      std::optional<WirePacket> packet = wire_.receive();
      if (!packet) break;
      moved = true;
      route(std::move(*packet), now_ns);
    }
    for (const auto& [known, pair] : pairs_) {
      moved = advance(*pair, now_ns) || moved;
    }
    listens = wire_.is_open();
    idle = pairs_.empty();
    if (!moved) timer_ns = next_timer(now_ns);
  }
  if (moved) return system::Step::busy();
  if (!listens || parts_.deterministic || idle) {
    return timer_ns == 0 ? system::Step::idle() : system::Step::idle_until(timer_ns);
  }
  now_ns = parts_.clock.now_ns();
  const std::uint64_t until_timer_ns = timer_ns > now_ns ? timer_ns - now_ns : 0;
  wire_.wait(timer_ns == 0 ? patience_ns : std::min(patience_ns, until_timer_ns));
  return system::Step::busy();
}

}  // namespace nobounce::fabric
