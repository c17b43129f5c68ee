// nobounce_conformance: asks a live or a software machine every sequence, and compares answers.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "conformance/answers.hpp"
#include "conformance/runner.hpp"
#include "core/machine_json.hpp"

namespace {

using namespace nobounce;
using namespace nobounce::conformance;

constexpr std::size_t sequences_min = 200;

constexpr const char* usage =
    "nobounce_conformance --live --out FILE [--only PREFIX] [--folder DIR] [--may-write-udev]\n"
    "nobounce_conformance --soft MACHINE.json --out FILE [--only PREFIX] [--folder DIR]\n"
    "nobounce_conformance --compare LIVE.json SOFT.json [--explained FILE]\n"
    "nobounce_conformance --unconfirmed LIVE.json SOFT.json [--explained FILE]\n"
    "nobounce_conformance --check MACHINE.json [--answers LIVE.json] [--explained FILE]\n"
    "nobounce_conformance --list\n"
    "  --live, --soft  ask this machine, or a software machine of that description\n"
    "  --compare       exit 0 only if both were asked something, and all of that is equal or "
    "explained\n"
    "  --unconfirmed   the functions of the tables that no equal sequence shows, one a line\n"
    "  --check         asks the software machine: at least 200 sequences, and what --compare "
    "demands\n"
    "                  for each --answers; without any it is asked twice and must answer alike\n";

struct Arguments {
  bool live = false;
  bool list = false;
  bool may_write_udev = false;
  std::string soft, out, only, folder, explained, check;
  std::vector<std::string> compare, unconfirmed, answers;
};

/// The names of files behind an option that takes several.
int take_files(int argc, char** argv, int at, std::vector<std::string>& target) {
  while (at + 1 < argc && std::strncmp(argv[at + 1], "--", 2) != 0) target.emplace_back(argv[++at]);
  return at;
}

std::optional<Arguments> arguments_from(int argc, char** argv) {
  Arguments arguments;
  const std::pair<const char*, std::string*> texts[] = {
      {"--soft", &arguments.soft},   {"--out", &arguments.out},
      {"--only", &arguments.only},   {"--folder", &arguments.folder},
      {"--check", &arguments.check}, {"--explained", &arguments.explained}};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    bool known = false;
    for (const auto& [name, target] : texts) {
      if (word != name || i + 1 >= argc) continue;
      *target = argv[++i];
      known = true;
      break;
    }
    if (known) continue;
    if (word == "--live") {
      arguments.live = true;
    } else if (word == "--list") {
      arguments.list = true;
    } else if (word == "--may-write-udev") {
      arguments.may_write_udev = true;
    } else if (word == "--compare") {
      i = take_files(argc, argv, i, arguments.compare);
    } else if (word == "--unconfirmed") {
      i = take_files(argc, argv, i, arguments.unconfirmed);
    } else if (word == "--answers") {
      i = take_files(argc, argv, i, arguments.answers);
    } else {
      std::fprintf(stderr, "`%s` is not understood\n%s", word.c_str(), usage);
      return std::nullopt;
    }
  }
  return arguments;
}

std::optional<std::string> text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    return std::nullopt;
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::optional<Answers> answers_in(const std::string& path) {
  const auto text = text_of(path);
  if (!text) return std::nullopt;
  auto answers = answers_from_json(*text, path);
  if (answers.ok()) return std::move(answers).value();
  std::fprintf(stderr, "%s\n", to_string(answers.error()).c_str());
  return std::nullopt;
}

std::optional<Machine> machine_in(const std::string& path) {
  const auto text = text_of(path);
  if (!text) return std::nullopt;
  auto machine = core::machine_from_text(*text, path);
  if (machine.ok()) return std::move(machine).value();
  std::fprintf(stderr, "%s\n", to_string(machine.error()).c_str());
  return std::nullopt;
}

std::string own_folder(const Arguments& arguments) {
  if (!arguments.folder.empty()) {
    std::filesystem::create_directories(arguments.folder);
    return arguments.folder;
  }
  std::string pattern =
      (std::filesystem::temp_directory_path() / "nobounce-conformance-XXXXXX").string();
  return ::mkdtemp(pattern.data()) == nullptr ? std::string(".") : pattern;
}

Answers ask(const Catalogue& catalogue, const Arguments& arguments, const Machine* soft) {
  RunOptions options;
  options.soft = soft;
  options.folder = own_folder(arguments);
  options.only = arguments.only;
  options.may_write_udev = arguments.may_write_udev;
  Answers answers = run_all(catalogue, options);
  if (arguments.folder.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(options.folder, ignored);
  }
  return answers;
}

