// Splits a pair and finds its devices.
#include "cli/pair_argument.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "cli/place_argument.hpp"

namespace nobounce::cli {

namespace {

Problem wrong_pair(std::string_view text, std::string detail) {
  return usage_problem("--pair: read \"" + std::string(text) + "\"", std::move(detail),
                       "--pair gpu:0,gpu:1 or --pair drive:NAME,gpu:0 or --pair gpu:0,drive:NAME; "
                       "nobounce topo shows the devices there are");
}

std::string_view kind_of(std::string_view device) {
  return device.substr(0, device.find(':'));
}

/// What is wrong with one of the two; empty: nothing.
std::string device_problem(std::string_view device, RawDrives raw) {
  const std::string_view kind = kind_of(device);
  const std::string name = "\"" + std::string(device) + "\"";
  if (device.size() <= kind.size() + 1)
    return name + " names no device: write gpu:N, drive:NAME or nic:NAME";
  if (kind == "gpu") {
    return gpu_form_problem("--pair", device).has_value()
               ? name + " is neither a number nor a UUID nor a bus address of a GPU"
               : "";
  }
  if (kind == "nvme" && raw == RawDrives::may_be_first) {
    const Result<PlaceArgument> place = parse_place(device);
    return place.ok() ? "" : name + " names no PCI function";
  }
  const bool known = kind == "drive" || kind == "nic";
  return known ? "" : name + " names no device: write gpu:N, drive:NAME or nic:NAME";
}

}  // namespace

std::optional<Problem> pair_form_problem(std::string_view text, RawDrives raw) {
  if (std::count(text.begin(), text.end(), ',') != 1)
    return wrong_pair(text, "a pair is two devices with a comma between");
  const std::size_t comma = text.find(',');
  const std::string_view source = text.substr(0, comma);
  const std::string_view target = text.substr(comma + 1);
  for (const std::string_view device : {source, target}) {
    if (std::string problem = device_problem(device, raw); !problem.empty())
      return wrong_pair(text, std::move(problem));
  }
  if (kind_of(target) == "nvme") {
    return usage_problem("--pair: read \"" + std::string(text) + "\"",
                         "a raw drive is only read: it comes first",
                         "--pair nvme:0000:01:00.0,gpu:0");
  }
  if (kind_of(source) != "gpu" && kind_of(target) != "gpu") {
    return wrong_pair(text, "a pair is two GPUs, a drive and a GPU, or a GPU and an adapter");
  }
  if (source == target) return wrong_pair(text, "a GPU and itself are no pair");
  return std::nullopt;
}

Attempt<PairArgument> parse_pair(const Machine& machine, std::string_view text) {
  if (auto problem = pair_form_problem(text, RawDrives::refused)) return std::move(*problem);
  const std::size_t comma = text.find(',');
  PairArgument pair;
  for (auto [name, device] : {std::pair(text.substr(0, comma), &pair.source),
                              std::pair(text.substr(comma + 1), &pair.target)}) {
    Result<DeviceRef> found = device_from_name(machine, name);
    if (!found.ok()) {
      Error error = std::move(found).error();
      error.attempted = "--pair: " + error.attempted;
      if (error.remedy.empty()) error.remedy = devices_remedy;
      return Problem{std::move(error)};
    }
    *device = *found;
  }
  if (pair.source == pair.target) return wrong_pair(text, "a GPU and itself are no pair");
  return pair;
}

}  // namespace nobounce::cli
