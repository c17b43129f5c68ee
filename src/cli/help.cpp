// The text of --help.
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "cli/argument_checks.hpp"
#include "cli/command_line.hpp"

namespace nobounce::cli {

namespace {

constexpr std::size_t width_columns = 96;
constexpr std::size_t text_column = 26;

/// Appends words, broken at the width and indented from the second line on. `column`: where the
/// first word goes. A line end in the text stays one.
void append_wrapped(std::string& out, std::string_view text, std::size_t column,
                    std::size_t indent) {
  bool first = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, end);
    const bool breaks = end < text.size() && text[end] == '\n';
    if (!first && column + 1 + word.size() > width_columns) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
      first = true;
    }
    if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    first = false;
    text.remove_prefix(std::min(end + 1, text.size()));
    if (breaks) {
      out += '\n';
      if (!text.empty() && text.front() != '\n') out += std::string(indent, ' ');
      column = indent;
      first = true;
    }
  }
  out += '\n';
}

/// A name on the left, its text in a column on the right, below the name where that is too long.
void append_row(std::string& out, const std::string& name, std::string_view text) {
  std::string left = "  " + name;
  if (left.size() + 2 > text_column) {
    out += left + '\n' + std::string(text_column, ' ');
  } else {
    out += left + std::string(text_column - left.size(), ' ');
  }
  append_wrapped(out, text, text_column, text_column);
}

void append_help_option(std::string& out, const OptionDescription& option) {
  std::string name = option.short_name.empty() ? "" : option.short_name + ", ";
  name += option.name;
  if (!option.value.empty()) name += ' ' + option.value;
  std::string text = option.text;
  if (option.repeatable) text += "; repeatable";
  if (!option.fallback.empty()) text += fmt::format(" (default: {})", option.fallback);
  append_row(out, name, text);
}

}  // namespace

std::vector<OptionDescription> common_options(const CommandLine& line,
                                              const CommandDescription& command) {
  std::vector<OptionDescription> options = line.common;
  options.erase(std::remove_if(options.begin(), options.end(),
                               [&command](const OptionDescription& option) {
                                 return !takes_common_option(command.name, option.name);
                               }),
                options.end());
  return options;
}

std::vector<OptionGroup> common_groups(const CommandLine& line, const CommandDescription& command) {
  if (!command.name.empty()) return {{"Common options", common_options(line, command)}};
  OptionGroup all{"Options of every command", {}};
  OptionGroup some{"Options of commands that work on a machine (not of diff, explain and stat)",
                   {}};
  for (const OptionDescription& option : common_options(line, command)) {
    const bool everywhere = std::all_of(
        line.commands.begin(), line.commands.end(),
        [&option](const auto& each) { return takes_common_option(each.name, option.name); });
    (everywhere ? all : some).options.push_back(option);
  }
  return {std::move(all), std::move(some)};
}

std::string help_text(const CommandLine& line, const CommandDescription& command) {
  std::string out = fmt::format("Usage: nobounce {}\n\n", command.synopsis);
  append_wrapped(out, command.words() + ": " + command.summary + '.', 0, 0);
  if (!command.details.empty()) {
    out += '\n';
    append_wrapped(out, command.details, 0, 0);
  }
  if (command.name.empty()) {
    out += "\nCommands (nobounce COMMAND --help tells more):\n";
    for (const CommandDescription& each : line.commands) append_row(out, each.name, each.summary);
  }
  if (!command.positionals.empty()) {
    out += "\nArguments:\n";
    for (const OptionDescription& argument : command.positionals)
      append_row(out, argument.name, argument.text);
  }
  if (!command.options.empty()) {
    out += "\nOptions:\n";
    for (const OptionDescription& option : command.options) append_help_option(out, option);
  }
  for (const OptionGroup& group : common_groups(line, command)) {
    out += '\n' + group.heading + ":\n";
    for (const OptionDescription& option : group.options) append_help_option(out, option);
  }
  out += "\nExamples:\n";
  for (const ExampleDescription& example : command.examples) {
    out += "  " + example.command + "\n      ";
    append_wrapped(out, example.text, 6, 6);
  }
  out += "\nExit code:\n";
  for (const ExitDescription& exit : command.exits)
    out += fmt::format("  {:<8} {}\n", exit.code, exit.text);
  return out;
}

}  // namespace nobounce::cli
