// A receipt for people, and as JSON: what `nobounce copy` prints.
#pragma once

#include <string>

#include <nobounce/receipt.hpp>

namespace nobounce {

/// A block of lines, without colours. A receipt of a software machine says first that it is one.
[[nodiscard]] std::string to_text(const Receipt& receipt, const ReceiptNames& names);

/// The document `nobounce.receipt/1`, indented, with a line end.
[[nodiscard]] std::string to_json_text(const Receipt& receipt, const ReceiptNames& names);

}  // namespace nobounce
