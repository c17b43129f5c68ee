// Man pages and completion scripts, read by the programs that they are for, where those are there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/program.hpp"
#include "support/temporary_directory.hpp"

namespace nobounce::test {
namespace {

bool there(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// Runs a shell command on a file with that content; its output, errors included.
std::string output_of(const TemporaryDirectory& folder, const std::string& command) {
  const std::string path = folder.file("output");
  const int status = std::system((command + " >" + path + " 2>&1 </dev/null").c_str());
  std::ifstream stream(path);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_EQ(status, 0) << command << '\n' << text;
  return text;
}

TEST(ManPages, AreReadWithoutAWarning) {
  if (!there("groff") && !there("mandoc")) GTEST_SKIP() << "neither groff nor mandoc is installed";
  const TemporaryDirectory folder;
  std::vector<std::string> commands = lines_of(run({"generate", "commands"}).out);
  ASSERT_GE(commands.size(), 5u);
  commands.insert(commands.begin(), "");
  for (const std::string& command : commands) {
    const Ran page = run(command.empty() ? std::vector<std::string>{"generate", "man"}
                                         : std::vector<std::string>{"generate", "man", command});
    ASSERT_EQ(page.exit_code, 0) << page.err;
    std::ofstream(folder.file("page.1")) << page.out;
    if (there("groff")) {
      EXPECT_EQ(output_of(folder, "groff -man -ww -z -Tutf8 " + folder.file("page.1")), "")
          << command;
    }
    if (there("mandoc")) {
      EXPECT_EQ(output_of(folder, "mandoc -T lint -W warning " + folder.file("page.1")), "")
          << command;
    }
  }
  EXPECT_EQ(run({"generate", "man", "nonsense"}).exit_code, 2);
  EXPECT_EQ(run({"generate", "nonsense"}).exit_code, 2);
}

TEST(Completion, IsUnderstoodByEachShell) {
  const TemporaryDirectory folder;
  int shells = 0;
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const Ran script = run({"generate", shell});
    ASSERT_EQ(script.exit_code, 0) << script.err;
    if (!there(shell)) continue;
    ++shells;
    std::ofstream(folder.file(shell)) << script.out;
    EXPECT_EQ(output_of(folder, shell + " -n " + folder.file(shell)), "");
  }
  if (shells == 0) GTEST_SKIP() << "none of the shells is installed";
}

std::string without_blanks(const std::string& text) {
  std::string out;
  std::copy_if(text.begin(), text.end(), std::back_inserter(out),
               [](char c) { return std::isspace(static_cast<unsigned char>(c)) == 0; });
  return out;
}

std::string text_of(const std::string& path) {
  std::ifstream stream(std::string(NOBOUNCE_SOURCE_DIR) + '/' + path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(LibraryGuide, ShowsOnlyCodeThatIsCompiledAndRun) {
  const std::string compiled = without_blanks(text_of("tests/examples/library_guide.cpp"));
  const std::string guide = text_of("docs/guide/library.md");
  const std::string fence = "```cpp\n";
  int pieces = 0;
  for (std::size_t at = guide.find(fence); at != std::string::npos; at = guide.find(fence, at)) {
    at += fence.size();
    const std::size_t end = guide.find("```", at);
    ASSERT_NE(end, std::string::npos);
    for (const std::string part : {"...\n", ""}) {  // an ellipsis parts two pieces
      const std::string piece = guide.substr(at, std::min(guide.find("...\n", at), end) - at);
      EXPECT_NE(compiled.find(without_blanks(piece)), std::string::npos) << piece;
      ++pieces;
      if (part.empty() || guide.find(part, at) >= end) break;
      at = guide.find(part, at) + part.size();
    }
  }
  EXPECT_GE(pieces, 7);
}

/// What bash would offer after that line.
std::vector<std::string> offered(const TemporaryDirectory& folder, const std::string& typed) {
  std::ofstream(folder.file("ask"))
      << ". " << folder.file("script") << "\ncd " << folder.path().string() << "\nCOMP_LINE='"
      << typed << "' COMP_POINT=" << typed.size() << "\nCOMP_WORDBREAKS=' :='\n_nobounce\n"
      << "printf '%s\\n' \"${COMPREPLY[@]}\"\n";
  return lines_of(output_of(folder, "bash " + folder.file("ask")));
}

TEST(Completion, OffersInBashWhatFits) {
  if (!there("bash")) GTEST_SKIP() << "bash is not installed";
  const TemporaryDirectory folder;
  std::ofstream(folder.file("script")) << run({"generate", "bash"}).out;
  std::ofstream(folder.file("model one.bin")) << "x";
  using Words = std::vector<std::string>;
  EXPECT_EQ(offered(folder, "nobounce "), lines_of(run({"generate", "commands"}).out));
  EXPECT_EQ(offered(folder, "nobounce cop"), Words{"copy"});
  EXPECT_EQ(offered(folder, "nobounce copy --pol"), Words{"--policy"});
  EXPECT_EQ(offered(folder, "nobounce copy --policy staged"), Words{"staged_only"});
  EXPECT_EQ(offered(folder, "nobounce copy mod"), Words{"model one.bin"});
  EXPECT_EQ(offered(folder, "nobounce copy a g"), (Words{"gpu:0", "gpu:1"}));
  EXPECT_EQ(offered(folder, "nobounce copy a gpu:1"), Words{"1"})
      << "bash replaces what follows the colon";
  EXPECT_EQ(offered(folder, "nobounce topo --machine soft:tw"), Words{"two-socket"});
  EXPECT_EQ(offered(folder, "nobounce --machine soft:dgx sta"), Words{"stat"});
  EXPECT_EQ(offered(folder, "nobounce stat --pol"), Words{""});
}

}  // namespace
}  // namespace nobounce::test
