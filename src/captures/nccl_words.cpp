// NCCL and RCCL logs: everything that is no transport in use. Capabilities, settings, errors, the
// library's own view of the machine.
#include <algorithm>
#include <array>

#include "captures/nccl_log.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

/// Long lines (lists of ranks) are looked at from the front only.
constexpr std::size_t nccl_head = 400;

std::string_view nccl_head_of(std::string_view body) {
  return body.substr(0, nccl_head);
}

/// `NET/IB : ..`, `NET/AWS Libfabric : ..`, `NET/OFI ..`: what stands behind the slash.
std::string_view nccl_plugin_of(std::string_view body) {
  const std::string_view name = body.substr(4);
  const std::size_t colon = std::min(name.find(" :"), name.find(": "));
  if (colon != std::string_view::npos && colon < 24) return trim(name.substr(0, colon));
  return first_word(name);
}

}  // namespace

bool NcclLogParser::take_words(const Line& line, const NcclLine& said) {
  const std::string_view body = nccl_head_of(said.body);
  if (take_version(line)) return true;
  const bool known = (starts(body, "NET/") && take_network(line, said)) ||
                     (has(body, "GPU Direct RDMA") && take_distance(line, said)) ||
                     take_completion(line, said) || take_communicator(line, said) ||
                     take_setting(line, said) || take_graph(line, said);
  if (known) return true;
  if (has(body, "Failed to open libibverbs")) {
    ensure(line);
    if (!no_device_.has_value()) no_device_ = evidence(line);
    return true;
  }
  if (starts(body, "DMA-BUF is available on GPU device")) {
    ensure(line);
    set_fact(facts(), "dmabuf_capability", true);
    const std::uint64_t gpu = number_after(body, "device").value_or(0);
    if (first_time("dmabuf " + std::string(said.host) + std::to_string(gpu)))
      say(core::SignKind::gpu_dmabuf, line, said, "GPU" + std::to_string(gpu));
    return true;
  }
  if (starts(body, "P2P is disabled between")) {
    ensure(line);
    const auto first = number_after(body, "GPUs ");
    const auto second = number_after(body, " and ");
    if (!first.has_value() || !second.has_value()) return true;
    if (!first_time("pair " + std::string(said.host) + std::to_string(*first) + '-' +
                    std::to_string(*second)))
      return true;
    say(core::SignKind::peer_disabled, line, said, "GPU" + std::to_string(*first),
        "GPU" + std::to_string(*second), "", has(body, "NVLINK") ? 1 : 0);
    return true;
  }
  if (has(body, "peer access is not supported between these two devices")) {
    ensure(line);
    if (first_time("no peer access " + std::string(said.host)))
      say(core::SignKind::peer_disabled, line, said);
    return true;
  }
  if (has(line.text, "Watchdog caught collective operation timeout")) {
    ensure(line);
    if (first_time("watchdog")) sign(core::SignKind::collective_timeout, line);
    return true;
  }
  if (has(body, "iommu=pt")) {
    ensure(line);
    if (first_time("iommu")) sign(core::SignKind::iommu_translated, line);
    return true;
  }
  if (!said.marked) return false;
  ensure(line);
  if (has(body, "ibv_reg_") && (has(body, "failed") || has(body, "error")) &&
      first_time("registration " + std::string(said.process)))
    sign(core::SignKind::registration_failed, line, "", "",
         has(body, "Cannot allocate memory") ? "locked"
         : has(body, "dmabuf")               ? "dmabuf"
                                             : "nccl");
  take_connection(line, said);
  return true;
}

/// `Call to ibv_modify_qp failed with error Connection timed out`,
/// `.. failed with 110 Connection timed out, on dev mlx5_5:1, curr state INIT, next state RTR, ..`.
void NcclLogParser::take_connection(const Line& line, const NcclLine& said) {
  const std::string_view body = nccl_head_of(said.body);
  auto answer = after(body, "ibv_modify_qp failed with ");
  if (!answer.has_value() || !first_time("connection " + std::string(said.process))) return;
  if (starts(*answer, "error ")) answer->remove_prefix(6);
  while (!answer->empty() && (is_digit(answer->front()) || answer->front() == ' '))
    answer->remove_prefix(1);
  const std::string adapter(until(after(body, "on dev ").value_or(""), ": ,"));
  say(core::SignKind::net_unreached, line, said,
      said.device.has_value() ? "GPU" + std::to_string(*said.device) : "", adapter,
      std::string(until(*answer, ",")));
}

