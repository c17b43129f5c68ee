// The seeded pattern that stands for data where no file is given: every 8 bytes differ, and no part
// repeats.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "session/probe_buffer.hpp"
#include "session/transfer_state.hpp"

namespace nobounce {

using session::SessionState;

namespace {

constexpr std::uint64_t pattern_buffer_bytes = 8u << 20;

/// splitmix64 of (seed, position): the value of any word can be told without the words before it.
std::uint64_t word_at(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

void write_pattern(std::byte* target, std::uint64_t length, std::uint64_t seed,
                   std::uint64_t first_byte) {
  for (std::uint64_t done = 0; done < length; done += sizeof(std::uint64_t)) {
    const std::uint64_t word = word_at(seed, (first_byte + done) / sizeof(std::uint64_t));
    std::memcpy(target + done, &word, std::min<std::uint64_t>(sizeof word, length - done));
  }
}

}  // namespace

Status Session::fill_pattern(const Place& place, std::uint64_t seed) {
  if (state_->forked()) return session::forked_error("fill a place with a pattern");
  if (const auto* host = std::get_if<HostMemory>(&place)) {
    write_pattern(host->address, host->length_bytes, seed, 0);
    return {};
  }
  if (!std::holds_alternative<GpuMemory>(place)) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "fill a place with a pattern",
                 .detail = "only memory can be filled"};
  }
  Result<std::shared_ptr<session::OwnBuffer>> buffer =
      session::OwnBuffer::plain(state_->host, pattern_buffer_bytes);
  if (!buffer.ok()) return std::move(buffer).error();
  Status filled;
  const std::uint64_t total = length_bytes(place);
  for (std::uint64_t done = 0; done < total && filled.ok();) {
    const std::uint64_t length = std::min(pattern_buffer_bytes, total - done);
    std::byte* const bytes = (*buffer)->data();
    write_pattern(bytes, length, seed, done);
    const core::Completion ended =
        session::run_operation(*state_,
                               Segment{.offset_bytes = 0,
                                       .length_bytes = length,
                                       .source = HostMemory{bytes, length},
                                       .target = part_of(place, done, length),
                                       .provider = ProviderKind::staged,
                                       .expected = Carriage::staged},
                               *buffer);
    if (ended.error.has_value()) filled = *ended.error;
    done += length;
  }
  return filled;
}

}  // namespace nobounce
