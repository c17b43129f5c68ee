// Addresses of the network as text.
#include "system/network.hpp"

#include <charconv>
#include <utility>

namespace nobounce::system {

namespace {

constexpr std::size_t host_length_max = 253;  // of a name in DNS

Error wrong_address(std::string_view text, std::string detail) {
  return Error{.origin = ErrorOrigin::input,
               .attempted = "read the address \"" + std::string(text.substr(0, 300)) + "\"",
               .detail = std::move(detail),
               .remedy = "HOST:PORT, such as 127.0.0.1:4711 or [::1]:4711"};
}

bool may_be_in_a_host(char character) {
  return (character >= '0' && character <= '9') || (character >= 'a' && character <= 'z') ||
         (character >= 'A' && character <= 'Z') || character == '.' || character == '-' ||
         character == '_';
}

bool may_be_in_ipv6(char character) {
  return (character >= '0' && character <= '9') || (character >= 'a' && character <= 'f') ||
         (character >= 'A' && character <= 'F') || character == ':' || character == '.' ||
         character == '%';
}

template <typename Predicate>
bool holds_only(std::string_view text, Predicate predicate) {
  for (const char character : text) {
    if (!predicate(character)) return false;
  }
  return !text.empty();
}

}  // namespace

std::string to_string(const SocketAddress& address) {
  const bool brackets = address.host.find(':') != std::string::npos;
  return (brackets ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

Result<SocketAddress> parse_socket_address(std::string_view text) {
  std::string_view host;
  std::string_view port;
  if (!text.empty() && text.front() == '[') {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return wrong_address(text, "the bracket is not closed");
    host = text.substr(1, end - 1);
    if (!holds_only(host, may_be_in_ipv6)) {
      return wrong_address(text, "between brackets stands an IPv6 address");
    }
    if (end + 1 >= text.size() || text[end + 1] != ':') {
      return wrong_address(text, "it names no port");
    }
    port = text.substr(end + 2);
  } else {
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) return wrong_address(text, "it names no port");
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (port.find(':') != std::string_view::npos) {
      return wrong_address(text, "an IPv6 address stands between brackets");
    }
    if (host.size() > host_length_max || !holds_only(host, may_be_in_a_host)) {
      return wrong_address(text, "that is no name of a host");
    }
  }
  std::uint16_t number = 0;
  const char* const end = port.data() + port.size();
  const auto [stopped, code] = std::from_chars(port.data(), end, number);
  if (port.empty() || code != std::errc() || stopped != end) {
    return wrong_address(text, "a port is a number from 0 to 65535");
  }
  return SocketAddress{std::string(host), number};
}

bool is_loopback(const SocketAddress& address) {
  const std::string_view host = address.host;
  return host == "localhost" || host == "::1" ||
         (host.substr(0, 4) == "127." && host.find_first_not_of("0123456789.") == host.npos);
}

}  // namespace nobounce::system
