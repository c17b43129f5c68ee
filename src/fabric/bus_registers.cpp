// Registers on the bus, and what drives fetch and post beside their payload: queue entries and
// lists.
#include <cstring>
#include <mutex>
#include <shared_mutex>

#include "fabric/bus_soft.hpp"
#include "fabric/bus_words.hpp"

namespace nobounce::fabric {

std::span<std::byte> SoftBus::register_view(std::uint32_t drive) {
  const std::unique_lock lock(registers_mutex_);
  std::shared_ptr<BusMapping>& view = register_views_[drive];
  if (view == nullptr) view = BusMapping::of_nothing(registers_bytes);
  if (view->begin() == nullptr) return {};
  has_register_views_.store(true, std::memory_order_release);
  return {view->begin(), registers_bytes};
}

std::optional<BusAddress> SoftBus::view_at(const void* pointer, std::uint64_t bytes) const {
  if (!has_register_views_.load(std::memory_order_acquire)) return std::nullopt;
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const std::shared_lock lock(registers_mutex_);
  for (const auto& [drive, view] : register_views_) {
    const auto begin = reinterpret_cast<std::uintptr_t>(view->begin());
    if (address < begin || address - begin > registers_bytes) continue;
    if (bytes > registers_bytes - (address - begin)) continue;
    return registers_of(drive).plus(address - begin);
  }
  return std::nullopt;
}

BusAddress SoftBus::address_of(const void* pointer) const {
  const std::optional<BusAddress> registers = view_at(pointer, 1);
  return registers.has_value() ? *registers : dram_.address_of(pointer);
}

void SoftBus::attach_registers(std::uint32_t drive, RegisterFile& registers) {
  const std::unique_lock lock(registers_mutex_);
  registers_[drive] = &registers;
}

void SoftBus::detach_registers(std::uint32_t drive) {
  const std::unique_lock lock(registers_mutex_);
  registers_.erase(drive);
}

std::optional<SoftBus::Registers> SoftBus::registers_at(BusAddress address,
                                                        std::size_t bytes) const {
  if (address.value < layout::registers_base || address.value >= layout::process_base) {
    return std::nullopt;
  }
  const std::uint64_t inside = address.value - layout::registers_base;
  Registers found;
  found.drive = static_cast<std::uint32_t>(inside / registers_bytes);
  found.offset = inside % registers_bytes;
  const bool whole = (bytes == 4 || bytes == 8) && found.offset % bytes == 0;
  const std::shared_lock lock(registers_mutex_);
  const auto known = registers_.find(found.drive);
  if (known == registers_.end() || !whole) return std::nullopt;
  found.file = known->second;
  return found;
}

std::uint64_t SoftBus::cpu_load_register(BusAddress source, std::size_t bytes) {
  const auto registers = registers_at(source, bytes);
  return registers ? registers->file->load(registers->offset, bytes) : ~std::uint64_t{0};
}

void SoftBus::cpu_store_register(BusAddress target, std::uint64_t value, std::size_t bytes) {
  const auto registers = registers_at(target, bytes);
  if (registers) registers->file->store(registers->offset, value, bytes);
}

Carried SoftBus::kernel_register(std::uint32_t gpu, BusAddress address, std::span<std::byte> target,
                                 std::span<const std::byte> source) {
  const bool storing = target.empty();
  const std::size_t bytes = storing ? source.size() : target.size();
  const auto registers = registers_at(address, bytes);
  if (!registers || gpu >= vram_.size()) return {.outcome = BusOutcome::bad_address};
  const DeviceRef own{DeviceRef::Kind::gpu, static_cast<std::uint16_t>(gpu)};
  const DeviceRef drive{DeviceRef::Kind::drive, static_cast<std::uint16_t>(registers->drive)};
  const Extent here{Space{Space::Kind::vram, gpu}, 0, registers_file, false};
  const Extent there{Space{Space::Kind::media, registers->drive}, registers->offset, registers_file,
                     false};
  const Request request{
      kernel_of(gpu), storing ? here : there, storing ? there : here, bytes, Link::none, false};
  const Way way = storing ? peer_way(own, drive, End::at(address), bytes)
                          : peer_way(drive, own, End::at(address), bytes);
  if (way.outcome != BusOutcome::done) {
    if (!storing) std::memset(target.data(), 0xff, target.size());
    return lose(way, request);
  }
  std::uint64_t value = 0;
  if (storing) {
    std::memcpy(&value, source.data(), bytes);
    const Carried carried = write_down(way.route, request);
    registers->file->store(registers->offset, value, bytes);
    return carried;
  }
  value = registers->file->load(registers->offset, bytes);
  std::memcpy(target.data(), &value, bytes);
  return write_down(way.route, request);
}

Carried SoftBus::device_load(std::uint32_t drive, BusAddress source, std::span<std::byte> target) {
  if (target.empty()) return {};
  reseal();
  const auto memory = memory_at(End::at(source), target.size());
  if (!memory || drive >= machine_.drives.size()) {
    std::memset(target.data(), 0xff, target.size());
    return {.outcome = BusOutcome::bad_address};
  }
  const DeviceRef mover = routes_.mover_of_drive(drive);
  const Request request{{Initiator::Kind::drive, drive},
                        memory->extent,
                        {Space{Space::Kind::media, drive}, 0, registers_file, false},
                        target.size(),
                        Link::none,
                        false};
  const Way way = way_between(mover, *memory, End::at(source), false, target.size());
  if (way.outcome != BusOutcome::done) {
    std::memset(target.data(), 0xff, target.size());
    return lose(way, request);
  }
  copy_words(target.data(), memory->pointer, target.size(), WordsOf::source);
  return write_down(way.route, request);
}

Carried SoftBus::device_store(std::uint32_t drive, std::span<const std::byte> source,
                              BusAddress target) {
  if (source.empty()) return {};
  reseal();
  const auto memory = memory_at(End::at(target), source.size());
  if (!memory || drive >= machine_.drives.size()) return {.outcome = BusOutcome::bad_address};
  const DeviceRef mover = routes_.mover_of_drive(drive);
  const Request request{{Initiator::Kind::drive, drive},
                        {Space{Space::Kind::media, drive}, 0, registers_file, false},
                        memory->extent,
                        source.size(),
                        Link::none,
                        false};
  const Way way = way_between(mover, *memory, End::at(target), true, source.size());
  if (way.outcome != BusOutcome::done) return lose(way, request);
  copy_words(memory->pointer, source.data(), source.size(), WordsOf::target);
  return write_down(way.route, request);
}

}  // namespace nobounce::fabric
