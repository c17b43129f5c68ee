// A drive answers success for a write that went nowhere: so a pair is compared before it is
// believed.
#include "session/drive_probe.hpp"

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "session/pairs.hpp"
#include "session/probe_buffer.hpp"
#include "session/transfer_state.hpp"

namespace nobounce::session {
namespace {

/// `buffer` owns the host memory that takes part.
Status move_probe(SessionState& state, ProviderKind provider, const Place& source,
                  const Place& target, std::shared_ptr<OwnBuffer> buffer = nullptr) {
  const core::Completion ended = run_operation(
      state,
      Segment{.offset_bytes = 0,
              .length_bytes = length_bytes(source),
              .source = source,
              .target = target,
              .provider = provider,
              .expected = provider == ProviderKind::staged ? Carriage::staged : Carriage::direct},
      std::move(buffer));
  return ended.error.has_value() ? Status(*ended.error) : Status{};
}

Error data_lost(std::string attempted) {
  return Error{
      .origin = ErrorOrigin::session,
      .attempted = std::move(attempted),
      .cause = Cause::nvme_data_lost,
      .detail = "the drive answered success, and the owner of the target read other bytes"};
}

}  // namespace

Status probe_drive_read(SessionState& state, const BlockRange& range, const GpuMemory& memory) {
  Result<ProbeBuffer> expected = ProbeBuffer::make(state.host);
  if (!expected.ok()) return expected.error();
  Result<ProbeBuffer> arrived = ProbeBuffer::make(state.host);
  if (!arrived.ok()) return arrived.error();
  const std::uint64_t length = range.length_bytes;
  const HostMemory expected_place{expected->data(), length};
  const HostMemory arrived_place{arrived->data(), length};
  if (Status read = move_probe(state, ProviderKind::nvme, range, expected_place, expected->owner());
      !read.ok())
    return read;
  // Something that the drive does not hold, so that a lost write shows.
  for (std::uint64_t i = 0; i < length; ++i) arrived->data()[i] = ~expected->data()[i];
  if (Status spoiled =
          move_probe(state, ProviderKind::staged, arrived_place, memory, arrived->owner());
      !spoiled.ok())
    return spoiled;
  if (Status read = move_probe(state, ProviderKind::nvme, range, memory); !read.ok()) return read;
  if (Status back =
          move_probe(state, ProviderKind::staged, memory, arrived_place, arrived->owner());
      !back.ok())
    return back;
  if (std::memcmp(expected->data(), arrived->data(), length) == 0) return {};
  return data_lost("probe a read from " + place_text(state, range) +
                   " into gpu:" + std::to_string(memory.gpu));
}

Status probe_drive_write(SessionState& state, const BlockRange& range, const GpuMemory& memory) {
  Result<ProbeBuffer> sent = ProbeBuffer::make(state.host);
  if (!sent.ok()) return sent.error();
  Result<ProbeBuffer> arrived = ProbeBuffer::make(state.host);
  if (!arrived.ok()) return arrived.error();
  Result<ProbeBuffer> saved = ProbeBuffer::make(state.host);
  if (!saved.ok()) return saved.error();
  const std::uint64_t length = range.length_bytes;
  const HostMemory sent_place{sent->data(), length};
  const HostMemory arrived_place{arrived->data(), length};
  const HostMemory saved_place{saved->data(), length};
  if (Status read = move_probe(state, ProviderKind::nvme, range, saved_place, saved->owner());
      !read.ok())
    return read;
  state.host.entropy().fill(std::span(sent->data(), length));
  Status probed = move_probe(state, ProviderKind::staged, sent_place, memory, sent->owner());
  if (probed.ok()) probed = move_probe(state, ProviderKind::nvme, memory, range);
  if (probed.ok())
    probed = move_probe(state, ProviderKind::nvme, range, arrived_place, arrived->owner());
  if (probed.ok() && std::memcmp(sent->data(), arrived->data(), length) != 0) {
    probed = data_lost("probe a write from gpu:" + std::to_string(memory.gpu) + " to " +
                       place_text(state, range));
  }
  if (!probed.ok()) (void)move_probe(state, ProviderKind::nvme, saved_place, range, saved->owner());
  return probed;
}

}  // namespace nobounce::session
