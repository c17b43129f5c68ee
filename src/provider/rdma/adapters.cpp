// Opening adapters, and choosing among them by name or by distance.
#include "provider/rdma/adapters.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/adapter_distance.hpp"
#include "provider/rdma/statuses.hpp"

namespace nobounce::provider::rdma {

namespace verbs = system::verbs;

namespace {

constexpr const char* attempted_choice = "choose an RDMA adapter";
constexpr int reads_at_once = 16;

bool is_zero(const verbs::ibv_gid& gid) {
  return std::all_of(std::begin(gid.raw), std::end(gid.raw), [](std::uint8_t b) { return b == 0; });
}

bool is_ipv4(const verbs::ibv_gid& gid) {
  constexpr std::uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, mapped, sizeof mapped) == 0;
}

bool is_link_local(const verbs::ibv_gid& gid) {
  return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
}

/// How well an address serves RoCE: version 2 is routed and wins, IP addresses over link-local
/// ones.
int rank_of(const verbs::ibv_gid_entry& entry) {
  if (is_zero(entry.gid)) return 0;
  int rank = entry.gid_type == verbs::gid_type_roce_v2   ? 8
             : entry.gid_type == verbs::gid_type_unknown ? 4
                                                         : 1;
  if (is_ipv4(entry.gid)) rank += 2;
  if (!is_link_local(entry.gid)) rank += 1;
  return rank;
}

Finding unmet(Cause cause, std::string subject, std::string observed, std::string needed,
              std::string source) {
  return Finding{.cause = cause,
                 .subject = std::move(subject),
                 .state = FindingState::unmet,
                 .observed = std::move(observed),
                 .needed = std::move(needed),
                 .remedy = std::string(cause_row(cause).remedy),
                 .source = std::move(source)};
}

Finding finding_of(const Error& error, const std::string& adapter) {
  return unmet(error.cause, "nic:" + adapter,
               error.detail.empty() ? to_string(error) : error.detail,
               "an adapter with an active port and reliable connections", error.attempted);
}

}  // namespace

Adapters::~Adapters() {
  for (const auto& [name, adapter] : opened_) (void)table_->close_device(adapter->context);
  if (list_ != nullptr) (void)table_->free_device_list(list_);
}

Result<system::Verbs*> Adapters::table() {
  const std::lock_guard lock(mutex_);
  if (table_ != nullptr) return table_;
  Result<system::Verbs*> found = host_.verbs();
  if (!found.ok()) {
    Error error = found.error();
    if (error.cause == Cause::none) error.cause = Cause::rdma_verbs_absent;
    return error;
  }
  table_ = *found;
  return table_;
}

/// With mutex_ held. Devices are listed once: what is plugged in later is not seen.
Status Adapters::list() {
  if (list_ != nullptr) return {};
  int count = 0;
  const int code = table_->get_device_list(&list_, &count);
  if (code != verbs::success) {
    list_ = nullptr;
    return call_error(code, "list the RDMA adapters", Cause::rdma_no_rdma_device);
  }
  for (int i = 0; i < count; ++i) {
    const char* name = nullptr;
    if (table_->get_device_name(&name, list_[i]) != verbs::success || name == nullptr) continue;
    Device device{name, list_[i], std::nullopt};
    for (std::uint32_t nic = 0; nic < machine_.nics.size(); ++nic) {
      if (machine_.nics[nic].name == device.name) device.nic = nic;
    }
    devices_.push_back(std::move(device));
  }
  return {};
}

bool Adapters::choose_gid(Adapter& adapter) const {
  int best = 0;
  for (int index = 0; index < std::min(adapter.port.gid_tbl_len, 256); ++index) {
    verbs::ibv_gid_entry entry{};
    if (table_->query_gid(adapter.context, 1, static_cast<std::uint32_t>(index), &entry) !=
        verbs::success) {
      continue;  // places of the table may be empty
    }
    const int rank = rank_of(entry);
    if (rank <= best) continue;
    best = rank;
    adapter.gid = entry.gid;
    adapter.gid_index = static_cast<std::uint8_t>(index);
    if (!adapter.ethernet()) break;  // the first of InfiniBand is the port's own
  }
  return best > 0;
}

