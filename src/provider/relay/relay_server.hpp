// The passive end of a relay: answers requests for pieces of what it exports.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include <nobounce/result.hpp>
#include "provider/relay/piece_mover.hpp"
#include "wire/link.hpp"

namespace nobounce::provider {

/// Of one connection. One thread at a time uses it.
class RelayServer {
 public:
  /// The memory that a request names, or why the request is refused.
  using Resolve =
      std::function<Result<Place>(std::uint64_t key, std::uint64_t offset_bytes,
                                  std::uint64_t length_bytes, wire::Direction direction)>;

  RelayServer(system::Host& host, system::CudaContexts* contexts, wire::Link& link,
              Resolve resolve);

  /// StageRead and StageWrite. Refuses a peer that asks for more at once than it may.
  [[nodiscard]] Status take(wire::Link::Incoming request);
  /// Goes on with what can be gone on with; answers whether copies are under way.
  bool step();
  /// Refuses the waiting requests for an export; answers whether copies still touch its memory.
  bool refuse_waiting(std::uint64_t key);
  /// Nobody is there any more: what waits is not begun.
  void drop_waiting() { waiting_.clear(); }

  [[nodiscard]] std::uint64_t pinned_bytes() const { return mover_.pinned_bytes(); }

 private:
  struct Open {
    std::uint64_t key = 0;
    bool read = false;
  };
  void begin(wire::Link::Incoming request);
  void fail(std::uint64_t piece, const Error& error);

  wire::Link& link_;
  Resolve resolve_;
  relay::PieceMover mover_;
  std::deque<wire::Link::Incoming> waiting_;
  std::map<std::uint64_t, Open> open_;  ///< by piece
};

}  // namespace nobounce::provider
