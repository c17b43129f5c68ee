// Staged: file, host and GPU in any pairing, through a ring of pinned slots in host memory. Always
// says so.
#pragma once

#include <cstdint>
#include <memory>

#include "core/provider.hpp"
#include "system/cuda_contexts.hpp"
#include "system/host.hpp"
#include "system/open_files.hpp"

namespace nobounce::provider {

struct StagedOptions {
  std::uint64_t pinned_bytes_max = 128u << 20;
  std::uint64_t slot_bytes = 4u << 20;
  std::uint32_t readers = 0;  ///< 0: min(CPUs, 16)
  /// Use all of pinned_bytes_max in turn: rings grow before a slot is used again, and the least
  /// recently used one comes first. For control runs that must not stay in a cache.
  bool rotate_slots = false;
};

/// `contexts` may be null on a machine without GPU; then only file and host pairs work, through
/// plain slots. All references must outlive the provider. Thread-safe.
[[nodiscard]] std::unique_ptr<core::Provider> make_staged_provider(system::Host& host,
                                                                   system::CudaContexts* contexts,
                                                                   const system::OpenFiles& files,
                                                                   const StagedOptions& options);

}  // namespace nobounce::provider
