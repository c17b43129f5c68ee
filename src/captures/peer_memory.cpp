// /sys/kernel/mm/memory_peers: whether it is there, and how much GPU memory was registered with the
// RDMA stack through it.
#include <array>
#include <map>

#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

constexpr std::array peer_memory_counters = {
    "num_alloc_mrs", "num_dealloc_mrs", "num_reg_bytes",     "num_dereg_bytes",
    "num_reg_pages", "num_dereg_pages", "num_free_callbacks"};

struct PeerClient {
  std::string node;
  std::string name;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::optional<std::uint64_t> released;
  std::vector<core::TextLine> lines;
};

class PeerMemoryParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {
        "memory_peers",    "num_alloc_mrs",      "num_dealloc_mrs",
        "num_reg_bytes",   "num_dereg_bytes",    "num_reg_pages",
        "num_dereg_pages", "num_free_callbacks", "/sys/module/"};
    return {words, 3};
  }

  bool take(const Line& line) override {
    const std::string_view text = trim(line.text);
    if (const auto path = after(text, "memory_peers/"); path.has_value()) {
      const std::size_t slash = path->find('/');
      client_ =
          slash == std::string_view::npos ? std::string() : std::string(path->substr(0, slash));
    }
    if (take_counter(text, line)) return true;
    if (has(text, "/sys/kernel/mm/memory_peers")) return take_directory(text, line);
    const std::size_t at = text.find("/sys/module/");
    if (at == std::string_view::npos) return false;
    for (const std::string_view module : {"nvidia_peermem", "nv_peer_mem"}) {
      if (!starts(text.substr(at + 12), module)) continue;
      ensure(line);
      if (has(text, "No such file") || has(text, "cannot access")) {
        add_item(facts(), "modules_absent", module);
        sign(core::SignKind::module_absent, line, "", "", std::string(module));
      } else if (at == 0) {  // an answer, and not the question `$ ls ..`
        add_item(facts(), "modules_loaded", module);
        sign(core::SignKind::module_loaded, line, "", "", std::string(module));
      }
      return true;
    }
    return false;
  }

  void end() override {
    finish();
    close();
    client_.clear();
    row_line_ = 0;
  }

 private:
  void ensure(const Line& line) {
    if (!near(line, 20)) open("peer_counters", line);
    reach(line);
  }

  /// `num_reg_bytes value: 956301312`, `.../nv_mem/num_reg_bytes:956301312`.
  bool take_counter(std::string_view text, const Line& line) {
    for (const char* name : peer_memory_counters) {
      const std::size_t at = text.find(name);
      if (at == std::string_view::npos || (at > 0 && is_name(text[at - 1]))) continue;
      std::string_view rest = text.substr(at + std::string_view(name).size());
      if (!rest.empty() && is_name(rest.front())) continue;
      rest = trim(rest);
      if (starts(rest, "value")) rest = trim(rest.substr(5));
      while (!rest.empty() &&
             (rest.front() == ':' || rest.front() == '=' || is_blank(rest.front())))
        rest.remove_prefix(1);
      const auto value = whole_number(rest);
      if (!value.has_value()) return false;
      ensure(line);
      set_entry(facts(), "counters", name, *value);
      count(name, *value, line);
      return true;
    }
    if (starts(text, "version value") && near(line, 3)) {
      reach(line);
      return true;
    }
    return false;
  }

  /// Each client of each node has counters of its own. Rows without a path that stand one below the
  /// other, with a name twice, are of several clients: one command printed them all.
  void count(std::string_view name, std::uint64_t value, const Line& line) {
    if (row_line_ == 0 || line.number > row_line_ + 1) block_.clear();
    row_line_ = line.number;
    std::string client = std::string(line.node) + "|" + client_;
    client += "|" + std::to_string(block_[client + "|" + std::string(name)]++);
    constexpr std::size_t clients_max = 1024;
    if (clients_.size() >= clients_max && clients_.count(client) == 0) return;
    PeerClient& counted = clients_[client];
    counted.node = std::string(line.node);
    counted.name = client_;
    if (name == "num_dereg_bytes") counted.released = value;
    if (name != "num_reg_bytes") return;
    if (counted.lines.empty()) counted.first = value;
    counted.last = value;
    counted.lines.push_back(evidence(line));
    if (counted.lines.size() > 2) counted.lines.erase(counted.lines.begin() + 1);
  }

  bool take_directory(std::string_view text, const Line& line) {
    const bool absent = has(text, "No such file") || has(text, "cannot access");
    const bool question = starts(text, "$") || starts(text, "#") || starts(text, "ls ");
    if (question && !absent) return false;
    ensure(line);
    set_fact(facts(), "memory_peers", !absent);
    sign(core::SignKind::memory_peers, line, "", "", "", absent ? 0 : 1);
    return true;
  }

  void finish() {
    for (auto& [key, client] : clients_) {
      if (!is_open() || client.lines.empty()) continue;
      core::CaptureSign one;
      one.kind = core::SignKind::registered_bytes;
      one.host = client.node;
      one.other = client.name;
      one.value = static_cast<double>(client.last);
      one.word = client.lines.size() > 1 ? "twice" : "once";
      one.second = static_cast<double>(client.first);
      // One reading: what is registered at that moment, where the text says what was released.
      if (one.word == "once")
        one.second = client.released.has_value() ? static_cast<double>(*client.released) : -1;
      one.lines = std::move(client.lines);
      sign(std::move(one));
    }
    clients_.clear();
    block_.clear();
  }

  std::map<std::string, PeerClient> clients_;
  std::map<std::string, std::size_t> block_;  ///< how often a row stood in lines without a gap
  std::string client_;                        ///< the path that was named last
  std::uint64_t row_line_ = 0;
};

}  // namespace

std::unique_ptr<Parser> peer_memory_parser(Sink& sink) {
  return std::make_unique<PeerMemoryParser>(sink);
}

}  // namespace nobounce::captures
