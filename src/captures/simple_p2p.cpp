// simpleP2P and small checks of one's own: can a pair, and what did the owner of the memory see.
#include <map>

#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

struct OwnerCheck {
  std::string node;
  std::string pair;
  std::string writer;
  std::string owner;
  core::TextLine writer_line;
  core::TextLine owner_line;
};

class SimpleP2pParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {"Peer access from ",
                                                 "CanAccessPeer(",
                                                 "writer read-back",
                                                 "owner local read",
                                                 "[simpleP2P]",
                                                 "CUDA-capable device count:",
                                                 "Enabling peer access between GPU"};
    return {words, 40};
  }

  bool take(const Line& line) override {
    const std::string_view text = trim(line.text);
    return take_access(text, line) || take_owner(text, line) || take_sample(text, line);
  }

  void end() override {
    finish();
    close();
  }

 private:
  void ensure(const Line& line) {
    if (!near(line, 60)) {
      finish();
      open("simple_p2p", line);
    }
    reach(line);
  }

  /// `Peer access from NVIDIA GeForce RTX 3090 (GPU0) -> NVIDIA GeForce RTX 3090 (GPU1) : Yes`,
  /// `cudaDeviceCanAccessPeer(0,1)=1`.
  bool take_access(std::string_view text, const Line& line) {
    if (const auto rest = after(text, "Peer access from "); rest.has_value() && has(*rest, "->")) {
      const std::string_view first = before(*rest, "->");
      const std::string_view second = *after(*rest, "->");
      const auto source = number_after(first, "(GPU");
      const auto target = number_after(second, "(GPU");
      const auto answer = after(second, ":");
      if (!source.has_value() || !target.has_value() || !answer.has_value() || *source > 255 ||
          *target > 255)
        return false;
      ensure(line);
      name(*source, trim(before(first, "(GPU")), line);
      name(*target, trim(before(second, "(GPU")), line);
      access(*source, *target, starts(trim(*answer), "Yes"), line);
      return true;
    }
    bool any = false;
    std::string_view rest = text;
    while (true) {
      const auto call = after(rest, "CanAccessPeer(");
      if (!call.has_value()) return any;
      rest = *call;
      const auto source = whole_number(before(rest, ","));
      const auto target = whole_number(after(before(rest, ")"), ",").value_or(""));
      const auto answer =
          whole_number(after(rest, ")=").value_or(after(rest, ") = ").value_or("")));
      if (!source.has_value() || !target.has_value() || !answer.has_value() || *source > 255 ||
          *target > 255)
        return any;
      ensure(line);
      access(*source, *target, *answer != 0, line);
      any = true;
    }
  }

  void name(std::uint64_t index, std::string_view product, const Line& line) {
    const std::string gpu = "GPU" + std::to_string(index);
    gpus_ = std::max(gpus_, index + 1);
    set_fact(facts(), "gpus", gpus_);
    const core::Json* held = fact(facts(), "products");
    if (held != nullptr && held->find(gpu) != nullptr) return;
    set_entry(facts(), "products", gpu, product);
    sign(core::SignKind::product, line, gpu, "", std::string(product));
  }

  void access(std::uint64_t source, std::uint64_t target, bool can, const Line& line) {
    const std::string first = "GPU" + std::to_string(source);
    const std::string second = "GPU" + std::to_string(target);
    set_entry(facts(), "can_access", first + "-" + second, can);
    sign(core::SignKind::peer_access, line, first, second, "", can ? 1 : 0);
  }

  /// `dir 1->0  writer read-back: 5eed1234 0badf00d`, `dir 1->0  owner local read:  00000000 ..`.
  bool take_owner(std::string_view text, const Line& line) {
    const bool writer = has(text, "writer read-back");
    const bool owner = has(text, "owner local read");
    if (!writer && !owner) return false;
    const auto direction = after(text, "dir ");
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) return false;
    ensure(line);
    if (line.open) return true;  // the values may go on
    std::string pair(direction.has_value() ? first_word(*direction) : std::string_view());
    std::string values;
    for (const std::string_view word : words_of(text.substr(colon + 1)))
      values += (values.empty() ? "" : " ") + std::string(word);
    const std::string key = std::string(line.node) + '|' + pair;
    if (checks_.size() > 4096 && checks_.count(key) == 0) return true;
    OwnerCheck& check = checks_[key];
    // Said before: another run, or another node.
    if (!(writer ? check.writer : check.owner).empty()) {
      leave_owner(check);
      check = {};
    }
    check.node = std::string(line.node);
    check.pair = std::move(pair);
    (writer ? check.writer : check.owner) = values;
    (writer ? check.writer_line : check.owner_line) = evidence(line);
    return true;
  }

  bool take_sample(std::string_view text, const Line& line) {
    if (starts(text, "[simpleP2P]") || (has(text, "CUDA-capable device count:"))) {
      ensure(line);
      if (good_ || bad_) begin_run();
      if (const auto count = number_after(text, "count:"); count.has_value()) {
        gpus_ = *count;
        set_fact(facts(), "gpus", *count);
      }
      return true;
    }
    if (has(text, "Enabling peer access between GPU")) {
      ensure(line);
      const auto first = number_after(text, "between GPU");
      const auto second = number_after(text, "and GPU");
      if (first.has_value() && second.has_value() && *first < 256 && *second < 256)
        enabled_ = {"GPU" + std::to_string(*first), "GPU" + std::to_string(*second)};
      enabled_line_ = evidence(line);
      return true;
    }
    if (!near(line, 40)) return false;
    if (has(text, "Run kernel on GPU")) {
      reach(line);
      kernel_ = true;
      return true;
    }
    if (has(text, "Verification error")) {
      ensure(line);
      leave_result(false, line);
      return true;
    }
    if (has(text, "Test passed") || text == "Test failed!") {
      ensure(line);
      // The sample's kernels read the peer's memory, and the result is compared.
      if (has(text, "Test passed") && kernel_) leave_result(true, line);
      return true;
    }
    for (const std::string_view word :
         {"Checking ", "Allocating buffers", "Creating event", "cudaMemcpyPeer",
          "Preparing host buffer", "Copy data back", "Disabling peer access", "Shutting down"}) {
      if (!starts(text, word)) continue;
      reach(line);
      return true;
    }
    return false;
  }

  void leave_result(bool good, const Line& line) {
    // A failure after a success of the same run is said too.
    if (bad_ || (good && (good_ || enabled_.first.empty()))) return;
    (good ? good_ : bad_) = true;
    core::CaptureSign one;
    one.kind = good ? core::SignKind::peer_data_good : core::SignKind::peer_data_bad;
    one.source = enabled_.first;
    one.target = enabled_.second;
    one.direction = "both";
    one.lines.push_back(evidence(line));
    if (!enabled_line_.text.empty()) one.lines.push_back(enabled_line_);
    sign(std::move(one));
  }

  void leave_owner(const OwnerCheck& check) {
    if (check.owner.empty()) return;
    const std::string& pair = check.pair;
    const std::size_t arrow = pair.find("->");
    core::CaptureSign one;
    one.host = check.node;
    if (arrow != std::string::npos) {
      one.source = "GPU" + pair.substr(0, arrow);
      one.target = "GPU" + pair.substr(arrow + 2);
    }
    if (check.writer.empty()) return;  // nobody says what should be there
    const bool same = check.owner == check.writer;
    const bool zeros = check.owner.find_first_not_of("0 x") == std::string::npos;
    set_fact(facts(), "writer_sees_pattern",
             check.writer.find_first_not_of("0 x") != std::string::npos);
    set_fact(facts(), "owner_sees_pattern", same && !zeros);
    if (same && zeros) return;
    one.kind = same ? core::SignKind::peer_data_good : core::SignKind::peer_data_bad;
    one.lines = {check.owner_line, check.writer_line};
    sign(std::move(one));
  }

  void finish() {
    if (is_open()) {
      for (const auto& [key, check] : checks_) leave_owner(check);
    }
    checks_.clear();
    enabled_ = {};
    enabled_line_ = {};
    gpus_ = 0;
    good_ = bad_ = kernel_ = false;
  }

  /// What the run before this one said stays said.
  void begin_run() {
    enabled_ = {};
    enabled_line_ = {};
    good_ = bad_ = kernel_ = false;
  }

  std::map<std::string, OwnerCheck> checks_;
  std::pair<std::string, std::string> enabled_;
  core::TextLine enabled_line_;
  std::uint64_t gpus_ = 0;
  bool good_ = false;
  bool bad_ = false;
  bool kernel_ = false;
};

}  // namespace

std::unique_ptr<Parser> simple_p2p_parser(Sink& sink) {
  return std::make_unique<SimpleP2pParser>(sink);
}

}  // namespace nobounce::captures
