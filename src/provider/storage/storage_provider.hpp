// Storage: files <-> GPU memory through libcufile, direct only: every staging switch of the library
// is off.
#pragma once

#include <cstdint>
#include <memory>

#include "core/facts.hpp"
#include "core/provider.hpp"
#include "system/cuda_contexts.hpp"
#include "system/host.hpp"
#include "system/open_files.hpp"

namespace nobounce::provider {

/// Our private cufile.json, and whether it is in force. Made before CUDA starts threads, so before
/// anything else.
class CufileConfiguration {
 public:
  /// Sets CUFILE_ENV_PATH_JSON to a private JSON with every staging switch off, if nobody opened
  /// cuFile before us and the process has one thread. Never fails: `ours()` says what came of it.
  [[nodiscard]] static CufileConfiguration install(system::Host& host, bool allowed);
  [[nodiscard]] const core::Fact& ours() const { return ours_; }

 private:
  core::Fact ours_;
};

/// The text of the private configuration (JSON).
[[nodiscard]] std::string private_cufile_json();

/// Requests are at most 16 MiB. Statistics of level 3 are read before and after each window of
/// requests. All references must outlive the provider. Thread-safe.
[[nodiscard]] std::unique_ptr<core::Provider> make_storage_provider(
    system::Host& host, system::CudaContexts& contexts, const system::OpenFiles& files,
    const CufileConfiguration& configuration);

}  // namespace nobounce::provider
