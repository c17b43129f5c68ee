// The Provider: one per mover. It says what it can do, moves what it is told, and never falls back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <nobounce/error.hpp>
#include <nobounce/result.hpp>
#include <nobounce/route.hpp>
#include <nobounce/units.hpp>

namespace nobounce::core {

/// Identifies an operation between submit and its completion. Chosen by the caller, unique while in
/// flight.
using OperationId = std::uint64_t;

/// Memory to register with providers. The bytes stay the caller's.
struct RegionView {
  Place place;  ///< GpuMemory or HostMemory
  AllocationKind kind = AllocationKind::unknown;
};

struct Operation {
  OperationId id = 0;
  Segment segment;
  std::uint64_t deadline_ns = 0;  ///< host clock; 0: none
};

/// The end of an operation. On failure `bytes` still counts what arrived before it.
struct Completion {
  OperationId id = 0;
  CarriageBytes bytes;
  Link link = Link::none;
  Known known = Known::claimed;
  std::uint64_t pinned_bytes = 0;  ///< bounce memory used in host DRAM
  std::optional<Error> error;      ///< empty: all of the segment arrived
  Cause cause = Cause::none;  ///< why a bucket other than the expected one was used, or degraded
};

class Provider {
 public:
  virtual ~Provider() = default;
  [[nodiscard]] virtual ProviderKind kind() const = 0;

  /// Judges a segment from what is known now. No side effects, no I/O that changes anything.
  [[nodiscard]] virtual Assessment assess(const Segment& segment) = 0;

  /// Registers memory. Success proves nothing by itself. Attaching twice is counted, detaching
  /// undoes one.
  [[nodiscard]] virtual Status attach(const RegionView& region) = 0;
  virtual void detach(const RegionView& region) = 0;

  /// The session is about to close this file (no operation on it is in flight): drop what is held
  /// for it.
  virtual void forget_file(std::uint32_t /*file*/) {}

  /// Takes operations in; they complete through poll, also when they fail at once. Never blocks on
  /// I/O.
  virtual void submit(std::span<const Operation> operations) = 0;

  /// Fills completions that are ready and returns how many. Never blocks.
  [[nodiscard]] virtual std::size_t poll(std::span<Completion> completions) = 0;

  /// Asks an operation to stop; its completion still comes, with the bytes that had arrived.
  virtual void cancel(OperationId operation) = 0;

  /// Stops workers and frees what the provider holds; operations in flight complete as cancelled
  /// first. After it only the destructor may be called. Bounded by the deadline; false if it
  /// passed.
  virtual bool close(std::uint64_t deadline_ns) = 0;
};

}  // namespace nobounce::core
