// Kernel and modprobe messages of peer-memory modules that refuse to load.
#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

std::string_view peer_module_in(std::string_view text) {
  for (const std::string_view name :
       {"nvidia_peermem", "nvidia-peermem", "nv_peer_mem", "nv_mem"}) {
    const std::size_t at = text.find(name);
    if (at != std::string_view::npos) return text.substr(at, name.size());
  }
  return {};
}

class ModuleMessagesParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {"nvidia_peermem", "nvidia-peermem", "nv_peer_mem",
                                                 "nv_mem"};
    return {words, 0};
  }

  bool take(const Line& line) override {
    const std::string_view text = line.text;
    const std::string_view module = peer_module_in(text);
    if (module.empty()) return false;
    if (has(text, "disagrees about version of symbol")) {
      ensure(line, module);
      take_symbol(first_word(*after(text, "version of symbol")), line);
      return true;
    }
    if (has(text, "Unknown symbol")) {
      ensure(line, module);
      const std::string_view rest = *after(text, "Unknown symbol");
      take_symbol(first_word(rest), line);
      if (const auto error = signed_number(after(rest, "(err ").value_or("")); error.has_value())
        set_fact(facts(), "err", *error);
      return true;
    }
    const std::string lowered = lower(text);
    const bool refused = has(lowered, "could not insert") || has(lowered, "failed to load") ||
                         has(lowered, "init failed") || has(lowered, "modprobe: fatal") ||
                         has(lowered, "failed to insert") || has(lowered, "not found in directory");
    if (!refused) return false;
    ensure(line, module);
    leave(line);
    return true;
  }

  void end() override { close(); }

 private:
  void ensure(const Line& line, std::string_view module) {
    if (!near(line, 40)) open("dmesg_peermem", line);
    reach(line);
    if (fact(facts(), "module") == nullptr) {
      std::string name(module);
      for (char& c : name) {
        if (c == '-') c = '_';
      }
      set_fact(facts(), "module", name);
    }
  }

  void take_symbol(std::string_view symbol, const Line& line) {
    add_item(facts(), "symbols_mismatched", symbol);
    if (starts(symbol, "nvidia_")) add_item(facts(), "sides", "nvidia driver");
    if (starts(symbol, "ib_")) add_item(facts(), "sides", "ib_core");
    leave(line);
  }

  void leave(const Line& line) {
    const core::Json* module = fact(facts(), "module");
    sign(core::SignKind::module_refused, line, "", "",
         module != nullptr && module->as_text() != nullptr ? *module->as_text() : "");
  }
};

}  // namespace

std::unique_ptr<Parser> module_messages_parser(Sink& sink) {
  return std::make_unique<ModuleMessagesParser>(sink);
}

}  // namespace nobounce::captures
