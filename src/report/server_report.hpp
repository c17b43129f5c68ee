// What happens at a server, for people and for programs (`nobounce.event/1`).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nobounce/error.hpp>
#include "core/json.hpp"
#include "report/machine_label.hpp"
#include "report/receipt_report.hpp"
#include "report/style.hpp"

namespace nobounce::report {

/// One event. Where something does not apply it is empty.
struct ServerEventView {
  std::string event;             ///< `connected`
  std::uint64_t connection = 0;  ///< 0: none
  std::string address;           ///< of the peer
  std::string peer;              ///< its name
  std::string name;              ///< of the export
  std::string source;            ///< of a transfer
  std::string target;
  std::uint64_t requested_bytes = 0;
  std::optional<NamedReceipt> receipt;
  std::optional<Error> error;
};

/// What a server offers, said before the first event.
struct ServerView {
  std::string address;
  std::string name;
  std::string place;  ///< `gpu:0`
  std::string access;
  std::uint64_t length_bytes = 0;
  bool token_given = false;  ///< else other processes of this user find one by themselves
  MachineLabel machine;
};

/// One line, and a receipt block where a transfer has ended.
[[nodiscard]] std::string server_event_text(const ServerEventView& event, Style style);
[[nodiscard]] core::Json server_event_json(const ServerEventView& event);

[[nodiscard]] std::string server_text(const ServerView& server, Style style);
[[nodiscard]] core::Json server_json(const ServerView& server);

}  // namespace nobounce::report
