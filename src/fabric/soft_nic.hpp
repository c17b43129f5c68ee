// The network adapters of a software machine at the level of verbs: protection domains, memory
// regions, completion queues and reliable connections whose packets travel over the soft wire.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "fabric/bus.hpp"
#include "fabric/soft_dmabuf.hpp"
#include "fabric/soft_gpu.hpp"
#include "fabric/soft_host.hpp"
#include "fabric/soft_random.hpp"
#include "fabric/soft_wire.hpp"
#include "fabric/soft_workers.hpp"
#include "system/verbs_types.hpp"

namespace nobounce::fabric {

struct NicDomain {
  std::uint32_t nic = 0;
  std::uint32_t users = 0;
};

struct NicRegion {
  NicDomain* domain = nullptr;
  std::uint32_t nic = 0;
  std::uint64_t address = 0;  ///< as requests name its first byte
  std::uint64_t length_bytes = 0;
  int access = 0;
  std::uint32_t local_key = 0;
  std::uint32_t remote_key = 0;
  BusAddress bus;       ///< of its first byte
  bool window = false;  ///< that is a mapping of BAR1, made for it
  BusAddress mapped;    ///< of the window, as map_bar1 answered
  bool in_iommu = false;
  std::uint64_t allocation = 0;  ///< of GPU memory: gone with it
  std::uint64_t locked_bytes = 0;
};

struct NicQueue {
  std::uint32_t nic = 0;
  std::size_t capacity = 0;
  std::deque<system::verbs::ibv_wc> completions;
  std::uint32_t users = 0;
};

struct NicSend {
  std::uint64_t id = 0;
  int opcode = 0;
  bool signaled = false;
  bool fenced = false;  ///< behind all reads before it
  std::uint32_t imm_data = 0;
  std::vector<system::verbs::ibv_sge> pieces;
  std::vector<std::byte> inline_data;
  std::uint64_t remote_address = 0;
  std::uint32_t remote_key = 0;
  std::uint64_t length_bytes = 0;
  std::uint32_t message = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t read_bytes = 0;  ///< arrived of an RDMA read
  bool started = false;
  bool sent = false;
  bool done = false;
  int status = 0;
};

struct NicReceive {
  std::uint64_t id = 0;
  std::vector<system::verbs::ibv_sge> pieces;
};

/// A queue pair.
struct NicPair {
  std::uint32_t nic = 0;
  std::uint32_t number = 0;
  NicDomain* domain = nullptr;
  NicQueue* send_queue = nullptr;
  NicQueue* receive_queue = nullptr;
  bool all_signaled = false;
  system::verbs::ibv_qp_attr attributes{};
  system::verbs::ibv_qp_cap capacity{};
  // as requester
  std::deque<NicSend> sends;
  std::uint32_t next_message = 0;
  std::uint64_t progress_ns = 0;  ///< last sign of the other end, or since when one is due
  unsigned retries = 0;
  unsigned not_ready_retries = 0;
  std::uint64_t not_ready_until_ns = 0;
  // as responder
  std::deque<NicReceive> receives;
  std::deque<WirePacket> inbox;  ///< behind reads that are being answered
  std::uint32_t expected_message = 0;
  std::uint64_t expected_offset = 0;
  struct Answer {
    WireHeader request;
    std::uint64_t sent_bytes = 0;
  };
  std::deque<Answer> answers;
  [[nodiscard]] int state() const { return attributes.qp_state; }
};

/// Thread-safe; all functions answer 0 or an errno. Handles that it did not give out are EINVAL.
class SoftNics final : public system::Worker {
 public:
  struct Parts {
    Bus& bus;
    GpuAllocations& allocations;
    DmaBufs& dmabufs;
    SoftWorkers& workers;
    system::Clock& clock;
    const SoftFaults& faults;
    SoftRandom& random;
    bool deterministic = false;
  };
  explicit SoftNics(const Parts& parts);
  ~SoftNics() override;

  [[nodiscard]] const Machine& machine() const { return parts_.bus.machine(); }
  [[nodiscard]] std::uint64_t port_of(std::uint32_t nic) const { return base_port_ + nic; }

  int make_domain(std::uint32_t nic, NicDomain** domain);
  int drop_domain(NicDomain* domain);
  int register_memory(NicDomain* domain, void* address, std::uint64_t length_bytes, int access,
                      NicRegion** region);
  int register_dmabuf(NicDomain* domain, std::uint64_t offset, std::uint64_t length_bytes,
                      std::uint64_t address, int descriptor, int access, NicRegion** region);
  int drop_region(NicRegion* region);
  int keys_of(NicRegion* region, std::uint32_t* local_key, std::uint32_t* remote_key);
  int make_queue(std::uint32_t nic, int capacity, NicQueue** queue);
  int drop_queue(NicQueue* queue);
  int poll(NicQueue* queue, int capacity, system::verbs::ibv_wc* completions, int* count);
  int make_pair(NicDomain* domain, system::verbs::ibv_qp_init_attr* wanted, NicPair** pair);
  int drop_pair(NicPair* pair);
  int modify(NicPair* pair, const system::verbs::ibv_qp_attr& attributes, int mask);
  int query(NicPair* pair, system::verbs::ibv_qp_attr* attributes,
            system::verbs::ibv_qp_init_attr* initial);
  int number_of(NicPair* pair, std::uint32_t* number);
  int post_send(NicPair* pair, system::verbs::ibv_send_wr* requests,
                system::verbs::ibv_send_wr** refused);
  int post_receive(NicPair* pair, system::verbs::ibv_recv_wr* requests,
                   system::verbs::ibv_recv_wr** refused);

