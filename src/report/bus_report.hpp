// The bus ledger of a software machine beside a receipt: what was said, and what the bus carried.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nobounce/receipt.hpp>
#include "report/style.hpp"

namespace nobounce::report {

/// The bus's own account of one transfer, read before anybody verified anything.
struct BusAccount {
  struct Flow {
    std::string initiator;  ///< `drive:0`
    std::string source;     ///< `media:0`
    std::string target;     ///< `vram:0`
    std::uint64_t bytes = 0;
  };
  struct LinkBytes {
    std::string name;  ///< `switch:0/gpu:0`
    std::uint64_t towards_device = 0;
    std::uint64_t towards_root = 0;
  };
  std::vector<Flow> flows;
  std::vector<LinkBytes> links;
  std::uint64_t dram_bytes = 0;  ///< read and written, all nodes
  std::uint64_t lost_bytes = 0;
  /// How the target's bytes arrived; empty where the target is gone (a file that was never put in
  /// place).
  std::optional<CarriageBytes> arrived;
  /// Why nothing is compared, where the reason is another one.
  std::string not_compared;
};

/// Receipt and bus, carriage by carriage, then the flows, the DRAM and the links.
[[nodiscard]] std::string bus_text(const BusAccount& account, const Receipt& receipt, Style style);

}  // namespace nobounce::report
