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

/// What a provider found when it was asked anew about the places of a transfer.
struct Confirmed {
  std::uint64_t facts = 0;  ///< equal ones: assess would say the same
  /// Where it asked (a CUcontext), so that it need not look for it again; nobody else's business.
  void* context = nullptr;
};

struct Operation {
  OperationId id = 0;
  Segment segment;
  std::uint64_t deadline_ns = 0;   ///< host clock; 0: none
  std::uint64_t submitted_ns = 0;  ///< host clock as it was read for the receipt; 0: not read
  /// Whoever submits polls by itself until the end: nobody has to watch this operation for it.
  bool attended = false;
  /// What confirm answered for this segment a moment ago, so that it need not be asked again.
  std::optional<Confirmed> confirmed;
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
  /// Host clock of the look that found the end, where that was not the poll that hands it out; 0:
  /// it was, or the provider does not know.
  std::uint64_t ended_ns = 0;
};

class Provider {
 public:
  virtual ~Provider() = default;
  [[nodiscard]] virtual ProviderKind kind() const = 0;

  /// Judges a segment from what is known now. No side effects, no I/O that changes anything.
  [[nodiscard]] virtual Assessment assess(const Segment& segment) = 0;

  /// Asks anew, for every transfer, for what assess rests on and others may change meanwhile, and
  /// gets again what was taken away. Equal facts mean that assess would say the same of segments
  /// between the same devices and kinds of memory. Empty: only assess can tell. Cheap, and
  /// allocates nothing.
  [[nodiscard]] virtual std::optional<Confirmed> confirm(const Segment&) { return std::nullopt; }

  /// Another number whenever the provider has learnt something that changes what assess says.
  [[nodiscard]] virtual std::uint64_t lessons() const { return 0; }

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

  /// Fills completions that are ready and returns how many. Never blocks. `now_ns` is the host's
  /// clock as whoever looks has just read it for all providers: deadlines are kept by it.
  [[nodiscard]] virtual std::size_t poll(std::uint64_t now_ns,
                                         std::span<Completion> completions) = 0;

  /// For a thread that attends an operation without deadline and holds no lock: blocks until it has
  /// probably ended. Poll still tells. Returns at once where there is nothing to wait on.
  virtual void rest(OperationId /*operation*/) {}

  /// Asks an operation to stop; its completion still comes, with the bytes that had arrived.
  virtual void cancel(OperationId operation) = 0;

  /// Stops workers and frees what the provider holds; operations in flight complete as cancelled
  /// first. After it only the destructor may be called. Bounded by the deadline; false if it
  /// passed.
  virtual bool close(std::uint64_t deadline_ns) = 0;
};

}  // namespace nobounce::core