  system::Step step() override;

 private:
  template <typename Thing>
  using Owned = std::map<const Thing*, std::unique_ptr<Thing>>;
  enum class Side : std::uint8_t { local, remote };

  // regions (soft_nic_memory.cpp)
  int add_region(std::unique_ptr<NicRegion> region, NicRegion** answer);
  int map_gpu(NicRegion& region, DevicePointer memory, std::uint64_t allocation);
  void unmap(NicRegion& region);
  /// The region of a key that lets these bytes be reached; null where none does.
  [[nodiscard]] const NicRegion* reach(const NicPair& pair, Side side, std::uint32_t key,
                                       std::uint64_t address, std::uint64_t length_bytes,
                                       int access) const;
  /// wc_success, or the status of whoever owns the memory.
  [[nodiscard]] int fetch(const NicPair& pair, const NicSend& work, std::uint64_t offset,
                          std::span<std::byte> target, std::uint64_t wire_address);
  [[nodiscard]] int scatter(const NicPair& pair, const std::vector<system::verbs::ibv_sge>& pieces,
                            std::uint64_t offset, std::span<const std::byte> source,
                            std::uint64_t wire_address);
  [[nodiscard]] int check_pieces(const NicPair& pair,
                                 const std::vector<system::verbs::ibv_sge>& pieces,
                                 int access) const;

  // requester (soft_nic_requester.cpp)
  bool advance(NicPair& pair, std::uint64_t now_ns);
  bool send_some(NicPair& pair, std::uint64_t now_ns);
  bool send_packet(NicPair& pair, NicSend& work, std::uint64_t now_ns);
  void hear(NicPair& pair, const WirePacket& packet, std::uint64_t now_ns);
  void hear_read(NicPair& pair, NicSend& work, const WirePacket& packet);
  bool complete_ready(NicPair& pair);
  bool time_out(NicPair& pair, std::uint64_t now_ns);
  void resend(NicPair& pair);
  [[nodiscard]] static std::uint64_t timeout_ns(const NicPair& pair);
  void fail(NicPair& pair);
  void complete(NicQueue& queue, const NicPair& pair, system::verbs::ibv_wc completion);

  // responder (soft_nic_responder.cpp)
  void answer(NicPair& pair, WirePacket packet);
  void take(NicPair& pair, const WirePacket& packet);
  struct Landing {
    int told = system::verbs::wc_success;  ///< to the sender
    int own = system::verbs::wc_success;   ///< of the receive that was taken for it
  };
  [[nodiscard]] Landing land(NicPair& pair, const WirePacket& packet);
  void begin_read(NicPair& pair, const WirePacket& packet);
  bool send_answers(NicPair& pair);
  void refuse(NicPair& pair, const WireHeader& request, int status);
  void reply(const NicPair& pair, WireHeader::Kind kind, const WireHeader& request, int status);

  // engine (soft_nic.cpp)
  void route(WirePacket packet, std::uint64_t now_ns);
  void put_on_wire(WirePacket packet);
  [[nodiscard]] bool is(Mutant mutant) const { return parts_.bus.planted(mutant); }
  [[nodiscard]] NicPair* pair_numbered(std::uint32_t number) const;
  void wake();
  [[nodiscard]] std::uint64_t next_timer(std::uint64_t now_ns) const;
  [[nodiscard]] std::uint64_t next_wire_address(std::uint64_t length_bytes);
  [[nodiscard]] std::uint32_t fresh_key();

  Parts parts_;
  std::uint64_t base_port_ = 0;
  std::uint64_t wire_address_ = 0;
  std::optional<system::WorkerId> engine_;
  mutable std::mutex mutex_;
  SoftWire wire_;
  Owned<NicDomain> domains_;
  Owned<NicRegion> regions_;
  Owned<NicQueue> queues_;
  Owned<NicPair> pairs_;
  std::map<std::uint32_t, NicRegion*> by_local_key_;
  std::map<std::uint32_t, NicRegion*> by_remote_key_;
  std::map<std::uint32_t, NicRegion> stale_;  ///< of a machine that is ill: keys outlive regions
  std::map<std::uint32_t, NicPair*> by_number_;
  std::uint32_t next_number_ = 0;
  std::uint64_t locked_bytes_ = 0;
};

}  // namespace nobounce::fabric
