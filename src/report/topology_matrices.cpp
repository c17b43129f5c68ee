// Distances between devices as matrices, and the best partners of each GPU.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/core.h>

#include "report/labelled.hpp"
#include "report/topology_report.hpp"

namespace nobounce::report {

namespace {

DeviceRef device(DeviceRef::Kind kind, std::size_t index) {
  return {kind, static_cast<std::uint16_t>(index)};
}

std::vector<DeviceRef> all_of(DeviceRef::Kind kind, std::size_t count) {
  std::vector<DeviceRef> result;
  for (std::size_t i = 0; i < count; ++i) result.push_back(device(kind, i));
  return result;
}

std::string_view short_word(Link link) {
  switch (link) {
    case Link::none:
      return "-";
    case Link::nvlink:
      return "nvl";
    case Link::pcie_switch:
      return "sw";
    case Link::host_bridge:
      return "hb";
    case Link::inter_socket:
      return "soc";
    case Link::c2c:
      return "c2c";
  }
  return "?";
}

/// `PIX sw`, `NV18 nvl`, `PIX hb!` where ACS redirects.
std::string cell_text(const Path& path) {
  if (path.level == PathLevel::self) return "X";
  return fmt::format("{} {}{}", level_text(path), short_word(path.link),
                     path.redirected ? "!" : "");
}

struct Legend {
  std::vector<Link> links;
  bool redirected = false;

  void note(const Path& path) {
    if (path.level == PathLevel::self) return;
    if (std::find(links.begin(), links.end(), path.link) == links.end()) links.push_back(path.link);
    redirected = redirected || path.redirected;
  }

