// Peer access between contexts.
#include "provider/peer/peer_access.hpp"

#include <string>

namespace nobounce::provider::peer {

using system::cuda::success;

namespace {

std::string name_of(std::uint32_t gpu) {
  return "gpu:" + std::to_string(gpu);
}

}  // namespace

Status PeerAccess::enable(std::uint32_t gpu, std::uint32_t owner) {
  const std::string attempted = "let " + name_of(gpu) + " reach the memory of " + name_of(owner);
  const Result<system::cuda::CUcontext> own = contexts_.context(gpu);
  if (!own.ok()) return own.error();
  const Result<system::cuda::CUcontext> peer = contexts_.context(owner);
  if (!peer.ok()) return peer.error();
  system::Cuda& cuda = contexts_.table();
  const std::lock_guard lock(mutex_);
  const system::ContextGuard guard(cuda, *own);
  if (guard.status() != success) return system::cuda_error(cuda, guard.status(), attempted);
  const auto code = cuda.ctx_enable_peer_access(*peer, 0);
  if (code == success || code == system::cuda::error_peer_access_already_enabled) {
    answers_[{gpu, owner}] = {};
    return {};
  }
  Error error = system::cuda_error(cuda, code, attempted, Cause::p2p_peer_access_not_enabled);
  // Any other failure may pass: the next copy tries again, and until then nothing is known.
  if (code == system::cuda::error_peer_access_unsupported ||
      code == system::cuda::error_not_permitted || code == system::cuda::error_not_supported) {
    answers_[{gpu, owner}] = {error};
  } else {
    answers_.erase({gpu, owner});
  }
  return error;
}

Status PeerAccess::enable_both(std::uint32_t source, std::uint32_t target) {
  if (Status one = enable(source, target); !one.ok()) return one;
  return enable(target, source);
}

Finding PeerAccess::finding(std::uint32_t source, std::uint32_t target) const {
  Finding finding{.cause = Cause::p2p_peer_access_not_enabled,
                  .subject = name_of(source) + " -> " + name_of(target),
                  .state = FindingState::met,
                  .observed = "enabled in both contexts",
                  .needed = "peer access enabled in both contexts",
                  .remedy = {},
                  .source = "cuCtxEnablePeerAccess"};
  const std::lock_guard lock(mutex_);
  for (const Pair& pair : {Pair{source, target}, Pair{target, source}}) {
    const auto answer = answers_.find(pair);
    if (answer == answers_.end()) {
      finding.state = FindingState::unknown;
      finding.observed = "it cannot be queried, only tried: the first copy of the pair does";
    } else if (answer->second.refusal.has_value()) {
      finding.state = FindingState::unmet;
      finding.observed = to_string(*answer->second.refusal);
      finding.remedy = cause_row(finding.cause).remedy;
      return finding;
    }
  }
  return finding;
}

}  // namespace nobounce::provider::peer