Status Adapters::read_port(Adapter& adapter) const {
  const std::string attempted = "read the port of nic:" + adapter.name;
  const int code = table_->query_port(adapter.context, 1, &adapter.port);
  if (code != verbs::success) return call_error(code, attempted, Cause::rdma_device_unreadable);
  if (adapter.port.state != verbs::port_active) {
    return Error{
        .origin = ErrorOrigin::verbs,
        .attempted = attempted,
        .cause = Cause::rdma_port_down,
        .detail = "its port is not active (state " + std::to_string(adapter.port.state) + ")"};
  }
  const bool addressed = choose_gid(adapter);
  if (!addressed && (adapter.ethernet() || adapter.port.lid == 0)) {
    return Error{.origin = ErrorOrigin::verbs,
                 .attempted = attempted,
                 .cause = Cause::rdma_no_gid,
                 .detail = "its port has no address that another side could use"};
  }
  verbs::ibv_device_attr attributes{};
  if (table_->query_device(adapter.context, &attributes) == verbs::success) {
    const int reads = std::min(attributes.max_qp_rd_atom, attributes.max_qp_init_rd_atom);
    adapter.reads_max = static_cast<std::uint8_t>(std::clamp(reads, 1, reads_at_once));
  }
  return {};
}

/// With mutex_ held.
Result<std::shared_ptr<const Adapter>> Adapters::open(const Device& device) {
  const auto found = opened_.find(device.name);
  const std::string attempted = "open nic:" + device.name;
  Adapter adapter;
  if (found != opened_.end()) {
    adapter = *found->second;  // its port may have changed since
  } else {
    int node = 0;
    int transport = -1;
    (void)table_->get_device_types(&node, &transport, device.handle);
    if (node != verbs::node_ca || transport != verbs::transport_ib) {
      return Error{.origin = ErrorOrigin::verbs,
                   .attempted = attempted,
                   .cause = Cause::rdma_no_reliable_connection,
                   .detail =
                       "it has no queue pairs of type RC that can be joined by hand (node "
                       "type " +
                       std::to_string(node) + ", transport " + std::to_string(transport) + ")"};
    }
    adapter.name = device.name;
    adapter.nic = device.nic;
    const int code = table_->open_device(&adapter.context, device.handle);
    if (code != verbs::success) return call_error(code, attempted, Cause::rdma_device_unreadable);
  }
  const Status port = read_port(adapter);
  // Kept open whatever its port says: that may come up.
  const auto opened = std::make_shared<const Adapter>(adapter);
  opened_[device.name] = opened;
  if (!port.ok()) return port.error();
  return opened;
}

std::vector<std::vector<const Adapters::Device*>> Adapters::by_distance(DeviceRef near) const {
  std::vector<std::vector<const Device*>> groups;
  std::optional<core::AdapterDistance> last;
  std::vector<const Device*> unplaced;
  for (const Device& device : devices_) {
    if (!device.nic.has_value()) unplaced.push_back(&device);
  }
  const bool placed = near.kind == DeviceRef::Kind::gpu || near.kind == DeviceRef::Kind::host;
  const bool known = near.kind == DeviceRef::Kind::gpu
                         ? near.index < machine_.gpus.size()
                         : near.index < std::max<std::size_t>(machine_.numa_nodes.size(), 1);
  if (placed && known) {
    for (const core::RankedAdapter& ranked : core::adapters_by_distance(machine_, near)) {
      for (const Device& device : devices_) {
        if (device.nic != ranked.nic) continue;
        if (last != ranked.distance) groups.emplace_back();
        last = ranked.distance;
        groups.back().push_back(&device);
      }
    }
  }
  if (!unplaced.empty()) groups.push_back(std::move(unplaced));
  return groups;
}