bool NcclLogParser::take_version(const Line& line) {
  const std::string_view text = line.text;
  for (const std::string_view mark : {"RCCL version", "NCCL version"}) {
    const auto rest = after(text, mark);
    if (!rest.has_value()) continue;
    std::string_view version = trim(*rest);
    while (starts(version, ":") || starts(version, " ")) version.remove_prefix(1);
    std::size_t length = 0;
    while (length < version.size() && (is_digit(version[length]) || version[length] == '.'))
      ++length;
    version = version.substr(0, length);
    if (length < 3 || !has(version, ".")) continue;
    ensure(line);
    const bool amd = mark == "RCCL version";
    set_fact(facts(), amd ? "rccl_version" : "nccl_version", version);
    version_ = nccl_version_number(version);
    if (first_time("version " + std::string(version)))
      sign(core::SignKind::library_version, line, "", "", amd ? "rccl" : "nccl", version_);
    return true;
  }
  return false;
}

/// `NCCL_P2P_DISABLE set by environment to 1.`, `NCCL_IB_HCA set to mlx5_0`, `NCCL_P2P_DISABLE=1`.
bool NcclLogParser::take_setting(const Line& line, const NcclLine& said) {
  const std::string_view body = nccl_head_of(said.body);
  std::size_t at = body.find("NCCL_");
  if (at == std::string_view::npos) return false;
  std::size_t end = at;
  while (end < body.size() && is_name(body[end])) ++end;
  const std::string name(body.substr(at, end - at));
  const std::string_view rest = body.substr(end);
  std::string_view value;
  if (starts(rest, " set by environment to ")) {
    value = rest.substr(23);
  } else if (starts(rest, " set to ")) {
    value = rest.substr(8);
  } else if (starts(rest, "=") && (at == 0 || !said.marked)) {
    value = rest.substr(1);  // a command line; inside a message it is advice
  } else {
    return false;
  }
  value = first_word(value);
  while (ends(value, ".") || ends(value, ",") || ends(value, "\"")) value.remove_suffix(1);
  if (starts(value, "\"")) value.remove_prefix(1);
  ensure(line);
  set_entry(facts(), "env", name, value);
  if (!first_time("set " + name + '=' + std::string(value))) return true;
  core::CaptureSign one;
  one.kind = core::SignKind::setting;
  one.word = name;
  one.other = std::string(value);
  one.lines.push_back(evidence(line));
  sign(std::move(one));
  return true;
}

