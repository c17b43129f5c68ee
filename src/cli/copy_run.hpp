// One `copy`: its places, its hops, their receipts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nobounce/session.hpp>
#include "cli/bus_account.hpp"
#include "cli/commands.hpp"
#include "cli/place_argument.hpp"
#include "report/receipt_report.hpp"
#include "system/terminal.hpp"

namespace nobounce::cli {

/// Must be gone before the session. Places that are memory live as long as the run: what one hop
/// wrote, the next reads.
class CopyRun {
 public:
  CopyRun(CommandContext& context, const CopyArguments& arguments, Session& session);

  /// Resolves places, opens the first, allocates memory, fills the pattern. Nothing was written yet
  /// if it fails.
  [[nodiscard]] std::optional<Problem> prepare();

  /// Hops until one fails. Prints each receipt as text; with --json nothing.
  [[nodiscard]] std::optional<Problem> run();

  [[nodiscard]] const std::vector<report::NamedReceipt>& receipts() const { return receipts_; }

 private:
  struct Stop {
    PlaceArgument argument;
    std::uint32_t gpu = 0;
    std::optional<Region> region;  ///< of memory places
    std::optional<Peer> peer;      ///< of places of other processes
    std::optional<RemoteRegion> remote;
    std::optional<OwnedDrive> drive;
  };
  /// The two ends of a hop. Files are open as long as it lives.
  struct Hop {
    std::optional<File> source_file;
    std::optional<File> target_file;
    Place source;
    Place target;
    std::string target_path;
  };

  [[nodiscard]] std::optional<Problem> allocate(Stop& stop);
  [[nodiscard]] std::optional<Problem> connect(std::size_t index);
  /// Takes the drive of a stop, and checks that the bytes fit into it in whole blocks.
  [[nodiscard]] std::optional<Problem> take(Stop& stop);
  /// Of a stop that is no file.
  [[nodiscard]] static Place place_of(const Stop& stop, std::uint64_t length_bytes);
  /// Whether files of later hops can be written: known before the first hop moves anything.
  [[nodiscard]] std::optional<Problem> try_later_targets();
  [[nodiscard]] std::optional<Problem> open_ends(std::size_t index, Hop& hop);
  [[nodiscard]] std::optional<Problem> move(std::size_t index);
  [[nodiscard]] Outcome wait_for(Transfer& transfer, const std::string& label);
  /// Compares the ends; sets `verified`.
  [[nodiscard]] std::optional<Problem> verify(const Hop& hop, report::NamedReceipt& receipt);
  [[nodiscard]] std::optional<Problem> commit(Hop& hop, report::NamedReceipt& receipt);
  void print(const report::NamedReceipt& receipt, const std::optional<report::BusAccount>& account);
  /// `hop`: the one under way, `receipt`: how far it came.
  [[nodiscard]] std::optional<Problem> interrupted(const Hop* hop = nullptr,
                                                   const Receipt* receipt = nullptr) const;
  [[nodiscard]] Problem problem_of(const Hop& hop, const Outcome& outcome) const;
  /// What to say where the ends differ.
  [[nodiscard]] static Error difference(const Hop& hop, const report::NamedReceipt& receipt,
                                        const std::string& source, const std::string& target);
  [[nodiscard]] std::string label_of(std::size_t index) const;

  CommandContext& context_;
  const CopyArguments& arguments_;
  Session& session_;
  system::InterruptWatch interrupts_;
  std::vector<Stop> stops_;
  std::optional<File> first_file_;
  std::uint64_t length_bytes_ = 0;
  std::vector<report::NamedReceipt> receipts_;
};

}  // namespace nobounce::cli
