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
#include "system/stray_copies.hpp"

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
  /// Whether there will be no room until a copy that was given up on has landed.
  [[nodiscard]] bool clogged() const { return strays_.size() >= slots_max; }
  /// Reads memory into a payload, or writes a payload into memory. At most wire::piece_bytes_max.
  void load(std::uint64_t piece, const Place& source);
  void store(std::uint64_t piece, const Place& target, std::vector<std::byte> payload);

  struct Ended {
    std::uint64_t piece = 0;
    std::vector<std::byte> payload;  ///< what was read; empty after store
    std::optional<Error> error;
  };
  /// Gives up on copies that were begun before that time: their pieces end with an error, and the
  /// memory that they use counts as used until they land. All of them: UINT64_MAX.
  void give_up(std::uint64_t begun_before_ns);
  void give_up_on(std::uint64_t piece);
  /// For an end of its owner: stays, where copies that were given up on still fly, until they have
  /// landed. No piece may be under way.
  static void part_with(std::unique_ptr<PieceMover> mover);
  /// A piece that has ended, if there is one.
  [[nodiscard]] std::optional<Ended> look();
  [[nodiscard]] bool idle() const { return pieces_.empty(); }
  /// When to look again at the latest: soon after a copy was begun, and more rarely the longer none
  /// was.
  [[nodiscard]] std::uint64_t look_again_ns(std::uint64_t now_ns) const;
  [[nodiscard]] std::uint64_t pinned_bytes() const;

 private:
  struct Slot {
    system::HostBuffer buffer;
    bool taken = false;
  };
  struct Stray {
    Slot* slot = nullptr;
    system::CopyInFlight copy;
    system::StrayCopies::Landed landed;
  };
  struct Piece {
    std::uint64_t number = 0;
    std::uint64_t length_bytes = 0;
    bool load = false;
    Slot* slot = nullptr;  ///< null: nothing is under way
    system::CopyInFlight copy;
    GpuMemory memory;  ///< of the copy
    std::uint64_t begun_ns = 0;
    std::vector<std::byte> payload;
    std::optional<Error> error;
  };
  [[nodiscard]] Result<Slot*> take_slot();
  [[nodiscard]] Status start(Piece& piece, const GpuMemory& memory);
  void give_up_on(Piece& piece);
  void look_at_strays();

  system::Host& host_;
  std::optional<system::CopyStreams> streams_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Piece> pieces_;
  std::vector<Stray> strays_;
};

}  // namespace nobounce::provider::relay
