// A session on a software machine, and the comparison of its receipts with the bus's own account.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <nobounce/session.hpp>
#include <nobounce/software_machine.hpp>
#include "core/machine_json.hpp"
#include "fabric/bus.hpp"
#include "fabric/ledger.hpp"
#include "fabric/soft_host.hpp"
#include "fabric/soft_storage.hpp"
#include "support/temporary_directory.hpp"

namespace nobounce::test {

/// A built-in machine with `pointer=value` settings applied.
inline Machine machine_with(std::string_view name, const std::vector<std::string>& settings = {}) {
  Result<Machine> machine = software_machine_description(name);
  if (!machine.ok()) throw std::runtime_error(to_string(machine.error()));
  std::vector<core::MachineSetting> parsed;
  for (const std::string& text : settings) {
    Result<core::MachineSetting> setting = core::parse_setting(text);
    if (!setting.ok()) throw std::runtime_error(to_string(setting.error()));
    parsed.push_back(*setting);
  }
  Result<Machine> changed = core::apply_settings(*machine, parsed);
  if (!changed.ok()) throw std::runtime_error(to_string(changed.error()));
  return *changed;
}

inline std::string show(const CarriageBytes& bytes) {
  std::string text;
  for (std::size_t i = 0; i < carriage_count; ++i) {
    if (bytes.by[i] == 0) continue;
    text +=
        std::string(to_string(static_cast<Carriage>(i))) + "=" + std::to_string(bytes.by[i]) + " ";
  }
  return text.empty() ? "nothing" : text;
}

/// The receipt counts exactly what the bus carried into the target.
inline ::testing::AssertionResult equals_ledger(const Receipt& receipt,
                                                const CarriageBytes& truth) {
  if (receipt.bytes == truth) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "receipt: " << show(receipt.bytes) << "; bus: " << show(truth);
}

/// The receipt never claims more than the bus did: not more direct bytes of either kind, not more
/// in all.
inline ::testing::AssertionResult claims_no_more(const Receipt& receipt,
                                                 const CarriageBytes& truth) {
  const CarriageBytes& claimed = receipt.bytes;
  const bool direct_kept = claimed[Carriage::direct] <= truth[Carriage::direct] &&
                           claimed[Carriage::direct] + claimed[Carriage::device_bounced] <=
                               truth[Carriage::direct] + truth[Carriage::device_bounced];
  if (direct_kept && claimed.total() <= truth.total()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "receipt: " << show(claimed) << "; bus: " << show(truth);
}

/// Host and session in the right order of destruction.
class SoftSession {
 public:
  explicit SoftSession(const Machine& machine, const fabric::SoftOptions& options = {},
                       SessionOptions session_options = quiet()) {
    Result<std::unique_ptr<fabric::SoftHost>> made = fabric::SoftHost::create(machine, options);
    if (!made.ok()) throw std::runtime_error(to_string(made.error()));
    host_ = std::move(*made);
    Result<Session> opened = Session::open(*host_, session_options);
    if (!opened.ok()) throw std::runtime_error(to_string(opened.error()));
    session_.emplace(std::move(*opened));
  }

  static SessionOptions quiet() {
    SessionOptions options;
    options.warn_on_close = false;
    options.publish_ledger = false;
    options.pinned_bytes_max = 8u << 20;
    options.slot_bytes = 256u << 10;
    return options;
  }

  [[nodiscard]] Session& operator*() { return *session_; }
  [[nodiscard]] Session* operator->() { return &*session_; }
  [[nodiscard]] fabric::SoftHost& host() { return *host_; }

  /// Forgets what arrived so far: the next account begins here.
  void begin_account() { host_->bus().ledger().clear_requests(); }

  /// What the bus carried into GPU memory since begin_account.
  [[nodiscard]] CarriageBytes arrived(const Place& place) const {
    const auto& memory = std::get<GpuMemory>(place);
    const fabric::Extent extent = host_->bus().extent_of(fabric::End::of(memory.address));
    return host_->ledger().arrivals(extent, memory.length_bytes).bytes;
  }
  [[nodiscard]] CarriageBytes arrived(const Place& place, const HostMemory& source) const {
    const auto& memory = std::get<GpuMemory>(place);
    const fabric::Extent extent = host_->bus().extent_of(fabric::End::of(memory.address));
    const fabric::Extent from =
        host_->bus().extent_of(fabric::End::at(host_->bus().address_of(source.address)));
    return host_->ledger().arrivals(extent, memory.length_bytes, from, source.length_bytes).bytes;
  }
  /// What the bus carried into a file (by its path now) since begin_account.
  [[nodiscard]] CarriageBytes arrived_in_file(const std::string& path,
                                              std::uint64_t length_bytes) const {
    auto& storage = dynamic_cast<fabric::SoftStorage&>(host_->storage());
    Result<system::FileHandle> handle = storage.open(path, {.access = system::FileAccess::read});
    if (!handle.ok()) return {};
    const auto file = storage.find(handle->descriptor);
    const fabric::Extent extent =
        host_->bus().extent_of(fabric::End::of(file->medium, FileOffset{0}));
    (void)storage.close(*handle);
    return host_->ledger().arrivals(extent, length_bytes).bytes;
  }
  /// The bytes of GPU memory, looked at without the bus.
  [[nodiscard]] std::vector<std::byte> look_at(const Place& place) const {
    const auto& memory = std::get<GpuMemory>(place);
    std::vector<std::byte> bytes(memory.length_bytes);
    if (!bytes.empty()) {
      EXPECT_TRUE(host_->bus().inspect(fabric::End::of(memory.address), bytes));
    }
    return bytes;
  }
  void plant(const Place& place, const std::vector<std::byte>& bytes) {
    if (!bytes.empty()) {
      EXPECT_TRUE(host_->bus().plant(fabric::End::of(std::get<GpuMemory>(place).address), bytes));
    }
  }

 private:
  std::unique_ptr<fabric::SoftHost> host_;
  std::optional<Session> session_;
};

inline bool has_cause(const Receipt& receipt, Cause cause) {
  for (std::uint8_t i = 0; i < receipt.cause_count; ++i) {
    if (receipt.causes[i] == cause) return true;
  }
  return false;
}

}  // namespace nobounce::test
