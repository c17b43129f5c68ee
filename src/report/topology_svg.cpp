// The machine as a drawing: its tree from the NUMA nodes down, and NVLinks.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "report/quantity.hpp"
#include "report/topology_report.hpp"

namespace nobounce::report {

namespace {

constexpr int box_width = 132;
constexpr int box_height = 40;
constexpr int gap_x = 12;
constexpr int gap_y = 34;
constexpr int svg_margin = 24;
constexpr int title_height = 46;

struct Box {
  std::string name;
  std::string detail;
  std::string_view colour;
  std::string edge;  ///< what is written beside the line upwards
  std::vector<Box> children;
  int x = 0;  ///< of its middle
  int y = 0;
};

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '&') {
      result += "&amp;";
    } else if (c == '"') {
      result += "&quot;";
    } else {
      result += c;
    }
  }
  return result;
}

std::string shortened(std::string text, std::size_t most) {
  if (columns_of(text) <= most) return text;
  text.resize(std::min(text.size(), most));
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80) text.pop_back();
  return text + "..";
}

std::string pcie_text(const PcieLink& link) {
  if (link.generation == 0 || link.width == 0) return {};
  const bool slower = link.generation < link.generation_max || link.width < link.width_max;
  return fmt::format("Gen{} x{}{}", link.generation, link.width, slower ? " !" : "");
}

class Drawing {
 public:
  explicit Drawing(const Machine& machine) : machine_(machine) {}