int write_answers(const Answers& answers, const std::string& path) {
  std::size_t skipped = 0;
  std::size_t ended = 0;
  for (const conformance::Answer& answer : answers.sequences) {
    skipped += answer.skipped.empty() ? 0 : 1;
    if (!answer.lines.empty() && answer.lines.back().substr(0, 1) == "(") {
      ++ended;
      std::printf("%s %s\n", answer.name.c_str(), answer.lines.back().c_str());
    }
  }
  std::printf("%zu sequences, %zu skipped, %zu ended their process\n", answers.sequences.size(),
              skipped, ended);
  if (skipped == answers.sequences.size()) return std::puts("nothing was asked"), 1;
  if (path.empty()) return std::fputs(to_json(answers).c_str(), stdout) < 0 ? 1 : 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << to_json(answers);
  return file.flush() ? 0 : 1;
}

int compare_files(const std::vector<std::string>& files, const std::string& explained,
                  bool list_unconfirmed) {
  if (files.size() != 2) return std::fputs(usage, stderr), 2;
  const auto live = answers_in(files[0]);
  const auto soft = answers_in(files[1]);
  const auto why = explained.empty() ? std::optional<std::string>("") : text_of(explained);
  if (!live || !soft || !why) return 1;
  const Comparison comparison = compare(*live, *soft, *why);
  if (list_unconfirmed) {
    for (const std::string& name : unconfirmed(comparison, *live)) std::puts(name.c_str());
    return 0;
  }
  std::fputs(to_text(comparison).c_str(), stdout);
  const bool agree = comparison.unexplained() == 0 && comparison.stale.empty();
  return agree && !comparison.equal.empty() ? 0 : 1;
}

int check(const Catalogue& catalogue, const Arguments& arguments) {
  const auto machine = machine_in(arguments.check);
  const auto why =
      arguments.explained.empty() ? std::optional<std::string>("") : text_of(arguments.explained);
  if (!machine || !why) return 1;
  std::set<std::string> names;
  for (const Sequence& sequence : catalogue.sequences()) names.insert(sequence.name);
  if (names.size() != catalogue.sequences().size()) return std::puts("two have one name"), 1;
  if (names.size() < sequences_min) return std::printf("only %zu sequences\n", names.size()), 1;
  const Answers first = ask(catalogue, arguments, &*machine);
  if (arguments.answers.empty()) {  // fixed answers show a change from run to run as well
    const Answers second = ask(catalogue, arguments, &*machine);
    const Comparison repeated = compare(first, second, "");
    if (repeated.unexplained() > 0 || repeated.equal.empty()) {
      std::printf("the software machine does not answer twice alike\n%s",
                  to_text(repeated).c_str());
      return 1;
    }
  }
  int code = write_answers(first, arguments.out.empty() ? "/dev/null" : arguments.out);
  for (const conformance::Answer& answer : first.sequences) {
    if (!answer.lines.empty() && answer.lines.back().substr(0, 1) == "(") code = 1;
  }
  for (const std::string& path : arguments.answers) {
    const auto live = answers_in(path);
    if (!live) return 1;
    const Comparison comparison = compare(*live, first, *why);
    std::printf("against %s\n%s", path.c_str(), to_text(comparison).c_str());
    if (comparison.unexplained() > 0 || !comparison.stale.empty() || comparison.equal.empty()) {
      code = 1;
    }
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  const auto arguments = arguments_from(argc, argv);
  if (!arguments) return 2;
  if (!arguments->compare.empty()) {
    return compare_files(arguments->compare, arguments->explained, false);
  }
  if (!arguments->unconfirmed.empty()) {
    return compare_files(arguments->unconfirmed, arguments->explained, true);
  }
  const Catalogue catalogue = all_sequences();
  if (arguments->list) {
    for (const Sequence& sequence : catalogue.sequences()) std::puts(sequence.name.c_str());
    return 0;
  }
  if (!arguments->check.empty()) return check(catalogue, *arguments);
  if (arguments->live == !arguments->soft.empty()) return std::fputs(usage, stderr), 2;
  std::optional<Machine> machine;
  if (!arguments->soft.empty() && !(machine = machine_in(arguments->soft))) return 1;
  return write_answers(ask(catalogue, *arguments, machine ? &*machine : nullptr), arguments->out);
}