bool NcclLogParser::take_network(const Line& line, const NcclLine& said) {
  const std::string_view body = nccl_head_of(said.body);
  const std::string_view plugin = nccl_plugin_of(body);
  if (const auto rest = after(body, "GPU Direct RDMA ");
      rest.has_value() && has(*rest, "for HCA")) {
    ensure(line);
    const auto index = number_after(*rest, "for HCA");
    std::string adapter = "NET" + std::to_string(index.value_or(0));
    const std::size_t open = rest->find('\'');
    if (open != std::string_view::npos) {
      const std::string_view name = until(rest->substr(open + 1), "'");
      if (!name.empty()) adapter = std::string(name);
    }
    const bool off = starts(*rest, "Disabled");
    if (off && adapters_off_.size() < 4096) {
      adapters_off_.insert(adapter);
      set_fact(facts(), "gdr_disabled_hcas", static_cast<std::uint64_t>(adapters_off_.size()));
    }
    if (plugin != "IB") set_fact(facts(), "plugin", plugin);
    if (!first_time((off ? "off " : "on ") + std::string(said.host) + ' ' + adapter)) return true;
    say(off ? core::SignKind::gdr_off_adapter : core::SignKind::gdr_on_adapter, line, said,
        said.device.has_value() ? "GPU" + std::to_string(*said.device) : "", adapter,
        std::string(plugin));
    return true;
  }
  if (has(body, "GPU Direct RDMA") || has(body, "Got completion")) return false;
  ensure(line);
  if (has(body, "Unable to register memory")) {
    // Type 1 is the host's, 2 a GPU's.
    if (first_time("registration " + std::string(said.process)))
      sign(core::SignKind::registration_failed, line, "", "",
           has(body, "Cannot allocate memory") ? "locked"
           : has(body, "(type = 1)")           ? "any memory"
                                               : "nccl");
  } else if (has(body, "No device found")) {
    if (!no_device_.has_value()) no_device_ = evidence(line);
  } else if (has(said.body, "Using [")) {
    take_adapters(line, said, plugin);
  } else if (plugin == "OFI" || starts(plugin, "AWS") || plugin == "Libfabric") {
    set_fact(facts(), "plugin", plugin);
    const std::string lowered = lower(body);
    if (has(lowered, "disabling gdr") || has(lowered, "gdr disabled") ||
        has(lowered, "gpudirect disabled") || has(lowered, "gdr support is disabled") ||
        has(lowered, "does not support gdr")) {
      if (first_time("plugin " + std::string(said.host) + ' ' + std::string(plugin)))
        say(core::SignKind::gdr_off_plugin, line, said, "", "", std::string(plugin));
    } else if (!adapters_line_.has_value())
      adapters_line_ = evidence(line);
  }
  return true;
}

/// `Using [0]mlx5_2:1/RoCE [1]mlx5_5:1/RoCE [RO]; OOB bond1:192.0.2.31<0>`.
void NcclLogParser::take_adapters(const Line& line, const NcclLine& said, std::string_view plugin) {
  std::string_view rest = before(said.body, "; OOB");
  if (plugin == "Socket") {
    if (!sockets_.has_value()) sockets_ = evidence(line);
    return;
  }
  std::vector<std::string> names;
  while (names.size() < 64) {
    const std::size_t open = rest.find('[');
    if (open == std::string_view::npos) break;
    rest.remove_prefix(open + 1);
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos) break;
    if (!is_digit(rest.front())) continue;
    std::string_view device = first_word(rest.substr(close + 1));
    const std::size_t slash = device.find('/');
    if (slash != std::string_view::npos) {
      std::string_view link = device.substr(slash + 1);
      if (starts(link, "RoCE")) set_fact(facts(), "link", "RoCE");
      if (starts(link, "IB")) set_fact(facts(), "link", "IB");
    }
    device = until(device, ":/");
    if (device.empty()) break;
    names.emplace_back(device);
    add_item(facts(), "hcas", device);
  }
  if (names.empty()) return;
  if (adapters_.size() < 65536) adapters_[std::string(said.host)] = std::move(names);
  if (!adapters_line_.has_value()) adapters_line_ = evidence(line);
}

