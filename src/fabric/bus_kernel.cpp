// What kernels do on the bus: loads, stores and atomic updates that a GPU's threads issue.
#include <atomic>
#include <cstring>
#include <utility>

#include "fabric/bus_soft.hpp"
#include "fabric/bus_words.hpp"

namespace nobounce::fabric {

namespace {

template <typename Unit>
std::uint64_t update(std::byte* memory, const BusUpdate& order) {
  std::atomic_ref<Unit> word(*reinterpret_cast<Unit*>(memory));
  const auto operand = static_cast<Unit>(order.operand);
  switch (order.kind) {
    case BusUpdate::Kind::add:
      return word.fetch_add(operand);
    case BusUpdate::Kind::exchange:
      return word.exchange(operand);
    case BusUpdate::Kind::compare_exchange:
      break;
  }
  auto expected = static_cast<Unit>(order.expected);
  (void)word.compare_exchange_strong(expected, operand);
  return expected;
}

}  // namespace

Initiator SoftBus::kernel_of(std::uint32_t gpu) const {
  if (planted(Mutant::ledger_kernels_missing)) return {};
  return {Initiator::Kind::kernel, gpu};
}

SoftBus::Way SoftBus::kernel_way(std::uint32_t gpu, const BusMemory& memory, const End& end,
                                 bool towards_memory, std::uint64_t length_bytes) {
  const DeviceRef own{DeviceRef::Kind::gpu, static_cast<std::uint16_t>(gpu)};
  if (memory.gpu && *memory.gpu != gpu) {
    const BusRoute* link =
        towards_memory ? routes_.nvlink(gpu, *memory.gpu) : routes_.nvlink(*memory.gpu, gpu);
    if (link != nullptr) return {link, BusOutcome::done};
  }
  return way_between(own, memory, end, towards_memory, length_bytes);
}

std::uint64_t SoftBus::watch_word(const End& source) const {
  const auto memory = memory_at(source, sizeof(std::uint64_t));
  std::uint64_t value = 0;
  if (memory) {
    copy_words(reinterpret_cast<std::byte*>(&value), memory->pointer, sizeof value,
               WordsOf::source);
  }
  return value;
}

Carried SoftBus::kernel_load(std::uint32_t gpu, const End& source, std::span<std::byte> target) {
  if (target.empty()) return {};
  reseal();
  if (source.kind == End::Kind::address && registers_at(source.address, target.size())) {
    return kernel_register(gpu, source.address, target, {});
  }
  const auto memory = memory_at(source, target.size());
  if (!memory || gpu >= vram_.size()) return {.outcome = BusOutcome::bad_address};
  const Request request{
      kernel_of(gpu), memory->extent, {Space{Space::Kind::vram, gpu}, 0, registers_file, false},
      target.size(),  Link::none,     false};
  const Way way = kernel_way(gpu, *memory, source, false, target.size());
  if (way.outcome != BusOutcome::done) {
    // A read that nobody answers completes with all ones.
    std::memset(target.data(), 0xff, target.size());
    return lose(way, request);
  }
  copy_words(target.data(), memory->pointer, target.size(), WordsOf::source);
  return write_down(way.route, request);
}

Carried SoftBus::kernel_store(std::uint32_t gpu, std::span<const std::byte> source,
                              const End& target) {
  if (source.empty()) return {};
  reseal();
  if (target.kind == End::Kind::address && registers_at(target.address, source.size())) {
    return kernel_register(gpu, target.address, {}, source);
  }
  const auto memory = memory_at(target, source.size());
  if (!memory || gpu >= vram_.size()) return {.outcome = BusOutcome::bad_address};
  const Request request{kernel_of(gpu), {Space{Space::Kind::vram, gpu}, 0, registers_file, false},
                        memory->extent, source.size(),
                        Link::none,     false};
  const Way way = kernel_way(gpu, *memory, target, true, source.size());
  if (way.outcome != BusOutcome::done) return lose(way, request);
  copy_words(memory->pointer, source.data(), source.size(), WordsOf::target);
  return write_down(way.route, request);
}

Carried SoftBus::kernel_update(std::uint32_t gpu, const End& target, const BusUpdate& order,
                               std::uint64_t& before) {
  before = 0;
  reseal();
  const auto memory = memory_at(target, order.length_bytes);
  const bool aligned =
      memory && reinterpret_cast<std::uintptr_t>(memory->pointer) % order.length_bytes == 0;
  if (!aligned || gpu >= vram_.size()) return {.outcome = BusOutcome::bad_address};
  // One request towards the memory; its answer is not counted, as for every other request.
  const Request request{kernel_of(gpu), {Space{Space::Kind::vram, gpu}, 0, registers_file, false},
                        memory->extent, order.length_bytes,
                        Link::none,     false};
  const Way way = kernel_way(gpu, *memory, target, true, order.length_bytes);
  if (way.outcome != BusOutcome::done) {
    before = order.length_bytes == 4 ? UINT32_MAX : UINT64_MAX;
    return lose(way, request);
  }
  before = order.length_bytes == 4 ? update<std::uint32_t>(memory->pointer, order)
                                   : update<std::uint64_t>(memory->pointer, order);
  return write_down(way.route, request);
}

}  // namespace nobounce::fabric
