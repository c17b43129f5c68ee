// `--pair A,B`: two devices in the order of the transfer.
#pragma once

#include <string_view>

#include <nobounce/machine.hpp>
#include <nobounce/result.hpp>

namespace nobounce::cli {

/// Two GPUs, or a drive and a GPU in either order.
struct PairArgument {
  DeviceRef source;
  DeviceRef target;

  [[nodiscard]] bool two_gpus() const {
    return source.kind == DeviceRef::Kind::gpu && target.kind == DeviceRef::Kind::gpu;
  }
  /// Of a drive and a GPU.
  [[nodiscard]] bool writing() const { return target.kind == DeviceRef::Kind::drive; }
  [[nodiscard]] DeviceRef drive() const { return writing() ? target : source; }
  [[nodiscard]] DeviceRef gpu() const { return writing() ? source : target; }
};

/// Origin input; the error names what exists.
[[nodiscard]] Result<PairArgument> parse_pair(const Machine& machine, std::string_view text);

}  // namespace nobounce::cli
