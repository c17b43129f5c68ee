// Two queue pairs of one adapter joined to each other, and memory behind them: what sequences of
// verbs begin with. All of it is asked for without a trace, and given back at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/sequence.hpp"

namespace nobounce::conformance {

/// Sequences of verbs need an adapter and nothing of a GPU.
inline const Needs adapter_alone{.start = Start::bare, .gpus = 0, .verbs = true};

inline constexpr int every_access =
    verbs::access_local_write | verbs::access_remote_write | verbs::access_remote_read;

/// Whole pages of this process, zero at first.
class Pages {
 public:
  explicit Pages(std::size_t bytes, bool read_only = false);
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(data_); }
  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, size_}; }
  void plant(std::uint64_t seed) const;

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// The first adapter, opened, and an address of its port that RoCE v2 uses, or its first.
class Adapter {
 public:
  explicit Adapter(Run& run);
  ~Adapter();
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  Run& run;
  system::Verbs& quiet;
  verbs::ibv_context* context = nullptr;
  verbs::ibv_gid_entry gid{};
  verbs::ibv_port_attr port{};
};

struct Registered {
  verbs::ibv_mr* handle = nullptr;
  std::uint64_t address = 0;
  std::uint32_t local_key = 0;
  std::uint32_t remote_key = 0;
};

struct EndOptions {
  int access = every_access;  ///< of the queue pair
  std::uint8_t timeout = 14;  ///< 67 ms
  std::uint8_t retries = 7;
  std::uint8_t not_ready_retries = 7;
  std::uint8_t not_ready_timer = 1;  ///< 10 us; 0: 655 ms
  std::uint8_t reads = 4;
  std::uint32_t sends = 32;
  std::uint32_t pieces = 4;
  std::uint32_t inline_bytes = 64;
  bool all_signaled = false;
};

/// A domain, a completion queue and a queue pair.
class QueueEnd {
 public:
  explicit QueueEnd(Adapter& adapter, const EndOptions& options = {});
  ~QueueEnd();
  QueueEnd(const QueueEnd&) = delete;
  QueueEnd& operator=(const QueueEnd&) = delete;

  [[nodiscard]] Registered enroll(const Pages& pages, int access = every_access);
  /// Without a trace; what a sequence gave back already is not.
  void drop(Registered& region);
  void drop_pair();

  // Attributes of the three changes, complete, for sequences that spoil one.
  [[nodiscard]] verbs::ibv_qp_attr init_attributes() const;
  [[nodiscard]] verbs::ibv_qp_attr rtr_attributes(const QueueEnd& far) const;
  [[nodiscard]] verbs::ibv_qp_attr rts_attributes() const;
  /// With the trace.
  int change(verbs::ibv_qp_attr attributes, int mask);
  void state(std::string_view name);

  Adapter& adapter;
  EndOptions options;
  verbs::ibv_pd* domain = nullptr;
  verbs::ibv_cq* queue = nullptr;
  verbs::ibv_qp* pair = nullptr;
  verbs::ibv_qp_cap capacity{};
  std::uint32_t number = 0;

 private:
  std::vector<verbs::ibv_mr*> regions_;
};

inline constexpr int init_mask = verbs::qp_mask_state | verbs::qp_mask_pkey_index |
                                 verbs::qp_mask_port | verbs::qp_mask_access_flags;
inline constexpr int rtr_mask = verbs::qp_mask_state | verbs::qp_mask_av | verbs::qp_mask_path_mtu |
                                verbs::qp_mask_dest_qpn | verbs::qp_mask_rq_psn |
                                verbs::qp_mask_max_dest_rd_atomic | verbs::qp_mask_min_rnr_timer;
inline constexpr int rts_mask = verbs::qp_mask_state | verbs::qp_mask_sq_psn |
                                verbs::qp_mask_timeout | verbs::qp_mask_retry_count |
                                verbs::qp_mask_rnr_retry | verbs::qp_mask_max_rd_atomic;

/// To ready-to-send, without a trace.
void join(QueueEnd& one, QueueEnd& other);
/// One end of them, towards a pair that need not exist.
void join_to(QueueEnd& end, const QueueEnd& far, std::uint32_t number);

struct Ask {
  int opcode = verbs::wr_rdma_write;
  std::uint64_t id = 1;
  std::vector<verbs::ibv_sge> pieces;
  std::uint64_t remote = 0;
  std::uint32_t remote_key = 0;
  unsigned flags = verbs::send_signaled;
  std::uint32_t imm = 0;
};

/// Posts them as one chain, with the trace; says which was refused.
int post(QueueEnd& end, const std::vector<Ask>& chain);
int post_receive(QueueEnd& end, std::uint64_t id, std::vector<verbs::ibv_sge> pieces);
/// Waits for that many completions, writes down all that came, and says if there were others.
void await(QueueEnd& end, std::string_view name, std::size_t wanted);

/// Both ends joined, with memory registered at each: what most sequences need.
struct Line {
  explicit Line(Run& run, const EndOptions& near_options = {}, const EndOptions& far_options = {},
                std::size_t bytes = 8192);
  [[nodiscard]] Ask write(std::uint64_t id, std::uint32_t bytes = 4096) const;
  [[nodiscard]] Ask read(std::uint64_t id, std::uint32_t bytes = 4096) const;
  [[nodiscard]] Ask send(std::uint64_t id, std::uint32_t bytes = 64) const;
  [[nodiscard]] verbs::ibv_sge here(std::uint64_t offset, std::uint32_t bytes) const;
  [[nodiscard]] verbs::ibv_sge there(std::uint64_t offset, std::uint32_t bytes) const;
  /// One request, what became of it, and what is left in the memory of both ends.
  void ask(const Ask& ask);

  Run& run;
  Adapter adapter;
  Pages source;
  Pages target;
  QueueEnd near;  ///< gone before the memory
  QueueEnd far;
  Registered ours;
  Registered theirs;
};

}  // namespace nobounce::conformance
