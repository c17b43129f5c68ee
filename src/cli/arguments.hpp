// The command line as a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <nobounce/words.hpp>
#include "cli/exit_code.hpp"

namespace nobounce::cli {

struct MachineSelection {
  std::string machine = "live";
  std::vector<std::string> settings;  ///< `/json/pointer=value`
  std::optional<std::uint64_t> seed;
  bool deterministic = false;
};

struct TopoArguments {};

struct CheckArguments {
  std::vector<std::string> paths;
  std::vector<std::string> gpus;
  bool all = false;  ///< findings that are met, too
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
};

struct StatArguments {
  std::uint64_t process_id = 0;  ///< 0: all
  bool prometheus = false;
};

struct VersionArguments {};

struct Arguments {
  MachineSelection machine;
  bool json = false;
  bool no_color = false;
  std::variant<VersionArguments, TopoArguments, CheckArguments, CopyArguments, StatArguments>
      command;
};

/// Help that was asked for.
struct HelpText {
  std::string text;
};

using ParsedArguments = std::variant<Arguments, HelpText, Problem>;

[[nodiscard]] ParsedArguments parse_arguments(int count, const char* const* values);

/// Whether `--json` is among them: needed where they could not be parsed.
[[nodiscard]] bool wants_json(int count, const char* const* values);

}  // namespace nobounce::cli
