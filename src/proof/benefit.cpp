// Would the direct path help? A model from link widths: where the staged control spends its time.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "proof/benefit.hpp"

namespace nobounce::proof {
namespace {

/// GB/s per lane and direction, after encoding; PCI Express base specification, generations 1 to 6.
double lane_gigabytes(std::uint32_t generation) {
  constexpr std::array<double, 7> per_lane{0, 0.25, 0.5, 0.985, 1.969, 3.938, 7.563};
  return per_lane[std::min<std::size_t>(generation, per_lane.size() - 1)];
}

double link_gigabytes(const PcieLink& link) {
  return lane_gigabytes(link.generation) * link.width;
}

constexpr double nvlink_gigabytes_per_link = 25;  // NVLink 3 and 4, one direction

struct Leg {
  std::string name;
  double gigabytes = 0;
  double bytes_per_byte = 1;  ///< that the leg carries for each payload byte

  [[nodiscard]] double payload_gigabytes() const { return gigabytes / bytes_per_byte; }
};

/// The slowest leg with a known rate; a pipeline is as fast as that.
const Leg* slowest(const std::vector<Leg>& legs) {
  const Leg* found = nullptr;
  for (const Leg& leg : legs) {
    if (leg.gigabytes > 0 &&
        (found == nullptr || leg.payload_gigabytes() < found->payload_gigabytes()))
      found = &leg;
  }
  return found;
}

Leg gpu_leg(const Machine& machine, std::uint32_t gpu) {
  return {"PCIe link of gpu:" + std::to_string(gpu), link_gigabytes(machine.gpus[gpu].link)};
}

}  // namespace

Benefit model_benefit(const Machine& machine, const Subject& subject,
                      const PhysicalLayer* counted) {
  std::vector<Leg> staged;
  std::vector<Leg> direct;
  if (subject.member == Member::p2p) {
    staged = {gpu_leg(machine, subject.source_gpu), gpu_leg(machine, subject.target_gpu)};
    const Path path = path_between(
        machine, {DeviceRef::Kind::gpu, static_cast<std::uint16_t>(subject.source_gpu)},
        {DeviceRef::Kind::gpu, static_cast<std::uint16_t>(subject.target_gpu)});
    direct = staged;
    if (path.nvlink_count > 0) direct = {{"NVLink", path.nvlink_count * nvlink_gigabytes_per_link}};
  } else {
    const std::uint32_t gpu = subject.writing ? subject.source_gpu : subject.target_gpu;
    staged = {gpu_leg(machine, gpu)};
    for (const Drive& drive : machine.drives) {
      if ("drive:" + drive.name == subject.medium) {
        staged.push_back({"PCIe link of " + subject.medium, link_gigabytes(drive.link)});
      }
    }
    direct = staged;
  }
  // The counters see both GPUs of a pair: each link carries its half.
  const double ends = subject.member == Member::p2p ? 2 : 1;
  const WitnessSlope* pcie = counted == nullptr ? nullptr : counted->of("gpu_pcie");
  if (pcie != nullptr && pcie->control.has_value() && pcie->control->per_byte > 0) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(ends); ++i)
      staged[i].bytes_per_byte = pcie->control->per_byte / ends;
  }
  Benefit benefit;
  benefit.model = true;
  const Leg* control = slowest(staged);
  const Leg* transfer = slowest(direct);
  if (control == nullptr || transfer == nullptr) {
    benefit.bottleneck = "unknown: the links' widths could not be read";
    return benefit;
  }
  benefit.bottleneck = control->name;
  benefit.speedup_max = transfer->payload_gigabytes() / control->payload_gigabytes();
  return benefit;
}

}  // namespace nobounce::proof
