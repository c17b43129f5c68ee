// What an NCCL log has said so far: transports in use by subject, and everything else of interest.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "captures/nccl_line.hpp"
#include "captures/parser.hpp"

namespace nobounce::captures {

/// One subject and direction: all channels and far ends of it together.
struct NcclSubject {
  NcclUseKind kind = NcclUseKind::peer;
  std::string host;
  std::string process;
  std::string source;  ///< GPU of a pair, or the GPU beside the adapter
  std::string target;  ///< the other GPU; empty for networks
  std::string direction;
  std::string transport;
  std::string plugin;
  std::optional<std::uint32_t> adapter;
  std::optional<std::uint32_t> proxy;  ///< the rank whose adapter it is, and whose GPU is beside it
  std::uint32_t source_rank = 0;       ///< of a pair without a node
  std::uint32_t target_rank = 0;
  bool gdrdma = false;
  bool cut = false;
  core::TextLine first;
};

/// Hashes of what names subjects, and which they are: one access of memory per line of a log.
class NcclSeen {
 public:
  static constexpr std::uint32_t none = UINT32_MAX;
  [[nodiscard]] std::uint32_t find(std::uint64_t hash) const;
  /// Keeps what is there; nothing more where it is full.
  void add(std::uint64_t hash, std::size_t subject);
  void clear();

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t subject = none;
  };
  [[nodiscard]] std::size_t slot_of(std::uint64_t hash) const;
  void grow();

  std::vector<Slot> slots_;  ///< a power of two, at most half of them taken
  std::size_t taken_ = 0;
};

struct NcclRankPlace {
  std::string host;
  std::uint32_t device = 0;
};

class NcclLogParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override;
  bool take(const Line& line) override;
  void end() override;

 private:
  // Transports in use (nccl_log.cpp).
  bool take_use(const Line& line, const NcclLine& said);
  /// Counts a line of a subject that is known; false where it is new.
  bool count_again(const Line& line, const NcclLine& said, const NcclUse& use);
  void add_use(const Line& line, const NcclLine& said, const NcclUse& use);
  void wait_for_rest(const Line& line);
  bool continue_pending(const Line& line);
  void settle_pending();
  [[nodiscard]] std::string gpu_of(const NcclRank& rank, const NcclLine& said, bool local) const;
  void leave_subjects();
  /// Whether lines without a node are of several: a device that two ranks have.
  [[nodiscard]] bool nodes_unnamed() const;
  void remember_device(const NcclRank& rank);
  /// The device of a rank; below zero where no line tells.
  [[nodiscard]] double device_of(std::uint32_t rank) const;
  void leave_summary();

  // All other lines (nccl_words.cpp).
  bool take_words(const Line& line, const NcclLine& said);
  bool take_version(const Line& line);
  bool take_setting(const Line& line, const NcclLine& said);
  bool take_network(const Line& line, const NcclLine& said);
  void take_adapters(const Line& line, const NcclLine& said, std::string_view plugin);
  bool take_distance(const Line& line, const NcclLine& said);
  bool take_completion(const Line& line, const NcclLine& said);
  bool take_communicator(const Line& line, const NcclLine& said);
  void take_connection(const Line& line, const NcclLine& said);
  bool take_graph(const Line& line, const NcclLine& said);
  void leave_words();

  void ensure(const Line& line);
  /// A sign of the node that says the line.
  void say(core::SignKind kind, const Line& line, const NcclLine& said, std::string source = {},
           std::string target = {}, std::string word = {}, double value = 0);
  /// True the first time that something is said.
  [[nodiscard]] bool first_time(std::string what);

  NcclSeen seen_;
  std::map<std::string, std::size_t> index_;  ///< key of a subject -> subjects_
  std::vector<NcclSubject> subjects_;
  std::vector<std::uint64_t> lines_;  ///< of each subject
  std::map<std::uint32_t, NcclRankPlace> ranks_;
  std::map<std::string, std::vector<std::string>> adapters_;  ///< by host
  std::set<std::uint32_t> local_ranks_;                       ///< of local transports
  std::string pending_;  ///< a line whose end may be on the next one
  std::uint64_t pending_number_ = 0;
  bool pending_open_ = false;                            ///< the text ends in it
  std::map<std::uint32_t, std::uint32_t> rank_devices_;  ///< of brackets
  std::uint32_t version_ = 0;
  std::uint64_t ranks_total_ = 0;
  std::uint64_t nodes_ = 0;
  std::optional<core::TextLine> sockets_;
  std::optional<core::TextLine> no_device_;
  std::optional<core::TextLine> adapters_line_;
  std::optional<core::TextLine> graph_line_;
  std::set<std::string> adapters_off_;
  std::set<std::uint32_t> proxies_;
  std::set<std::string> said_;  ///< what a thousand ranks repeat
  bool broken_lines_ = false;   ///< a terminal broke lines: any may go on
  bool dropped_ = false;
};

}  // namespace nobounce::captures
