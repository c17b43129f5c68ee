// Completion for bash. Needs nothing but bash: what is typed is read from COMP_LINE, because bash
// parts words such as gpu:0 at the colon.
#include <string>
#include <vector>

#include <fmt/core.h>

#include "cli/command_line.hpp"

namespace nobounce::cli {

namespace {

constexpr const char* script_begin =
    R"(# bash completion for nobounce. Written by `nobounce generate bash`.

_nobounce_offer() {
  local current=$1 previous='' command='' word
  shift
  [ $# -gt 0 ] && previous=${!#}
  for word in "${@:2}"; do
    case $word in
)";

constexpr const char* script_end = R"(}

_nobounce() {
  local typed=${COMP_LINE:0:COMP_POINT} current=''
  local -a words=()
  read -r -a words <<<"$typed"
  case $typed in
    *[[:space:]]) ;;
    *) current=${words[-1]} words=("${words[@]:0:${#words[@]}-1}") ;;
  esac
  _nobounce_offer "$current" "${words[@]}"
  # Bash replaces what follows the last colon only.
  local head=${current%"${current##*:}"}
  [[ $COMP_WORDBREAKS == *:* && -n $head ]] && COMPREPLY=("${COMPREPLY[@]#"$head"}")
}
complete -F _nobounce nobounce
)";

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

std::vector<std::string> names_of(const std::vector<OptionDescription>& options) {
  std::vector<std::string> names;
  for (const OptionDescription& option : options) {
    if (!option.short_name.empty()) names.push_back(option.short_name);
    names.push_back(option.name);
  }
  return names;
}

/// The statements that offer what fits a value.
std::string offer(const ValueCompletion& completion) {
  std::string out;
  if (!completion.words.empty())
    out += fmt::format("mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$current\"); ",
                       joined(completion.words, " "));
  if (completion.files || completion.directories) {
    // Names with spaces need their quotes: readline adds them to what it knows to be file names.
    out += fmt::format(
        "compopt -o filenames 2>/dev/null; mapfile -t -O \"${{#COMPREPLY[@]}}\" COMPREPLY < "
        "<(compgen -{} -- \"$current\"); ",
        completion.files ? 'f' : 'd');
  }
  return out;
}

void append_values(std::string& out, const std::vector<OptionDescription>& options,
                   const char* indent) {
  for (const OptionDescription& option : options) {
    if (option.value.empty()) continue;
    out +=
        fmt::format("{}{}) {}return ;;\n", indent, option.name, offer(completion_of(option.value)));
  }
}

}  // namespace

std::string bash_completion(const CommandLine& line) {
  std::vector<std::string> commands;
  for (const CommandDescription& command : line.commands) commands.push_back(command.name);
  std::string out = script_begin;
  out += fmt::format("      {}) command=$word; break ;;\n    esac\n  done\n  COMPREPLY=()\n",
                     joined(commands, "|"));
  out += "  case $command in\n";
  for (const CommandDescription& command : line.commands) {
    std::string values;
    append_values(values, command.options, "      ");
    if (values.empty()) continue;
    out += fmt::format("    {}) case $previous in\n{}    esac ;;\n", command.name, values);
  }
  out += "  esac\n  case $previous in\n";
  append_values(out, line.common, "    ");
  out += "  esac\n  local options=''\n  case $command in\n";
  out += fmt::format("    '') options='{}' ;;\n", joined(names_of(line.program.options), " "));
  for (const CommandDescription& command : line.commands) {
    out += fmt::format("    {}) options='{}' ;;\n", command.name,
                       joined(names_of(command.options), " "));
  }
  out += fmt::format(
      "  esac\n  case $current in\n    -*) mapfile -t COMPREPLY < <(compgen -W "
      "\"$options {}\" -- \"$current\") ;;\n    *) case $command in\n",
      joined(names_of(line.common), " "));
  out += fmt::format("      '') mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$current\") ;;\n",
                     joined(commands, " "));
  for (const CommandDescription& command : line.commands) {
    if (command.positionals.empty()) continue;
    const std::string offered = offer(completion_of(command.positionals.front().value));
    if (!offered.empty()) out += fmt::format("      {}) {};;\n", command.name, offered);
  }
  return out + "    esac ;;\n  esac\n" + script_end;
}

}  // namespace nobounce::cli
