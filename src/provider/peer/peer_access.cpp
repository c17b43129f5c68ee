// Peer access between contexts.
#include "provider/peer/peer_access.hpp"

#include <string>
#include <utility>

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
  const system::ContextGuard guard(cuda, *own);
  if (guard.status() != success) return system::cuda_error(cuda, guard.status(), attempted);
  // Over question and note: of two answers the later one is what is remembered.
  const std::lock_guard lock(mutex_);
  const auto code = cuda.ctx_enable_peer_access(*peer, 0);
  if (code == success || code == system::cuda::error_peer_access_already_enabled) {
    learn({gpu, owner}, Answer{std::nullopt, *own, *peer});
    return {};
  }
  Error error = system::cuda_error(cuda, code, attempted, Cause::p2p_peer_access_not_enabled);
  // Any other failure may pass: the next copy tries again, and until then nothing is known.
  if (code == system::cuda::error_peer_access_unsupported ||
      code == system::cuda::error_not_permitted || code == system::cuda::error_not_supported) {
    learn({gpu, owner}, Answer{error, *own, *peer});
  } else {
    learn({gpu, owner}, std::nullopt);
  }
  return error;
}

void PeerAccess::learn(const Pair& pair, std::optional<Answer> answer) {
  const auto known = answers_.find(pair);
  const bool same = known == answers_.end()
                        ? !answer.has_value()
                        : answer.has_value() && known->second.refusal == answer->refusal;
  if (same) return;
  if (answer.has_value()) {
    answers_.insert_or_assign(pair, *std::move(answer));
  } else {
    answers_.erase(known);
  }
  lessons_.fetch_add(1, std::memory_order_release);
}

std::optional<PeerAccess::Contexts> PeerAccess::enabled(std::uint32_t source,
                                                        std::uint32_t target) const {
  const std::lock_guard lock(mutex_);
  const auto there = answers_.find({source, target});
  const auto back = answers_.find({target, source});
  if (there == answers_.end() || back == answers_.end()) return std::nullopt;
  if (there->second.refusal.has_value() || back->second.refusal.has_value()) return std::nullopt;
  return Contexts{there->second.own, there->second.peer};
}

bool PeerAccess::enable_again(system::cuda::CUcontext peer) {
  const auto code = contexts_.table().ctx_enable_peer_access(peer, 0);
  return code == success || code == system::cuda::error_peer_access_already_enabled;
}

Status PeerAccess::enable_both(std::uint32_t source, std::uint32_t target) {
  if (Status one = enable(source, target); !one.ok()) return one;
  return enable(target, source);
}

Finding PeerAccess::finding(std::uint32_t source, std::uint32_t target) const {
  Finding finding{.cause = Cause::p2p_peer_access_not_enabled,
                  .subject = name_of(source) + " -> " + name_of(target),
                  .state = FindingState::met,
                  .observed = "enabled in both contexts when it was last asked for",
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
