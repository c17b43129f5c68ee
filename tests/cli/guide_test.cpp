// The README and the guide show commands with their output: each is run, and must print that.
#include <gtest/gtest.h>

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/program.hpp"
#include "support/serving.hpp"
#include "support/temporary_directory.hpp"

namespace nobounce::test {
namespace {

struct Shown {
  std::string command;              ///< without the prompt and a comment
  std::string comment;              ///< what stands behind `#`
  std::vector<std::string> output;  ///< `...` stands for any lines
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// The commands in the fenced blocks of a document.
std::vector<Shown> shown_in(const std::filesystem::path& document) {
  std::vector<Shown> found;
  bool fenced = false;
  for (const std::string& line : lines_of(text_of(document))) {
    if (line.rfind("```", 0) == 0) {
      fenced = !fenced;
      if (!fenced && !found.empty() && found.back().command.empty()) found.pop_back();
      if (!fenced) found.push_back({});  // what follows belongs to no command
    } else if (fenced && (line.rfind("$ ", 0) == 0 || line.rfind("nobounce ", 0) == 0)) {
      const std::size_t begin = line.front() == '$' ? 2 : 0;
      const std::size_t end = std::min(line.find("  #"), line.size());
      std::string command = line.substr(begin, end - begin);
      command.erase(command.find_last_not_of(' ') + 1);
      const std::string comment = end < line.size() ? line.substr(line.find('#', end) + 2) : "";
      found.push_back({command, comment, {}});
    } else if (fenced && !found.empty() && !found.back().command.empty()) {
      found.back().output.push_back(line);
    }
  }
  found.erase(std::remove_if(found.begin(), found.end(),
                             [](const Shown& shown) { return shown.command.empty(); }),
              found.end());
  return found;
}

/// Whether the lines from `at` on are those shown from `shown_at` on.
bool matches(const std::vector<std::string>& lines, std::size_t at,
             const std::vector<std::string>& shown, std::size_t shown_at) {
  for (; shown_at < shown.size(); ++shown_at, ++at) {
    const std::string& expected = shown[shown_at];
    if (expected.find_first_not_of(" .") == std::string::npos && holds(expected, "...")) {
      for (std::size_t skip = at; skip <= lines.size(); ++skip) {
        if (matches(lines, skip, shown, shown_at + 1)) return true;
      }
      return false;
    }
    if (at >= lines.size()) return false;
    // A line may be cut short, too.
    const std::size_t cut = expected.find("...");
    if (cut != std::string::npos && cut + 3 == expected.size()) {
      if (lines[at].rfind(expected.substr(0, cut), 0) != 0) return false;
    } else if (lines[at] != expected) {
      return false;
    }
  }
  return at == lines.size();
}

/// Depends on this machine, or on programs that need not be there.
bool can_be_run(const std::string& command) {
  const bool somewhere_else = command.find(" --machine soft:") != std::string::npos ||
                              command.find(" --machine recorded:") != std::string::npos ||
                              command.rfind("nobounce diff ", 0) == 0 ||
                              command.rfind("nobounce explain ", 0) == 0;
  return command.rfind("nobounce ", 0) == 0 && somewhere_else &&
         command.find('|') == std::string::npos && command.find("1GiB") == std::string::npos;
}

/// As a shell splits it. What a shell would take otherwise stands in quotes, for readers copy it.
std::vector<std::string> words_of(const std::string& command) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false;
  for (const char c : command.substr(std::string("nobounce ").size()) + ' ') {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c != ' ' || quoted) {
      if (!quoted) {
        EXPECT_EQ(std::string("{}\"$*?;<>()").find(c), std::string::npos) << command;
      }
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, {}));
    }
  }
  return words;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  if (what.empty()) return text;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at)) {
    text.replace(at, what.size(), by);
    at += by.size();
  }
  return text;
}

/// A server in the background (`&`). It listens at a port that is free here, which stands for the
/// one that the document names.
class ShownServer {
 public:
  explicit ShownServer(const Shown& shown)
      : shown_(shown), serving_(arguments(), Serving::Format::text) {}

