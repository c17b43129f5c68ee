// /proc/driver/nvidia-fs: statistics (once, or before and after), registered drivers, distances of
// pairs with their counts.
#include <array>
#include <map>

#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

struct FsCount {
  double value = 0;
  core::TextLine line;
};
using FsSnapshot = std::map<std::string, FsCount>;

/// What stands before the colon of a row of counters.
constexpr std::array fs_rows = {"Reads",    "Sparse Reads", "Writes", "Mmap",
                                "Bar1-map", "Batches",      "Error",  "Ops"};

/// How far behind a command its answer may be.
constexpr std::uint64_t proc_lines = 16;

/// Block and file system drivers that can register.
bool fs_is_driver(std::string_view name) {
  for (const std::string_view one :
       {"nvme",    "nvme_rdma", "nvme_tcp",   "scsi_mod", "sd_mod", "lustre",
        "lnet",    "ko2iblnd",  "wekafsio",   "wekafsgw", "beegfs", "nfs",
        "rpcrdma", "sfxv",      "sfxvdriver", "nvmesh",   "mmfs26", "mmfslinux",
        "scatefs", "virtiofs",  "dm_mod",     "vastnfs"}) {
    if (name == one) return true;
  }
  return false;
}

class NvidiaFsParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {"nvidia-fs/",   "NVFS statistics(ver:",
                                                 "GDS Version:", "NVFS Driver(version:",
                                                 "IO stats:",    "Registered_MiB=",
                                                 "Reads",        "Writes",
                                                 "Mmap",         "Bar1-map",
                                                 "Batches",      "Error",
                                                 "Ops",          "np2p"};
    return {words, 20};
  }

  bool take(const Line& line) override {
    const std::string_view text = trim(line.text);
    if (text.empty()) return false;
    if (has(text, "/proc/driver/nvidia-fs/") || has(text, "nvidia-fs/")) {
      if (const auto file = after(text, "nvidia-fs/"); file.has_value())
        proc_file_ = std::string(until(*file, " |;\"'"));
      proc_line_ = line.number;
      listen(line, proc_lines);
      return false;
    }
    if (take_label(text, line) || take_header(text, line) || take_counts(text, line) ||
        take_distance(text, line))
      return true;
    return take_module(text, line);
  }

  void end() override {
    finish();
    close();
    node_.clear();
    proc_file_.clear();
    distance_columns_.clear();
  }

 private:
  void ensure(const Line& line) {
    // Readings of one node say nothing of another's.
    if (!near(line, 60) || line.node != node_) {
      finish();
      node_ = std::string(line.node);
      open("nvidia_fs_stats", line);
    }
    reach(line);
  }

  /// `# before`, `--- after ---`: a new reading begins.
  bool take_label(std::string_view text, const Line& line) {
    if (text.size() > 40) return false;
    const std::string lowered = lower(text);
    if (!has(lowered, "before") && !has(lowered, "after")) return false;
    if (text.front() != '#' && text.front() != '-' && text.front() != '=') return false;
    if (!near(line, 20) || (!line.node.empty() && line.node != node_)) return false;
    begin_snapshot();
    reach(line);
    return true;
  }

  void begin_snapshot() {
    if (!now_.empty() && snapshots_.size() < 64) snapshots_.push_back(std::move(now_));
    now_.clear();
  }

  bool take_header(std::string_view text, const Line& line) {
    if (starts(text, "NVFS statistics(ver:") || starts(text, "GDS Version:")) {
      if (starts(text, "GDS Version:") || now_.count("Reads n") > 0) begin_snapshot();
      ensure(line);
      if (starts(text, "GDS Version:"))
        set_fact(facts(), "gds_version", first_word(text.substr(12)));
      else
        set_fact(facts(), "statistics_version", until(text.substr(20), ") "));
      return true;
    }
    if (const auto version = after(text, "NVFS Driver(version:"); version.has_value()) {
      ensure(line);
      set_fact(facts(), "driver_version", trim(until(*version, ")")));
      return true;
    }
    if (starts(text, "IO stats:")) {
      // A second header: another reading.
      if (now_.count("Reads n") > 0) begin_snapshot();
      ensure(line);
      const bool on = starts(trim(text.substr(9)), "Enabled");
      set_fact(facts(), "io_stats", on);
      if (const auto peer = after(text, "peer IO stats:"); peer.has_value())
        set_fact(facts(), "peer_io_stats", starts(trim(*peer), "Enabled"));
      sign(core::SignKind::driver_counting, line, "", "", "", on ? 1 : 0);
      return true;
    }
    for (const std::string_view word : {"Mellanox PeerDirect Supported:", "Logging level:",
                                        "Active Shadow-Buffer", "Active Process"}) {
      if (!starts(text, word) || !near(line, 20)) continue;
      reach(line);
      return true;
    }
    return false;
  }

  bool take_counts(std::string_view text, const Line& line) {
    if (starts(text, "GPU ") && has(text, "Registered_MiB=")) {
      ensure(line);
      if (const auto share = number_after(text, "cross_root_port(%)="); share.has_value())
        set_entry(facts(), "cross_root_port_percent", until(text.substr(4), " "), *share);
      return true;
    }
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos || !has(text, "=")) return false;
    const std::string_view name = trim(text.substr(0, colon));
    bool known = false;
    for (const char* row : fs_rows) known = known || name == row;
    if (!known) return false;
    ensure(line);
    if (has(text, "Bandwidth(")) return true;
    for (const std::string_view word : words_of(text.substr(colon + 1))) {
      const std::size_t equals = word.find('=');
      if (equals == std::string_view::npos) continue;
      const auto value = whole_number(word.substr(equals + 1));
      if (!value.has_value()) continue;
      const std::string key = std::string(name) + " " + std::string(word.substr(0, equals));
      if (key == "Reads n" && now_.count(key) > 0) begin_snapshot();
      if (now_.size() < 256) now_[key] = {static_cast<double>(*value), evidence(line)};
    }
    return true;
  }

  /// `wekafsio: 1`, behind `cat /proc/driver/nvidia-fs/modules`.
  bool take_module(std::string_view text, const Line& line) {
    const std::string_view name = until(text, ": \t");
    if (!fs_is_driver(name)) return false;
    const bool asked = proc_file_ == "modules" && line.number <= proc_line_ + proc_lines;
    const std::string_view rest = trim(text.substr(name.size()));
    if (!asked || !starts(rest, ":")) return false;
    ensure(line);
    add_item(facts(), "registered", name);
    sign(core::SignKind::driver_registered, line, "", "", std::string(name));
    return true;
  }

  /// peer_distance: one row per GPU and device, `np2p` is the number of transfers of the pair.
  bool take_distance(std::string_view text, const Line& line) {
    const std::vector<std::string_view> words = words_of(text);
    if (words.size() > 5 && words[0] == "gpu" && has(text, "np2p")) {
      ensure(line);
      distance_columns_.assign(words.begin(), words.end());
      return true;
    }
    if (distance_columns_.empty() || words.size() < distance_columns_.size() ||
        address_length(words[0]) == 0 || !near(line, 2) || line.node != node_)
      return false;
    reach(line);
    std::string peer = short_address(words[1]);
    for (std::size_t i = 0; i < distance_columns_.size(); ++i) {
      if (distance_columns_[i] != "np2p") continue;
      const auto count = whole_number(words[i]);
      if (!count.has_value()) continue;
      const std::string key = short_address(words[0]) + "-" + peer + " np2p";
      set_entry(facts(), "pair_transfers", short_address(words[0]) + "-" + peer, *count);
      if (now_.count(key) > 0) begin_snapshot();
      if (now_.size() < 256) now_[key] = {static_cast<double>(*count), evidence(line)};
    }
    return true;
  }

  /// Of the row of a key: ok, err and MiB, each before and after; below zero where not shown.
  static std::vector<double> outcomes(const std::string& key, const FsSnapshot& from,
                                      const FsSnapshot& to) {
    std::vector<double> numbers;
    const std::string row = key.substr(0, key.find(' ') + 1);
    for (const char* word : {"ok", "err", row == "Writes " ? "writeMiB" : "readMiB"}) {
      for (const FsSnapshot* reading : {&from, &to}) {
        const auto count = reading->find(row + word);
        numbers.push_back(count == reading->end() ? -1 : count->second.value);
      }
    }
    return numbers;
  }

  void leave_delta(const std::string& key, const FsCount& from, const FsCount& to,
                   std::vector<double> numbers) {
    const bool pair = ends(key, " np2p");
    if (key != "Reads n" && key != "Writes n" && !pair) return;
    set_entry(facts(), "delta", key, static_cast<std::int64_t>(to.value - from.value));
    core::CaptureSign one;
    one.kind = core::SignKind::driver_counter;
    one.source = pair ? key.substr(0, key.size() - 5) : key == "Reads n" ? "reads" : "writes";
    one.host = node_;
    one.value = from.value;
    one.second = to.value;
    one.numbers = std::move(numbers);
    one.word = "twice";
    one.lines = {from.line, to.line};
    sign(std::move(one));
  }

  void finish() {
    begin_snapshot();
    if (!is_open() || snapshots_.empty()) {
      snapshots_.clear();
      return;
    }
    const FsSnapshot& first = snapshots_.front();
    const FsSnapshot& last = snapshots_.back();
    for (const auto& [key, count] : last)
      set_entry(facts(), "counters", key, static_cast<std::uint64_t>(count.value));
    if (snapshots_.size() > 1) {
      for (const auto& [key, count] : last) {
        const auto begin = first.find(key);
        if (begin != first.end())
          leave_delta(key, begin->second, count, outcomes(key, first, last));
      }
    } else {
      for (const char* key : {"Reads n", "Writes n"}) {
        const auto count = last.find(key);
        if (count == last.end()) continue;
        core::CaptureSign one;
        one.kind = core::SignKind::driver_counter;
        one.source = key == std::string_view("Reads n") ? "reads" : "writes";
        one.value = one.second = count->second.value;
        one.numbers = outcomes(key, last, last);
        one.host = node_;
        one.word = "once";
        one.lines.push_back(count->second.line);
        sign(std::move(one));
      }
    }
    snapshots_.clear();
  }

  FsSnapshot now_;
  std::vector<FsSnapshot> snapshots_;
  std::vector<std::string> distance_columns_;
  std::string proc_file_;
  std::string node_;
  std::uint64_t proc_line_ = 0;
};

}  // namespace

std::unique_ptr<Parser> nvidia_fs_parser(Sink& sink) {
  return std::make_unique<NvidiaFsParser>(sink);
}

}  // namespace nobounce::captures
