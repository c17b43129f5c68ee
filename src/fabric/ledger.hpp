// The byte ledger: every request the bus carried, written by the bus alone, read by tests,
// witnesses and the demo.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <nobounce/receipt.hpp>
#include <nobounce/units.hpp>
#include <nobounce/words.hpp>
#include "fabric/mutant.hpp"

namespace nobounce::fabric {

/// Memory that bytes lie in.
struct Space {
  /// `wire`: between adapters. What one sent has an address there of its own, by which it is known
  /// again where an adapter of this machine receives it.
  enum class Kind : std::uint8_t { dram, vram, media, wire };
  Kind kind = Kind::dram;
  std::uint32_t index = 0;  ///< NUMA node, GPU, drive; 0 for the wire
  constexpr auto operator<=>(const Space&) const = default;
};

/// Who moved them.
struct Initiator {
  enum class Kind : std::uint8_t { cpu, copy_engine, drive, nic, kernel };
  Kind kind = Kind::cpu;
  std::uint32_t index = 0;
  constexpr auto operator<=>(const Initiator&) const = default;
};

/// One end of a request: a space, the address or media offset in it, and for media which file.
struct Extent {
  Space space;
  std::uint64_t address = 0;
  std::uint64_t file = 0;  ///< inode of the medium's file; 0 for memory
  bool internal =
      false;  ///< memory of the driver's own (a bounce cache inside the GPU, the page cache)
};

/// One request as it was carried.
struct Request {
  Initiator initiator;
  Extent source;
  Extent target;
  std::uint64_t length_bytes = 0;
  Link link = Link::none;
  bool redirected = false;  ///< an ACS port sent it up to the host bridge
};

/// What arrived in an extent, by how it got there. The truth that a receipt is held against.
struct Arrivals {
  CarriageBytes bytes;
  bool redirected = false;
};

/// Thread-safe. Counters for ever, requests until `clear_requests` (adjoining ones are merged).
class Ledger {
 public:
  explicit Ledger(Mutant mutant = Mutant::none) : mutant_(mutant) {}
  void record_request(const Request& request);
  void record_lost(const Request& request);
  /// Bytes over a named link or port (`switch:0/gpu:0`), per direction away from the root complex
  /// or towards it.
  void record_link(const std::string& link, std::uint64_t towards_device,
                   std::uint64_t towards_root);

  [[nodiscard]] std::uint64_t dram_read_bytes(std::uint32_t node) const;
  [[nodiscard]] std::uint64_t dram_written_bytes(std::uint32_t node) const;
  [[nodiscard]] std::uint64_t dram_bytes() const;  ///< read and written, all nodes
  [[nodiscard]] std::uint64_t cpu_touched_bytes() const;
  [[nodiscard]] std::uint64_t lost_bytes() const;
  struct LinkBytes {
    std::uint64_t towards_device = 0;
    std::uint64_t towards_root = 0;
  };
  [[nodiscard]] std::map<std::string, LinkBytes> links() const;
  /// Bytes by (initiator, source space, target space), for display.
  struct Flow {
    Initiator initiator;
    Space source;
    Space target;
    bool source_internal = false;
    bool target_internal = false;
    auto operator<=>(const Flow&) const = default;
  };
  [[nodiscard]] std::map<Flow, std::uint64_t> flows() const;

  [[nodiscard]] std::vector<Request> requests() const;
  void clear_requests();

  /// How the bytes that now lie in [address, address + length) of a memory space or file arrived
  /// since the last clear_requests; a byte that arrived twice counts by its last arrival. From
  /// media, the wire or peer memory by DMA: direct; what came over the wire from this machine's own
  /// DRAM, as if it had come straight from there. From the same GPU's internal memory:
  /// device_bounced. From DRAM by a copy engine or the CPU: staged, unless the DRAM extent is
  /// `user_source` (the transfer's own source or target: direct).
  [[nodiscard]] Arrivals arrivals(const Extent& target, std::uint64_t length_bytes) const;
  [[nodiscard]] Arrivals arrivals(const Extent& target, std::uint64_t length_bytes,
                                  const Extent& user_source,
                                  std::uint64_t source_length_bytes) const;

 private:
  /// What one run of bytes came from, as of its last arrival. `hop`: the bytes lay in a GPU's
  /// internal memory before; how they got there is known too, so that staging behind a bounce cache
  /// is not mistaken for a direct arrival.
  struct Origin {
    Initiator initiator;
    Extent source;  ///< of the first byte of the run
    bool redirected = false;
    bool has_hop = false;
    Initiator hop_initiator;
    Extent hop_source;
  };
  struct Run {
    std::uint64_t end = 0;
    Origin origin;
  };
  using Runs = std::map<std::uint64_t, Run>;  ///< by first address, disjoint
  /// A memory space, or one file in it.
  struct Area {
    Space space;
    std::uint64_t file = 0;
    auto operator<=>(const Area&) const = default;
  };
  struct Piece {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    Origin origin;
  };

  [[nodiscard]] static Origin advanced(const Origin& origin, std::uint64_t by);
  [[nodiscard]] static bool continues(const Run& left, std::uint64_t left_begin,
                                      const Piece& right);
  [[nodiscard]] std::vector<Piece> pieces_of(const Request& request) const;
  void place(Runs& runs, const Piece& piece);
  void remember(const Request& request);

  const Mutant mutant_;
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
  std::map<Area, Runs> arrived_;
  std::map<Flow, std::uint64_t> flows_;
  std::map<std::string, LinkBytes> links_;
  std::map<std::uint32_t, std::uint64_t> dram_read_;
  std::map<std::uint32_t, std::uint64_t> dram_written_;
  std::uint64_t cpu_touched_ = 0;
  std::uint64_t lost_ = 0;
};

}  // namespace nobounce::fabric
