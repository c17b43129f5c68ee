// Rows of member async: what `check` judges and what `prove` runs, per GPU.
#pragma once

#include <cstdint>
#include <vector>

#include <nobounce/proof.hpp>
#include <nobounce/session.hpp>
#include "evidence/witness.hpp"
#include "proof/prove.hpp"
#include "report/check_report.hpp"
#include "system/host.hpp"

namespace nobounce::cli {

/// For a stream and for a kernel of that GPU.
[[nodiscard]] std::vector<report::CheckRow> async_check_rows(const Machine& machine,
                                                             system::Host& host, std::uint32_t gpu);

/// The same bytes ordered by a stream, and by a kernel through a CPU proxy. `subject`: a storage
/// row that reads. `asked_bytes`: the user's volumes, ascending, rounded up to what all blocks of a
/// kernel do; empty: smaller ones than of other rows.
[[nodiscard]] std::vector<ProofRow> prove_async_rows(Session& session, system::Host& host,
                                                     evidence::Witnesses& witnesses,
                                                     const proof::Subject& subject,
                                                     const proof::ProveOptions& options,
                                                     const std::vector<std::uint64_t>& asked_bytes);

/// A raw drive read by a kernel that rings its doorbell. `subject`: with a drive.
[[nodiscard]] ProofRow prove_doorbell_row(Session& session, system::Host& host,
                                          evidence::Witnesses& witnesses,
                                          const proof::Subject& subject,
                                          const proof::ProveOptions& options,
                                          const std::vector<std::uint64_t>& asked_bytes);

}  // namespace nobounce::cli
