// Completion for zsh, in terms of its own _arguments.
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "cli/command_line.hpp"

namespace nobounce::cli {

namespace {

/// Text inside single quotes of a specification of _arguments.
std::string specified(std::string_view text, std::string_view escaped) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (escaped.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

/// What _arguments does to complete a value.
std::string action(const std::string& value) {
  const ValueCompletion completion = completion_of(value);
  std::string words;
  for (const std::string& word : completion.words)
    words += (words.empty() ? "" : " ") + specified(word, ":");
  // The leading blank: _arguments then adds no options of its own.
  if (completion.files && !words.empty())
    return " _alternative \"files:file:_files\" \"words:word:(" + words + ")\"";
  if (completion.files) return "_files";
  if (completion.directories) return "_files -/";
  return words.empty() ? " " : "(" + words + ")";
}

void append_zsh_options(std::string& out, const std::vector<OptionDescription>& options) {
  for (const OptionDescription& option : options) {
    std::vector<std::string> names = {option.name};
    if (!option.short_name.empty()) names.push_back(option.short_name);
    for (const std::string& name : names) {
      out += fmt::format("    '{}{}[{}]", option.repeatable ? "*" : "", name,
                         specified(option.text, "[]:"));
      if (!option.value.empty())
        out += fmt::format(":{}:{}", specified(option.value, ":"), action(option.value));
      out += "'\n";
    }
  }
}

}  // namespace

std::string zsh_completion(const CommandLine& line) {
  std::string out = "#compdef nobounce\n# Written by `nobounce generate zsh`.\n\n_nobounce() {\n";
  out +=
      "  local curcontext=\"$curcontext\" state line\n  local -a common program commands\n  "
      "common=(\n";
  append_zsh_options(out, line.common);
  out += "  )\n  program=(\n";
  append_zsh_options(out, line.program.options);
  out += "  )\n  commands=(\n";
  for (const CommandDescription& command : line.commands)
    out += fmt::format("    '{}:{}'\n", command.name, specified(command.summary, ":"));
  out +=
      "  )\n  _arguments -C $common $program '1:command:->command' '*::argument:->argument'\n"
      "  case $state in\n    command) _describe command commands ;;\n"
      "    argument) case $line[1] in\n";
  for (const CommandDescription& command : line.commands) {
    out += fmt::format("      {}) _arguments $common", command.name);
    std::string specifications;
    append_zsh_options(specifications, command.options);
    for (const OptionDescription& argument : command.positionals)
      specifications += fmt::format("    '{}:{}:{}'\n", argument.repeatable ? "*" : "",
                                    specified(argument.name, ":"), action(argument.value));
    std::size_t from = 0;
    for (std::size_t to = specifications.find('\n'); to != std::string::npos;
         from = to + 1, to = specifications.find('\n', from)) {
      out += " \\\n    " + specifications.substr(from, to - from);
    }
    out += " ;;\n";
  }
  return out + "    esac ;;\n  esac\n}\n\n_nobounce \"$@\"\n";
}

}  // namespace nobounce::cli
