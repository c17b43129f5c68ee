// Help, man pages and completion say the same, because they are written from what is parsed.
#include "cli/command_line.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include <nobounce/session.hpp>
#include "cli/arguments.hpp"
#include "cli/quantity_argument.hpp"

namespace nobounce::cli {
namespace {

std::string help_of(const std::string& command) {
  const std::vector<const char*> words =
      command.empty() ? std::vector<const char*>{"nobounce", "--help"}
                      : std::vector<const char*>{"nobounce", command.c_str(), "--help"};
  const ParsedArguments parsed = parse_arguments(static_cast<int>(words.size()), words.data());
  return std::get<HelpText>(parsed).text;
}

/// The words of a text that begin with two hyphens.
std::set<std::string> options_in(const std::string& text) {
  std::set<std::string> found;
  for (std::size_t at = text.find("--"); at != std::string::npos; at = text.find("--", at + 2)) {
    const std::size_t end =
        std::min(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", at), text.size());
    if (end > at + 2) found.insert(text.substr(at, end - at));
  }
  return found;
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string without_escapes(std::string text) {
  for (std::size_t at = text.find('\\'); at != std::string::npos; at = text.find('\\', at))
    text.erase(at, text.substr(at, 2) == "\\f" ? 3 : 1);
  return text;
}

std::vector<std::string> names() {
  std::vector<std::string> all = {""};
  for (const CommandDescription& command : command_line().commands) all.push_back(command.name);
  return all;
}

TEST(CommandDescriptions, AreThoseOfEveryCommandThatIsBuilt) {
  const CommandLine line = command_line();
  EXPECT_GE(names().size(), 6u);
  EXPECT_EQ(line.find("generate"), nullptr) << "hidden";
  for (const std::string& name : names()) {
    const CommandDescription& command = *line.find(name);
    EXPECT_FALSE(command.summary.empty() || command.details.empty()) << name;
    EXPECT_FALSE(command.examples.empty() || command.exits.empty()) << name;
    EXPECT_EQ(command.synopsis.rfind(name, 0), 0u) << name;
  }
}

TEST(CommandDescriptions, EveryOptionOfTheHelpIsInTheManPageAndInEachCompletion) {
  const CommandLine line = command_line();
  const std::set<std::string> in_bash = options_in(bash_completion(line));
  const std::set<std::string> in_zsh = options_in(zsh_completion(line));
  const std::string in_fish = fish_completion(line);
  for (const std::string& name : names()) {
    const std::set<std::string> in_man =
        options_in(without_escapes(manual_page(line, *line.find(name))));
    const std::set<std::string> options = options_in(help_of(name));
    EXPECT_GE(options.size(), 3u);
    for (const std::string& option : options) {
      EXPECT_EQ(in_man.count(option), 1u) << name << ' ' << option;
      EXPECT_EQ(in_bash.count(option), 1u) << name << ' ' << option;
      EXPECT_EQ(in_zsh.count(option), 1u) << name << ' ' << option;
      EXPECT_TRUE(holds(in_fish, " -l " + option.substr(2) + " ")) << name << ' ' << option;
    }
  }
}

TEST(CommandDescriptions, EveryWordForAValueHasACompletion) {
  const CommandLine line = command_line();
  const auto check = [](const std::vector<OptionDescription>& options) {
    for (const OptionDescription& option : options) {
      EXPECT_FALSE(option.text.empty()) << option.name;
      EXPECT_TRUE(option.value.empty() || completion_of(option.value).known) << option.value;
    }
  };
  check(line.common);
  for (const CommandDescription& command : line.commands) {
    check(command.positionals);
    check(command.options);
  }
  EXPECT_FALSE(completion_of("SOMETHING").known);
}

TEST(CommandDescriptions, DefaultsThatAreShownAreThoseThatHold) {
  const SessionOptions options;
  const CommandLine line = command_line();
  for (const OptionDescription& option : line.find("copy")->options) {
    if (option.name == "--pinned-bytes") {
      EXPECT_EQ(*parse_size(option.fallback), options.pinned_bytes_max);
    }
    if (option.name == "--slot-bytes") {
      EXPECT_EQ(*parse_size(option.fallback), options.slot_bytes);
    }
    if (option.name == "--readers") {
      EXPECT_EQ(option.fallback, std::to_string(options.readers));
    }
    if (option.name == "--policy") {
      EXPECT_EQ(option.fallback, to_string(TransferOptions{}.policy));
    }
  }
}

TEST(HelpTexts, NoLineIsWiderThanAHundredColumns) {
  for (const std::string& name : names()) {
    const std::string text = help_of(name);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      EXPECT_LE(end - at, 100u) << text.substr(at, end - at);
      at = end + 1;
    }
  }
}

TEST(HelpTexts, AreAlsoGivenForHelpAsTheFirstWord) {
  for (const std::string& name : names()) {
    std::vector<const char*> words = {"nobounce", "help"};
    if (!name.empty()) words.push_back(name.c_str());
    const ParsedArguments parsed = parse_arguments(static_cast<int>(words.size()), words.data());
    ASSERT_TRUE(std::holds_alternative<HelpText>(parsed)) << name;
    EXPECT_EQ(std::get<HelpText>(parsed).text, help_of(name));
  }
}

TEST(ManPages, EscapeWhatTheirLanguageWouldRead) {
  CommandLine line;
  line.program = CommandDescription{.name = "",
                                    .synopsis = "COMMAND",
                                    .summary = "a \\ b",
                                    .details = ".begins with a point\n'and a quote --x",
                                    .positionals = {},
                                    .options = {},
                                    .exits = {},
                                    .examples = {}};
  const std::string page = manual_page(line, line.program);
  EXPECT_TRUE(holds(page, "a \\e b")) << page;
  EXPECT_TRUE(holds(page, "\n\\&.begins with a point\n\\&'and a quote \\-\\-x\n")) << page;
}

}  // namespace
}  // namespace nobounce::cli
