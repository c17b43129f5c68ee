// A receipt for people and for programs (`nobounce.receipt/1`).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nobounce/receipt.hpp>
#include "core/json.hpp"
#include "report/machine_label.hpp"
#include "report/style.hpp"

namespace nobounce::report {

/// A receipt with what only the session knows: the names of its devices, and whether somebody
/// compared the bytes.
struct NamedReceipt {
  Receipt receipt;
  std::string source;  ///< `file:/data/a.bin`, `gpu:0`
  std::string target;
  MachineLabel machine;
  std::optional<bool> verified;  ///< both ends compared after the transfer; empty: nobody looked
};

/// One block of lines.
[[nodiscard]] std::string receipt_text(const NamedReceipt& receipt, Style style);

/// The document of one receipt.
[[nodiscard]] core::Json receipt_json(const NamedReceipt& receipt);

/// One receipt as it is, several as `{schema, receipts[]}`.
[[nodiscard]] core::Json receipts_json(const std::vector<NamedReceipt>& receipts);

}  // namespace nobounce::report
