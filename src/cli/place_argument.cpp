// Reads places and resolves GPUs.
#include "cli/place_argument.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "system/network.hpp"

namespace nobounce::cli {

namespace {

bool starts_with(std::string_view text, std::string_view head) {
  return text.substr(0, head.size()) == head;
}

bool holds_only(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}

/// Whether it has the form of a number, a UUID or a bus address: then it depends on the machine.
bool may_name_gpu(std::string_view name) {
  if (starts_with(name, "gpu:")) name.remove_prefix(4);
  if (holds_only(name, "0123456789")) return true;
  for (const std::string_view head : {"GPU-", "gpu-", "MIG-", "mig-"}) {
    if (starts_with(name, head)) return true;
  }
  return name.find(':') != std::string_view::npos && holds_only(name, "0123456789abcdefABCDEF:.");
}

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  std::transform(small.begin(), small.end(), small.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return small;
}

/// The place that is meant by what is written as none, where that is plain: `GPU:0`, `cuda:0`,
/// `gpu0`, `Host`. Empty otherwise: then it is a file.
std::string meant_place(std::string_view text) {
  const std::string small = in_small_letters(text);
  const std::string_view view(small);
  if (view == "host") return "host";
  for (const std::string_view kind : {"gpu", "cuda"}) {
    if (!starts_with(view, kind)) continue;
    const std::string_view rest = view.substr(kind.size());
    if (holds_only(rest, "0123456789")) return "gpu:" + std::string(rest);
    if (rest.size() > 1 && rest.front() == ':')
      return "gpu:" + std::string(text.substr(kind.size() + 1));
  }
  if (starts_with(view, "cpu:")) return "host";
  for (const std::string_view kind : {"nvme:", "rdma:", "file:", "nic:", "drive:"}) {
    if (starts_with(view, kind)) return std::string(kind) + std::string(text.substr(kind.size()));
  }
  return {};
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
  if (text == "host") return PlaceArgument{PlaceArgument::Kind::host, "host", "", ""};
  if (starts_with(text, "gpu:")) {
    if (text.size() == 4) return wrong("it names no GPU", "gpu:0, gpu:UUID or gpu:BDF");
    return PlaceArgument{PlaceArgument::Kind::gpu, std::string(text), "", ""};
  }
  if (starts_with(text, "file:")) {
    if (text.size() == 5) return wrong("it names no file", "file:PATH");
    return PlaceArgument{PlaceArgument::Kind::file, std::string(text.substr(5)), "", ""};
  }
  if (starts_with(text, "nvme:")) {
    const std::string_view address = text.substr(5);
    if (address.find('.') == std::string_view::npos ||
        !holds_only(address, "0123456789abcdefABCDEF:.")) {
      return wrong("it names no PCI function", "nvme:0000:01:00.0, as nobounce topo shows it");
    }
    return PlaceArgument{PlaceArgument::Kind::drive, std::string(text), std::string(address), ""};
  }
  if (text == "-") {
    return wrong("standard input and output are no places: a stream has no length and no place",
                 "name a file, or ./- for one that is called so");
  }
  if (starts_with(text, "rdma:")) {
    constexpr const char* form = "rdma://HOST:PORT/NAME";
    if (!starts_with(text, "rdma://")) return wrong("it names no server", form);
    const std::string_view rest = text.substr(7);
    const std::size_t slash = rest.find('/');
    if (slash == std::string_view::npos || slash + 1 == rest.size())
      return wrong("it does not say what is served there", form);
    const Result<system::SocketAddress> address =
        system::parse_socket_address(rest.substr(0, slash));
    if (!address.ok()) return wrong(address.error().detail, form);
    if (address->port == 0) return wrong("nobody can be reached at port 0", form);
    return PlaceArgument{PlaceArgument::Kind::remote, std::string(text),
                         std::string(rest.substr(0, slash)), std::string(rest.substr(slash + 1))};
  }
  for (const std::string_view unbuilt : {"nic:", "drive:"}) {
    if (!starts_with(text, unbuilt)) continue;
    return wrong("places of this kind are not supported yet",
                 "a file, gpu:N, host or rdma://HOST:PORT/NAME; a file of that name is ./" +
                     std::string(text));
  }
  if (const std::string meant = meant_place(text); !meant.empty()) {
    return wrong("no place is written so, and it is an odd name of a file",
                 "did you mean " + meant + "? A file of that name is ./" + std::string(text));
  }
  return PlaceArgument{PlaceArgument::Kind::file, std::string(text), "", ""};
}

std::optional<Problem> gpu_form_problem(const char* option, std::string_view name) {
  if (may_name_gpu(name)) return std::nullopt;
  return usage_problem(std::string(option) + ": read \"" + std::string(name) + "\"",
                       "that is neither a number nor a UUID nor a bus address",
                       "gpu:0, gpu:UUID or gpu:BDF; nobounce topo shows them");
}

Attempt<std::uint32_t> resolve_gpu(const Machine& machine, std::string_view name) {
  const std::string attempted = "find " + std::string(name);
  const Result<DeviceRef> device = device_from_name(machine, name);
  if (device.ok() && device->kind == DeviceRef::Kind::gpu) return std::uint32_t{device->index};
  if (!may_name_gpu(name)) {
    return usage_problem(attempted, "that is neither a number nor a UUID nor a bus address",
                         "gpu:0, gpu:UUID or gpu:BDF; nobounce topo shows them");
  }
  if (machine.gpus.empty()) {
    return Problem{
        Error{.origin = ErrorOrigin::input,
              .attempted = attempted,
              .cause = Cause::machine_no_gpu,
              .detail = "machine " + machine.name + " has no GPU",
              .remedy = "--machine soft:workstation runs the same command on a software machine "
                        "with two GPUs"}};
  }
  if (!device.ok()) {
    Error error = device.error();
    if (error.remedy.empty()) error.remedy = devices_remedy;
    return Problem{std::move(error)};
  }
  return Problem{Error{.origin = ErrorOrigin::input,
                       .attempted = attempted,
                       .detail = "it is no GPU",
                       .remedy = "gpu:0 to gpu:" + std::to_string(machine.gpus.size() - 1)}};
}

}  // namespace nobounce::cli
