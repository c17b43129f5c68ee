// CountedHost: passes everything on to another Host and counts the calls and the bytes that its
// user moves through host memory. A witness of what a session itself does, beside what it says.
#pragma once

#include <cstdint>
#include <memory>

#include "system/host.hpp"

namespace nobounce::system {

/// What went through the seam so far.
struct SeamCounts {
  std::uint64_t calls = 0;  ///< CUDA, cuFile, verbs and storage functions called
  /// Bytes read or written between files and host memory, and copied between host memory and GPUs.
  /// A staged byte counts twice, a direct one not at all.
  std::uint64_t host_copy_bytes = 0;
  std::uint64_t cpu_touched_bytes = 0;  ///< of them by CPU copies: pread, pwrite, Memory::copy
};

/// Wraps `inner`, which must outlive it. Thread-safe; a call costs one relaxed addition more. It
/// sees what its user asks for, not what a library or a driver does behind a call.
class CountedHost : public Host {
 public:
  [[nodiscard]] static std::unique_ptr<CountedHost> wrap(Host& inner);
  [[nodiscard]] virtual SeamCounts counts() const = 0;
};

}  // namespace nobounce::system
