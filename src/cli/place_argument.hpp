// Places as the command line names them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nobounce/machine.hpp>
#include <nobounce/result.hpp>
#include "cli/exit_code.hpp"

namespace nobounce::cli {

struct PlaceArgument {
  enum class Kind : std::uint8_t { file, gpu, host, remote, drive };
  Kind kind = Kind::file;
  /// Of a file its path, of a GPU `gpu:N`, `gpu:UUID` or `gpu:BDF`, of a peer's memory and of a
  /// drive all of it.
  std::string text;
  std::string address;  ///< of a peer: `HOST:PORT`; of a drive: its BDF
  std::string name;     ///< of what it serves
};

/// `file:PATH`, `gpu:...`, `host`, `nvme:BDF`, `rdma://HOST:PORT/NAME`; anything else is a path.
/// Origin input for `-`, for kinds of places that are not supported yet, and for what is nearly a
/// place (`GPU:0`, `cuda:0`).
[[nodiscard]] Result<PlaceArgument> parse_place(std::string_view text);

inline constexpr const char* devices_remedy =
    "nobounce topo shows the devices there are, of --machine too";

/// What is wrong with the name of a GPU, `0` or `gpu:0`, on any machine.
[[nodiscard]] std::optional<Problem> gpu_form_problem(const char* option, std::string_view name);

/// The index of a GPU place on this machine. Without any GPU: cause machine.no_gpu. The error names
/// what exists. What can be no name of a GPU on any machine is a usage error.
[[nodiscard]] Attempt<std::uint32_t> resolve_gpu(const Machine& machine, std::string_view name);

}  // namespace nobounce::cli
