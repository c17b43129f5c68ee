// The receipt block: what moved, how, how strongly that is known, and why it was not better.
#include <array>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include "report/quantity.hpp"
#include "report/receipt_report.hpp"

namespace nobounce::report {

namespace {

constexpr std::size_t receipt_label_columns = 12;
constexpr std::array<Carriage, carriage_count> carriages{
    Carriage::direct,     Carriage::device_bounced, Carriage::in_place,
    Carriage::cpu_mapped, Carriage::staged,         Carriage::unattributed};

std::string line(std::string_view label, std::string_view text) {
  return "  " + left(label, receipt_label_columns) + std::string(text) + "\n";
}

Paint paint_of(Carriage carriage) {
  switch (carriage) {
    case Carriage::direct:
    case Carriage::device_bounced:
      return Paint::good;
    case Carriage::unattributed:
      return Paint::bad;
    default:
      return Paint::notice;
  }
}

Paint paint_of(TransferState state) {
  switch (state) {
    case TransferState::done:
      return Paint::good;
    case TransferState::refused:
    case TransferState::cancelled:
      return Paint::notice;
    case TransferState::failed:
      return Paint::bad;
  }
  return Paint::plain;
}

std::string_view meaning_of(Known known) {
  switch (known) {
    case Known::claimed:
      return "the mover says so";
    case Known::counted:
      return "a driver's or device's own counter agrees";
    case Known::witnessed:
      return "a separating counter that the mover does not own agrees";
  }
  return "";
}

std::string bytes_lines(const Receipt& receipt, Style style) {
  const std::uint64_t total = receipt.bytes.total();
  std::string text = total == receipt.requested_bytes
                         ? line("bytes", exact_bytes(total))
                         : line("bytes", fmt::format("{} of {} asked for", exact_bytes(total),
                                                     exact_bytes(receipt.requested_bytes)));
  const std::size_t digits = grouped(total).size();
  for (const Carriage carriage : carriages) {
    const std::uint64_t bytes = receipt.bytes[carriage];
    if (bytes == 0) continue;
    text += line("", fmt::format("{} {} B  {}",
                                 painted(left(to_string(carriage), 15), paint_of(carriage), style),
                                 right(grouped(bytes), digits), right(share(bytes, total), 8)));
  }
  return text;
}

/// The words of a cause; where a transfer ended badly, a file that was written in place is no mere
/// possibility.
CauseRow words_of_cause(const Receipt& receipt, Cause cause) {
  CauseRow row = cause_row(cause);
  const bool badly =
      receipt.state == TransferState::failed || receipt.state == TransferState::cancelled;
  if (cause == Cause::file_written_in_place && badly) {
    row.sentence =
        "The file was written in place, and the transfer did not end well: the file may "
        "be half written";
    row.remedy =
        "Do not use it before it was written again; leave out --in-place to write under a "
        "temporary name where the target allows it";
  }
  return row;
}

std::string causes_lines(const Receipt& receipt, Style style) {
  std::string text;
  for (std::size_t i = 0; i < receipt.cause_count; ++i) {
    const CauseRow row = words_of_cause(receipt, receipt.causes[i]);
    text += line(i == 0 ? "because" : "", painted(row.id, Paint::strong, style));
    text += wrapped(row.sentence, receipt_label_columns + 4, text_width);
    if (!row.remedy.empty())
      text += wrapped("try: " + std::string(row.remedy), receipt_label_columns + 4, text_width);
  }
  return text;
}

std::string verified_line(const NamedReceipt& named, Style style) {
  if (!named.verified.has_value()) return line("verified", "not checked");
  if (*named.verified) return line("verified", "source and target compared by checksum: equal");
  return line("verified", painted("NO: source and target DIFFER", Paint::bad, style));
}

/// A receipt for bytes that never moved has nothing to say of links and times.
std::string how_lines(const NamedReceipt& named, Style style) {
  const Receipt& receipt = named.receipt;
  std::string text;
  if (receipt.bytes.total() != 0) {
    text += line("link", to_string(receipt.link));
    text += line("issued by", fmt::format("{}, doorbell rung by {}", to_string(receipt.issuer),
                                          to_string(receipt.poster)));
    text +=
        line("known", fmt::format("{}: {}", to_string(receipt.known), meaning_of(receipt.known)));
  }
  if (receipt.pinned_bytes != 0) {
    text += line("bounce", exact_bytes(receipt.pinned_bytes) + " of pinned host memory used");
  }
  if (receipt.degraded) {
    text += line("degraded", painted("direct, but slower than it should be", Paint::notice, style));
  }
  if (!receipt.software_machine && receipt.state != TransferState::refused) {
    const std::string speed =
        receipt.bytes.total() == 0 ? "" : rate(receipt.bytes.total(), receipt.elapsed_ns);
    text +=
        line("time", speed.empty() ? duration(receipt.elapsed_ns)
                                   : fmt::format("{} ({})", duration(receipt.elapsed_ns), speed));
  }
  return text;
}

}  // namespace

std::string receipt_text(const NamedReceipt& named, Style style) {
  const Receipt& receipt = named.receipt;
  std::string text = fmt::format("{}  {} -> {}\n", painted("receipt", Paint::strong, style),
                                 visible(named.source), visible(named.target));
  text += line("transfer",
               fmt::format("{}, {}, policy {}", to_string(receipt.member),
                           painted(to_string(receipt.state), paint_of(receipt.state), style),
                           to_string(receipt.policy)));
  text += bytes_lines(receipt, style);
  text += how_lines(named, style);
  if (receipt.state != TransferState::refused) text += verified_line(named, style);
  if (receipt.durable) text += line("durable", "yes: the file and its directory entry are synced");
  text += causes_lines(receipt, style);
  return text;
}

}  // namespace nobounce::report
