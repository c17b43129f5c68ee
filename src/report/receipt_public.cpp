// Receipts as programs that use the library show them.
#include <utility>

#include <nobounce/receipt_text.hpp>
#include "report/receipt_report.hpp"

namespace nobounce {

namespace {

report::NamedReceipt named(const Receipt& receipt, const ReceiptNames& names) {
  return {.receipt = receipt,
          .source = names.source,
          .target = names.target,
          .machine = {.kind = names.machine_kind, .name = names.machine_name},
          .verified = std::nullopt};
}

}  // namespace

std::string to_text(const Receipt& receipt, const ReceiptNames& names) {
  const report::NamedReceipt whole = named(receipt, names);
  return report::banner(whole.machine, {}) + report::receipt_text(whole, {});
}

std::string to_json_text(const Receipt& receipt, const ReceiptNames& names) {
  return core::dump_json(report::receipt_json(named(receipt, names))) + "\n";
}

}  // namespace nobounce
