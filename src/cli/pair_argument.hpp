// `--pair A,B`: two devices in the order of the transfer.
#pragma once

#include <cstdint>
#include <string_view>

#include <nobounce/machine.hpp>
#include <nobounce/result.hpp>

namespace nobounce::cli {

/// Two GPUs, or a drive and a GPU in either order; where asked for also a GPU and an adapter.
struct PairArgument {
  DeviceRef source;
  DeviceRef target;

  [[nodiscard]] bool two_gpus() const {
    return source.kind == DeviceRef::Kind::gpu && target.kind == DeviceRef::Kind::gpu;
  }
  [[nodiscard]] bool with_adapter() const {
    return source.kind == DeviceRef::Kind::nic || target.kind == DeviceRef::Kind::nic;
  }
  /// Of a GPU and an adapter.
  [[nodiscard]] DeviceRef adapter() const {
    return source.kind == DeviceRef::Kind::nic ? source : target;
  }
  [[nodiscard]] DeviceRef beside_adapter() const {
    return source.kind == DeviceRef::Kind::nic ? target : source;
  }
  /// Of a drive and a GPU.
  [[nodiscard]] bool writing() const { return target.kind == DeviceRef::Kind::drive; }
  [[nodiscard]] DeviceRef drive() const { return writing() ? target : source; }
  [[nodiscard]] DeviceRef gpu() const { return writing() ? source : target; }
};

enum class PairKinds : std::uint8_t { movable, adapters_too };

/// Origin input; the error names what exists.
[[nodiscard]] Result<PairArgument> parse_pair(const Machine& machine, std::string_view text,
                                              PairKinds kinds = PairKinds::movable);

}  // namespace nobounce::cli
