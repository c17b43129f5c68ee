// The handshake: both ends prove that they know the token, to each other and for this conversation
// alone. Pure: frames in, bytes out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nobounce/result.hpp>
#include "wire/frame.hpp"
#include "wire/token.hpp"

namespace nobounce::wire {

enum class Role : std::uint8_t { client, server };

/// hello -> challenge -> proof -> welcome. Each proof covers both names, versions and nonces and
/// says whose it is, so that neither a recording nor a reflection of one is worth anything; the
/// keys that seal all later messages, those about queue pairs among them, come from the same.
class Handshake {
 public:
  /// `nonce` must never have been used before. The token must outlive it.
  Handshake(Role role, const Token& token, std::string name, const Nonce& nonce);

  /// What a client says first; empty for a server.
  [[nodiscard]] std::vector<std::byte> begin();
  /// Takes the next frame and answers what to send, perhaps nothing. Cause
  /// remote.authentication_failed where the other end does not know the token,
  /// remote.handshake_invalid where it does not follow the protocol, or the cause of its refusal.
  [[nodiscard]] Result<std::vector<std::byte>> take(const Frame& frame);

  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] const std::string& peer_name() const { return peer_name_; }
  /// Once done.
  [[nodiscard]] Seal sending() const;
  [[nodiscard]] Seal receiving() const;

 private:
  [[nodiscard]] Result<std::vector<std::byte>> take_hello(const Hello& hello, const Frame& frame);
  [[nodiscard]] Result<std::vector<std::byte>> take_challenge(const Challenge& challenge,
                                                              const Frame& frame);
  [[nodiscard]] Result<std::vector<std::byte>> take_proof(const Proof& proof);
  [[nodiscard]] Result<std::vector<std::byte>> take_welcome(const Welcome& welcome);
  [[nodiscard]] Mac proof_of(Role whose) const;
  [[nodiscard]] SecretKey key_of(Role whose) const;

  Role role_;
  const Token& token_;
  std::string name_;
  Nonce nonce_;
  std::string peer_name_;
  std::vector<std::byte> hello_;  ///< frames as they went over the wire
  std::vector<std::byte> challenge_;
  bool done_ = false;
};

}  // namespace nobounce::wire
