// `--pair A,B`: two devices in the order of the transfer.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <nobounce/machine.hpp>
#include "cli/exit_code.hpp"

namespace nobounce::cli {

/// Two GPUs, or a GPU and a drive or an adapter in either order.
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

enum class RawDrives : std::uint8_t { refused, may_be_first };

/// What is wrong with a pair on any machine.
[[nodiscard]] std::optional<Problem> pair_form_problem(std::string_view text, RawDrives raw);

/// Two devices that are there; the error names those that are. Of pairs of a sound form.
[[nodiscard]] Attempt<PairArgument> parse_pair(const Machine& machine, std::string_view text);

}  // namespace nobounce::cli
