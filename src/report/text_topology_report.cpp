// Matrices and trees of what texts show.
#include "report/text_topology_report.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "report/labelled.hpp"

namespace nobounce::report {

namespace {

using core::TextDevice;
using core::TextDeviceKind;
using core::TextTopology;
using Numbers = std::vector<std::size_t>;

Numbers numbers_of(const TextTopology& topology, TextDeviceKind kind) {
  Numbers numbers;
  for (std::size_t i = 0; i < topology.devices.size(); ++i) {
    if (topology.devices[i].kind == kind) numbers.push_back(i);
  }
  return numbers;
}

Numbers all_numbers(const TextTopology& topology) {
  Numbers numbers;
  for (std::size_t i = 0; i < topology.devices.size(); ++i) numbers.push_back(i);
  return numbers;
}

std::string_view kind_word(TextDeviceKind kind) {
  switch (kind) {
    case TextDeviceKind::gpu:
      return "gpu";
    case TextDeviceKind::nic:
      return "nic";
    case TextDeviceKind::drive:
      return "drive";
    case TextDeviceKind::other:
      break;
  }
  return "other";
}

std::string text_cell(const TextTopology& topology, std::size_t row, std::size_t column) {
  if (row == column) return "X";
  const std::string level = topology.level(row, column);
  return level.empty() ? "?" : visible(level);
}

std::string text_matrix(const TextTopology& topology, const Numbers& rows, const Numbers& columns,
                        Style style) {
  std::size_t row_columns = 0;
  std::size_t cell_columns = 0;
  for (const std::size_t row : rows)
    row_columns = std::max(row_columns, columns_of(visible(topology.devices[row].name)));
  for (const std::size_t column : columns) {
    cell_columns = std::max(cell_columns, columns_of(visible(topology.devices[column].name)));
    for (const std::size_t row : rows)
      cell_columns = std::max(cell_columns, columns_of(text_cell(topology, row, column)));
  }
  const std::size_t room = text_width > row_columns ? text_width - row_columns : 1;
  const std::size_t per_block = std::max<std::size_t>(1, room / (cell_columns + 2));
  std::string text;
  for (std::size_t begin = 0; begin < columns.size(); begin += per_block) {
    const std::size_t end = std::min(columns.size(), begin + per_block);
    std::string head = left("", row_columns);
    for (std::size_t i = begin; i < end; ++i)
      head += "  " + left(visible(topology.devices[columns[i]].name), cell_columns);
    head.erase(head.find_last_not_of(' ') + 1);
    text += painted(head, Paint::faint, style) + "\n";
    for (const std::size_t row : rows) {
      std::string line = left(visible(topology.devices[row].name), row_columns);
      for (std::size_t i = begin; i < end; ++i)
        line += "  " + left(text_cell(topology, row, columns[i]), cell_columns);
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
  }
  return text;
}

/// All of `others` that are equally near, as far as the text says it.
struct NearestInText {
  Numbers best;
  std::string level;       ///< empty where the text says it of none
  std::size_t unsaid = 0;  ///< of which it says nothing, or in a word that nobody knows
};

NearestInText nearest_in_text(const TextTopology& topology, std::size_t device,
                              const Numbers& others) {
  NearestInText nearest;
  for (const std::size_t other : others) {
    if (other == device) continue;
    const std::string level = topology.level(device, other);
    if (level.empty() || core::level_rank(level) > core::level_rank("SYS")) ++nearest.unsaid;
    if (level.empty()) continue;
    const bool any = !nearest.best.empty();
    if (any && core::level_rank(level) > core::level_rank(nearest.level)) continue;
    if (!any || core::level_rank(level) < core::level_rank(nearest.level)) {
      nearest.best.clear();
      nearest.level = level;
    }
    nearest.best.push_back(other);
  }
  return nearest;
}

std::string text_partners(const TextTopology& topology, const Numbers& gpus, Style style) {
  std::string text;
  std::size_t widest = 0;
  for (const std::size_t gpu : gpus)
    widest = std::max(widest, columns_of(visible(topology.devices[gpu].name)));
  for (const std::size_t gpu : gpus) {
    std::string partners;
    for (const TextDeviceKind kind :
         {TextDeviceKind::gpu, TextDeviceKind::drive, TextDeviceKind::nic}) {
      const NearestInText nearest = nearest_in_text(topology, gpu, numbers_of(topology, kind));
      if (nearest.best.empty()) continue;
      if (!partners.empty()) partners += ", ";
      for (const std::size_t other : nearest.best)
        partners += visible(topology.devices[other].name) + " ";
      partners += "(" + visible(nearest.level);
      if (nearest.unsaid > 0) partners += "; of " + std::to_string(nearest.unsaid) + " not said";
      partners += ")";
    }
    if (partners.empty()) continue;
    text += labelled(left(visible(topology.devices[gpu].name), widest + 2), widest + 2, partners);
  }
  return text.empty() ? text : painted("best partners", Paint::strong, style) + "\n" + text;
}

/// Whether each GPU has an adapter of its own below its switch.
struct TextRails {
  std::vector<std::string> problems;  ///< what the text shows to be otherwise
  Numbers unsaid;                     ///< GPUs of which it does not show it

  [[nodiscard]] std::string_view word() const {
    if (!problems.empty()) return "not aligned";
    return unsaid.empty() ? "aligned" : "unknown";
  }
};

TextRails text_rails(const TextTopology& topology) {
  const Numbers gpus = numbers_of(topology, TextDeviceKind::gpu);
  const Numbers nics = numbers_of(topology, TextDeviceKind::nic);
  TextRails rails;
  std::vector<Numbers> sharing(topology.devices.size());
  std::vector<bool> whole(topology.devices.size());
  for (const std::size_t gpu : gpus) {
    const NearestInText nearest = nearest_in_text(topology, gpu, nics);
    whole[gpu] = nearest.unsaid == 0;
    if (!nearest.best.empty() && core::level_rank(nearest.level) <= core::level_rank("PXB")) {
      for (const std::size_t nic : nearest.best) sharing[nic].push_back(gpu);
    } else if (nics.empty() || !whole[gpu]) {
      rails.unsaid.push_back(gpu);
    } else {
      rails.problems.push_back(visible(topology.devices[gpu].name) + " has none below its switch");
    }
  }
  for (const std::size_t nic : nics) {
    if (sharing[nic].size() < 2) continue;
    std::string problem = visible(topology.devices[nic].name) + " is shared by";
    bool sure = true;
    for (const std::size_t gpu : sharing[nic]) {
      problem += " " + visible(topology.devices[gpu].name);
      sure = sure && whole[gpu];
    }
    if (sure) {
      rails.problems.push_back(std::move(problem));
      continue;
    }
    // Another adapter, of which the text says nothing, may be as near.
    for (const std::size_t gpu : sharing[nic]) {
      if (whole[gpu] || std::count(rails.unsaid.begin(), rails.unsaid.end(), gpu) > 0) continue;
      rails.unsaid.push_back(gpu);
    }
  }
  return rails;
}

std::string text_rails_line(const TextTopology& topology, const Numbers& gpus, const Numbers& nics,
                            Style style) {
  if (gpus.size() < 2) return {};
  const TextRails rails = text_rails(topology);
  std::string line(rails.word());
  if (rails.word() == "aligned") line += ": each GPU has an adapter of its own below its switch";
  for (std::size_t i = 0; i < rails.problems.size(); ++i)
    line += (i == 0 ? ": " : "; ") + rails.problems[i];
  if (nics.empty()) {
    line += ": the text shows no network adapters, which does not say that there are none";
  } else if (!rails.unsaid.empty()) {
    line += rails.problems.empty() ? ": " : "; ";
    line += "the text does not say how near adapters are to";
    for (const std::size_t gpu : rails.unsaid) line += " " + visible(topology.devices[gpu].name);
  }
  return labelled(painted("rails", Paint::strong, style) + "   ", 8, line);
}

/// Devices below the bridges that the text shows above them.
std::string text_tree(const TextTopology& topology) {
  std::vector<const TextDevice*> placed;
  for (const TextDevice& device : topology.devices) {
    if (!device.path.empty()) placed.push_back(&device);
  }
  std::stable_sort(
      placed.begin(), placed.end(),
      [](const TextDevice* one, const TextDevice* other) { return one->path < other->path; });
  std::string text;
  std::vector<std::string> present;
  for (const TextDevice* device : placed) {
    std::size_t common = 0;
    while (common < present.size() && common < device->path.size() &&
           present[common] == device->path[common])
      ++common;
    for (std::size_t i = common; i < device->path.size(); ++i)
      text += std::string(2 * i, ' ') + visible(device->path[i]) + "\n";
    present = device->path;
    text += std::string(2 * device->path.size(), ' ') + visible(device->name);
    if (!device->detail.empty()) text += "  " + visible(device->detail);
    text += "\n";
  }
  return text;
}

std::string names_in(const TextTopology& topology) {
  std::string text;
  for (const TextDevice& device : topology.devices) {
    if (device.path.empty() && !device.detail.empty())
      text += "  " + visible(device.name) + " = " + visible(device.detail) + "\n";
  }
  return text;
}

std::string one_topology(const TextTopology& topology, Style style) {
  std::string text = painted(topology.format, Paint::strong, style) +
                     fmt::format("  {}, lines {}-{}\n", visible(topology.file), topology.first_line,
                                 topology.last_line);
  text += names_in(topology);
  for (const std::string& note : topology.notes) text += "  note: " + note + "\n";
  if (const std::string tree = text_tree(topology); !tree.empty()) text += "\n" + tree;
  const Numbers gpus = numbers_of(topology, TextDeviceKind::gpu);
  const Numbers nics = numbers_of(topology, TextDeviceKind::nic);
  const Numbers drives = numbers_of(topology, TextDeviceKind::drive);
  const auto add = [&](std::string_view title, const Numbers& rows, const Numbers& columns) {
    if (rows.empty() || columns.empty()) return;
    text += "\n" + painted(title, Paint::strong, style) + "\n" +
            text_matrix(topology, rows, columns, style);
  };
  if (gpus.size() > 1) add("GPU x GPU", gpus, gpus);
  add("GPU x drive", gpus, drives);
  add("GPU x NIC", gpus, nics);
  if (gpus.empty()) {
    const Numbers all = all_numbers(topology);
    add("device x device", all, all);
  }
  if (const std::string partners = text_partners(topology, gpus, style); !partners.empty())
    text += "\n" + partners;
  text += text_rails_line(topology, gpus, nics, style);
  return text;
}

}  // namespace

std::string text_topology_text(const std::vector<TextTopology>& topologies, Style style) {
  std::string text;
  for (const TextTopology& topology : topologies) text += one_topology(topology, style) + "\n";
  text += wrapped(
      "? = the text does not say it. No text of this kind shows ACS, the IOMMU or what a transfer "
      "did: nobounce explain reads those texts, nobounce record takes a whole machine.",
      0, text_width);
  return text;
}

core::Json text_topology_json(const std::vector<TextTopology>& topologies) {
  core::JsonArray all;
  for (const TextTopology& topology : topologies) {
    core::JsonArray devices;
    for (const TextDevice& device : topology.devices) {
      core::JsonArray path;
      for (const std::string& step : device.path) path.emplace_back(step);
      devices.push_back(core::JsonObject{{"name", device.name},
                                         {"kind", kind_word(device.kind)},
                                         {"detail", device.detail},
                                         {"path", std::move(path)}});
    }
    core::JsonArray levels;
    for (const auto& [pair, level] : topology.levels) {
      levels.push_back(core::JsonObject{{"source", topology.devices[pair.first].name},
                                        {"target", topology.devices[pair.second].name},
                                        {"level", level}});
    }
    TextRails rails = text_rails(topology);
    const std::string word(rails.word());
    core::JsonArray problems;
    for (std::string& problem : rails.problems) problems.emplace_back(std::move(problem));
    core::JsonArray notes;
    for (const std::string& note : topology.notes) notes.emplace_back(note);
    all.push_back(core::JsonObject{{"format", topology.format},
                                   {"file", topology.file},
                                   {"first_line", topology.first_line},
                                   {"last_line", topology.last_line},
                                   {"devices", std::move(devices)},
                                   {"levels", std::move(levels)},
                                   {"rails", word},
                                   {"rail_problems", std::move(problems)},
                                   {"notes", std::move(notes)}});
  }
  return core::JsonObject{{"schema", "nobounce.text-topology/1"}, {"topologies", std::move(all)}};
}

}  // namespace nobounce::report
