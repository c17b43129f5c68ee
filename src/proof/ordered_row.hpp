// A row of member async: the same bytes as a storage row, ordered by a stream or a kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "evidence/witness.hpp"
#include "proof/prove.hpp"

namespace nobounce::proof {

/// What one ordered transfer was.
struct OrderedResult {
  Outcome outcome;
  std::optional<bool> seen_by_issuer;     ///< a kernel that compared the bytes itself
  std::optional<std::uint64_t> sum_seen;  ///< of the source's 64-bit words, by the issuer
  std::uint64_t operations = 1;           ///< that the issuer asked for
  bool counted = false;                   ///< what follows was counted
  std::uint64_t system_calls = 0;         ///< made for them
  std::uint64_t wake_ups = 0;             ///< of whoever posted
};

/// How a stream or a kernel is made to order a transfer here. proof knows neither.
class OrderedRun {
 public:
  virtual ~OrderedRun() = default;
  [[nodiscard]] virtual Issuer issuer() const = 0;
  [[nodiscard]] virtual std::vector<Finding> findings() = 0;
  /// `seed`: of the pattern in the source. An error: nothing moved.
  [[nodiscard]] virtual Result<OrderedResult> run(const Place& source, const Place& target,
                                                  std::uint64_t seed) = 0;
};

/// `subject`: of member storage, reading. A proxy that posts makes the verdict `degraded`, whatever
/// carried the bytes; the doorbell rung by the GPU leaves it to the receipts and the counters.
[[nodiscard]] ProofRow prove_ordered_row(Session& session, system::Host& host,
                                         evidence::Witnesses& witnesses, const Subject& subject,
                                         const ProveOptions& options, OrderedRun& run);

}  // namespace nobounce::proof
