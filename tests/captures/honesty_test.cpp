// `direct` needs proof that survives: for every beginning of every text, pieces in any order, and
// ten thousand texts with lines missing, an oracle that shares nothing with the rules looks for a
// use line, a counter that moved, a measured difference or a data check of that pair.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <sstream>

#include "case_rig.hpp"

namespace nobounce::test {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string joined(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

bool has_word(const std::string& text, const char* word) {
  return text.find(word) != std::string::npos;
}

/// Blanks, quoting, escapes and punctuation aside: what a citation must have in common with its
/// line.
std::string bones_of(const std::string& line) {
  std::string bones;
  for (std::size_t at = 0; at < line.size(); ++at) {
    // `ESC[4m`, `^[[4m`, `[4m`.
    if (line[at] == '[') {
      std::size_t end = at + 1;
      while (end < line.size() && (std::isdigit(static_cast<unsigned char>(line[end])) != 0 ||
                                   line[end] == ';' || line[end] == '?'))
        ++end;
      const bool escaped = at > 0 && (line[at - 1] == '\x1b' || line[at - 1] == '[');
      if (end < line.size() && (line[end] == 'm' ? end > at + 1 || escaped : escaped)) {
        at = end;
        continue;
      }
    }
    if (line.compare(at, 4, "&gt;") == 0) {
      at += 3;
      continue;
    }
    if (line.compare(at, 6, "\\u003e") == 0) {
      at += 5;
      continue;
    }
    if (std::isalnum(static_cast<unsigned char>(line[at])) != 0) bones += line[at];
  }
  return bones;
}

/// The words of `3[a1000]`: rank and what stands in brackets.
struct OracleRank {
  int rank = -1;
  std::string device;
};

OracleRank rank_at(const char* text) {
  OracleRank rank;
  char device[32] = "";
  const int read = std::sscanf(text, " %d[%31[^]]]", &rank.rank, device);
  if (read == 2) rank.device = device;
  return rank;
}

/// What the oracle found proof of, by pair and direction, and what speaks against it.
class Oracle {
 public:
  explicit Oracle(const std::vector<CaseText>& texts) {
    for (const CaseText& one : texts) {
      for (const std::string& line : lines_of(one.text)) look_at_names(line);
    }
    for (const CaseText& one : texts) {
      for (const std::string& line : lines_of(one.text)) {
        look_at_transport(line);
        look_at_tables(line);
        look_at_data(line);
        look_at_adapters(line);
        look_at_storage(line);
      }
      end_tables();
    }
  }

  [[nodiscard]] bool admits(const core::ExplainedVerdict& row) const {
    std::string subject = row.subject;
    std::string host;
    const std::size_t colon = subject.rfind(':');
    if (colon != std::string::npos) {
      host = subject.substr(0, colon);
      subject = subject.substr(colon + 1);
    }
    if (row.member == Member::storage) return admits_storage(row, subject);
    const std::size_t dash = subject.find('-');
    const std::string a = subject.substr(0, dash);
    const std::string b = dash == std::string::npos ? "" : subject.substr(dash + 1);
    if (row.member == Member::p2p) return admits_pair(host, a, b) || data_.count(subject) > 0;
    if (row.member == Member::rdma) return admits_adapter(host, a, b, row.direction);
    return false;
  }

 private:
  /// A line of transport in use.
  struct Use {
    std::string host;
    std::set<std::string> source;
    std::set<std::string> target;
    std::string direction;
    bool direct = false;
  };

  static bool same_host(const std::string& row, const std::string& line) {
    return row.empty() || row == line;
  }

  [[nodiscard]] bool admits_pair(const std::string& host, const std::string& a,
                                 const std::string& b) const {
    bool found = pairs_.count({a, b}) > 0;
    for (const Use& use : peers_) {
      if (!same_host(host, use.host) || use.source.count(a) == 0 || use.target.count(b) == 0)
        continue;
      if (!use.direct) return false;
      found = true;
    }
    return found;
  }

  [[nodiscard]] bool admits_adapter(const std::string& host, const std::string& a,
                                    const std::string& b, const std::string& direction) const {
    bool found = false;
    for (const Use& use : networks_) {
      if (!same_host(host, use.host) || use.source.count(a) == 0 || use.target.count(b) == 0 ||
          use.direction != direction)
        continue;
      if (!use.direct) return false;
      found = true;
    }
    if (found || zero_copies_.count({a, b}) > 0) return true;
    if (buffer_ && result_ && (tested_.empty() || b.empty() || tested_.count(b) > 0)) return true;
    return a == "GPU" && b == "NIC" && registered();
  }

  [[nodiscard]] bool registered() const {
    for (const auto& [client, values] : registered_) {
      if (values.back() > values.front()) return true;
      const auto released = released_.find(client);
      if (released != released_.end() && values.back() > released->second) return true;
    }
    return false;
  }

  [[nodiscard]] bool admits_storage(const core::ExplainedVerdict& row,
                                    const std::string& subject) const {
    if (subject == "reads" || subject == "writes") {
      const auto found = counts_.find(subject);
      return row.direction == subject.substr(0, subject.size() - 1) && found != counts_.end() &&
             found->second.second.first > found->second.first.first &&
             (found->second.second.second < 0 || found->second.first.second < 0 ||
              found->second.second.second > found->second.first.second);
    }
    if (subject.rfind("process ", 0) == 0) return processes_.count(subject.substr(8)) > 0;
    return (subject == "cuFile" && (operations_ || processes_.count("") > 0)) ||
           (statistics_ && subject.rfind("GPU", 0) == 0);
  }

  void look_at_names(const std::string& line) {
    std::string host, own;
    prefix_of(line, host, own);
    const char* using_adapters = std::strstr(line.c_str(), "NET/");
    if (using_adapters != nullptr && has_word(line, "Using [")) {
      for (const char* at = std::strchr(using_adapters, '['); at != nullptr;
           at = std::strchr(at + 1, '[')) {
        int index = -1;
        char name[64] = "";
        if (std::sscanf(at, "[%d]%63[^:/ ]", &index, name) == 2)
          adapters_[{host, index}].insert(name);
      }
    }
    int legend = -1;
    char real[64] = "";
    if (std::sscanf(line.c_str(), " NIC%d: %63s", &legend, real) == 2)
      legend_[real] = "NIC" + std::to_string(legend);
    const char* comm = std::strstr(line.c_str(), "comm ");
    const char* rank = std::strstr(line.c_str(), " rank ");
    const char* device = std::strstr(line.c_str(), "nvmlDev ");
    if (device == nullptr) device = std::strstr(line.c_str(), "cudaDev ");
    if (comm == nullptr || rank == nullptr || device == nullptr) return;
    devices_[std::atoi(rank + 6)] = std::atoi(device + 8);
  }

  /// `node:pid:tid [dev] NCCL INFO`: the node and the device.
  static void prefix_of(const std::string& line, std::string& host, std::string& device) {
    const std::size_t mark = line.find("NCCL ");
    if (mark == std::string::npos) return;
    const std::string front = line.substr(0, mark);
    const std::size_t open = front.rfind('[');
    if (open == std::string::npos) return;
    device = front.substr(open + 1, front.find(']', open) - open - 1);
    std::size_t end = open;
    while (end > 0 && front[end - 1] == ' ') --end;
    const std::size_t blank = front.find_last_of(" \t", end == 0 ? 0 : end - 1);
    std::string word = front.substr(blank == std::string::npos ? 0 : blank + 1,
                                    end - (blank == std::string::npos ? 0 : blank + 1));
    const std::size_t thread = word.rfind(':');
    const std::size_t process =
        thread == std::string::npos || thread == 0 ? thread : word.rfind(':', thread - 1);
    if (process == std::string::npos) return;
    host = word.substr(0, process);
    const std::size_t cut = host.find_last_of(":|>)]\"");
    if (cut != std::string::npos) host = host.substr(cut + 1);
  }

  [[nodiscard]] std::set<std::string> names_of(const OracleRank& rank,
                                               const std::string& own) const {
    std::set<std::string> names = {"rank" + std::to_string(rank.rank)};
    if (!rank.device.empty()) names.insert("GPU" + rank.device);
    if (!own.empty()) names.insert("GPU" + own);
    const auto known = devices_.find(rank.rank);
    if (known != devices_.end()) names.insert("GPU" + std::to_string(known->second));
    return names;
  }

  void look_at_transport(const std::string& line) {
    std::string host, own;
    prefix_of(line, host, own);
    const char* via = std::strstr(line.c_str(), " via ");
    if (via == nullptr) return;
    const char* arrow = std::strstr(line.c_str(), "->");
    const bool back = arrow == nullptr && std::strstr(line.c_str(), "<-") != nullptr;
    if (back) arrow = std::strstr(line.c_str(), "<-");
    OracleRank first, second;
    if (arrow != nullptr && arrow < via) {
      const char* begin = arrow;
      while (begin > line.c_str() && begin[-1] != ':') --begin;
      first = rank_at(begin);
      second = rank_at(arrow + 2);
      if (back) std::swap(first, second);
    } else {
      const char* begin = via;
      while (begin > line.c_str() && begin[-1] != ':') --begin;
      first = second = rank_at(begin);
    }
    if (first.rank < 0 || second.rank < 0) return;
    Use use;
    use.host = host;
    if (std::strncmp(via, " via P2P/", 9) == 0 || std::strncmp(via, " via SHM", 8) == 0 ||
        std::strncmp(via, " via direct shared memory", 25) == 0) {
      use.direct = std::strncmp(via, " via P2P/", 9) == 0 && via[9] != '\0';
      use.source = names_of(first, own);
      use.target = names_of(second, "");
      peers_.push_back(std::move(use));
      return;
    }
    const char* net = std::strstr(via, "NET/");
    if (net == nullptr) return;
    const bool receives = has_word(line, "[receive]");
    use.direct = std::strstr(net, "/GDRDMA") != nullptr;
    use.direction = receives ? "receive" : has_word(line, "[send]") ? "send" : "both";
    use.source = names_of(receives ? second : first, own);
    const char* digit = net;
    while (*digit != '\0' &&
           (*digit != '/' || std::isdigit(static_cast<unsigned char>(digit[1])) == 0))
      ++digit;
    if (*digit == '\0') return;
    const int index = std::atoi(digit + 1);
    use.target = {"NET" + std::to_string(index)};
    for (const std::string& name : adapters_[{host, index}]) use.target.insert(name);
    for (const std::string& name : std::set<std::string>(use.target)) {
      const auto known = legend_.find(name);
      if (known != legend_.end()) use.target.insert(known->second);
    }
    networks_.push_back(std::move(use));
  }

  /// What two matrices of one run differ in.
  void end_tables() {
    for (const auto& [pair, off] : off_) {
      const auto on = on_.find(pair);
      if (on != on_.end() && on->second > 1.05 * off)
        pairs_.insert({"GPU" + std::to_string(pair.first), "GPU" + std::to_string(pair.second)});
    }
    off_.clear();
    on_.clear();
    off_titled_ = on_titled_ = false;
    table_ = 0;
  }

  void look_at_tables(const std::string& line) {
    const bool off = has_word(line, "Unidirectional P2P=Disabled Bandwidth");
    const bool on = has_word(line, "Unidirectional P2P=Enabled Bandwidth");
    if (has_word(line, "P2P (Peer-to-Peer) GPU Bandwidth") || (off && off_titled_) ||
        (on && on_titled_))
      end_tables();
    off_titled_ = off_titled_ || off;
    on_titled_ = on_titled_ || on;
    if (off)
      table_ = 1;
    else if (on)
      table_ = 2;
    else if (has_word(line, "nvbandwidth Version: v0.7") ||
             has_word(line, "nvbandwidth Version: v0.8"))
      checked_ = true;
    else if (has_word(line, "GPU(row) -> GPU(column)"))
      table_ = 3;
    else if (has_word(line, "GPU(row) <- GPU(column)"))
      table_ = 4;
    else if (has_word(line, "Matrix"))
      table_ = 0;
    // The header of a latency matrix whose title is gone.
    if (line.find_first_not_of(' ') != std::string::npos &&
        (line.compare(line.find_first_not_of(' '), 4, "GPU ") == 0 ||
         line.compare(line.find_first_not_of(' '), 4, "CPU ") == 0))
      table_ = 0;
    if (has_word(line, "Invalid value")) checked_ = false;
    if (table_ == 0) return;
    std::istringstream stream(line);
    int row = -1;
    if (!(stream >> row)) return;
    std::string cell;
    for (int column = 0; stream >> cell; ++column) {
      const double value = std::atof(cell.c_str());
      if (column == row || value <= 0) continue;
      if (table_ == 1) off_.try_emplace({row, column}, value);
      if (table_ == 2) on_.try_emplace({row, column}, value);
      if (table_ < 3 || !checked_) continue;
      pairs_.insert({"GPU" + std::to_string(row), "GPU" + std::to_string(column)});
      pairs_.insert({"GPU" + std::to_string(column), "GPU" + std::to_string(row)});
    }
  }

  void look_at_data(const std::string& line) {
    const std::size_t direction = line.find("dir ");
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos && (has_word(line, "writer") || has_word(line, "owner"))) {
      std::string value;
      std::istringstream stream(line.substr(colon + 1));
      for (std::string word; stream >> word;) value += word;
      int a = 0, b = 1;
      if (direction != std::string::npos)
        (void)std::sscanf(line.c_str() + direction, "dir %d->%d", &a, &b);
      const std::string pair = "GPU" + std::to_string(a) + "-GPU" + std::to_string(b);
      const bool zeros = value.find_first_not_of('0') == std::string::npos;
      if (has_word(line, "writer") && !zeros) writers_[pair] = value;
      if (has_word(line, "owner")) owners_[pair] = value;
      if (writers_.count(pair) > 0 && owners_.count(pair) > 0 && owners_[pair] == writers_[pair])
        data_.insert(pair);
      else
        data_.erase(pair);
    }
    int a = -1, b = -1;
    const char* enabling = std::strstr(line.c_str(), "Enabling peer access between GPU");
    if (enabling != nullptr &&
        std::sscanf(enabling, "Enabling peer access between GPU%d and GPU%d", &a, &b) == 2)
      enabled_ = "GPU" + std::to_string(a) + "-GPU" + std::to_string(b);
    if (has_word(line, "Test passed") && !enabled_.empty()) data_.insert(enabled_);
  }

  void look_at_adapters(const std::string& line) {
    if (has_word(line, "allocated") && has_word(line, "GPU buffer")) buffer_ = true;
    for (const char* mark : {"-d ", "Device         : "}) {
      const std::size_t at = line.find(mark);
      if (at == std::string::npos) continue;
      std::istringstream stream(line.substr(at + std::strlen(mark)));
      std::string name;
      if (stream >> name) tested_.insert(name);
    }
    std::istringstream stream(line);
    double numbers[4] = {};
    if (stream >> numbers[0] >> numbers[1] >> numbers[2] >> numbers[3] && numbers[1] > 0 &&
        numbers[3] > 0)
      result_ = true;
    look_at_registrations(line);
    look_at_protocols(line);
  }

  void look_at_registrations(const std::string& line) {
    const std::size_t path = line.find("memory_peers/");
    if (path != std::string::npos) {
      client_ = line.substr(path + 13);
      client_ = client_.substr(0, client_.find('/'));
    }
    for (const bool released : {false, true}) {
      const std::size_t at = line.find(released ? "num_dereg_bytes" : "num_reg_bytes");
      if (at == std::string::npos) continue;
      const std::size_t digits = line.find_first_of("0123456789", at);
      if (digits == std::string::npos) continue;
      const double value = std::atof(line.c_str() + digits);
      if (released)
        released_[client_] = value;
      else
        registered_[client_].push_back(value);
    }
  }

  void look_at_protocols(const std::string& line) {
    const std::size_t by = line.find(" by ucp_");
    if (by != std::string::npos) {
      const std::size_t gpu = line.find("/GPU", by);
      protocol_ = gpu == std::string::npos
                      ? "GPU"
                      : "GPU" + std::to_string(std::atoi(line.c_str() + gpu + 4));
    }
    if (!has_word(line, "zero-copy") || has_word(line, "(?)") || has_word(line, "copy-out") ||
        protocol_.empty())
      return;
    if (has_word(line, "cuda_ipc/") || has_word(line, "rocm_ipc/"))
      pairs_.insert({protocol_, "GPU"});
    for (std::size_t slash = line.find('/'); slash != std::string::npos;
         slash = line.find('/', slash + 1)) {
      std::string device = line.substr(slash + 1);
      device = device.substr(0, device.find_first_of(":,) |"));
      zero_copies_.insert({protocol_, device});
    }
  }

  void look_at_storage(const std::string& line) {
    for (const char* name : {"Reads", "Writes"}) {
      const std::size_t at = line.find(name);
      const std::size_t count = line.find(" ok=");
      if (at == std::string::npos || count == std::string::npos || has_word(line, "Sparse"))
        continue;
      const std::size_t bytes = line.find(name[0] == 'R' ? "readMiB=" : "writeMiB=");
      const std::pair<double, double> read{
          std::atof(line.c_str() + count + 4),
          bytes == std::string::npos ? -1 : std::atof(line.c_str() + line.find('=', bytes) + 1)};
      const std::string key = name[0] == 'R' ? "reads" : "writes";
      auto [held, fresh] = counts_.try_emplace(key, std::pair(read, read));
      if (!fresh) held->second.second = read;
      if (held->second.first > read) held->second.first = read;
    }
    const std::size_t summary = line.find("nvfs=");
    if (summary != std::string::npos && std::atoi(line.c_str() + summary + 5) > 0)
      operations_ = true;
    if (has_word(line, "cuFile STATS VERSION")) statistics_ = true;
    if ((has_word(line, "gds path taken") || has_word(line, "nvfs_io_submit")) &&
        !has_word(line, "ERROR") && !has_word(line, "taken:")) {
      const std::size_t process = line.find("[pid=");
      std::string number;
      if (process != std::string::npos)
        number = line.substr(process + 5, line.find_first_of(" ]", process + 5) - process - 5);
      processes_.insert(number);
    }
  }

  std::map<int, int> devices_;  ///< of ranks
  std::vector<Use> peers_;
  std::vector<Use> networks_;
  std::map<std::pair<std::string, int>, std::set<std::string>> adapters_;
  std::map<std::string, std::string> legend_;
  std::set<std::pair<std::string, std::string>> pairs_;  ///< measured or checked
  std::set<std::pair<std::string, std::string>> zero_copies_;
  std::map<std::pair<int, int>, double> off_;
  std::map<std::pair<int, int>, double> on_;
  std::map<std::string, std::string> writers_;
  std::map<std::string, std::string> owners_;
  std::set<std::string> data_;  ///< pairs whose owner saw it
  std::string enabled_, protocol_, client_;
  std::set<std::string> tested_;
  std::map<std::string, std::vector<double>> registered_;
  std::map<std::string, double> released_;
  /// Successful requests and MiB, the least and the last.
  std::map<std::string, std::pair<std::pair<double, double>, std::pair<double, double>>> counts_;
  std::set<std::string> processes_;
  int table_ = 0;
  bool off_titled_ = false, on_titled_ = false, checked_ = false, buffer_ = false, result_ = false,
       operations_ = false, statistics_ = false;
};

/// Whether the line says what is cited. A line that a terminal broke goes on on the next one.
bool says(const Lines& lines, const core::TextLine& cited) {
  if (cited.line < 1 || cited.line > lines.size()) return false;
  std::string text = cited.text;
  if (text.size() > 400) text.resize(text.size() - 3);  // `...`
  const std::string bones = bones_of(text);
  std::string there = bones_of(lines[cited.line - 1]);
  if (there.find(bones) != std::string::npos) return true;
  if (cited.line < lines.size()) there += bones_of(lines[cited.line]);
  return there.find(bones) != std::string::npos;
}

/// Empty, or what was called direct without proof, and on which lines it is said to rest.
std::string unproven(const std::vector<CaseText>& texts) {
  const core::Explanation got = explain_texts(texts);
  const Oracle oracle(texts);
  std::string problems;
  for (const core::ExplainedVerdict& row : got.verdicts) {
    // Every line that is cited stands where it is said to stand.
    for (const core::TextLine& cited : row.evidence) {
      const bool there = std::any_of(texts.begin(), texts.end(), [&cited](const CaseText& one) {
        return one.name == cited.file && says(lines_of(one.text), cited);
      });
      if (!there)
        problems += "the line does not say so: " + cited.file + ":" + std::to_string(cited.line) +
                    ": " + cited.text + '\n';
    }
    if (row.evidence.empty()) problems += "rests on nothing: " + row.reason + '\n';
    if (row.verdict == Verdict::direct && !oracle.admits(row))
      problems += std::string(to_string(row.member)) + ' ' + row.subject + ' ' + row.direction +
                  ": " + row.reason + '\n';
  }
  return problems;
}

std::vector<std::vector<CaseText>> all_cases() {
  std::vector<std::vector<CaseText>> all;
  const core::Json cases = json_of_file(cases_folder() / "cases.json");
  for (const core::Json& one : *cases.as_array())
    all.push_back(texts_of_case(cases_folder() / *one.find("input")->as_text()));
  for (const auto& entry :
       std::filesystem::directory_iterator(cases_folder().parent_path() / "own"))
    all.push_back(texts_of_case(entry.path()));
  return all;
}

std::string named(const std::vector<CaseText>& texts) {
  std::string text;
  for (const CaseText& one : texts) text += "== " + one.name + '\n' + one.text;
  return text;
}

TEST(Honesty, WholeTextsSatisfyTheOracle) {
  std::size_t direct = 0;
  for (const auto& texts : all_cases()) {
    EXPECT_EQ(unproven(texts), "") << named(texts);
    for (const auto& row : explain_texts(texts).verdicts)
      direct += row.verdict == Verdict::direct ? 1 : 0;
  }
  EXPECT_GT(direct, 10U);
}

TEST(Honesty, EveryBeginningOfEveryTextIsDirectWithProofOnly) {
  for (const auto& texts : all_cases()) {
    for (std::size_t which = 0; which < texts.size(); ++which) {
      const Lines lines = lines_of(texts[which].text);
      // Long texts say the same of many GPUs.
      const std::size_t step = lines.size() > 200 ? 7 : 1;
      for (std::size_t length = 0; length <= lines.size(); length += step) {
        std::vector<CaseText> cut = texts;
        cut[which].text =
            joined({lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(length)});
        ASSERT_EQ(unproven(cut), "") << length << " lines\n" << named(cut);
      }
    }
  }
}

TEST(Honesty, TenThousandTextsWithLinesMissingAreDirectWithProofOnly) {
  std::mt19937_64 random(20261129);
  const auto all = all_cases();
  for (int run_number = 0; run_number < 10000; ++run_number) {
    std::vector<CaseText> texts = all[random() % all.size()];
    CaseText& one = texts[random() % texts.size()];
    Lines lines = lines_of(one.text);
    if (lines.size() > 200) continue;
    const std::size_t deletions = 1 + random() % (1 + lines.size() / 2);
    for (std::size_t i = 0; i < deletions && !lines.empty(); ++i)
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(random() % lines.size()));
    one.text = joined(lines);
    ASSERT_EQ(unproven(texts), "") << "run " << run_number << '\n' << named(texts);
  }
}

