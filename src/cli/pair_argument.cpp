// Splits a pair and finds its devices.
#include "cli/pair_argument.hpp"

#include <string>
#include <utility>

namespace nobounce::cli {

Result<PairArgument> parse_pair(const Machine& machine, std::string_view text, PairKinds kinds) {
  const auto wrong = [&](std::string detail) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "read the pair \"" + std::string(text) + "\"",
                 .detail = std::move(detail),
                 .remedy =
                     "--pair gpu:0,gpu:1 or --pair drive:NAME,gpu:0 or --pair "
                     "gpu:0,drive:NAME; nobounce topo shows the devices there are"};
  };
  const std::size_t comma = text.find(',');
  if (comma == std::string_view::npos) return wrong("a pair is two devices with a comma between");
  Result<DeviceRef> source = device_from_name(machine, text.substr(0, comma));
  if (!source.ok()) return std::move(source).error();
  Result<DeviceRef> target = device_from_name(machine, text.substr(comma + 1));
  if (!target.ok()) return std::move(target).error();
  const PairArgument pair{*source, *target};
  const auto is = [](DeviceRef device, DeviceRef::Kind kind) { return device.kind == kind; };
  if (pair.two_gpus()) {
    if (*source == *target) return wrong("a GPU and itself are no pair");
    return pair;
  }
  const bool adapter = (is(*source, DeviceRef::Kind::nic) && is(*target, DeviceRef::Kind::gpu)) ||
                       (is(*source, DeviceRef::Kind::gpu) && is(*target, DeviceRef::Kind::nic));
  if (adapter && kinds == PairKinds::adapters_too) return pair;
  const bool storage = (is(*source, DeviceRef::Kind::drive) && is(*target, DeviceRef::Kind::gpu)) ||
                       (is(*source, DeviceRef::Kind::gpu) && is(*target, DeviceRef::Kind::drive));
  if (!storage) {
    return wrong(kinds == PairKinds::adapters_too
                     ? "a pair is two GPUs, a drive and a GPU, or a GPU and an adapter"
                     : "a pair is two GPUs, or a drive and a GPU");
  }
  return pair;
}

}  // namespace nobounce::cli
