// The handshake, step by step.
#include "wire/handshake.hpp"

#include <utility>

namespace nobounce::wire {

namespace {

Error failed(Cause cause, std::string detail) {
  return remote_error(cause, "shake hands with the far side", std::move(detail));
}

constexpr const char* wrong_token = "the two ends have different tokens, or none that both know";

}  // namespace

Handshake::Handshake(Role role, const Token& token, std::string name, const Nonce& nonce)
    : role_(role), token_(token), name_(std::move(name)), nonce_(nonce) {}

std::vector<std::byte> Handshake::begin() {
  if (role_ == Role::server) return {};
  hello_ = make_frame(Hello{.nonce = nonce_, .name = name_}, nullptr);
  return hello_;
}

Mac Handshake::proof_of(Role whose) const {
  const SecretKey key = token_.key_for("nobounce wire 1: handshake", {});
  return mac_of(key.bytes(),
                {bytes_of(whose == Role::client ? "client" : "server"), hello_, challenge_});
}

SecretKey Handshake::key_of(Role whose) const {
  return token_.key_for(whose == Role::client ? "nobounce wire 1: frames of the client"
                                              : "nobounce wire 1: frames of the server",
                        {hello_, challenge_});
}

Seal Handshake::sending() const {
  return Seal(key_of(role_));
}
Seal Handshake::receiving() const {
  return Seal(key_of(role_ == Role::client ? Role::server : Role::client));
}

Result<std::vector<std::byte>> Handshake::take(const Frame& frame) {
  if (const auto* refusal = std::get_if<Refusal>(&frame.message)) {
    return error_of(*refusal, "shake hands with the far side");
  }
  if (role_ == Role::server) {
    if (const auto* hello = std::get_if<Hello>(&frame.message); hello != nullptr && hello_.empty())
      return take_hello(*hello, frame);
    if (const auto* proof = std::get_if<Proof>(&frame.message);
        proof != nullptr && !hello_.empty() && !done_)
      return take_proof(*proof);
  } else {
    if (const auto* challenge = std::get_if<Challenge>(&frame.message);
        challenge != nullptr && challenge_.empty())
      return take_challenge(*challenge, frame);
    if (const auto* welcome = std::get_if<Welcome>(&frame.message);
        welcome != nullptr && !challenge_.empty() && !done_)
      return take_welcome(*welcome);
  }
  return failed(Cause::remote_handshake_invalid, "a message out of its turn");
}

Result<std::vector<std::byte>> Handshake::take_hello(const Hello& hello, const Frame& frame) {
  if (hello.version_min > version_max || hello.version_max < version_min) {
    return failed(Cause::remote_handshake_invalid,
                  "it speaks versions " + std::to_string(hello.version_min) + " to " +
                      std::to_string(hello.version_max) + " of the protocol, this end " +
                      std::to_string(version_min) + " to " + std::to_string(version_max));
  }
  hello_ = frame.head;
  peer_name_ = hello.name;
  const auto version = hello.version_max < version_max ? hello.version_max : version_max;
  challenge_ = make_frame(Challenge{.version = version, .nonce = nonce_, .name = name_}, nullptr);
  return challenge_;
}

Result<std::vector<std::byte>> Handshake::take_challenge(const Challenge& challenge,
                                                         const Frame& frame) {
  if (challenge.version < version_min || challenge.version > version_max) {
    return failed(Cause::remote_handshake_invalid,
                  "it chose version " + std::to_string(challenge.version) + " of the protocol");
  }
  if (challenge.nonce == nonce_) {
    return failed(Cause::remote_authentication_failed, "it sent this end's own nonce back");
  }
  challenge_ = frame.head;
  peer_name_ = challenge.name;
  return make_frame(Proof{proof_of(Role::client)}, nullptr);
}

Result<std::vector<std::byte>> Handshake::take_proof(const Proof& proof) {
  if (!equal_in_constant_time(proof.mac, proof_of(Role::client)))
    return failed(Cause::remote_authentication_failed, wrong_token);
  done_ = true;
  return make_frame(Welcome{proof_of(Role::server)}, nullptr);
}

Result<std::vector<std::byte>> Handshake::take_welcome(const Welcome& welcome) {
  if (!equal_in_constant_time(welcome.mac, proof_of(Role::server)))
    return failed(Cause::remote_authentication_failed, wrong_token);
  done_ = true;
  return std::vector<std::byte>();
}

}  // namespace nobounce::wire
