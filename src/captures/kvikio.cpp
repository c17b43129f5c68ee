// KvikIO, and libcudf over it: whether files are read by POSIX calls (compatibility mode).
#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

class KvikioParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {" compat mode", "GDS driver", "using kvikIO"};
    return {words, 0};
  }

  bool take(const Line& line) override {
    const std::string_view text = trim(line.text);
    // `WARNING - KvikIO compat mode`, `WARNING - cuFile compat mode`.
    if (starts(text, "WARNING - ") && ends(text, " compat mode")) return staged(line);
    // `GDS driver        | N/A (Compatibility Mode)`, `GDS driver        | v2.17`.
    if (starts(text, "GDS driver") && has(text, "|")) {
      if (has(text, "Compatibility Mode")) return staged(line);
      ensure(line);
      set_fact(facts(), "gds_driver", trim(*after(text, "|")));
      return true;
    }
    // libcudf: `Reading a file using kvikIO, with compatibility mode on.`
    if (has(text, "using kvikIO, with compatibility mode on")) return staged(line);
    return false;
  }

  void end() override { close(); }

 private:
  void ensure(const Line& line) {
    if (!near(line, 60)) open("kvikio", line);
    reach(line);
  }

  bool staged(const Line& line) {
    ensure(line);
    set_fact(facts(), "compat_mode", true);
    sign(core::SignKind::storage_posix, line, "", "", "kvikio");
    return true;
  }
};

}  // namespace

std::unique_ptr<Parser> kvikio_parser(Sink& sink) {
  return std::make_unique<KvikioParser>(sink);
}

}  // namespace nobounce::captures
