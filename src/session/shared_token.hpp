// Tokens: given by the user, or left for other processes of the same user on this machine.
#pragma once

#include <string>
#include <string_view>

#include <nobounce/result.hpp>
#include "system/host.hpp"
#include "system/network.hpp"
#include "wire/token.hpp"

namespace nobounce::session {

/// A random token in a shared segment that only this user can read; gone with the object.
class LeftToken {
 public:
  LeftToken() = default;
  /// For a server that listens at `address`, which nobody else can then do.
  [[nodiscard]] static Result<LeftToken> leave(system::Host& host,
                                               const system::SocketAddress& address,
                                               const wire::Token& token);
  LeftToken(LeftToken&& other) noexcept;
  LeftToken& operator=(LeftToken&& other) noexcept;
  ~LeftToken();

 private:
  system::Host* host_ = nullptr;
  system::SharedSegment segment_;
};

/// The token that a server at that address left. Origin input, with the remedy, where there is
/// none.
[[nodiscard]] Result<wire::Token> find_token(system::Host& host,
                                             const system::SocketAddress& address);

}  // namespace nobounce::session
