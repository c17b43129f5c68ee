// A token between processes of one user.
#include "session/shared_token.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

namespace nobounce::session {

namespace {

constexpr std::string_view name_prefix = "token-";

/// `4711 TOKEN`: the process that left it, so that others can tell when it is gone.
struct Content {
  std::uint64_t process_id = 0;
  std::string token;
};

std::optional<Content> read_segment(system::Host& host, const std::string& name) {
  Result<system::SharedSegment> segment = host.storage().open_segment(name);
  if (!segment.ok()) return std::nullopt;
  const std::string text(reinterpret_cast<const char*>(segment->bytes.data()),
                         segment->bytes.size());
  host.storage().unmap_segment(*segment);
  const std::size_t space = text.find(' ');
  Content content;
  const auto [end, code] =
      std::from_chars(text.data(), text.data() + text.size(), content.process_id);
  if (space == std::string::npos || code != std::errc() || end != text.data() + space)
    return std::nullopt;
  content.token = text.substr(space + 1);
  return content;
}

/// What killed servers left behind.
void remove_stale(system::Host& host) {
  const Result<std::vector<std::string>> names = host.storage().list_segments(name_prefix);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const std::optional<Content> content = read_segment(host, name);
    if (content.has_value() && !host.process().alive(content->process_id))
      host.storage().remove_segment(name);
  }
}

/// Whether there is any server at all on this machine, by knocking.
std::optional<Error> nobody_listens(system::Host& host, const system::SocketAddress& address) {
  const Result<system::Network*> network = host.network();
  if (!network.ok()) return network.error();
  const Result<system::SocketHandle> socket = (*network)->connect(address);
  if (!socket.ok()) return socket.error();
  const Result<bool> stands = (*network)->connected(*socket);
  (*network)->close(*socket);
  return stands.ok() ? std::nullopt : std::optional<Error>(stands.error());
}

std::string segment_name(const std::string& host, std::uint16_t port) {
  std::string name = std::string(name_prefix) + host + "-" + std::to_string(port);
  std::replace(name.begin(), name.end(), ':', '.');
  return name;
}

}  // namespace

Result<LeftToken> LeftToken::leave(system::Host& host, const system::SocketAddress& address,
                                   const wire::Token& token) {
  remove_stale(host);
  const std::string name = segment_name(address.host, address.port);
  const std::string text = std::to_string(host.process().id()) + " " + std::string(token.text());
  Result<system::SharedSegment> segment = host.storage().create_segment(name, text.size());
  if (!segment.ok() && segment.error().code == EEXIST) {
    // Of a server that was killed: this one has the port now.
    host.storage().remove_segment(name);
    segment = host.storage().create_segment(name, text.size());
  }
  if (!segment.ok()) return std::move(segment).error();
  const auto bytes = wire::bytes_of(text);
  std::copy(bytes.begin(), bytes.end(), segment->bytes.begin());
  LeftToken left;
  left.host_ = &host;
  left.segment_ = *segment;
  return left;
}

LeftToken::LeftToken(LeftToken&& other) noexcept
    : host_(std::exchange(other.host_, nullptr)), segment_(std::move(other.segment_)) {}

LeftToken& LeftToken::operator=(LeftToken&& other) noexcept {
  std::swap(host_, other.host_);
  std::swap(segment_, other.segment_);
  return *this;
}

LeftToken::~LeftToken() {
  if (host_ == nullptr) return;
  std::fill(segment_.bytes.begin(), segment_.bytes.end(), std::byte{0});
  host_->storage().unmap_segment(segment_);
  host_->storage().remove_segment(segment_.name);
}

Result<wire::Token> find_token(system::Host& host, const system::SocketAddress& address) {
  std::vector<std::string> hosts{address.host};
  if (address.host == "localhost") hosts = {"127.0.0.1", "::1"};
  if (is_loopback(address)) {
    for (const std::string& name : hosts) {
      const std::optional<Content> content = read_segment(host, segment_name(name, address.port));
      if (content.has_value()) return wire::Token::from_text(content->token);
    }
  }
  const std::string attempted = "connect to " + to_string(address);
  if (is_loopback(address)) {
    if (std::optional<Error> nobody = nobody_listens(host, address)) {
      nobody->attempted = attempted;
      return *std::move(nobody);
    }
  }
  return Error{.origin = ErrorOrigin::input,
               .attempted = attempted,
               .cause = Cause::remote_authentication_failed,
               .detail = is_loopback(address)
                             ? "no token was given, and no server of this user left one for it"
                             : "no token was given",
               .remedy = is_loopback(address)
                             ? "a server that was given a token (nobounce serve --token-file FILE) "
                               "needs the same here"
                             : "the token of the server (nobounce serve --token-file FILE), the "
                               "same here"};
}

}  // namespace nobounce::session
