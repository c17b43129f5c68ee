// The command line described as a value: what --help, the man pages and shell completion are
// written from. Read out of the parser's own definitions, so that they cannot drift.
#pragma once

#include <string>
#include <vector>

namespace nobounce::cli {

struct OptionDescription {
  std::string name;        ///< `--policy`; of a positional the word that stands for it, `PLACE`
  std::string short_name;  ///< `-h`; often empty
  std::string value;       ///< the word for its value, `SIZE`; empty: it takes none
  std::string fallback;    ///< its value where it is not given; may be empty
  std::string text;
  bool repeatable = false;

  [[nodiscard]] bool positional() const { return name.empty() || name.front() != '-'; }
};

struct ExampleDescription {
  std::string command;
  std::string text;
};

struct ExitDescription {
  std::string code;
  std::string text;
};

struct CommandDescription {
  std::string name;      ///< `copy`; empty: the program itself
  std::string synopsis;  ///< what follows `nobounce`: `copy A B [C ...] [OPTIONS]`
  std::string summary;   ///< one line
  std::string details;   ///< paragraphs, parted by an empty line
  std::vector<OptionDescription> positionals;
  std::vector<OptionDescription> options;
  std::vector<ExitDescription> exits;
  std::vector<ExampleDescription> examples;

  [[nodiscard]] std::string words() const { return name.empty() ? "nobounce" : "nobounce " + name; }
};

struct CommandLine {
  CommandDescription program;
  std::vector<OptionDescription> common;  ///< options of every command
  std::vector<CommandDescription> commands;

  /// Null where there is none of that name. The empty name is the program's.
  [[nodiscard]] const CommandDescription* find(const std::string& name) const {
    if (name.empty()) return &program;
    for (const CommandDescription& command : commands) {
      if (command.name == name) return &command;
    }
    return nullptr;
  }
};

struct OptionGroup {
  std::string heading;
  std::vector<OptionDescription> options;
};

/// The common options as help shows them: of the program, those that not every command takes stand
/// by themselves.
[[nodiscard]] std::vector<OptionGroup> common_groups(const CommandLine& line,
                                                     const CommandDescription& command);

/// Those options of every command that mean anything to this one.
[[nodiscard]] std::vector<OptionDescription> common_options(const CommandLine& line,
                                                            const CommandDescription& command);

/// What `--help` prints.
[[nodiscard]] std::string help_text(const CommandLine& line, const CommandDescription& command);

/// A man page of section 1, in the macros of man(7).
[[nodiscard]] std::string manual_page(const CommandLine& line, const CommandDescription& command);

/// Completion scripts.
[[nodiscard]] std::string bash_completion(const CommandLine& line);
[[nodiscard]] std::string zsh_completion(const CommandLine& line);
[[nodiscard]] std::string fish_completion(const CommandLine& line);

/// What may stand for a value: words to offer, and whether file or directory names fit.
struct ValueCompletion {
  std::vector<std::string> words;
  bool files = false;
  bool directories = false;
  bool known = true;  ///< false for a word for values that nothing is said about
};
[[nodiscard]] ValueCompletion completion_of(const std::string& value);

}  // namespace nobounce::cli
