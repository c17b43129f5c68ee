// One verified probe transfer per pair of drive and GPU and direction.
#include "session/probe.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "session/drive_probe.hpp"
#include "session/file_state.hpp"
#include "session/pairs.hpp"
#include "session/probe_buffer.hpp"
#include "session/transfer_state.hpp"

namespace nobounce::session {

namespace {

/// Memory of probes that a copy still uses: given back when what was given up has ended.
struct SpoiledMemory {
  SpoiledMemory(SessionState& owner, const GpuMemory& spoiled) : session(owner), memory(spoiled) {}
  ~SpoiledMemory() {
    const core::RegionView view{memory, AllocationKind::device};
    session.providers.nvme->detach(view);
    if (session.providers.storage != nullptr) session.providers.storage->detach(view);
    free_gpu(session, memory);
  }
  SpoiledMemory(const SpoiledMemory&) = delete;
  SpoiledMemory& operator=(const SpoiledMemory&) = delete;
  SessionState& session;
  GpuMemory memory;
};

}  // namespace

Result<GpuMemory> probe_memory(SessionState& state, std::uint32_t gpu) {
  const auto found = state.probe_memory.find(gpu);
  if (found != state.probe_memory.end()) {
    if (!state.given_up.any() || !state.given_up.uses(found->second)) return found->second;
    state.given_up.keep(std::make_shared<SpoiledMemory>(state, found->second));
    state.probe_memory.erase(found);
  }
  Result<GpuMemory> memory = allocate_gpu(state, gpu, probe_bytes);
  if (!memory.ok()) return memory;
  if (state.providers.storage != nullptr)
    (void)state.providers.storage->attach(core::RegionView{*memory, AllocationKind::device});
  state.probe_memory[gpu] = *memory;
  return memory;
}

namespace {

GpuMemory first_bytes(const GpuMemory& memory, std::uint64_t length) {
  return GpuMemory{memory.gpu, memory.address, length};
}

/// `buffer` owns the host memory that takes part.
core::Completion move(SessionState& state, ProviderKind provider, const Place& source,
                      const Place& target, std::shared_ptr<OwnBuffer> buffer = nullptr) {
  return run_operation(
      state,
      Segment{.offset_bytes = 0,
              .length_bytes = length_bytes(source),
              .source = source,
              .target = target,
              .provider = provider,
              .expected = provider == ProviderKind::staged ? Carriage::staged : Carriage::direct},
      std::move(buffer));
}

HostMemory place_of(const ProbeBuffer& buffer, std::uint64_t length) {
  return HostMemory{buffer.data(), length};
}

Result<bool> read_whole(SessionState& state, const system::OpenFile& file, std::byte* target,
                        std::uint64_t length, FileOffset offset) {
  std::uint64_t done = 0;
  while (done < length) {
    Result<std::size_t> got =
        state.host.storage().read(file.buffered, target + done, length - done, offset.plus(done));
    if (!got.ok()) return std::move(got).error();
    if (*got == 0) return false;
    done += *got;
  }
  return true;
}

Error data_differs(std::string attempted) {
  return Error{.origin = ErrorOrigin::session,
               .attempted = std::move(attempted),
               .cause = Cause::storage_p2p_lost,
               .detail = "the owner of the target memory read other bytes than were sent"};
}

/// Whether a file no longer holds what was read from it: then other bytes in the GPU say nothing of
/// the path. Its times may be too coarse to tell, and its bytes may have changed back.
bool changed_meanwhile(SessionState& state, const FileRange& range, const std::byte* before) {
  if (changed_since_opening(state, range.file)) return true;
  Result<ProbeBuffer> now = ProbeBuffer::make(state.host);
  if (!now.ok()) return false;
  const system::OpenFile* file = state.files.find(range.file);
  const Result<bool> whole =
      read_whole(state, *file, now->data(), range.length_bytes, range.offset);
  return !whole.ok() || !*whole || std::memcmp(before, now->data(), range.length_bytes) != 0;
}

/// File -> GPU: what the GPU's owner reads back must be what the file holds. Nothing if that cannot
/// be told, because somebody writes the file.
std::optional<Status> probe_read(SessionState& state, const FileRange& range,
                                 const GpuMemory& memory) {
  const system::OpenFile* file = state.files.find(range.file);
  const std::uint64_t length = range.length_bytes;
  Result<ProbeBuffer> expected = ProbeBuffer::make(state.host);
  if (!expected.ok()) return expected.error();
  Result<ProbeBuffer> arrived = ProbeBuffer::make(state.host);
  if (!arrived.ok()) return arrived.error();
  Result<bool> whole = read_whole(state, *file, expected->data(), length, range.offset);
  if (!whole.ok()) return whole.error();
  if (!*whole) return std::nullopt;  // shorter than it was: the transfer itself will say so
  // Fill the target with something that the file does not hold, so that a lost write shows.
  for (std::uint64_t i = 0; i < length; ++i) arrived->data()[i] = ~expected->data()[i];
  const HostMemory arrived_place = place_of(*arrived, length);
  const GpuMemory target = first_bytes(memory, length);
  for (const auto& [provider, from, to] :
       {std::tuple{ProviderKind::staged, Place{arrived_place}, Place{target}},
        std::tuple{ProviderKind::storage, Place{range}, Place{target}},
        std::tuple{ProviderKind::staged, Place{target}, Place{arrived_place}}}) {
    const core::Completion ended = move(state, provider, from, to, arrived->owner());
    if (!ended.error.has_value()) continue;
    if (changed_meanwhile(state, range, expected->data())) return std::nullopt;  // cut short
    return *ended.error;
  }
  if (std::memcmp(expected->data(), arrived->data(), length) == 0) return Status{};
  if (changed_meanwhile(state, range, expected->data())) return std::nullopt;
  return data_differs("probe a direct read");
}

/// GPU -> file, into a file that the transfer will overwrite anyway.
Status probe_write(SessionState& state, const FileRange& range, const GpuMemory& memory) {
  const system::OpenFile* file = state.files.find(range.file);
  Result<ProbeBuffer> sent = ProbeBuffer::make(state.host);
  if (!sent.ok()) return sent.error();
  Result<ProbeBuffer> arrived = ProbeBuffer::make(state.host);
  if (!arrived.ok()) return arrived.error();
  state.host.entropy().fill(std::span(sent->data(), probe_bytes));
  const HostMemory sent_place{sent->data(), probe_bytes};
  for (const auto& [provider, from, to] :
       {std::tuple{ProviderKind::staged, Place{sent_place}, Place{memory}},
        std::tuple{ProviderKind::storage, Place{memory}, Place{range}}}) {
    const core::Completion ended = move(state, provider, from, to, sent->owner());
    if (ended.error.has_value()) return *ended.error;
  }
  Result<bool> whole = read_whole(state, *file, arrived->data(), probe_bytes, range.offset);
  if (!whole.ok()) return whole.error();
  if (!*whole || std::memcmp(sent->data(), arrived->data(), probe_bytes) != 0) {
    return data_differs("probe a direct write");
  }
  return {};
}

/// The part of the file that a probe may use: nothing if it cannot tell anything or would destroy
/// bytes.
std::optional<FileRange> probe_range(const SessionState& state, const FileRange& range,
                                     bool writing) {
  const FileEntry* file = state.files.entry(range.file);
  const std::uint64_t aligned = range.offset.value / probe_bytes * probe_bytes;
  if (writing && !file->written_in_place) {
    if (range.length_bytes < probe_bytes || aligned != range.offset.value) return std::nullopt;
    return FileRange{range.file, FileOffset{aligned}, probe_bytes};
  }
  if (writing || aligned >= file->length_bytes) return std::nullopt;
  return FileRange{range.file, FileOffset{aligned},
                   std::min(probe_bytes, file->length_bytes - aligned)};
}

/// The bytes of GPU memory by way of host memory, or into it.
Status stage(SessionState& state, const GpuMemory& source, const ProbeBuffer& target) {
  const core::Completion ended = move(state, ProviderKind::staged, source,
                                      place_of(target, source.length_bytes), target.owner());
  return ended.error.has_value() ? Status(*ended.error) : Status{};
}
Status stage(SessionState& state, const ProbeBuffer& source, const GpuMemory& target) {
  const core::Completion ended = move(
      state, ProviderKind::staged, place_of(source, target.length_bytes), target, source.owner());
  return ended.error.has_value() ? Status(*ended.error) : Status{};
}

/// GPU -> GPU, in the target's own memory, which the transfer will overwrite. What lay there is put
/// back if the probe fails. The suspect is what the path gives as the likeliest reason.
Status probe_peer(SessionState& state, const GpuMemory& source, const GpuMemory& target,
                  Cause suspect) {
  const std::uint64_t length = std::min(probe_bytes, source.length_bytes);
  const GpuMemory from = first_bytes(source, length);
  const GpuMemory to = first_bytes(target, length);
  Result<ProbeBuffer> expected = ProbeBuffer::make(state.host);
  if (!expected.ok()) return expected.error();
  Result<ProbeBuffer> saved = ProbeBuffer::make(state.host);
  if (!saved.ok()) return saved.error();
  Result<ProbeBuffer> arrived = ProbeBuffer::make(state.host);
  if (!arrived.ok()) return arrived.error();
  if (Status read = stage(state, from, *expected); !read.ok()) return read;
  if (Status read = stage(state, to, *saved); !read.ok()) return read;
  for (std::uint64_t i = 0; i < length; ++i) arrived->data()[i] = ~expected->data()[i];
  if (Status spoiled = stage(state, *arrived, to); !spoiled.ok()) return spoiled;
  const core::Completion copied = move(state, ProviderKind::peer, from, to);
  Status probed = copied.error.has_value() ? Status(*copied.error) : stage(state, to, *arrived);
  if (probed.ok() && std::memcmp(expected->data(), arrived->data(), length) != 0) {
    Error error = data_differs("probe a peer copy");
    error.cause = suspect == Cause::none ? Cause::p2p_wrong_data : suspect;
    probed = error;
  }
  if (!probed.ok()) (void)stage(state, *saved, to);
  return probed;
}

bool wants(const TransferPlan& plan, ProviderKind provider) {
  return std::any_of(plan.cut.segments.begin(), plan.cut.segments.end(),
                     [&](const Segment& segment) {
                       return segment.provider == provider && segment.length_bytes > 0;
                     });
}

/// Nothing where there is nothing to probe with, or no room.
std::optional<Status> probe_storage(SessionState& state, const Place& source, const Place& target) {
  const bool writing = std::holds_alternative<FileRange>(target);
  const std::optional<FileRange> range =
      probe_range(state, std::get<FileRange>(writing ? target : source), writing);
  if (!range.has_value()) return std::nullopt;
  Result<GpuMemory> memory =
      probe_memory(state, std::get<GpuMemory>(writing ? source : target).gpu);
  if (!memory.ok()) return std::nullopt;  // the transfer's own findings and counters must do
  return writing ? probe_write(state, *range, *memory) : probe_read(state, *range, *memory);
}

/// Nothing where the transfer is too short to be worth a probe, or the GPU has no room.
std::optional<Status> probe_drive(SessionState& state, const Place& source, const Place& target) {
  const bool writing = std::holds_alternative<BlockRange>(target);
  const Place& medium = writing ? target : source;
  const auto* gpu = std::get_if<GpuMemory>(writing ? &source : &target);
  if (gpu == nullptr || length_bytes(medium) < probe_bytes) return std::nullopt;
  const auto range = std::get<BlockRange>(part_of(medium, 0, probe_bytes));
  Result<GpuMemory> memory = probe_memory(state, gpu->gpu);
  if (!memory.ok()) return std::nullopt;
  const core::RegionView region{*memory, AllocationKind::device};
  if (Status mapped = state.providers.nvme->map(range.drive, region); !mapped.ok()) return mapped;
  return writing ? probe_drive_write(state, range, *memory)
                 : probe_drive_read(state, range, *memory);
}

/// Whether memory that the session allocates stands for both.
bool both_plain(SessionState& state, const GpuMemory& source, const GpuMemory& target) {
  return kind_of(state, source) == AllocationKind::device &&
         kind_of(state, target) == AllocationKind::device;
}

/// Nothing where it should be made in memory of the session, and a GPU has no room for it.
std::optional<Status> probe_gpus(SessionState& state, const GpuMemory& source,
                                 const GpuMemory& target, bool in_own_memory) {
  GpuMemory from = source;
  GpuMemory to = target;
  if (in_own_memory) {
    Result<GpuMemory> own_source = probe_memory(state, source.gpu);
    Result<GpuMemory> own_target = probe_memory(state, target.gpu);
    if (!own_source.ok() || !own_target.ok()) return std::nullopt;
    from = *own_source;
    to = *own_target;
  }
  if (Status opened = state.providers.peer->open(from, to); !opened.ok()) return opened;
  return probe_peer(state, from, to,
                    judge::judge_peer(peer_question(state, source, target)).suspect);
}

}  // namespace

bool probe_would_touch(SessionState& state, const TransferPlan& plan, const Place& source,
                       const Place& target) {
  const std::optional<PairKey> pair = pair_of(state, source, target);
  if (!pair.has_value() || belief_in(state, *pair).has_value()) return false;
  if (wants(plan, ProviderKind::peer))
    return !both_plain(state, std::get<GpuMemory>(source), std::get<GpuMemory>(target));
  // Reads from files and drives are probed into memory of the session.
  if (wants(plan, ProviderKind::nvme))
    return std::holds_alternative<BlockRange>(target) && length_bytes(target) >= probe_bytes;
  const auto* written = std::get_if<FileRange>(&target);
  return wants(plan, ProviderKind::storage) && written != nullptr &&
         probe_range(state, *written, true).has_value();
}

std::optional<Cause> disproved(SessionState& state, const TransferPlan& plan, const Place& source,
                               const Place& target) {
  const bool direct = wants(plan, ProviderKind::peer) || wants(plan, ProviderKind::storage) ||
                      wants(plan, ProviderKind::nvme);
  if (!direct) return std::nullopt;
  const std::optional<PairKey> pair = pair_of(state, source, target);
  if (!pair.has_value()) return std::nullopt;
  const std::optional<Belief> belief = belief_in(state, *pair);
  if (!belief.has_value() || belief->believed) return std::nullopt;
  return belief->finding.cause;
}

bool probe_disproves(SessionState& state, const TransferPlan& plan, const Place& source,
                     const Place& target, bool in_own_memory) {
  const bool storage = wants(plan, ProviderKind::storage);
  const std::optional<PairKey> pair = pair_of(state, source, target);
  const bool drive = wants(plan, ProviderKind::nvme);
  const bool peer = wants(plan, ProviderKind::peer);
  if ((!storage && !drive && !peer) || !pair.has_value()) return false;
  const std::scoped_lock probing(state.probe_mutex);
  if (const std::optional<Belief> belief = belief_in(state, *pair)) return !belief->believed;
  const std::optional<Status> probed = storage ? probe_storage(state, source, target)
                                       : drive
                                           ? probe_drive(state, source, target)
                                           : probe_gpus(state, std::get<GpuMemory>(source),
                                                        std::get<GpuMemory>(target), in_own_memory);
  if (!probed.has_value()) return false;
  if (probed->ok()) {
    believe(state, *pair);
    return false;
  }
  (void)disbelieve(state, *pair, probed->error(), "a probe transfer of this session");
  return true;
}

}  // namespace nobounce::session
