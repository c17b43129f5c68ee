// Proofs: for each pair and direction an idle window, a forced-staged control and the transfer,
// between readings of the witnesses, at several volumes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nobounce/proof.hpp>
#include <nobounce/session.hpp>
#include "core/function_ref.hpp"
#include "evidence/witness.hpp"
#include "system/host.hpp"

namespace nobounce::proof {

/// A pair and a direction to prove.
struct Subject {
  Member member = Member::storage;
  std::uint32_t source_gpu = 0;  ///< p2p, and storage writes
  std::uint32_t target_gpu = 0;  ///< p2p, and storage reads
  bool writing = false;          ///< storage: GPU -> file
  std::string path;              ///< storage: a scratch file that may be made and is removed
  std::string medium;            ///< storage: `drive:nvme0n1`, shown as source or target
  Peer* peer = nullptr;          ///< rdma: a connection, which must outlive the row
  std::string export_name;       ///< rdma: what is read, or written and put back
  /// rdma without a peer: of this machine; it joins the GPU to itself while the row runs.
  std::optional<std::uint32_t> adapter;
  /// storage: a raw drive of the session's own, read from its begin and never written; no path
  /// then.
  const OwnedDrive* drive = nullptr;
};

struct ProveOptions {
  std::vector<std::uint64_t> volumes_bytes{8u << 20, 16u << 20, 32u << 20};
  std::uint32_t rounds = 2;  ///< each volume so often
  bool force = false;        ///< run rows whose preconditions are unmet too
  std::uint64_t seed = 1;
  std::uint64_t idle_ns_min = 20'000'000;  ///< of an idle window, on a live machine
};

/// Which pairs are worth a row: each GPU's best partner plus one pair per level, or `all`.
/// `scratch` is a directory for storage rows; empty: no storage rows. A session adds adapters: of
/// the nearest of each GPU one pair per level, or `all` the nearest.
[[nodiscard]] std::vector<Subject> choose_subjects(const Machine& machine, system::Host& host,
                                                   const std::string& scratch, bool all);
[[nodiscard]] std::vector<Subject> choose_subjects(Session& session, system::Host& host,
                                                   const std::string& scratch, bool all);

/// A GPU and an adapter that joins it to itself: read from there, or written to it.
[[nodiscard]] Subject adapter_subject(const Machine& machine, std::uint32_t gpu,
                                      std::uint32_t adapter, bool writing);

/// What a peer offers, read into the nearest GPU or `all`; written to as well where that is
/// granted, after which its bytes are put back.
[[nodiscard]] Result<std::vector<Subject>> choose_peer_subjects(const Machine& machine, Peer& peer,
                                                                bool all);

/// Runs one row. Never fails as a whole: what went wrong is in the row's findings, missing and
/// causes.
[[nodiscard]] ProofRow prove_row(Session& session, system::Host& host,
                                 evidence::Witnesses& witnesses, const Subject& subject,
                                 const ProveOptions& options);

}  // namespace nobounce::proof
