// Fuzzes cuFile's statistics, as a library may hand them out: no byte is made or lost, and none is
// called direct unless the counters of that window say so.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "provider/storage/statistics_window.hpp"

namespace {

using namespace nobounce;
using namespace nobounce::provider::storage;

void require(bool holds) {
  if (!holds) std::abort();
}

/// Takes what it needs from the input; zeros when that has run out.
struct Bytes {
  const std::uint8_t* data;
  std::size_t size;
  template <typename Value>
  Value take() {
    Value value{};
    const std::size_t length = size < sizeof value ? size : sizeof value;
    if (length > 0) std::memcpy(static_cast<void*>(&value), data, length);
    data += length;
    size -= length;
    return value;
  }
};

bool staged(const PathCounters& before, const PathCounters& after) {
  return after.posix != before.posix || after.rerouted != before.rerouted;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes input{data, size};
  const auto shape = input.take<std::uint8_t>();
  Window window;
  window.requests = input.take<std::uint16_t>();
  window.bounced = input.take<std::uint8_t>();
  WindowBytes bytes;
  bytes.aligned = input.take<std::uint32_t>();
  bytes.bounced = input.take<std::uint32_t>();
  if ((shape & 4) != 0) {  // counters of any size
    window.before = PathCounters{input.take<std::uint64_t>(), input.take<std::uint64_t>(),
                                 input.take<std::uint64_t>(), input.take<std::uint64_t>(),
                                 input.take<std::uint64_t>()};
    window.after = PathCounters{input.take<std::uint64_t>(), input.take<std::uint64_t>(),
                                input.take<std::uint64_t>(), input.take<std::uint64_t>(),
                                input.take<std::uint64_t>()};
  } else {  // the library's own structs, and small steps from one to the next
    auto statistics = input.take<system::cufile::CUfileStatsLevel3_t>();
    const bool writing = (shape & 8) != 0;
    window.before = path_counters(statistics, writing);
    statistics.num_gpus = input.take<std::uint32_t>();
    statistics.per_gpu_stats[0].n_nvfs_reads += input.take<std::uint8_t>();
    statistics.per_gpu_stats[0].n_posix_reads += input.take<std::uint8_t>();
    statistics.per_gpu_stats[0].n_unaligned_reads += input.take<std::uint8_t>();
    window.after = path_counters(statistics, writing);
  }
  if ((shape & 1) != 0) window.before.reset();
  if ((shape & 2) != 0) window.after.reset();

  const WindowVerdict verdict = judge_window(window);
  const Attribution told = attribute(verdict, bytes);
  require(told.bytes.total() == bytes.aligned + bytes.bounced);
  const bool readable = window.before.has_value() && window.after.has_value();
  require(readable || told.bytes[Carriage::unattributed] == told.bytes.total());
  if (told.bytes[Carriage::direct] + told.bytes[Carriage::device_bounced] > 0) {
    require(readable && !staged(*window.before, *window.after));
    require(*window.before != *window.after);
  }
  require(verdict == WindowVerdict::direct || told.cause != Cause::none);
  Attribution sum = told;
  add(sum, told);
  require(sum.bytes.total() == 2 * told.bytes.total() && sum.known <= told.known);
  return 0;
}