  std::string draw() {
    std::vector<Box> roots = tree();
    int right = svg_margin;
    int bottom = 0;
    for (Box& root : roots) {
      place(root, right, title_height + svg_margin, bottom);
      right += gap_x;
    }
    const int width = std::max(right, 560) + svg_margin;
    const int links_top = bottom + box_height + svg_margin;
    const std::string links = nvlink_text();
    const int height = links_top + (links.empty() ? 0 : 22) + 30;
    std::string text = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
        "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<title>{2}</title>\n<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
        width, height, escaped(visible(machine_.name)));
    text += fmt::format("<text x=\"{}\" y=\"30\" font-size=\"16\">{}</text>\n", svg_margin,
                        escaped(visible(machine_.name)) +
                            (machine_.guest ? " (a virtual machine: not the real tree)" : ""));
    for (const Box& root : roots) draw_edges(root, text);
    for (const Box& root : roots) draw_boxes(root, text);
    if (!links.empty()) {
      text += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", svg_margin, links_top + 8,
                          escaped(links));
    }
    text += fmt::format(
        "<text x=\"{}\" y=\"{}\" fill=\"#666666\">dashed: a port that redirects peer requests; !: "
        "slower than the link could be</text>\n</svg>\n",
        svg_margin, height - 14);
    return text;
  }

 private:
  [[nodiscard]] std::vector<Box> tree() const {
    std::vector<Box> roots;
    for (std::uint32_t numa = 0; numa < machine_.numa_nodes.size(); ++numa) {
      const NumaNode& node = machine_.numa_nodes[numa];
      Box box{fmt::format("numa:{}", numa),
              fmt::format("socket {}, {}", node.socket, short_bytes(node.memory_bytes)),
              "#e8eef7",
              {},
              {},
              0,
              0};
      for (std::uint32_t i = 0; i < machine_.host_bridges.size(); ++i) {
        if (machine_.host_bridges[i].numa != numa) continue;
        Box bridge{fmt::format("host_bridge:{}", i),
                   fmt::format("peers {}", to_string(machine_.host_bridges[i].peer_forwarding)),
                   "#f3ead7",
                   {},
                   below({Parent::Kind::host_bridge, i}),
                   0,
                   0};
        if (!bridge.children.empty()) box.children.push_back(std::move(bridge));
      }
      roots.push_back(std::move(box));
    }
    return roots;
  }

  [[nodiscard]] std::vector<Box> below(Parent parent) const {
    std::vector<Box> boxes;
    for (std::uint32_t i = 0; i < machine_.switches.size(); ++i) {
      if (machine_.switches[i].parent != parent) continue;
      boxes.push_back({fmt::format("switch:{}", i),
                       fmt::format("ACS {}", to_string(machine_.switches[i].acs)),
                       "#efe3f3",
                       {},
                       below({Parent::Kind::pci_switch, i}),
                       0,
                       0});
    }
    for (std::uint32_t i = 0; i < machine_.gpus.size(); ++i) {
      const Gpu& gpu = machine_.gpus[i];
      if (gpu.parent != parent) continue;
      boxes.push_back(
          {fmt::format("gpu:{}", i), gpu.product, "#dcefd9", pcie_text(gpu.link), {}, 0, 0});
      if (redirected({DeviceRef::Kind::gpu, static_cast<std::uint16_t>(i)})) mark(boxes.back());
    }
    for (std::uint32_t i = 0; i < machine_.nics.size(); ++i) {
      const Nic& nic = machine_.nics[i];
      if (nic.parent != parent) continue;
      boxes.push_back({"nic:" + nic.name,
                       nic.active ? fmt::format("{} Gb/s", nic.rate_gbps) : std::string("down"),
                       "#d9ebef", pcie_text(nic.link), below({Parent::Kind::nic, i}), 0, 0});
      if (redirected({DeviceRef::Kind::nic, static_cast<std::uint16_t>(i)})) mark(boxes.back());
    }
    for (std::uint32_t i = 0; i < machine_.drives.size(); ++i) {
      const Drive& drive = machine_.drives[i];
      if (drive.parent != parent) continue;
      boxes.push_back(
          {"drive:" + drive.name, drive.driver, "#f7dede", pcie_text(drive.link), {}, 0, 0});
    }
    return boxes;
  }

  /// A mark that the drawing of edges looks for.
  static void mark(Box& box) { box.edge = "~" + box.edge; }

  [[nodiscard]] bool redirected(DeviceRef device) const {
    const Path path = path_between(machine_, device, {DeviceRef::Kind::host, 0});
    return !path.ports.empty() && path.ports.front().acs == AcsMode::redirect;
  }

  /// Leaves side by side, parents above the middle of their children.
  static void place(Box& box, int& right, int y, int& bottom) {
    box.y = y;
    bottom = std::max(bottom, y);
    if (box.children.empty()) {
      box.x = right + box_width / 2;
      right += box_width + gap_x;
      return;
    }
    for (Box& child : box.children) place(child, right, y + box_height + gap_y, bottom);
    box.x = (box.children.front().x + box.children.back().x) / 2;
  }

  static void draw_edges(const Box& box, std::string& text) {
    for (const Box& child : box.children) {
      const bool dashed = !child.edge.empty() && child.edge.front() == '~';
      const std::string label = dashed ? child.edge.substr(1) : child.edge;
      text +=
          fmt::format("<path d=\"M{} {} V{} H{} V{}\" fill=\"none\" stroke=\"{}\"{}/>\n", box.x,
                      box.y + box_height, box.y + box_height + gap_y / 2, child.x, child.y,
                      dashed ? "#c0392b" : "#777777", dashed ? " stroke-dasharray=\"5 3\"" : "");
      if (!label.empty()) {
        text += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"10\" fill=\"#555555\">{}</text>\n",
                            child.x + 4, child.y - 5, escaped(label));
      }
      draw_edges(child, text);
    }
  }

  static void draw_boxes(const Box& box, std::string& text) {
    text += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"5\" fill=\"{}\" "
        "stroke=\"#555555\"/>\n<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n"
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" font-size=\"10\" fill=\"#444444\">{}"
        "</text>\n",
        box.x - box_width / 2, box.y, box_width, box_height, box.colour, box.x, box.y + 17,
        escaped(shortened(visible(box.name), 20)), box.x, box.y + 32,
        escaped(shortened(visible(box.detail), 24)));
    for (const Box& child : box.children) draw_boxes(child, text);
  }

  /// `NVLink: gpu:0-gpu:1 x18, ...`, or one word where all pairs have the same.
  [[nodiscard]] std::string nvlink_text() const {
    if (machine_.nvlinks.empty()) return {};
    const std::uint32_t count = machine_.nvlinks.front().count;
    const bool same = std::all_of(machine_.nvlinks.begin(), machine_.nvlinks.end(),
                                  [count](const NvLink& link) { return link.count == count; });
    const std::size_t pairs = machine_.gpus.size() * (machine_.gpus.size() - 1) / 2;
    if (same && machine_.nvlinks.size() == pairs && pairs > 1) {
      return fmt::format("NVLink: every pair of GPUs, {} links", count);
    }
    std::string text = "NVLink:";
    for (const NvLink& link : machine_.nvlinks) {
      text += fmt::format("{} gpu:{}-gpu:{} x{}", text.back() == ':' ? "" : ",", link.source_gpu,
                          link.target_gpu, link.count);
    }
    return text;
  }

  const Machine& machine_;
};

}  // namespace

std::string topology_svg(const Machine& machine) {
  return Drawing(machine).draw();
}

}  // namespace nobounce::report
