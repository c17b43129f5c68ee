// A seeded world for property tests: a random software machine with faults, and one or two sessions
// on it whose transfers are held against the bus's own account.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/gpu_kinds.hpp"
#include "support/soft_session.hpp"

namespace nobounce::test {

/// Draws for the test itself, apart from the machine's.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 77) {}
  std::uint64_t below(std::uint64_t limit) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return (state_ >> 11) % limit;
  }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

inline Machine random_machine(Draw& draw) {
  static const char* const names[] = {"workstation", "workstation", "dgx", "two-socket",
                                      "cloud-guest"};
  Machine machine = machine_with(names[draw.below(5)]);
  if (draw.one_in(6)) machine.modules.nvidia_fs = false;
  if (draw.one_in(8)) machine.udev = false;
  if (draw.one_in(8)) machine.libcufile.clear();
  if (draw.one_in(4)) {
    for (Switch& one : machine.switches) one.acs = AcsMode::redirect;
  }
  if (draw.one_in(2)) {
    for (HostBridge& one : machine.host_bridges) one.peer_forwarding = PeerForwarding::allowed;
  }
  if (draw.one_in(8))
    machine.kernel.iommu = draw.one_in(2) ? IommuMode::identity : IommuMode::translated;
  if (draw.one_in(6)) machine.gpus[0].bar1_bytes = (draw.below(8) + 1) << 20;
  if (draw.one_in(8)) machine.mounts[0].options = "rw";
  if (draw.one_in(8)) machine.mounts[0].type = "xfs";
  if (draw.one_in(8)) machine.mounts[0].direct_io = false;
  return machine;
}

inline fabric::SoftFaults random_faults(Draw& draw) {
  fabric::SoftFaults faults;
  if (draw.one_in(2)) return faults;
  const double some[] = {0.02, 0.2, 1.0};
  if (draw.one_in(5)) faults.read_error = some[draw.below(3)];
  if (draw.one_in(5)) faults.write_error = some[draw.below(3)];
  if (draw.one_in(4)) faults.short_read = 0.3;
  if (draw.one_in(5)) faults.dma_fault = some[draw.below(3)];
  if (draw.one_in(6)) faults.cuda_error = some[draw.below(2)];
  if (draw.one_in(5)) faults.cufile_refusal = some[draw.below(3)];
  if (draw.one_in(5)) faults.pin_failure = some[draw.below(3)];
  if (draw.one_in(6)) faults.compat_in_silence = true;
  if (draw.one_in(6)) faults.statistics_stuck = true;
  if (draw.one_in(6)) faults.statistics_missing = true;
  if (draw.one_in(8)) faults.cufile_opened_before = true;
  if (draw.one_in(6)) faults.module_unloaded_after_requests = 1 + draw.below(6);
  return faults;
}

/// What the runs reached, so that a suite that never gets anywhere fails.
struct Marks {
  std::map<std::string, int> seen;
  void add(const std::string& mark) { ++seen[mark]; }
  void add(const Receipt& receipt) {
    add(std::string(to_string(receipt.member)) + " " + std::string(to_string(receipt.state)));
    for (std::size_t i = 0; i < carriage_count; ++i) {
      if (receipt.bytes.by[i] > 0) add(std::string(to_string(static_cast<Carriage>(i))));
    }
    if (receipt.degraded) add("degraded");
    if (receipt.known == Known::counted) add("counted");
  }
};

/// Everything of a receipt that a reader could see.
inline std::string text_of(const Receipt& receipt) {
  std::string text = show(receipt.bytes) + std::string(to_string(receipt.state)) + " " +
                     std::string(to_string(receipt.known)) + " " +
                     std::string(to_string(receipt.link));
  for (std::uint8_t i = 0; i < receipt.cause_count; ++i)
    text += " " + std::string(to_string(receipt.causes[i]));
  return text + " after " + std::to_string(receipt.elapsed_ns);
}

/// A machine, its sessions, and memory that the test allocated behind their back.
class SeededWorld {
 public:
  SeededWorld(const Machine& machine, const fabric::SoftOptions& options, std::size_t sessions) {
    Result<std::unique_ptr<fabric::SoftHost>> made = fabric::SoftHost::create(machine, options);
    if (!made.ok()) throw std::runtime_error(to_string(made.error()));
    host_ = std::move(*made);
    for (std::size_t i = 0; i < sessions; ++i) {
      Result<Session> opened = Session::open(*host_, SoftSession::quiet());
      if (!opened.ok()) throw std::runtime_error(to_string(opened.error()));
      sessions_.push_back(std::make_unique<Session>(std::move(*opened)));
    }
    kinds_.emplace(*host_);
  }

  [[nodiscard]] fabric::SoftHost& host() { return *host_; }
  [[nodiscard]] Session& session(std::size_t index) { return *sessions_[index]; }
  [[nodiscard]] std::size_t sessions() const { return sessions_.size(); }

  /// Memory of the user's own, of any kind that CUDA gives.
  [[nodiscard]] DevicePointer allocate_raw(AllocationKind kind, std::uint32_t gpu,
                                           std::uint64_t length) {
    return kinds_->allocate(kind, gpu, std::max<std::uint64_t>(length, 1));
  }

  [[nodiscard]] fabric::End end_of(const Place& place) const {
    if (const auto* gpu = std::get_if<GpuMemory>(&place)) return kinds_->end_of(gpu->address);
    return at(std::get<HostMemory>(place).address);
  }
  void plant(const Place& place, const std::vector<std::byte>& bytes) {
    if (!bytes.empty()) {
      EXPECT_TRUE(host_->bus().plant(end_of(place), bytes));
    }
  }
  [[nodiscard]] std::vector<std::byte> look_at(const Place& place) const {
    std::vector<std::byte> bytes(length_bytes(place));
    if (!bytes.empty()) {
      EXPECT_TRUE(host_->bus().inspect(end_of(place), bytes));
    }
    return bytes;
  }
  void begin_account() { host_->bus().ledger().clear_requests(); }
  /// What the bus carried into memory since begin_account. Host memory that the bytes came from is
  /// the transfer's own.
  [[nodiscard]] CarriageBytes arrived(const Place& target, const Place& source) const {
    const fabric::Extent extent = host_->bus().extent_of(end_of(target));
    const std::uint64_t length = length_bytes(target);
    if (!std::holds_alternative<HostMemory>(source)) {
      return host_->ledger().arrivals(extent, length).bytes;
    }
    const fabric::Extent from = host_->bus().extent_of(end_of(source));
    return host_->ledger().arrivals(extent, length, from, length).bytes;
  }
  [[nodiscard]] CarriageBytes arrived_in_file(const std::string& path, std::uint64_t length) const {
    auto& storage = dynamic_cast<fabric::SoftStorage&>(host_->storage());
    Result<system::FileHandle> handle = storage.open(path, {.access = system::FileAccess::read});
    if (!handle.ok()) return {};
    const auto file = storage.find(handle->descriptor);
    const fabric::Extent extent =
        host_->bus().extent_of(fabric::End::of(file->medium, FileOffset{0}));
    (void)storage.close(*handle);
    return host_->ledger().arrivals(extent, length).bytes;
  }

 private:
  [[nodiscard]] fabric::End at(const std::byte* address) const {
    return fabric::End::at(host_->bus().address_of(address));
  }

  std::unique_ptr<fabric::SoftHost> host_;
  std::optional<GpuKinds> kinds_;
  std::vector<std::unique_ptr<Session>> sessions_;
};

}  // namespace nobounce::test
