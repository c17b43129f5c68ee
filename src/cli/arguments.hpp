// The command line as a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <nobounce/peer.hpp>
#include <nobounce/words.hpp>
#include "cli/command_line.hpp"
#include "cli/exit_code.hpp"

namespace nobounce::cli {

struct MachineSelection {
  std::string machine = "live";
  std::vector<std::string> settings;  ///< `/json/pointer=value`
  std::optional<std::uint64_t> seed;
  bool deterministic = false;
};

struct TopoArguments {
  std::string svg;   ///< a file to draw the machine into
  std::string from;  ///< a recording, a machine, or captured text; `-` is standard input
};

struct CheckArguments {
  std::vector<std::string> paths;
  std::vector<std::string> gpus;
  std::vector<std::string> pairs;    ///< `gpu:0,gpu:1`, `drive:nvme0n1,gpu:0`, `nic:mlx5_0,gpu:0`
  std::vector<std::string> members;  ///< p2p, rdma, storage, async; empty: all
  bool all = false;                  ///< findings that are met, too
  bool async = false;                ///< what streams and kernels may order, too
};

/// How to get along with another process.
struct PeerArguments {
  std::string token_file;
  std::string token;
  std::vector<std::string> adapters;  ///< `mlx5_0`; empty: chosen by distance
};

struct ServeArguments {
  std::string place;
  std::string name;
  std::string listen = "127.0.0.1:0";
  RemoteAccess access = RemoteAccess::read;
  Policy policy = Policy::direct_preferred;
  std::optional<std::uint64_t> length_bytes;
  std::uint32_t connections_max = 64;
  bool once = false;
  bool ledger = false;
  PeerArguments peer;
};

struct ProveArguments {
  bool all = false;                ///< every pair, not only the best partners and one per level
  std::vector<std::string> pairs;  ///< as of `check`; empty: chosen
  std::string path;                ///< scratch directory of storage rows; empty: the temporary one
  std::vector<std::uint64_t> volumes_bytes;  ///< empty: by the kind of host
  bool force = false;
  bool async = false;  ///< rows that a stream and a kernel order, too
  bool take = false;   ///< raw drives that pairs name
  std::string save;
  std::string against;
  std::string peer_address;  ///< rows with what is served there, and no others
  PeerArguments peer;
};

struct CopyArguments {
  std::vector<std::string> places;
  Policy policy = Policy::direct_preferred;
  std::optional<std::uint64_t> length_bytes;
  std::optional<std::uint64_t> pinned_bytes;
  std::optional<std::uint64_t> slot_bytes;
  std::uint32_t readers = 0;
  std::uint64_t deadline_ns = 0;
  bool verify = true;
  bool durable = false;
  bool in_place = false;
  bool ledger = false;
  PeerArguments peer;
  bool take = false;  ///< drives may be taken, and overwritten
};

struct StatArguments {
  std::uint64_t process_id = 0;  ///< 0: all
  bool prometheus = false;
};

/// Of captured text: sixteen times what a job of a thousand GPUs logs.
inline constexpr std::uint64_t capture_limit_bytes = 16ULL << 30;

struct ExplainArguments {
  std::vector<std::string> inputs;  ///< files, `-`, or one cause id
  bool list = false;
  std::uint64_t limit_bytes = capture_limit_bytes;
};

struct RecordArguments {
  std::string output;  ///< empty: the standard output
  std::string name;    ///< what the recording is called; empty: machine
  bool list = false;
};

struct DiffArguments {
  std::string before;  ///< a recording's file, live, or a software machine
  std::string after;
};

struct VersionArguments {};

struct Arguments {
  MachineSelection machine;
  bool json = false;
  bool no_color = false;
  std::variant<VersionArguments, TopoArguments, CheckArguments, CopyArguments, ProveArguments,
               ServeArguments, StatArguments, ExplainArguments, RecordArguments, DiffArguments>
      command;
};

/// Help that was asked for.
struct HelpText {
  std::string text;
};

using ParsedArguments = std::variant<Arguments, HelpText, Problem>;

[[nodiscard]] ParsedArguments parse_arguments(int count, const char* const* values);

/// What is parsed, described.
[[nodiscard]] CommandLine command_line();

/// Whether `--json` is among them: needed where they could not be parsed.
[[nodiscard]] bool wants_json(int count, const char* const* values);

}  // namespace nobounce::cli