  [[nodiscard]] std::string as_it_is(const std::string& text) const {
    return replaced(text, written_, serving_.address());
  }
  void end() {
    const Ran ran = serving_.finish(SIGTERM);
    const std::string out = replaced(ran.out + ran.err, serving_.address(), written_);
    EXPECT_TRUE(matches(lines_of(out), 0, shown_.output, 0)) << "$ " << shown_.command << '\n'
                                                             << out;
  }

 private:
  std::vector<std::string> arguments() {
    std::vector<std::string> words = words_of(shown_.command);
    words.erase(words.begin());  // `serve`
    words.pop_back();            // `&`
    for (std::size_t i = 0; i + 1 < words.size();) {
      if (words[i] == "--machine") {  // Serving says it
        words.erase(words.begin() + static_cast<std::ptrdiff_t>(i),
                    words.begin() + static_cast<std::ptrdiff_t>(i) + 2);
        continue;
      }
      if (words[i] == "--listen") {
        written_ = words[i + 1];
        words[i + 1] = "127.0.0.1:0";
      }
      ++i;
    }
    return words;
  }

  Shown shown_;
  std::string written_;
  Serving serving_;
};

class ShownCommands : public ::testing::TestWithParam<const char*> {};

TEST_P(ShownCommands, PrintWhatIsShown) {
  const TemporaryDirectory folder;
  std::filesystem::current_path(folder.path());
  std::ofstream("model.bin") << "";
  std::ofstream("sample.bin") << "";
  std::filesystem::resize_file("model.bin", 50000001);
  std::filesystem::resize_file("sample.bin", (64u << 20) + 13);
  int run_count = 0;
  int exit_code = 0;
  std::unique_ptr<ShownServer> server;
  for (const Shown& shown : shown_in(std::filesystem::path(NOBOUNCE_SOURCE_DIR) / GetParam())) {
    if (shown.command == "echo $?") {
      EXPECT_EQ(shown.output, std::vector<std::string>{std::to_string(exit_code)});
    } else if (shown.command.rfind("cat ", 0) == 0) {  // a file of the reader's
      std::ofstream file(shown.command.substr(4));
      for (const std::string& line : shown.output) file << line << '\n';
    }
    if (!can_be_run(shown.command)) continue;
    if (shown.command.back() == '&') {
      server = std::make_unique<ShownServer>(shown);
      continue;
    }
    const auto as_it_is = [&](const std::string& text) {
      return server == nullptr ? text : server->as_it_is(text);
    };
    const Ran ran = run(words_of(as_it_is(shown.command)));
    ++run_count;
    exit_code = ran.exit_code;
    if (shown.comment.rfind("staged: ", 0) == 0) {
      EXPECT_TRUE(holds(ran.out, " staged ") && holds(ran.out, shown.comment.substr(8)))
          << shown.command << '\n'
          << ran.out << ran.err;
    }
    if (shown.output.empty()) {
      EXPECT_EQ(ran.exit_code, 0) << shown.command << '\n' << ran.out << ran.err;
      continue;
    }
    std::vector<std::string> output;
    for (const std::string& line : shown.output) output.push_back(as_it_is(line));
    EXPECT_TRUE(matches(lines_of(ran.out + ran.err), 0, output, 0)) << "$ " << shown.command << '\n'
                                                                    << ran.out << ran.err;
  }
  EXPECT_GT(run_count, 0);
  if (server != nullptr) server->end();
  std::filesystem::current_path("/");
}

INSTANTIATE_TEST_SUITE_P(Documents, ShownCommands,
                         ::testing::Values("README.md", "docs/guide/quick-start.md",
                                           "docs/guide/receipts.md", "docs/guide/policies.md",
                                           "docs/guide/verdicts.md", "docs/guide/check.md",
                                           "docs/guide/prove.md", "docs/guide/rdma.md",
                                           "docs/guide/software-machine.md",
                                           "docs/guide/explain.md"),
                         [](const auto& tested) {
                           std::string name = std::filesystem::path(tested.param).stem();
                           name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
                           return name;
                         });

}  // namespace
}  // namespace nobounce::test
