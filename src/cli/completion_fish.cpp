// Completion for fish: one line per thing that can be completed.
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "cli/command_line.hpp"

namespace nobounce::cli {

namespace {

std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + '\'';
}

std::string value_arguments(const std::string& value) {
  const ValueCompletion completion = completion_of(value);
  std::string words;
  for (const std::string& word : completion.words) words += (words.empty() ? "" : " ") + word;
  std::string out = completion.files ? "" : " -f";
  if (completion.directories) words = "(__fish_complete_directories)";
  if (!words.empty()) out += " -a " + in_quotes(words);
  return out;
}

void append_fish_options(std::string& out, const std::vector<OptionDescription>& options,
                         const std::string& condition) {
  for (const OptionDescription& option : options) {
    out += "complete -c nobounce" + condition + " -l " + option.name.substr(2);
    if (!option.short_name.empty()) out += " -s " + option.short_name.substr(1);
    if (!option.value.empty()) out += " -r" + value_arguments(option.value);
    out += " -d " + in_quotes(option.text) + '\n';
  }
}

}  // namespace

std::string fish_completion(const CommandLine& line) {
  std::string out = "# fish completion for nobounce. Written by `nobounce generate fish`.\n\n";
  append_fish_options(out, line.common, "");
  append_fish_options(out, line.program.options, " -n __fish_use_subcommand");
  for (const CommandDescription& command : line.commands) {
    out += fmt::format("complete -c nobounce -f -n __fish_use_subcommand -a {} -d {}\n",
                       command.name, in_quotes(command.summary));
  }
  for (const CommandDescription& command : line.commands) {
    const std::string condition = fmt::format(" -n '__fish_seen_subcommand_from {}'", command.name);
    append_fish_options(out, command.options, condition);
    if (command.positionals.empty()) {
      out += "complete -c nobounce" + condition + " -f\n";
    } else {
      out += "complete -c nobounce" + condition +
             value_arguments(command.positionals.front().value) + '\n';
    }
  }
  return out;
}

}  // namespace nobounce::cli
