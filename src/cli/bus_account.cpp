// Differences of the bus ledger, with names.
#include "cli/bus_account.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include "fabric/bus.hpp"

namespace nobounce::cli {

namespace {

std::string space_name(const Machine& machine, fabric::Space space, bool internal) {
  switch (space.kind) {
    case fabric::Space::Kind::dram:
      return fmt::format("host DRAM {}{}", space.index, internal ? " (page cache)" : "");
    case fabric::Space::Kind::vram:
      return fmt::format("gpu:{}{}", space.index, internal ? " (driver's bounce cache)" : "");
    case fabric::Space::Kind::media:
      return space.index < machine.drives.size() ? "drive:" + machine.drives[space.index].name
                                                 : fmt::format("drive {}", space.index);
    case fabric::Space::Kind::wire:
      return "the wire";
  }
  return "?";
}

std::string initiator_name(const Machine& machine, fabric::Initiator initiator) {
  switch (initiator.kind) {
    case fabric::Initiator::Kind::cpu:
      return "the CPU";
    case fabric::Initiator::Kind::copy_engine:
      return fmt::format("a copy engine of gpu:{}", initiator.index);
    case fabric::Initiator::Kind::drive:
      return initiator.index < machine.drives.size()
                 ? "DMA of drive:" + machine.drives[initiator.index].name
                 : fmt::format("DMA of drive {}", initiator.index);
    case fabric::Initiator::Kind::nic:
      return initiator.index < machine.nics.size()
                 ? "DMA of nic:" + machine.nics[initiator.index].name
                 : fmt::format("DMA of nic {}", initiator.index);
    case fabric::Initiator::Kind::kernel:
      return fmt::format("a kernel on gpu:{}", initiator.index);
  }
  return "?";
}

}  // namespace

BusWatch::BusWatch(fabric::SoftHost& soft)
    : soft_(soft),
      flows_(soft.ledger().flows()),
      links_(soft.ledger().links()),
      dram_bytes_(soft.ledger().dram_bytes()),
      lost_bytes_(soft.ledger().lost_bytes()) {
  // What lay in the target's memory before is nobody's arrival now.
  soft.bus().ledger().clear_requests();
}

report::BusAccount BusWatch::account() const {
  const fabric::Ledger& ledger = soft_.ledger();
  const Machine& machine = soft_.machine();
  report::BusAccount account;
  for (const auto& [flow, bytes] : ledger.flows()) {
    const auto before = flows_.find(flow);
    const std::uint64_t moved = bytes - (before == flows_.end() ? 0 : before->second);
    if (moved == 0) continue;
    account.flows.push_back({initiator_name(machine, flow.initiator),
                             space_name(machine, flow.source, flow.source_internal),
                             space_name(machine, flow.target, flow.target_internal), moved});
  }
  std::stable_sort(account.flows.begin(), account.flows.end(),
                   [](const auto& one, const auto& two) { return one.bytes > two.bytes; });
  for (const auto& [name, bytes] : ledger.links()) {
    const auto before = links_.find(name);
    const fabric::Ledger::LinkBytes base =
        before == links_.end() ? fabric::Ledger::LinkBytes{} : before->second;
    if (bytes.towards_device == base.towards_device && bytes.towards_root == base.towards_root)
      continue;
    account.links.push_back(
        {name, bytes.towards_device - base.towards_device, bytes.towards_root - base.towards_root});
  }
  account.dram_bytes = ledger.dram_bytes() - dram_bytes_;
  account.lost_bytes = ledger.lost_bytes() - lost_bytes_;
  return account;
}

std::optional<fabric::Extent> BusWatch::extent_of(const Place& place,
                                                  const std::string& path) const {
  const fabric::Bus& bus = soft_.bus();
  if (const auto* gpu = std::get_if<GpuMemory>(&place))
    return bus.extent_of(fabric::End::of(gpu->address));
  if (const auto* host = std::get_if<HostMemory>(&place)) {
    return bus.extent_of(fabric::End::at(bus.address_of(host->address)));
  }
  const auto* range = std::get_if<FileRange>(&place);
  if (range == nullptr) return std::nullopt;
  const Result<system::FileStatus> status = soft_.storage().status_of(path);
  const Result<std::string> real = soft_.storage().real_path(path);
  if (!status.ok() || !real.ok()) return std::nullopt;
  const Mount* mount = mount_of(soft_.machine(), *real);
  fabric::Medium medium;
  medium.inode = status->inode;
  if (mount != nullptr) medium.drive = drive_of(soft_.machine(), *mount);
  return bus.extent_of(fabric::End::of(medium, range->offset));
}

std::optional<CarriageBytes> BusWatch::arrived(const Place& target, const std::string& target_path,
                                               const Place& source) const {
  const std::uint64_t length = length_bytes(target);
  if (length == 0) return CarriageBytes{};
  const std::optional<fabric::Extent> extent = extent_of(target, target_path);
  if (!extent.has_value()) return std::nullopt;
  const auto* own = std::get_if<HostMemory>(&source);
  if (own == nullptr) return soft_.ledger().arrivals(*extent, length).bytes;
  // Bytes out of the transfer's own host memory passed no bounce buffer.
  const fabric::Bus& bus = soft_.bus();
  const fabric::Extent own_extent = bus.extent_of(fabric::End::at(bus.address_of(own->address)));
  return soft_.ledger().arrivals(*extent, length, own_extent, own->length_bytes).bytes;
}

}  // namespace nobounce::cli
