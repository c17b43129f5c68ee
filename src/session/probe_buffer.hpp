// Host memory outside any region, for the length of a probe or a checksum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "system/host.hpp"

namespace nobounce::session {

inline constexpr std::uint64_t probe_bytes = 4096;

/// Memory that is freed when nobody has it any more: its owner, or whoever keeps what was given up.
class OwnBuffer {
 public:
  static Result<std::shared_ptr<OwnBuffer>> plain(system::Host& host, std::uint64_t length_bytes) {
    return own(host, host.memory().allocate_plain(length_bytes, 0));
  }
  static Result<std::shared_ptr<OwnBuffer>> pinned(system::Host& host, std::uint64_t length_bytes) {
    return own(host, host.memory().allocate_pinned(length_bytes, 0, system::MemoryUse::user));
  }
  ~OwnBuffer() { host_.memory().free(buffer_); }
  OwnBuffer(const OwnBuffer&) = delete;
  OwnBuffer& operator=(const OwnBuffer&) = delete;
  [[nodiscard]] std::byte* data() const { return buffer_.address; }

 private:
  static Result<std::shared_ptr<OwnBuffer>> own(system::Host& host,
                                                Result<system::HostBuffer> buffer) {
    if (!buffer.ok()) return std::move(buffer).error();
    return std::shared_ptr<OwnBuffer>(new OwnBuffer(host, *buffer));
  }
  OwnBuffer(system::Host& host, system::HostBuffer buffer) : host_(host), buffer_(buffer) {}
  system::Host& host_;
  system::HostBuffer buffer_;
};

/// One for a probe.
class ProbeBuffer {
 public:
  static Result<ProbeBuffer> make(system::Host& host) {
    Result<std::shared_ptr<OwnBuffer>> buffer = OwnBuffer::plain(host, probe_bytes);
    if (!buffer.ok()) return std::move(buffer).error();
    return ProbeBuffer(std::move(*buffer));
  }
  [[nodiscard]] std::byte* data() const { return buffer_->data(); }
  [[nodiscard]] const std::shared_ptr<OwnBuffer>& owner() const { return buffer_; }

 private:
  explicit ProbeBuffer(std::shared_ptr<OwnBuffer> buffer) : buffer_(std::move(buffer)) {}
  std::shared_ptr<OwnBuffer> buffer_;
};

}  // namespace nobounce::session
