// Reads the bus ledger of a software machine around one transfer.
#pragma once

#include <string>
#include <vector>

#include <nobounce/place.hpp>
#include "fabric/ledger.hpp"
#include "fabric/soft_host.hpp"
#include "report/bus_report.hpp"

namespace nobounce::cli {

/// Said where the bytes of a transfer went to another process.
inline constexpr const char* arrived_elsewhere =
    "the bytes arrived in the memory of another process, whose own ledger knows how";

/// Remembers the counters when made, and forgets earlier arrivals. `soft` must outlive it.
class BusWatch {
 public:
  explicit BusWatch(fabric::SoftHost& soft);

  /// What the bus carried since then. Call it before anybody reads the target again.
  [[nodiscard]] report::BusAccount account() const;

  /// Where a place lies on the bus; `path` is that of a file place. Empty if the file is not there.
  [[nodiscard]] std::optional<fabric::Extent> extent_of(const Place& place,
                                                        const std::string& path) const;

  /// How the bytes of the target arrived.
  [[nodiscard]] std::optional<CarriageBytes> arrived(const Place& target,
                                                     const std::string& target_path,
                                                     const Place& source) const;

 private:
  fabric::SoftHost& soft_;
  std::map<fabric::Ledger::Flow, std::uint64_t> flows_;
  std::map<std::string, fabric::Ledger::LinkBytes> links_;
  std::uint64_t dram_bytes_ = 0;
  std::uint64_t lost_bytes_ = 0;
};

}  // namespace nobounce::cli
