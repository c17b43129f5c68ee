// `direct` needs proof that survives: for every beginning of every text, pieces in any order, and
// ten thousand texts with lines missing, an oracle that shares nothing with the rules looks for a
// use line, a counter that moved, a measured difference or a data check of that pair.
#include <gtest/gtest.h>

#include <cstdio>
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

/// What the oracle found proof of: `p2p 0 1`, `rdma send`, `storage read`.
class Oracle {
 public:
  explicit Oracle(const std::vector<CaseText>& texts) {
    for (const CaseText& one : texts) {
      for (const std::string& line : lines_of(one.text)) {
        look_at_transport(line);
        look_at_tables(line);
        look_at_data(line);
        look_at_adapters(line);
        look_at_storage(line);
      }
      table_ = 0;
    }
    for (const auto& [pair, off] : off_) {
      const auto on = on_.find(pair);
      if (on != on_.end() && on->second > 1.05 * off) peers_.insert(pair);
    }
    for (const auto& [direction, writer] : writers_) {
      const auto owner = owners_.find(direction);
      if (owner != owners_.end() && owner->second == writer) any_peer_ = true;
    }
    if (passed_) any_peer_ = true;
  }

  [[nodiscard]] bool admits(const core::ExplainedVerdict& row) const {
    if (row.member == Member::p2p) return any_peer_ || admits_pair(row.subject);
    if (row.member == Member::rdma)
      return any_adapter_ || directions_.count(row.direction) > 0 || (buffer_ && result_);
    if (row.member == Member::storage) return any_storage_ || moved_.count(row.direction) > 0;
    return false;
  }

 private:
  [[nodiscard]] bool admits_pair(const std::string& subject) const {
    const std::string pair = subject.substr(subject.rfind(':') + 1);
    int a = -1, b = -1;
    if (std::sscanf(pair.c_str(), "GPU%d-GPU%d", &a, &b) == 2) return peers_.count({a, b}) > 0;
    if (std::sscanf(pair.c_str(), "rank%d-rank%d", &a, &b) == 2) return ranks_.count({a, b}) > 0;
    // One GPU is known by its rank only.
    return !ranks_.empty() && has_word(pair, "rank");
  }

  void look_at_transport(const std::string& line) {
    const char* arrow = std::strstr(line.c_str(), "->");
    const char* via = std::strstr(line.c_str(), " via ");
    if (arrow == nullptr || via == nullptr) return;
    const char* begin = arrow;
    while (begin > line.c_str() && begin[-1] != ':') --begin;
    int a = -1, b = -1;
    char a_device[32] = "", b_device[32] = "";
    const int read = std::sscanf(begin, " %d[%31[^]]] -> %d[%31[^]]]", &a, a_device, &b, b_device);
    if (std::strncmp(via, " via P2P/", 9) == 0 && read == 4) {
      ranks_.insert({a, b});
      peers_.insert({std::atoi(a_device), std::atoi(b_device)});
      peers_.insert({a, b});  // where a rank is the number of its GPU
    }
    if (std::strncmp(via, " via NET/", 9) == 0 && std::strstr(via, "/GDRDMA") != nullptr)
      directions_.insert(has_word(line, "[receive]") ? "receive" : "send");
  }

  void look_at_tables(const std::string& line) {
    if (has_word(line, "Unidirectional P2P=Disabled Bandwidth"))
      table_ = 1;
    else if (has_word(line, "Unidirectional P2P=Enabled Bandwidth"))
      table_ = 2;
    else if (has_word(line, "nvbandwidth Version: v0.7") ||
             has_word(line, "nvbandwidth Version: v0.8"))
      checked_ = true;
    else if (has_word(line, "GPU(row) -> GPU(column)"))
      table_ = 3;
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
      if (table_ == 3 && checked_) peers_.insert({row, column});
    }
  }

  void look_at_data(const std::string& line) {
    const std::size_t direction = line.find("dir ");
    const std::size_t colon = line.find(": ");
    if (direction != std::string::npos && colon != std::string::npos) {
      std::string value;
      std::istringstream stream(line.substr(colon + 1));
      for (std::string word; stream >> word;) value += word;
      const std::string key = line.substr(direction, 8);
      if (value.find_first_not_of('0') != std::string::npos && has_word(line, "writer"))
        writers_[key] = value;
      if (has_word(line, "owner")) owners_[key] = value;
    }
    if (has_word(line, "Test passed")) passed_ = true;
    if (has_word(line, "zero-copy") && has_word(line, "cuda_ipc")) any_peer_ = true;
  }

  void look_at_adapters(const std::string& line) {
    if (has_word(line, "allocated") && has_word(line, "GPU buffer")) buffer_ = true;
    std::istringstream stream(line);
    double numbers[4] = {};
    if (stream >> numbers[0] >> numbers[1] >> numbers[2] >> numbers[3]) result_ = true;
    const std::size_t bytes = line.find("num_reg_bytes value: ");
    if (bytes != std::string::npos && std::atoll(line.c_str() + bytes + 21) > 0)
      any_adapter_ = true;
    if (has_word(line, "| zero-copy")) any_adapter_ = true;
  }

  void look_at_storage(const std::string& line) {
    for (const char* name : {"Reads", "Writes"}) {
      const std::size_t at = line.find(name);
      const std::size_t count = line.find("n=");
      if (at == std::string::npos || count == std::string::npos || has_word(line, "Sparse"))
        continue;
      const double value = std::atof(line.c_str() + count + 2);
      auto [first, fresh] = counts_.try_emplace(name, value);
      if (!fresh && value > first->second) moved_.insert(name[0] == 'R' ? "read" : "write");
    }
    const std::size_t summary = line.find("nvfs=");
    if (summary != std::string::npos && std::atoi(line.c_str() + summary + 5) > 0)
      any_storage_ = true;
    if (has_word(line, "gds path taken") || has_word(line, "nvfs_io_submit")) any_storage_ = true;
  }

  int table_ = 0;
  bool checked_ = false;
  std::set<std::pair<int, int>> peers_;
  std::set<std::pair<int, int>> ranks_;
  std::map<std::pair<int, int>, double> off_;
  std::map<std::pair<int, int>, double> on_;
  std::map<std::string, std::string> writers_;
  std::map<std::string, std::string> owners_;
  std::map<std::string, double> counts_;
  std::set<std::string> directions_;
  std::set<std::string> moved_;
  bool passed_ = false, any_peer_ = false, buffer_ = false, result_ = false, any_adapter_ = false,
       any_storage_ = false;
};

/// Empty, or what was called direct without proof, and on which lines it is said to rest.
std::string unproven(const std::vector<CaseText>& texts) {
  const core::Explanation got = explain_texts(texts);
  const Oracle oracle(texts);
  std::string problems;
  for (const core::ExplainedVerdict& row : got.verdicts) {
    // Every line that is cited stands where it is said to stand.
    for (const core::TextLine& cited : row.evidence) {
      bool there = false;
      for (const CaseText& one : texts) {
        if (one.name != cited.file) continue;
        const Lines lines = lines_of(one.text);
        there = there || (cited.line >= 1 && cited.line <= lines.size());
      }
      if (!there)
        problems += "no such line: " + cited.file + ":" + std::to_string(cited.line) + '\n';
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