TEST(Honesty, PiecesInAnyOrderAreDirectWithProofOnly) {
  std::mt19937_64 random(8);
  for (const auto& texts : all_cases()) {
    for (int turn = 0; turn < 6; ++turn) {
      std::vector<CaseText> shuffled = texts;
      std::shuffle(shuffled.begin(), shuffled.end(), random);
      // All in one text, blocks parted at empty lines.
      Lines blocks;
      for (const CaseText& one : shuffled) {
        std::string block;
        for (const std::string& line : lines_of(one.text)) {
          block += line + '\n';
          if (line.empty()) blocks.push_back(std::exchange(block, ""));
        }
        blocks.push_back(block);
      }
      ASSERT_EQ(unproven(shuffled), "") << named(shuffled);
      std::shuffle(blocks.begin(), blocks.end(), random);
      std::string whole;
      for (const std::string& block : blocks) whole += block + '\n';
      ASSERT_EQ(unproven({{"whole.txt", whole}}), "") << whole;
    }
  }
}

/// Line ends, quoting and escapes change nothing.
TEST(Honesty, DressingATextChangesNoVerdict) {
  const auto undressed = [](const core::Explanation& got) {
    std::string text;
    for (const auto& row : got.verdicts) {
      text += std::string(to_string(row.member)) + ' ' + row.subject + ' ' +
              std::string(to_string(row.verdict));
      for (const core::TextLine& line : row.evidence) text += ' ' + std::to_string(line.line);
      text += '\n';
    }
    return text;
  };
  for (const auto& texts : all_cases()) {
    const std::string plain = undressed(explain_texts(texts));
    for (const char* front : {"> ", ">> ", "\x1b[32m"}) {
      std::vector<CaseText> dressed = texts;
      for (CaseText& one : dressed) {
        std::string text;
        for (const std::string& line : lines_of(one.text)) {
          text += front + line;
          text += front[0] == '\x1b' ? "\x1b[0m\r\n" : "\r\n";
        }
        one.text = text;
      }
      EXPECT_EQ(undressed(explain_texts(dressed)), plain) << front << '\n' << named(texts);
    }
  }
}

}  // namespace
}  // namespace nobounce::test
