// `lspci -t` and `-tv`: the tree drawn in characters, and how far its devices are apart.
#include <algorithm>

#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

/// Devices whose places are kept. A tree of a machine with hundreds of virtual functions has fewer.
constexpr std::size_t tree_devices_max = 1024;
/// Pairs whose distance is written out; the paths of all devices tell those of larger trees.
constexpr std::size_t tree_pairs_max = 4096;

struct TreeDevice {
  std::string address;
  std::string root;                  ///< the bus of its host bridge
  std::vector<std::string> bridges;  ///< on the way down to it
  std::string name;
};

/// A bus whose devices are drawn below one another at a column.
struct TreeBus {
  std::size_t column = 0;
  std::string root;
  std::string bus;
  std::vector<std::string> bridges;
};

bool tree_is_drawing(char c) {
  return c == '|' || c == '+' || c == '-' || c == '\\' || c == ' ' || c == '\t';
}

class LspciTreeParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {
        "-[0", "-[1", "-[2", "-[3", "-[4", "-[5", "-[6", "-[7", "-[8", "-[9", "-[a",
        "-[b", "-[c", "-[d", "-[e", "-[f", "-[A", "-[B", "-[C", "-[D", "-[E", "-[F"};
    return {words, 2};
  }

  bool take(const Line& line) override {
    const std::string_view text = line.text;
    const std::size_t root = root_at(text);
    if (root == std::string_view::npos) {
      if (!near(line, 2) || buses_.empty()) return false;
      const std::size_t first = text.find_first_not_of(" \t|");
      if (first == std::string_view::npos || (text[first] != '+' && text[first] != '\\'))
        return false;
      if (first + 1 >= text.size() || text[first + 1] != '-') return false;
    } else if (!near(line, 2)) {
      finish();
      open("lspci_tree", line);
    }
    reach(line);
    read(text, line);
    return true;
  }

  void end() override {
    finish();
    close();
  }

 private:
  /// Where `[0000:00]` stands behind nothing but drawing.
  static std::size_t root_at(std::string_view text) {
    const std::size_t open = text.find('[');
    if (open == std::string_view::npos || open == 0 || text[open - 1] != '-')
      return std::string_view::npos;
    for (const char c : text.substr(0, open)) {
      if (!tree_is_drawing(c)) return std::string_view::npos;
    }
    const std::string_view inside = until(text.substr(open + 1), "]");
    if (inside.size() < 7 || inside.find(':') == std::string_view::npos)
      return std::string_view::npos;
    return hex_number(inside).has_value() ? open : std::string_view::npos;
  }

  void read(std::string_view text, const Line& line) {
    TreeBus here;
    std::size_t at = text.find_first_not_of(" \t|");
    if (at == std::string_view::npos) return;
    if (root_at(text) != std::string_view::npos) {
      at = root_at(text);
    } else {
      while (!buses_.empty() && buses_.back().column > at) buses_.pop_back();
      if (buses_.empty() || buses_.back().column != at) return;
      here = buses_.back();
    }
    bool fresh = true;  // a `+` behind a bracket opens a column
    std::optional<std::size_t> column;
    if (root_at(text) == std::string_view::npos) column = at;
    while (at < text.size()) {
      const char c = text[at];
      if (c == '[') {
        const std::string_view inside = until(text.substr(at + 1), "]");
        open_bus(inside, here);
        fresh = true;
        column.reset();
        at += inside.size() + 2;
      } else if (c == '+' || c == '\\') {
        if (fresh && !column.has_value() && c == '+' && !here.bus.empty()) {
          column = at;
          here.column = at;
          if (buses_.size() < 256) buses_.push_back(here);
        }
        fresh = false;
        ++at;
      } else if (tree_is_drawing(c)) {
        ++at;
      } else {
        const std::size_t end = device(text, at, here, line);
        if (end == at) return;
        at = end;
      }
    }
  }

  void open_bus(std::string_view inside, TreeBus& here) {
    const std::size_t colon = inside.find(':');
    if (colon != std::string_view::npos) {
      std::string domain(inside.substr(0, colon));
      here = {};
      here.bus = domain == "0000" ? std::string(inside.substr(colon + 1)) : std::string(inside);
      here.root = here.bus;
      buses_.clear();
      if (roots_.size() < 256) roots_.push_back(here.root);
      return;
    }
    std::string first(until(inside, "-"));
    // The device before the bracket is the bridge to this bus.
    if (!last_.empty() && here.bridges.size() < 32) here.bridges.push_back(last_);
    const std::size_t domain = here.root.find(':');
    here.bus = domain == std::string::npos ? first : here.root.substr(0, domain + 1) + first;
    if (!devices_.empty() && devices_.back().address == last_) devices_.pop_back();
    if (last_left_out_) --left_out_;
    last_left_out_ = false;
  }

  /// `03.2` or `00.0  NVIDIA ..`; the position behind it, or the same where it is none.
  std::size_t device(std::string_view text, std::size_t at, const TreeBus& here, const Line& line) {
    const std::string_view rest = text.substr(at);
    if (rest.size() < 4 || !is_hex(rest[0]) || !is_hex(rest[1]) || rest[2] != '.' ||
        !is_digit(rest[3]) || here.bus.empty())
      return at;
    last_ = here.bus + ":" + std::string(rest.substr(0, 4));
    if (first_.text.empty()) first_ = evidence(line);
    last_left_out_ = false;
    TreeDevice found{last_, here.root, here.bridges, std::string(trim(name_behind(rest)))};
    if (matters(found)) add(std::move(found));
    std::size_t end = at + 4;
    if (end < text.size() && is_blank(text[end])) return text.size();  // a name follows
    return end;
  }

  void add(TreeDevice found) {
    if (devices_.size() < tree_devices_max) {
      devices_.push_back(std::move(found));
    } else {
      ++left_out_;
      last_left_out_ = true;
    }
  }

  static std::string_view name_behind(std::string_view rest) {
    return rest.size() > 5 && is_blank(rest[4]) ? rest.substr(5) : std::string_view();
  }

  static std::string level_of(const TreeDevice& a, const TreeDevice& b) {
    if (a.root != b.root) return "NODE or SYS";
    if (!a.bridges.empty() && !b.bridges.empty() && a.bridges.front() == b.bridges.front())
      return "PIX or PXB";
    return "PHB";
  }

  static bool matters(const TreeDevice& device) {
    if (!ends(device.address, ".0") || device.bridges.empty()) return false;
    if (device.name.empty()) return true;
    return has(device.name, "NVIDIA") || has(device.name, "Mellanox") || has(device.name, "NVMe") ||
           has(device.name, "Non-Volatile") || has(device.name, "Instinct") ||
           has(device.name, "Broadcom") || has(device.name, "ConnectX") || has(device.name, "SSD");
  }

  void finish() {
    if (!is_open() || roots_.empty()) return;
    set_fact(facts(), "host_bridges", static_cast<std::uint64_t>(roots_.size()));
    for (const std::string& root : roots_) add_item(facts(), "root_buses", root);
    for (const TreeDevice& device : devices_) {
      std::string path = "root:" + device.root;
      for (const std::string& bridge : device.bridges) path += " " + bridge;
      set_entry(facts(), "paths", device.address, path);
      if (!device.name.empty()) set_entry(facts(), "products", device.address, device.name);
    }
    if (left_out_ > 0) set_fact(facts(), "further_devices_dropped", left_out_);
    const bool few = devices_.size() * (devices_.size() - 1) / 2 <= tree_pairs_max;
    for (std::size_t i = 0; few && i < devices_.size(); ++i) {
      for (std::size_t j = i + 1; j < devices_.size(); ++j) {
        set_entry(facts(), "level_of", devices_[i].address + "-" + devices_[j].address,
                  level_of(devices_[i], devices_[j]));
      }
    }
    core::CaptureSign shown;
    shown.kind = core::SignKind::topology_shown;
    shown.word = "tree";
    if (!first_.text.empty()) {
      shown.lines.push_back(first_);
      sign(std::move(shown));
    }
    roots_.clear();
    devices_.clear();
    left_out_ = 0;
    last_left_out_ = false;
    first_ = {};
    buses_.clear();
    last_.clear();
  }

  std::vector<std::string> roots_;
  std::vector<TreeDevice> devices_;  ///< that matter
  std::uint64_t left_out_ = 0;       ///< of those
  bool last_left_out_ = false;       ///< the one read last, which may be a bridge
  core::TextLine first_;
  std::vector<TreeBus> buses_;
  std::string last_;
};

}  // namespace

std::unique_ptr<Parser> lspci_tree_parser(Sink& sink) {
  return std::make_unique<LspciTreeParser>(sink);
}

}  // namespace nobounce::captures
