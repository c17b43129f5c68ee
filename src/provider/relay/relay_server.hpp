// The passive end of a relay: answers requests for pieces of what it exports.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <nobounce/result.hpp>
#include "provider/relay/piece_mover.hpp"
#include "wire/link.hpp"

namespace nobounce::provider {

/// How long a copy of a piece may take whose peer waits for it.
inline constexpr std::uint64_t copy_patience_ns = 30'000'000'000;

/// Of one connection. One thread at a time uses it.
class RelayServer {
 public:
  /// The memory that a request names, or why the request is refused.
  using Resolve =
      std::function<Result<Place>(std::uint64_t key, std::uint64_t offset_bytes,
                                  std::uint64_t length_bytes, wire::Direction direction)>;

  RelayServer(system::Host& host, system::CudaContexts* contexts, wire::Link& link,
              Resolve resolve);
  /// Gives up on copies that are under way: what they use stays until they have landed.
  ~RelayServer();
  RelayServer(const RelayServer&) = delete;
  RelayServer& operator=(const RelayServer&) = delete;

  /// StageRead and StageWrite. Refuses a peer that asks for more at once than it may.
  [[nodiscard]] Status take(wire::Link::Incoming request);
  /// Goes on with what can be gone on with; answers whether copies are under way. One that does
  /// not end is given up on after copy_patience_ns, so it is not for ever.
  bool step();
  /// While copies are under way: when to step again at the latest.
  [[nodiscard]] std::uint64_t look_again_ns(std::uint64_t now_ns) const {
    return mover_->look_again_ns(now_ns);
  }
  /// Refuses the waiting requests for an export; answers whether copies still touch its memory.
  bool refuse_waiting(std::uint64_t key);
  /// Nobody is there any more: what waits is not begun.
  void drop_waiting() { waiting_.clear(); }

  [[nodiscard]] std::uint64_t pinned_bytes() const { return mover_->pinned_bytes(); }

 private:
  struct Open {
    std::uint64_t key = 0;
    bool read = false;
  };
  void begin(wire::Link::Incoming request);
  void fail(std::uint64_t piece, const Error& error);

  void refuse_clogged();

  system::Host& host_;
  wire::Link& link_;
  Resolve resolve_;
  std::unique_ptr<relay::PieceMover> mover_;
  std::deque<wire::Link::Incoming> waiting_;
  std::map<std::uint64_t, Open> open_;  ///< by piece
};

}  // namespace nobounce::provider
