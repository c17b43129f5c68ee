// One line of a text, cleaned for reading: without terminal escapes, carriage returns and quoting.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nobounce::captures {

struct Line {
  std::string_view text;       ///< cleaned; tabs and inner blanks stay
  std::uint64_t number = 0;    ///< from 1, in the text as it was given
  std::string_view node = {};  ///< whose line it is, where a collector says so
  bool open = false;           ///< the text ends in it, or it is too long: its end may be missing
};

/// Cleans one line. Answers a view of `raw` where nothing had to be removed, else of `buffer`.
/// Bytes that are no UTF-8 become `\xNN`.
[[nodiscard]] std::string_view clean_line(std::string_view raw, std::string& buffer);

/// The text behind what collectors put in front of a line: time stamps, labels of tasks and
/// containers, names of nodes. As many in a row as there are; the same text where there is none.
[[nodiscard]] std::string_view without_prefixes(std::string_view text);

/// The text behind `name: `, as pdsh, clush and srun put it; empty where there is no such prefix.
[[nodiscard]] std::string_view without_node(std::string_view text);

/// The name that `without_node` removes; empty where there is none.
[[nodiscard]] std::string_view node_of(std::string_view text);

/// The node of a prompt or a command: `[root@node1 ~]# ..`, `user@node1:~$ ..`, `$ ssh node1 ..`.
/// Empty where a command names none; nothing where the line is no command.
[[nodiscard]] std::optional<std::string_view> node_of_command(std::string_view text);

/// Whether the line is drawn only, as dshbak and clush put it above and below a node's name.
[[nodiscard]] bool is_rule(std::string_view text);

/// A name of a node by itself on a line.
[[nodiscard]] bool is_node_name(std::string_view text);

/// For a report: trimmed and bounded.
[[nodiscard]] std::string quoted_line(std::string_view text);

/// No name, no value and no line that is kept is longer; what was is cut at a character, and ends
/// in `...`.
constexpr std::size_t text_bytes_max = 400;
[[nodiscard]] std::string bounded_text(std::string_view text);

}  // namespace nobounce::captures
