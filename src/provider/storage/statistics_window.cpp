// What cuFile's statistics prove of the requests in a window.
#include "provider/storage/statistics_window.hpp"

#include <algorithm>

namespace nobounce::provider::storage {

PathCounters path_counters(const system::cufile::CUfileStatsLevel3_t& statistics, bool writing) {
  PathCounters sum;
  const std::uint32_t gpus = std::min<std::uint32_t>(statistics.num_gpus, 16);
  for (std::uint32_t i = 0; i < gpus; ++i) {
    const system::cufile::CUfilePerGpuStats_t& gpu = statistics.per_gpu_stats[i];
    sum.p2p += writing ? gpu.n_p2p_writes : gpu.n_p2p_reads;
    sum.nvfs += writing ? gpu.n_nvfs_writes : gpu.n_nvfs_reads;
    sum.posix += writing ? gpu.n_posix_writes : gpu.n_posix_reads;
    sum.rerouted += writing ? gpu.n_dr_writes : gpu.n_dr_reads;
    sum.unaligned += writing ? gpu.n_unaligned_writes : gpu.n_unaligned_reads;
  }
  return sum;
}

WindowVerdict judge_window(const Window& window) {
  if (!window.before.has_value() || !window.after.has_value()) return WindowVerdict::unavailable;
  const PathCounters& before = *window.before;
  const PathCounters& after = *window.after;
  if (after.p2p < before.p2p || after.nvfs < before.nvfs || after.posix < before.posix ||
      after.rerouted < before.rerouted || after.unaligned < before.unaligned) {
    return WindowVerdict::mixed;  // somebody reset the statistics
  }
  const std::uint64_t direct = (after.p2p - before.p2p) + (after.nvfs - before.nvfs);
  const std::uint64_t posix = after.posix - before.posix;
  if (after.rerouted != before.rerouted) return WindowVerdict::mixed;
  if (direct > 0 && posix > 0) return WindowVerdict::mixed;
  // Others in the process may have been counted too, but if a path was not taken by anybody, it was
  // not by us.
  if (direct + posix < window.requests || direct + posix == 0) return WindowVerdict::stuck;
  if (posix > 0) return WindowVerdict::staged;
  const std::uint64_t unaligned = after.unaligned - before.unaligned;
  return unaligned > window.bounced ? WindowVerdict::bounced : WindowVerdict::direct;
}

Attribution attribute(WindowVerdict verdict, const WindowBytes& bytes) {
  Attribution result;
  const auto as_intended = [&] {
    result.bytes[Carriage::direct] = bytes.aligned;
    result.bytes[Carriage::device_bounced] = bytes.bounced;
  };
  switch (verdict) {
    case WindowVerdict::direct:
      as_intended();
      result.known = Known::counted;
      break;
    case WindowVerdict::bounced:
      result.bytes[Carriage::device_bounced] = bytes.aligned + bytes.bounced;
      result.known = Known::counted;
      result.cause = Cause::storage_unaligned;
      break;
    case WindowVerdict::staged:
      result.bytes[Carriage::staged] = bytes.aligned + bytes.bounced;
      result.known = Known::counted;
      result.cause = Cause::storage_compat_used;
      break;
    case WindowVerdict::mixed:
      result.bytes[Carriage::unattributed] = bytes.aligned + bytes.bounced;
      result.cause = Cause::evidence_cufile_statistics_mixed;
      break;
    case WindowVerdict::stuck:
      result.bytes[Carriage::unattributed] = bytes.aligned + bytes.bounced;
      result.cause = Cause::evidence_cufile_statistics_stuck;
      break;
    case WindowVerdict::unavailable:
      // Our configuration forbids staging, but a library that stages all the same is on record.
      result.bytes[Carriage::unattributed] = bytes.aligned + bytes.bounced;
      result.cause = Cause::evidence_cufile_statistics_unavailable;
      break;
  }
  return result;
}

void add(Attribution& sum, const Attribution& part) {
  if (part.bytes.total() == 0) return;
  sum.known = sum.bytes.total() == 0 ? part.known : std::min(sum.known, part.known);
  sum.bytes += part.bytes;
  if (sum.cause == Cause::none) sum.cause = part.cause;
}

}  // namespace nobounce::provider::storage