/// `GPU Direct RDMA Disabled for GPU 5b000 / HCA 0 (distance 6 > 4)`, in all wordings.
bool NcclLogParser::take_distance(const Line& line, const NcclLine& said) {
  const std::string_view body = nccl_head_of(said.body);
  const auto rest = after(body, "GPU Direct RDMA ");
  if (!rest.has_value()) return false;
  const bool off = starts(*rest, "Disabled");
  if (!off && !starts(*rest, "Enabled")) return false;
  ensure(line);
  const auto distance = after(*rest, "(distance ");
  if (!distance.has_value()) {
    // Older: the adapter named without a plugin, or a reason in brackets.
    if (!has(*rest, "HCA")) return true;
    std::string_view adapter = first_word(after(*rest, "HCA ").value_or(""));
    std::string name(adapter);
    if (!adapter.empty() && adapter.find_first_not_of("0123456789") == std::string_view::npos)
      name = "NET" + name;
    if (!first_time((off ? "off " : "on ") + std::string(said.host) + ' ' + name)) return true;
    say(off ? core::SignKind::gdr_off_adapter : core::SignKind::gdr_on_adapter, line, said, "",
        name, "IB");
    return true;
  }
  const auto value = whole_number(*distance);
  std::size_t sign_at = distance->find_first_of("<>");
  if (!value.has_value() || sign_at == std::string_view::npos) return true;
  std::string_view behind = distance->substr(sign_at + 1);
  if (starts(behind, "=")) behind.remove_prefix(1);
  const auto limit = whole_number(behind);
  if (!limit.has_value()) return true;
  core::CaptureSign one;
  one.kind = off ? core::SignKind::gdr_off_distance : core::SignKind::gdr_on_distance;
  // The line is said by the GPU's own process.
  one.source = said.device.has_value() ? "GPU" + std::to_string(*said.device) : "";
  one.host = std::string(said.host);
  const auto adapter = number_after(*rest, "HCA ");
  const auto names = adapters_.find(one.host);
  if (adapter.has_value() && *adapter < 64) {
    one.target = "NET" + std::to_string(*adapter);
    if (names != adapters_.end() && *adapter < names->second.size())
      one.target = names->second[*adapter];
  }
  one.value = static_cast<double>(*value);
  one.second = static_cast<double>(*limit);
  one.lines.push_back(evidence(line));
  if (off || fact(facts(), "distance") == nullptr) {
    const std::string_view name = nccl_distance_name(version_, *value);
    const std::string_view limit_name = nccl_distance_name(version_, *limit);
    set_fact(facts(), "distance", *value);
    set_fact(facts(), "limit", *limit);
    set_fact(facts(), "distance_name", name.empty() ? "ambiguous" : name);
    if (!limit_name.empty()) set_fact(facts(), "limit_name", limit_name);
    one.word = std::string(name);
    one.other = std::string(limit_name);
  }
  if (!first_time("distance " + one.host + ' ' + one.source + ' ' + one.target +
                  (off ? " off" : " on")))
    return true;
  sign(std::move(one));
  return true;
}

/// Completion errors, in all wordings.
bool NcclLogParser::take_completion(const Line& line, const NcclLine& said) {
  const std::string_view body = nccl_head_of(said.body);
  if (!has(body, "Got completion")) return false;
  ensure(line);
  std::optional<std::uint64_t> status = number_after(body, "with error ");
  if (!status.has_value()) {
    if (const auto rest = after(body, "status="); rest.has_value()) {
      status = whole_number(*rest);
      // `status=IBV_WC_LOC_PROT_ERR(4)`.
      if (!status.has_value()) status = number_after(until(*rest, " ,"), "(");
    }
  }
  if (!status.has_value()) {
    if (const auto rest = after(body, "wc->status=("); rest.has_value())
      status = number_after(*rest, ")");
  }
  if (!status.has_value() || *status == 0) return true;
  std::optional<std::uint64_t> vendor = number_after(body, "vendor err ");
  if (!vendor.has_value()) vendor = number_after(body, "vendor_err=");
  const std::string lowered = lower(body);
  std::string direction;
  if (has(lowered, "(send)") || has(lowered, "req_type=send")) direction = "send";
  if (has(lowered, "(recv)") || has(lowered, "req_type=recv")) direction = "receive";
  set_fact(facts(), "wc_status", *status);
  if (vendor.has_value()) set_fact(facts(), "vendor_err", *vendor);
  if (!direction.empty()) set_fact(facts(), "direction", direction);
  core::CaptureSign one;
  one.kind = core::SignKind::net_error;
  one.source = said.device.has_value() ? "GPU" + std::to_string(*said.device) : "";
  one.direction = direction;
  one.host = std::string(said.host);
  one.other = std::string(said.process);
  one.value = static_cast<double>(*status);
  one.second = static_cast<double>(vendor.value_or(0));
  if (const auto adapter = after(body, " hca "); adapter.has_value())
    one.target = std::string(first_word(*adapter));
  one.lines.push_back(evidence(line));
  if (first_time("error " + one.other + ' ' + one.direction + std::to_string(*status)))
    sign(std::move(one));
  return true;
}

