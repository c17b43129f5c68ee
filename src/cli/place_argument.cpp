// Reads places and resolves GPUs.
#include "cli/place_argument.hpp"

#include <utility>

namespace nobounce::cli {

namespace {

bool starts_with(std::string_view text, std::string_view head) {
  return text.substr(0, head.size()) == head;
}

}  // namespace

Result<PlaceArgument> parse_place(std::string_view text) {
  const auto wrong = [&](std::string detail, std::string remedy) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "read the place \"" + std::string(text) + "\"",
                 .detail = std::move(detail),
                 .remedy = std::move(remedy)};
  };
  if (text.empty()) return wrong("it is empty", "name a file, gpu:N or host");
  if (text == "host") return PlaceArgument{PlaceArgument::Kind::host, "host"};
  if (starts_with(text, "gpu:")) {
    if (text.size() == 4) return wrong("it names no GPU", "gpu:0, gpu:UUID or gpu:BDF");
    return PlaceArgument{PlaceArgument::Kind::gpu, std::string(text)};
  }
  if (starts_with(text, "file:")) {
    if (text.size() == 5) return wrong("it names no file", "file:PATH");
    return PlaceArgument{PlaceArgument::Kind::file, std::string(text.substr(5))};
  }
  for (const std::string_view unbuilt : {"rdma://", "nvme:"}) {
    if (!starts_with(text, unbuilt)) continue;
    return wrong("places of this kind are not built yet",
                 "a file, gpu:N or host; a file of that name is ./" + std::string(text));
  }
  return PlaceArgument{PlaceArgument::Kind::file, std::string(text)};
}

Result<std::uint32_t> resolve_gpu(const Machine& machine, std::string_view name) {
  if (machine.gpus.empty()) {
    return Error{
        .origin = ErrorOrigin::input,
        .attempted = "find " + std::string(name),
        .cause = Cause::machine_no_gpu,
        .remedy = "--machine soft:workstation runs the same command on a software machine"};
  }
  Result<DeviceRef> device = device_from_name(machine, name);
  if (!device.ok()) return std::move(device).error();
  if (device->kind != DeviceRef::Kind::gpu) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "find " + std::string(name),
                 .detail = "it is no GPU",
                 .remedy = "gpu:0 to gpu:" + std::to_string(machine.gpus.size() - 1)};
  }
  return device->index;
}

}  // namespace nobounce::cli
