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
/// row that reads.
[[nodiscard]] std::vector<ProofRow> prove_async_rows(Session& session, system::Host& host,
                                                     evidence::Witnesses& witnesses,
                                                     const proof::Subject& subject,
                                                     const proof::ProveOptions& options);

/// A raw drive read by a kernel that rings its doorbell. `subject`: with a drive.
[[nodiscard]] ProofRow prove_doorbell_row(Session& session, system::Host& host,
                                          evidence::Witnesses& witnesses,
                                          const proof::Subject& subject,
                                          const proof::ProveOptions& options);

}  // namespace nobounce::cli
