// HMAC-SHA-256 by libsodium. Its sodium_init() only picks faster code for other functions and opens
// a source of random numbers, which we do not use: it is not called.
#include "wire/token.hpp"

#include <sodium.h>

#include <utility>

#include "wire/bytes.hpp"

namespace nobounce::wire {

namespace {

const unsigned char* unsigned_bytes(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

Error bad_token(std::string detail) {
  return Error{.origin = ErrorOrigin::input,
               .attempted = "read the token",
               .cause = Cause::none,
               .detail = std::move(detail),
               .remedy = "head -c 32 /dev/urandom | base64 > FILE makes a good one"};
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view white = " \t\r\n";
  const std::size_t first = text.find_first_not_of(white);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(white) - first + 1);
}

}  // namespace

Mac mac_of(std::span<const std::byte> key,
           std::initializer_list<std::span<const std::byte>> parts) {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, unsigned_bytes(key), key.size());
  for (const std::span<const std::byte> part : parts) {
    std::vector<std::byte> length;
    ByteWriter(length).u64(part.size());
    crypto_auth_hmacsha256_update(&state, unsigned_bytes(length), length.size());
    crypto_auth_hmacsha256_update(&state, unsigned_bytes(part), part.size());
  }
  Mac mac;
  static_assert(sizeof(mac) == crypto_auth_hmacsha256_BYTES);
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(mac.data()));
  return mac;
}

bool equal_in_constant_time(std::span<const std::byte> first, std::span<const std::byte> second) {
  return first.size() == second.size() &&
         sodium_memcmp(first.data(), second.data(), first.size()) == 0;
}

SecretKey::~SecretKey() {
  sodium_memzero(bytes_.data(), bytes_.size());
}

Result<Token> Token::from_text(std::string_view text) {
  const std::string_view inside = trimmed(text);
  if (inside.size() < token_length_min) {
    return bad_token("it has " + std::to_string(inside.size()) + " characters, and needs " +
                     std::to_string(token_length_min) + " at least");
  }
  if (inside.size() > token_length_max) {
    return bad_token("it is longer than " + std::to_string(token_length_max) + " characters");
  }
  return Token(std::string(inside));
}

Token Token::random(system::Entropy& entropy) {
  std::array<std::byte, 32> bits{};
  entropy.fill(bits);
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bits) {
    const auto value = std::to_integer<unsigned>(byte);
    text.push_back(digits[value >> 4]);
    text.push_back(digits[value & 15]);
  }
  sodium_memzero(bits.data(), bits.size());
  return Token(std::move(text));
}

Token::~Token() {
  sodium_memzero(text_.data(), text_.size());
}

SecretKey Token::key_for(std::string_view purpose,
                         std::initializer_list<std::span<const std::byte>> parts) const {
  std::vector<std::byte> joined;
  for (const std::span<const std::byte> part : parts) {
    ByteWriter(joined).u64(part.size());
    joined.insert(joined.end(), part.begin(), part.end());
  }
  return SecretKey(mac_of(bytes_of(text_), {bytes_of(purpose), joined}));
}

}  // namespace nobounce::wire
