// The two ends of a row: GPU memory, and for storage a scratch file that is removed with it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <nobounce/session.hpp>
#include "proof/adapter_loop.hpp"
#include "proof/prove.hpp"
#include "system/host.hpp"

namespace nobounce::proof {

/// A raw drive's bytes are what they are. The file, if any, is closed and removed with it; a peer's
/// memory gets its bytes back. Session, host and subject must outlive it.
class RowPlaces {
 public:
  RowPlaces(Session& session, system::Host& host, const Subject& subject)
      : session_(session), host_(host), subject_(subject) {}
  ~RowPlaces();
  RowPlaces(const RowPlaces&) = delete;
  RowPlaces& operator=(const RowPlaces&) = delete;

  /// Makes GPU memory for the largest volume, fills the source, and writes the file that a read row
  /// reads.
  [[nodiscard]] Status prepare(std::uint64_t bytes_max, std::uint64_t seed);
  /// Opens what one run needs; for writes a new file, so that nothing of the run before is left.
  [[nodiscard]] Status open(std::uint64_t bytes);

  /// The control: what lies between is host memory, by the session's own staging or, for a raw
  /// drive, behind which there is none, in two transfers.
  [[nodiscard]] Outcome stage(std::uint64_t bytes);

  /// Of the 64-bit words that the last control of a raw drive left in host memory.
  [[nodiscard]] std::optional<std::uint64_t> sum_of_staged(std::uint64_t bytes) const;

  [[nodiscard]] Place source(std::uint64_t bytes) const;
  [[nodiscard]] Place target(std::uint64_t bytes) const;

 private:
  Status allocate(std::optional<Region>& region, std::uint32_t gpu, std::uint64_t bytes);
  Status write_source_file(std::uint64_t bytes);
  Status prepare_drive(std::uint64_t bytes);
  Status open_loop(std::uint64_t bytes, std::uint64_t seed);
  Status open_export(Peer& peer, const std::string& name, std::uint64_t bytes);

  Session& session_;
  system::Host& host_;
  const Subject& subject_;
  std::optional<Region> source_;
  std::optional<Region> target_;
  std::optional<File> file_;
  std::unique_ptr<AdapterLoop> loop_;
  std::optional<RemoteRegion> remote_;
  std::optional<Region> saved_;    ///< what lay in the peer's memory
  std::optional<Region> between_;  ///< a raw drive and a GPU, for controls
};

}  // namespace nobounce::proof
