// Man pages in the macros of man(7).
#include <algorithm>
#include <string>
#include <string_view>

#include "cli/command_line.hpp"

namespace nobounce::cli {

namespace {

/// Of the words in these pages; it changes when they do.
constexpr const char* date = "2026-11-29";

/// Text as it is: no escape, no request, and hyphens that can be copied into a shell.
std::string plain(std::string_view text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    line_begins = c == '\n';
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string bold(std::string_view text) {
  return "\\fB" + plain(text) + "\\fR";
}
std::string italic(std::string_view text) {
  return "\\fI" + plain(text) + "\\fR";
}

std::string page_name(const CommandDescription& command) {
  return command.name.empty() ? "nobounce" : "nobounce-" + command.name;
}

std::string capitals(std::string text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

void append_paragraphs(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find("\n\n");
    out += plain(text.substr(0, end)) + '\n';
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 2);
    out += ".PP\n";
  }
}

void append_option(std::string& out, const OptionDescription& option) {
  out += ".TP\n";
  if (option.positional()) {
    out += italic(option.name);
  } else {
    if (!option.short_name.empty()) out += bold(option.short_name) + ", ";
    out += bold(option.name);
    if (!option.value.empty()) out += ' ' + italic(option.value);
  }
  out += '\n' + plain(option.text);
  if (option.repeatable) out += "; repeatable";
  if (!option.fallback.empty()) out += " (default: " + plain(option.fallback) + ")";
  out += ".\n";
}

/// `copy PLACE [OPTIONS]`: capital words stand for something else, small ones for themselves.
std::string synopsis(const CommandDescription& command) {
  std::string out = bold(command.words());
  std::string_view rest = command.synopsis;
  if (!command.name.empty()) rest.remove_prefix(command.name.size());
  return out + italic(rest) + '\n';
}

std::string in_capitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return text;
}

}  // namespace

std::string manual_page(const CommandLine& line, const CommandDescription& command) {
  std::string out = ".TH " + plain(capitals(page_name(command))) + " 1 \"" + date +
                    "\" \"nobounce " NOBOUNCE_VERSION "\" \"User Commands\"\n";
  out += ".SH NAME\n" + plain(page_name(command)) + " \\- " + plain(command.summary) + '\n';
  out += ".SH SYNOPSIS\n" + synopsis(command);
  out += ".SH DESCRIPTION\n";
  append_paragraphs(out, command.details);
  if (command.name.empty()) {
    out += ".SH COMMANDS\n";
    for (const CommandDescription& each : line.commands) {
      out += ".TP\n" + bold(each.name) + '\n' + plain(each.summary) + ".\n";
    }
  }
  if (!command.positionals.empty()) {
    out += ".SH ARGUMENTS\n";
    for (const OptionDescription& argument : command.positionals) append_option(out, argument);
  }
  if (!command.options.empty()) {
    out += ".SH OPTIONS\n";
    for (const OptionDescription& option : command.options) append_option(out, option);
  }
  for (const OptionGroup& group : common_groups(line, command)) {
    out += ".SH \"" + in_capitals(group.heading) + "\"\n";
    for (const OptionDescription& option : group.options) append_option(out, option);
  }
  out += ".SH EXIT STATUS\n";
  for (const ExitDescription& exit : command.exits)
    out += ".TP\n" + bold(exit.code) + '\n' + plain(exit.text) + ".\n";
  out += ".SH EXAMPLES\n";
  for (const ExampleDescription& example : command.examples)
    out += ".TP\n" + bold(example.command) + '\n' + plain(example.text) + ".\n";
  out += ".SH SEE ALSO\n";
  std::string others;
  if (!command.name.empty()) others = bold("nobounce") + "(1)";
  for (const CommandDescription& each : line.commands) {
    if (each.name == command.name) continue;
    others += (others.empty() ? "" : ",\n") + bold(page_name(each)) + "(1)";
  }
  return out + others + '\n';
}

}  // namespace nobounce::cli
