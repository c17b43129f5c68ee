// /sys/kernel/mm/memory_peers: whether it is there, and how much GPU memory was registered with the
// RDMA stack through it.
#include <array>

#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

constexpr std::array peer_memory_counters = {
    "num_alloc_mrs", "num_dealloc_mrs", "num_reg_bytes",     "num_dereg_bytes",
    "num_reg_pages", "num_dereg_pages", "num_free_callbacks"};

class PeerMemoryParser : public Parser {
 public:
  using Parser::Parser;

  bool take(const Line& line) override {
    const std::string_view text = trim(line.text);
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
  }

 private:
  void ensure(const Line& line) {
    if (!near(line, 20)) {
      finish();
      open("peer_counters", line);
    }
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
      if (name == std::string_view("num_reg_bytes")) {
        if (!first_.has_value()) first_ = *value;
        last_ = *value;
        lines_.push_back(evidence(line));
        if (lines_.size() > 2) lines_.erase(lines_.begin() + 1);
      }
      return true;
    }
    if (starts(text, "version value") && near(line, 3)) {
      reach(line);
      return true;
    }
    return false;
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
    if (is_open() && last_.has_value()) {
      core::CaptureSign one;
      one.kind = core::SignKind::registered_bytes;
      one.value = static_cast<double>(*last_);
      one.second = static_cast<double>(lines_.size() > 1 ? *first_ : 0);
      one.word = lines_.size() > 1 ? "twice" : "once";
      one.lines = lines_;
      sign(std::move(one));
    }
    first_.reset();
    last_.reset();
    lines_.clear();
  }

  std::optional<std::uint64_t> first_;
  std::optional<std::uint64_t> last_;
  std::vector<core::TextLine> lines_;
};

}  // namespace

std::unique_ptr<Parser> peer_memory_parser(Sink& sink) {
  return std::make_unique<PeerMemoryParser>(sink);
}

}  // namespace nobounce::captures
