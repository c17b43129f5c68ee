// Host memory for the length of a probe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "system/host.hpp"

namespace nobounce::session {

inline constexpr std::uint64_t probe_bytes = 4096;

/// A host buffer for the length of a probe.
class ProbeBuffer {
 public:
  static Result<ProbeBuffer> make(system::Host& host) {
    Result<system::HostBuffer> buffer = host.memory().allocate_plain(probe_bytes, 0);
    if (!buffer.ok()) return std::move(buffer).error();
    return ProbeBuffer(host, *buffer);
  }
  ProbeBuffer(ProbeBuffer&& other) noexcept
      : host_(other.host_), buffer_(std::exchange(other.buffer_, system::HostBuffer{})) {}
  ProbeBuffer& operator=(ProbeBuffer&&) = delete;
  ~ProbeBuffer() {
    if (buffer_.address != nullptr) host_->memory().free(buffer_);
  }
  [[nodiscard]] std::byte* data() const { return buffer_.address; }

 private:
  ProbeBuffer(system::Host& host, system::HostBuffer buffer) : host_(&host), buffer_(buffer) {}
  system::Host* host_;
  system::HostBuffer buffer_;
};

}  // namespace nobounce::session
