// Events of a server as text and JSON.
#include "report/server_report.hpp"

#include <fmt/core.h>

#include "report/error_report.hpp"
#include "report/quantity.hpp"

namespace nobounce::report {

namespace {

constexpr const char* event_schema = "nobounce.event/1";

}  // namespace

std::string server_event_text(const ServerEventView& event, Style style) {
  std::string text =
      event.connection == 0 ? std::string("[-]") : fmt::format("[{}]", event.connection);
  text += " " + visible(event.address.empty() ? "-" : event.address) + " ";
  text += painted(event.event, event.error.has_value() ? Paint::notice : Paint::strong, style);
  if (!event.peer.empty() && event.event == "connected") text += ": " + visible(event.peer);
  if (!event.name.empty()) text += " " + visible(event.name);
  if (!event.source.empty()) {
    text += fmt::format(": {} -> {}, {}", visible(event.source), visible(event.target),
                        exact_bytes(event.requested_bytes));
  }
  if (event.error.has_value()) text += ": " + visible(shortened(to_string(*event.error)));
  text += "\n";
  if (event.receipt.has_value()) text += receipt_text(*event.receipt, style);
  return text;
}

core::Json server_event_json(const ServerEventView& event) {
  core::JsonObject document{{"schema", event_schema}, {"event", std::string_view(event.event)}};
  const auto add_text = [&](const char* name, const std::string& text) {
    if (!text.empty()) document.emplace_back(name, std::string_view(text));
  };
  if (event.connection != 0) document.emplace_back("connection", event.connection);
  add_text("address", event.address);
  add_text("peer", event.peer);
  add_text("name", event.name);
  add_text("source", event.source);
  add_text("target", event.target);
  if (!event.source.empty()) document.emplace_back("requested_bytes", event.requested_bytes);
  if (event.receipt.has_value()) document.emplace_back("receipt", receipt_json(*event.receipt));
  if (event.error.has_value()) document.emplace_back("error", error_json(*event.error));
  return document;
}

std::string server_text(const ServerView& server, Style style) {
  std::string text = banner(server.machine, style);
  text += fmt::format("serving  {} of {} as {}, for {}\n", exact_bytes(server.length_bytes),
                      server.place, painted(visible(server.name), Paint::strong, style),
                      server.access == "write" ? "reading and writing" : "reading");
  text += fmt::format("listening at {}\n", server.address);
  text += server.token_given
              ? "clients need the token that this server was given\n"
              : "processes of this user on this machine may connect; others need a token\n";
  // All addresses are none that a client could name.
  const std::size_t colon = server.address.rfind(':');
  const std::string host = server.address.substr(0, colon);
  const bool any = host == "0.0.0.0" || host == "[::]";
  text += fmt::format("  nobounce copy rdma://{}/{} PLACE{}\n",
                      any ? "HOST" + server.address.substr(colon) : server.address,
                      visible(server.name), server.token_given ? " --token-file FILE" : "");
  if (any) text += "  HOST: an address or name of this machine\n";
  return text;
}

core::Json server_json(const ServerView& server) {
  return core::JsonObject{
      {"schema", event_schema},
      {"event", "listening"},
      {"address", std::string_view(server.address)},
      {"name", std::string_view(server.name)},
      {"place", std::string_view(server.place)},
      {"access", std::string_view(server.access)},
      {"length_bytes", server.length_bytes},
      {"token_given", server.token_given},
      {"machine", label_json(server.machine)},
  };
}

}  // namespace nobounce::report
