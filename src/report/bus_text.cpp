// The bus ledger as text.
#include <algorithm>
#include <string>

#include <fmt/core.h>

#include "report/bus_report.hpp"
#include "report/quantity.hpp"

namespace nobounce::report {

namespace {

constexpr std::size_t number_columns = 17;

std::string comparison(const CarriageBytes& arrived, const Receipt& receipt, Style style) {
  if (receipt.bytes.total() == 0 && arrived.total() == 0) {
    return "  nothing arrived, and the receipt says so\n";
  }
  std::string text = fmt::format("  {}{}{}\n", left("carriage", 18),
                                 right("receipt", number_columns), right("bus", number_columns));
  for (std::size_t i = 0; i < carriage_count; ++i) {
    const auto carriage = static_cast<Carriage>(i);
    const std::uint64_t said = receipt.bytes[carriage];
    const std::uint64_t carried = arrived[carriage];
    if (said == 0 && carried == 0) continue;
    text +=
        fmt::format("  {}{}{}  {}\n", left(to_string(carriage), 18),
                    right(grouped(said), number_columns), right(grouped(carried), number_columns),
                    said == carried ? painted("equal", Paint::good, style)
                                    : painted("DIFFERENT", Paint::bad, style));
  }
  return text;
}

}  // namespace

std::string bus_text(const BusAccount& account, const Receipt& receipt, Style style) {
  std::string text = painted("bus ledger", Paint::strong, style) +
                     "  of this transfer and any probe before it, kept by the software machine\n";
  if (account.arrived.has_value()) {
    text += comparison(*account.arrived, receipt, style);
  } else if (!account.not_compared.empty()) {
    text += "  not compared: " + account.not_compared + "\n";
  } else {
    text += "  the target was not put in place: its bytes are gone\n";
  }
  for (const BusAccount::Flow& flow : account.flows) {
    text += fmt::format("  {} B  {} -> {}, moved by {}\n", right(grouped(flow.bytes), 15),
                        visible(flow.source), visible(flow.target), visible(flow.initiator));
  }
  text +=
      fmt::format("  {} B  of host DRAM read or written\n", right(grouped(account.dram_bytes), 15));
  if (account.lost_bytes != 0) {
    text += fmt::format("  {} B  {}\n", right(grouped(account.lost_bytes), 15),
                        painted("lost on the bus", Paint::bad, style));
  }
  for (const BusAccount::LinkBytes& link : account.links) {
    text +=
        fmt::format("  link {}  {} B to the device, {} B from it\n", left(visible(link.name), 24),
                    grouped(link.towards_device), grouped(link.towards_root));
  }
  return text;
}

}  // namespace nobounce::report