  [[nodiscard]] std::string text() const {
    std::string result;
    for (const Link link : links) {
      if (!result.empty()) result += ", ";
      result += fmt::format("{} = {}", short_word(link), to_string(link));
    }
    if (redirected)
      result += "; ! = an ACS port on the path redirects peer requests up to the host bridge";
    return result;
  }
};

/// One matrix, its columns in blocks that fit the width of a terminal.
std::string matrix(const Machine& machine, const std::vector<DeviceRef>& rows,
                   const std::vector<DeviceRef>& columns, Legend& legend, Style style) {
  std::size_t row_columns = 0;
  for (const DeviceRef row : rows)
    row_columns = std::max(row_columns, columns_of(visible(device_name(machine, row))));
  std::size_t cell_columns = 0;
  for (const DeviceRef column : columns) {
    cell_columns = std::max(cell_columns, columns_of(visible(device_name(machine, column))));
    for (const DeviceRef row : rows) {
      cell_columns =
          std::max(cell_columns, columns_of(cell_text(path_between(machine, row, column))));
    }
  }
  const std::size_t per_block =
      std::max<std::size_t>(1, (text_width - row_columns) / (cell_columns + 2));
  std::string text;
  for (std::size_t begin = 0; begin < columns.size(); begin += per_block) {
    const std::size_t end = std::min(columns.size(), begin + per_block);
    std::string head = left("", row_columns);
    for (std::size_t i = begin; i < end; ++i)
      head += "  " + left(visible(device_name(machine, columns[i])), cell_columns);
    head.erase(head.find_last_not_of(' ') + 1);
    text += painted(head, Paint::faint, style) + "\n";
    for (const DeviceRef row : rows) {
      std::string line = left(visible(device_name(machine, row)), row_columns);
      for (std::size_t i = begin; i < end; ++i) {
        const Path path = path_between(machine, row, columns[i]);
        legend.note(path);
        line += "  " + left(cell_text(path), cell_columns);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
  }
  return text;
}

/// Nearest first: NVLinks, then the PCIe level; a redirected path is as long as the way over the
/// host bridge.
auto distance(const Path& path) {
  const std::uint32_t nvlinks_missing = 1000U - std::min<std::uint32_t>(path.nvlink_count, 1000U);
  const PathLevel level =
      path.redirected ? std::max(path.pcie_level, PathLevel::phb) : path.pcie_level;
  return std::tuple(nvlinks_missing, level, path.crosses_socket);
}

/// The nearest of `others`, all that are equally near.
std::string nearest_of(const Machine& machine, DeviceRef gpu,
                       const std::vector<DeviceRef>& others) {
  std::vector<DeviceRef> best;
  for (const DeviceRef other : others) {
    if (other == gpu) continue;
    const Path path = path_between(machine, gpu, other);
    if (!best.empty()) {
      const auto present = distance(path_between(machine, gpu, best.front()));
      if (distance(path) > present) continue;
      if (distance(path) < present) best.clear();
    }
    best.push_back(other);
  }
  if (best.empty()) return {};
  std::string text;
  for (const DeviceRef other : best) {
    if (!text.empty()) text += " ";
    text += visible(device_name(machine, other));
  }
  return fmt::format("{} ({})", text, level_text(path_between(machine, gpu, best.front())));
}

}  // namespace

std::string matrices_text(const Machine& machine, Style style) {
  const std::vector<DeviceRef> gpus = all_of(DeviceRef::Kind::gpu, machine.gpus.size());
  const std::vector<DeviceRef> nics = all_of(DeviceRef::Kind::nic, machine.nics.size());
  const std::vector<DeviceRef> drives = all_of(DeviceRef::Kind::drive, machine.drives.size());
  Legend legend;
  std::string text;
  const auto add = [&](std::string_view title, const std::vector<DeviceRef>& columns) {
    if (gpus.empty() || columns.empty()) return;
    if (!text.empty()) text += "\n";
    text +=
        painted(title, Paint::strong, style) + "\n" + matrix(machine, gpus, columns, legend, style);
  };
  if (gpus.size() > 1) add("GPU x GPU", gpus);
  add("GPU x drive", drives);
  add("GPU x NIC", nics);
  if (!legend.links.empty()) text += wrapped(legend.text(), 0, text_width);
  return text;
}

std::string partners_text(const Machine& machine, Style style) {
  const std::vector<DeviceRef> gpus = all_of(DeviceRef::Kind::gpu, machine.gpus.size());
  const std::vector<DeviceRef> nics = all_of(DeviceRef::Kind::nic, machine.nics.size());
  const std::vector<DeviceRef> drives = all_of(DeviceRef::Kind::drive, machine.drives.size());
  if (gpus.empty() || (gpus.size() == 1 && nics.empty() && drives.empty())) return {};
  std::string text = painted("best partners", Paint::strong, style) + "\n";
  for (const DeviceRef gpu : gpus) {
    std::string partners;
    for (const std::vector<DeviceRef>* others : {&gpus, &drives, &nics}) {
      const std::string nearest = nearest_of(machine, gpu, *others);
      if (nearest.empty()) continue;
      if (!partners.empty()) partners += ", ";
      partners += nearest;
    }
    text += labelled(left(visible(device_name(machine, gpu)), 8), 8, partners);
  }
  return text;
}

std::string rails_text(const Machine& machine, Style style) {
  if (machine.gpus.size() < 2 || machine.nics.empty()) return {};
  // By adapter: the GPUs that it is nearest to, below a common switch.
  std::vector<std::vector<std::size_t>> gpus_of(machine.nics.size());
  std::vector<std::size_t> without;
  for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    const DeviceRef own = device(DeviceRef::Kind::gpu, gpu);
    bool any = false;
    PathLevel best = PathLevel::pxb;
    for (std::size_t nic = 0; nic < machine.nics.size(); ++nic) {
      best = std::min(best, path_between(machine, own, device(DeviceRef::Kind::nic, nic)).level);
    }
    for (std::size_t nic = 0; nic < machine.nics.size(); ++nic) {
      if (path_between(machine, own, device(DeviceRef::Kind::nic, nic)).level != best) continue;
      gpus_of[nic].push_back(gpu);
      any = true;
    }
    if (!any) without.push_back(gpu);
  }
  std::string problems;
  const auto add = [&problems](const std::string& problem) {
    problems += (problems.empty() ? "" : "; ") + problem;
  };
  for (const std::size_t gpu : without) add(fmt::format("gpu:{} has none below its switch", gpu));
  for (std::size_t nic = 0; nic < machine.nics.size(); ++nic) {
    if (gpus_of[nic].size() < 2) continue;
    std::string sharing;
    for (const std::size_t gpu : gpus_of[nic]) sharing += fmt::format(" gpu:{}", gpu);
    add(fmt::format("nic:{} is shared by{}", visible(machine.nics[nic].name), sharing));
  }
  return labelled(painted("rails", Paint::strong, style) + "   ", 8,
                  problems.empty() ? "aligned: each GPU has an adapter of its own below its switch"
                                   : "not aligned: " + problems);
}

std::string topology_text(const Machine& machine, Style style) {
  std::string text = facts_text(machine, style) + "\n" + tree_text(machine, style);
  if (machine.gpus.empty()) {
    text += "\n" + painted("no GPU was found on this machine", Paint::notice, style) + "\n";
    text += "try: nobounce topo --machine soft:workstation\n";
    return text;
  }
  const std::string matrices = matrices_text(machine, style);
  if (!matrices.empty()) text += "\n" + matrices;
  const std::string partners = partners_text(machine, style);
  if (!partners.empty()) text += "\n" + partners;
  text += rails_text(machine, style);
  return text;
}

}  // namespace nobounce::report
