// `gds_stats`: libcufile's own statistics of a process, which tell direct from POSIX operations.
#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

class GdsStatsParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {"cuFile STATS VERSION", "Read: ", "Write: "};
    return {words, 8};
  }

  bool take(const Line& line) override {
    const std::string_view text = trim(line.text);
    if (has(text, "cuFile STATS VERSION")) {
      open("gds_stats", line);
      return true;
    }
    // `GPU 0 Read: bw=1.2 util(%)=99 n=53440 posix=0 unalign=0 dr=0 .. MiB=52 Write: ..`
    if (starts(text, "GPU ") && (has(text, "Read: ") || has(text, "Write: ")) && has(text, " n="))
      return take_gpu(text, line);
    if (!near(line, 8)) return false;
    for (const std::string_view word :
         {"GLOBAL STATS", "READ-WRITE SIZE", "PER_GPU STATS", "Total ", "GDS ", "PER_GPU POOL",
          "Read", "Write", "Handle", "Batch"}) {
      if (!starts(text, word)) continue;
      reach(line);
      return true;
    }
    return false;
  }

  void end() override { close(); }

 private:
  bool take_gpu(std::string_view text, const Line& line) {
    const auto index = whole_number(text.substr(4));
    if (!index.has_value() || *index > 1024) return false;
    if (!near(line, 40)) open("gds_stats", line);
    reach(line);
    const std::string gpu = "GPU" + std::to_string(*index);
    const std::size_t write = text.find("Write:");
    const std::string_view reads = has(text, "Read:") ? text.substr(0, write) : std::string_view();
    leave(gpu, "read", reads, line);
    if (write != std::string_view::npos)
      leave(gpu, "write", before(text.substr(write), "BufRegister"), line);
    return true;
  }

  void leave(const std::string& gpu, const char* direction, std::string_view text,
             const Line& line) {
    const auto operations = number_after(text, " n=");
    if (!operations.has_value()) return;
    const std::uint64_t posix = number_after(text, " posix=").value_or(0);
    const std::uint64_t unaligned = number_after(text, " unalign=").value_or(0);
    set_entry(facts(), "operations", gpu + " " + direction, *operations);
    set_entry(facts(), "posix_operations", gpu + " " + direction, posix);
    if (unaligned > 0) set_entry(facts(), "unaligned", gpu + " " + direction, unaligned);
    if (!has(text, " posix=") || *operations == 0) return;
    const auto leave_sign = [&](core::SignKind kind, std::uint64_t count) {
      core::CaptureSign one;
      one.kind = kind;
      one.source = gpu;
      one.direction = direction;
      one.word = "statistics";
      one.value = static_cast<double>(count);
      one.lines.push_back(evidence(line));
      sign(std::move(one));
    };
    if (posix > 0) leave_sign(core::SignKind::storage_posix, posix);
    if (*operations > posix) leave_sign(core::SignKind::storage_direct, *operations - posix);
  }
};

}  // namespace

std::unique_ptr<Parser> gds_stats_parser(Sink& sink) {
  return std::make_unique<GdsStatsParser>(sink);
}

}  // namespace nobounce::captures
