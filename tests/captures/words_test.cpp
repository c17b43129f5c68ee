// Lines that have none of a parser's words are not shown to it: nothing may be lost by that.
#include <algorithm>
#include <iterator>
#include <random>

#include <gtest/gtest.h>

#include "case_rig.hpp"

namespace nobounce::test {
namespace {

/// Every committed text: cases, own captures and what the fuzzers begin with.
std::vector<CaseText> all_texts() {
  const auto tests = std::filesystem::path(NOBOUNCE_SOURCE_DIR) / "tests";
  std::vector<std::filesystem::path> files;
  for (const auto& folder : {tests / "captures", tests / "fuzz/corpus"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<CaseText> texts;
  for (const auto& file : files) texts.push_back({file.string(), text_of_file(file)});
  return texts;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at) + '\n');
    at = end + 1;
  }
  return lines;
}

core::Captures read_texts(const std::vector<std::string>& texts, captures::Showing showing) {
  captures::TextReader reader({}, showing);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    reader.begin("text " + std::to_string(i));
    reader.feed(texts[i]);
    reader.end();
  }
  return reader.finish();
}

::testing::AssertionResult same_either_way(const std::vector<std::string>& texts) {
  const core::Captures some = read_texts(texts, captures::Showing::lines_with_words);
  const core::Captures all = read_texts(texts, captures::Showing::every_line);
  if (some == all) return ::testing::AssertionSuccess();
  const auto counts = [](const core::Captures& one) {
    return std::to_string(one.pieces.size()) + " pieces, " + std::to_string(one.signs.size()) +
           " signs";
  };
  auto failure = ::testing::AssertionFailure();
  failure << counts(some) << "; with every line " << counts(all);
  for (std::size_t i = 0; i < all.signs.size(); ++i) {
    if (i < some.signs.size() && some.signs[i] == all.signs[i]) continue;
    if (!all.signs[i].lines.empty())
      failure << "; first: " << all.signs[i].lines.front().file << ' '
              << all.signs[i].lines.front().text;
    break;
  }
  return failure;
}

TEST(LineWords, LoseNothingOfAnyText) {
  for (const CaseText& one : all_texts()) EXPECT_TRUE(same_either_way({one.text})) << one.name;
}

TEST(LineWords, LoseNothingOfAnyLineAlone) {
  for (const CaseText& one : all_texts())
    EXPECT_TRUE(same_either_way(lines_of(one.text))) << one.name;
}

/// What is taken without a word of its own is taken so far behind another line, and no further.
TEST(LineWords, LoseNothingOfLinesThatAreApart) {
  for (const CaseText& one : all_texts()) {
    if (one.name.find("/cases/") == std::string::npos) continue;
    const std::vector<std::string> lines = lines_of(one.text);
    for (const std::size_t gap : {2U, 19U, 39U}) {
      std::string text;
      for (const std::string& line : lines) {
        text += line;
        // Every other one of the gaps only, so that lines that belong together stand together too.
        if (text.size() % 2 == 0) continue;
        for (std::size_t i = 0; i < gap; ++i) text += "step 100 | loss: 2.31 | 9.8e-4\n";
      }
      EXPECT_TRUE(same_either_way({text})) << one.name << ", " << gap << " lines apart";
    }
  }
}

/// Pieces of texts one behind another, cut and with lines of others between them.
TEST(LineWords, LoseNothingOfTextsThatAreSpliced) {
  std::vector<std::vector<std::string>> texts;
  for (const CaseText& one : all_texts()) {
    if (one.name.find("/cases/") != std::string::npos) texts.push_back(lines_of(one.text));
  }
  const char* const others[] = {"step 100 | loss: 2.31 | 9.8e-4",
                                "   0   1.0 2.0",
                                "  key : value",
                                "<tag/>",
                                "+-00.0",
                                "identity",
                                "001d",
                                "wekafsio: 1",
                                "-------------------",
                                "1234 5000 0.0 196.1 0.37"};
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    std::string text;
    for (int part = 0; part < 3; ++part) {
      const std::vector<std::string>& lines = texts[random() % texts.size()];
      const std::size_t begin = lines.size() > 60 ? random() % (lines.size() - 60) : 0;
      for (std::size_t i = begin; i < std::min(lines.size(), begin + 60); ++i) {
        const std::size_t way = random() % 16;
        if (way == 0) continue;
        text += way == 1   ? lines[i].substr(0, random() % lines[i].size()) + '\n'
                : way == 2 ? "node1: " + lines[i]
                           : lines[i];
        if (random() % 10 != 0) continue;
        for (std::size_t gap = random() % 45; gap > 0; --gap)
          text += std::string(others[random() % std::size(others)]) + '\n';
      }
    }
    ASSERT_TRUE(same_either_way({text})) << "round " << round;
  }
}

}  // namespace
}  // namespace nobounce::test
