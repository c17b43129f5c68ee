// `lsmod` and /proc/modules: which modules are loaded, and who uses them.
#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

class LsmodParser : public Parser {
 public:
  using Parser::Parser;

  /// Rows have no word in common.
  [[nodiscard]] Vocabulary vocabulary() const override { return {}; }

  bool take(const Line& line) override {
    const std::string_view text = trim(line.text);
    if (starts(text, "Module") && has(text, "Size") && has(text, "Used by")) {
      ensure(line);
      whole_ = true;
      return true;
    }
    if (text.empty() || !(text.front() >= 'a' && text.front() <= 'z')) return false;
    if (!may_be_row(text)) return false;
    const std::vector<std::string_view> words = words_of(text.substr(0, 400));
    if (words.size() < 3 || words.size() > 9 || (words.size() > 4 && !has(text, "Live")))
      return false;
    for (const char c : words[0]) {
      if (!is_name(c) && c != '-') return false;
    }
    const auto number = [](std::string_view word) {
      return word.find_first_not_of("0123456789") == std::string_view::npos ? whole_number(word)
                                                                            : std::nullopt;
    };
    const auto size = number(words[1]);
    const auto users = number(words[2]);
    if (!size.has_value() || !users.has_value() || *size < 1024) return false;
    ensure(line);
    leave(std::string(words[0]), *users, words.size() > 3 ? words[3] : std::string_view(), line);
    return true;
  }

  void end() override {
    finish();
    close();
  }

 private:
  /// Whether two numbers follow the first word, which most lines of other texts have not.
  static bool may_be_row(std::string_view text) {
    std::size_t at = 0;
    const auto skip = [&](bool (*is)(char)) {
      const std::size_t begin = at;
      while (at < text.size() && is(text[at])) ++at;
      return at > begin;
    };
    return skip([](char c) { return is_name(c) || c == '-'; }) && skip(is_blank) &&
           skip(is_digit) && skip(is_blank) && skip(is_digit);
  }

  void ensure(const Line& line) {
    if (!near(line, 3)) {
      finish();
      open("lsmod", line);
      whole_ = false;
      seen_ = 0;
      peer_ = file_system_ = false;
      first_ = evidence(line);
    }
    reach(line);
  }

  void leave(const std::string& name, std::uint64_t users, std::string_view by, const Line& line) {
    ++seen_;
    add_item(facts(), "modules_loaded", name);
    sign(core::SignKind::module_loaded, line, "", "", name, static_cast<double>(users));
    if (name == "nvidia_peermem" || name == "nv_peer_mem") {
      peer_ = true;
      set_fact(facts(), "peermem_users", users);
    }
    if (name == "nvidia_fs") {
      file_system_ = true;
      set_fact(facts(), "nvidia_fs_users", users);
      if (users == 0) sign(core::SignKind::module_without_users, line, "", "", name);
      for (const std::string_view user : split(by, ',')) {
        if (!user.empty() && user != "-")
          sign(core::SignKind::driver_registered, line, "", "", std::string(user));
      }
    }
  }

  /// Only a whole list shows that a module is absent.
  void finish() {
    if (!is_open() || seen_ == 0) return;
    if (whole_ && seen_ > 20) {
      for (const auto& [name, there] :
           {std::pair{"nvidia_peermem", peer_}, std::pair{"nvidia_fs", file_system_}}) {
        if (there) continue;
        core::CaptureSign one;
        one.kind = core::SignKind::module_absent;
        one.word = name;
        one.lines.push_back(first_);
        sign(std::move(one));
        add_item(facts(), "modules_absent", name);
      }
    }
    seen_ = 0;
  }

  core::TextLine first_;
  std::uint64_t seen_ = 0;
  bool whole_ = false;
  bool peer_ = false;
  bool file_system_ = false;
};

}  // namespace

std::unique_ptr<Parser> lsmod_parser(Sink& sink) {
  return std::make_unique<LsmodParser>(sink);
}

}  // namespace nobounce::captures