/// `comm 0x.. rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60`, `.. nRanks 2 nNodes 1 localRanks 2`.
bool NcclLogParser::take_communicator(const Line& line, const NcclLine& said) {
  const std::string_view body = nccl_head_of(said.body);
  if (!has(body, "comm ") || !has(body, "rank ")) return false;
  const auto rank = number_after(body, " rank ");
  if (!rank.has_value()) return false;
  ensure(line);
  for (const std::string_view name : {"nranks ", "nRanks "}) {
    if (const auto ranks = number_after(body, name); ranks.has_value()) {
      ranks_total_ = std::max(ranks_total_, *ranks);
      set_fact(facts(), "ranks", ranks_total_);
    }
  }
  if (const auto nodes = number_after(body, "nNodes "); nodes.has_value()) {
    nodes_ = std::max(nodes_, *nodes);
    set_fact(facts(), "nodes", nodes_);
  }
  // The driver's number where it is there: CUDA's depends on CUDA_VISIBLE_DEVICES.
  auto device = number_after(body, "nvmlDev ");
  if (!device.has_value()) device = number_after(body, "cudaDev ");
  if (device.has_value() && *device < 1024 && *rank < 10'000'000 && ranks_.size() < 1'000'000)
    ranks_[static_cast<std::uint32_t>(*rank)] = {std::string(said.host),
                                                 static_cast<std::uint32_t>(*device)};
  return true;
}

/// The graph as the library sees it: `PCI/0-5a000 (1000c0101000ffff)`, `=== System`, `GPU/..`.
bool NcclLogParser::take_graph(const Line& line, const NcclLine& said) {
  const std::string_view body = nccl_head_of(said.body);
  const bool graph = starts(body, "=== System") || starts(body, "CPU/") || starts(body, "+ ") ||
                     starts(body, "GPU/") || starts(body, "NET/0");
  if (!graph) {
    if (starts(body, "NVLS multicast support is ")) {
      ensure(line);
      set_fact(facts(), "nvls_available", !has(body, "not available"));
      return true;
    }
    return false;
  }
  ensure(line);
  if (!graph_line_.has_value()) graph_line_ = evidence(line);
  if (const auto node = after(body, "PCI/"); node.has_value()) {
    const auto id = after(*node, "(");
    if (id.has_value() && id->size() >= 8 && hex_number(id->substr(0, 8)).has_value())
      set_fact(facts(), "pci_switch",
               std::string(id->substr(0, 4)) + ":" + std::string(id->substr(4, 4)));
  }
  return true;
}

void NcclLogParser::leave_words() {
  // A run whose transports are shown, none of which leaves the node.
  std::set<std::string> hosts;
  bool left_node = nodes_ > 1;
  for (const NcclSubject& one : subjects_) {
    hosts.insert(one.host);
    left_node = left_node || one.kind == NcclUseKind::network || hosts.size() > 1;
  }
  const bool stayed = !subjects_.empty() && !left_node && !nodes_unnamed();
  const auto leave = [this, stayed](core::SignKind kind, const core::TextLine& line, double value) {
    core::CaptureSign one;
    one.kind = kind;
    one.value = value;
    if (kind == core::SignKind::sockets_chosen) one.second = stayed ? 1 : 0;
    one.lines.push_back(line);
    sign(std::move(one));
  };
  if (fact(facts(), "ranks") == nullptr && ranks_total_ > 0)
    set_fact(facts(), "ranks", ranks_total_);
  // A job of one node has no use for the network that it chose.
  const bool one_node = nodes_ == 1 || (ranks_total_ > 0 && local_ranks_.size() == ranks_total_);
  if (sockets_.has_value() && !adapters_line_.has_value() && !one_node)
    leave(core::SignKind::sockets_chosen, *sockets_, no_device_.has_value() ? 1 : 0);
  else if (no_device_.has_value() && !sockets_.has_value() && !adapters_line_.has_value() &&
           !one_node)
    leave(core::SignKind::sockets_chosen, *no_device_, 1);
  if (no_device_.has_value()) set_fact(facts(), "rdma_device_found", false);
  if (adapters_line_.has_value()) leave(core::SignKind::adapters_chosen, *adapters_line_, 0);
  if (graph_line_.has_value()) leave(core::SignKind::graph_shown, *graph_line_, 0);
}

}  // namespace nobounce::captures
