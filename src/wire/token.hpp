// The secret that two ends share, and codes that only who knows it can make.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nobounce/result.hpp>
#include "system/host.hpp"
#include "wire/messages.hpp"

namespace nobounce::wire {

inline constexpr std::size_t token_length_min = 16;
inline constexpr std::size_t token_length_max = 1024;

/// HMAC-SHA-256 over the parts, each preceded by its length, so that no two lists of parts give the
/// same code.
[[nodiscard]] Mac mac_of(std::span<const std::byte> key,
                         std::initializer_list<std::span<const std::byte>> parts);

/// Takes as long whatever differs.
[[nodiscard]] bool equal_in_constant_time(std::span<const std::byte> first,
                                          std::span<const std::byte> second);

/// A key made from a token; wiped when it goes.
class SecretKey {
 public:
  SecretKey() = default;
  explicit SecretKey(const Mac& bytes) : bytes_(bytes) {}
  SecretKey(const SecretKey&) = default;
  SecretKey& operator=(const SecretKey&) = default;
  ~SecretKey();
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  Mac bytes_{};
};

/// Wiped when it goes. Never sent, never printed.
class Token {
 public:
  /// White space around it does not belong to it. Origin input where it is shorter than
  /// token_length_min or longer than token_length_max.
  [[nodiscard]] static Result<Token> from_text(std::string_view text);
  /// 256 random bits.
  [[nodiscard]] static Token random(system::Entropy& entropy);
  Token(const Token&) = default;
  Token(Token&&) noexcept = default;
  Token& operator=(const Token&) = default;
  Token& operator=(Token&&) noexcept = default;
  ~Token();

  /// What may be handed to another process of the same user.
  [[nodiscard]] std::string_view text() const { return text_; }
  /// The key for one purpose.
  [[nodiscard]] SecretKey key_for(std::string_view purpose,
                                  std::initializer_list<std::span<const std::byte>> parts) const;

 private:
  explicit Token(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

[[nodiscard]] inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace nobounce::wire
