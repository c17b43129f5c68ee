// Pieces between local memory and frames: GPU memory by way of pinned slots, host memory as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <nobounce/place.hpp>
#include <nobounce/result.hpp>
#include "system/copy_streams.hpp"
#include "system/cuda_contexts.hpp"
#include "system/host.hpp"

namespace nobounce::provider::relay {

inline constexpr std::size_t slots_max = 8;  ///< of one connection and end

/// Not thread-safe: its owner's lock guards it. `contexts` may be null; then there is only host
/// memory.
class PieceMover {
 public:
  PieceMover(system::Host& host, system::CudaContexts* contexts);
  PieceMover(const PieceMover&) = delete;
  PieceMover& operator=(const PieceMover&) = delete;
  ~PieceMover();

  /// Whether one more piece may be given to it.
  [[nodiscard]] bool room() const;
  /// Reads memory into a payload, or writes a payload into memory. At most wire::piece_bytes_max.
  void load(std::uint64_t piece, const Place& source);
  void store(std::uint64_t piece, const Place& target, std::vector<std::byte> payload);

  struct Ended {
    std::uint64_t piece = 0;
    std::vector<std::byte> payload;  ///< what was read; empty after store
    std::optional<Error> error;
  };
  /// A piece that has ended, if there is one.
  [[nodiscard]] std::optional<Ended> look();
  [[nodiscard]] bool idle() const { return pieces_.empty(); }
  [[nodiscard]] std::uint64_t pinned_bytes() const;

 private:
  struct Slot {
    system::HostBuffer buffer;
    bool taken = false;
  };
  struct Piece {
    std::uint64_t number = 0;
    std::uint64_t length_bytes = 0;
    bool load = false;
    Slot* slot = nullptr;  ///< null: nothing is under way
    system::CopyInFlight copy;
    std::vector<std::byte> payload;
    std::optional<Error> error;
  };
  [[nodiscard]] Result<Slot*> take_slot();
  [[nodiscard]] Status start(Piece& piece, const GpuMemory& memory);

  system::Host& host_;
  std::optional<system::CopyStreams> streams_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Piece> pieces_;
};

}  // namespace nobounce::provider::relay