void Adapters::judge_distance(const Adapter& adapter, DeviceRef near,
                              std::vector<Finding>& findings) const {
  if (!adapter.nic.has_value() || near.kind != DeviceRef::Kind::gpu ||
      near.index >= machine_.gpus.size()) {
    return;
  }
  const std::string gpu = "gpu:" + std::to_string(near.index);
  const std::string pair = gpu + " - nic:" + adapter.name;
  const core::AdapterDistance own = core::adapter_distance(machine_, *adapter.nic, near);
  const core::RankedAdapter nearest = core::adapters_by_distance(machine_, near).front();
  const bool wrong = nearest.distance < own;
  findings.push_back(Finding{
      .cause = Cause::rdma_wrong_nic,
      .subject = pair,
      .state = wrong ? FindingState::unmet : FindingState::met,
      .observed = "nic:" + adapter.name + " is " + std::string(to_string(own)) + " as " + gpu +
                  (wrong ? ", nic:" + machine_.nics[nearest.nic].name + " " +
                               std::string(to_string(nearest.distance))
                         : ", and none is nearer"),
      .needed = "no adapter nearer to the GPU than the one in use",
      .remedy = wrong ? "use nic:" + machine_.nics[nearest.nic].name : std::string(),
      .source = "the machine's PCIe topology"});
  if (own != core::AdapterDistance::other_socket) return;
  findings.push_back(unmet(Cause::machine_cross_socket, pair,
                           "the adapter hangs on another socket than the GPU",
                           "adapter and GPU on one socket", "the machine's PCIe topology"));
}

Result<ChosenAdapters> Adapters::choose_named(const RdmaConnectionOptions& options) {
  ChosenAdapters chosen;
  for (const std::string& name : options.adapters) {
    const auto device = std::find_if(devices_.begin(), devices_.end(),
                                     [&name](const Device& each) { return each.name == name; });
    if (device == devices_.end()) {
      std::string known;
      for (const Device& each : devices_) known += (known.empty() ? "" : ", ") + each.name;
      return Error{.origin = ErrorOrigin::input,
                   .attempted = attempted_choice,
                   .cause = Cause::rdma_no_rdma_device,
                   .detail = "there is no adapter " + name + " here",
                   .remedy = known.empty() ? std::string() : "use one of: " + known};
    }
    Result<std::shared_ptr<const Adapter>> adapter = open(*device);
    if (!adapter.ok()) return std::move(adapter).error();
    const auto same = [&name](const auto& other) { return other->name == name; };
    if (std::any_of(chosen.adapters.begin(), chosen.adapters.end(), same)) continue;
    judge_distance(**adapter, options.near, chosen.findings);
    chosen.adapters.push_back(*adapter);
    if (chosen.adapters.size() == rdma_lanes_max) break;
  }
  return chosen;
}

Result<ChosenAdapters> Adapters::choose(const RdmaConnectionOptions& options) {
  if (Result<system::Verbs*> verbs = table(); !verbs.ok()) return std::move(verbs).error();
  const std::lock_guard lock(mutex_);
  if (Status listed = list(); !listed.ok()) return listed.error();
  if (devices_.empty()) {
    return Error{.origin = ErrorOrigin::verbs,
                 .attempted = attempted_choice,
                 .cause = Cause::rdma_no_rdma_device,
                 .detail = "libibverbs lists no adapter"};
  }
  if (!options.adapters.empty()) return choose_named(options);
  const std::size_t wanted = options.lanes_max == 0
                                 ? rdma_lanes_max
                                 : std::min<std::size_t>(options.lanes_max, rdma_lanes_max);
  ChosenAdapters chosen;
  std::optional<Error> first_error;
  // The nearest group with a usable member wins; its members are equals and share the work.
  for (const std::vector<const Device*>& group : by_distance(options.near)) {
    for (const Device* device : group) {
      Result<std::shared_ptr<const Adapter>> adapter = open(*device);
      if (!adapter.ok()) {
        chosen.findings.push_back(finding_of(adapter.error(), device->name));
        if (!first_error) first_error = adapter.error();
        continue;
      }
      if (chosen.adapters.size() < wanted) chosen.adapters.push_back(*adapter);
    }
    if (!chosen.adapters.empty()) break;
  }
  if (chosen.adapters.empty()) {
    if (first_error) return *first_error;
    return Error{.origin = ErrorOrigin::input,
                 .attempted = attempted_choice,
                 .cause = Cause::rdma_no_rdma_device,
                 .detail = "no adapter is near what is no memory of this machine"};
  }
  for (const auto& adapter : chosen.adapters) {
    judge_distance(*adapter, options.near, chosen.findings);
  }
  return chosen;
}

}  // namespace nobounce::provider::rdma
