// perftest (ib_write_bw and the others): whether GPU memory took part, by which route, how fast.
#include "captures/device_names.hpp"
#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

struct PerftestRun {
  std::optional<core::TextLine> buffer;  ///< GPU memory was allocated
  std::optional<core::TextLine> failed;
  std::string failure;
  std::string gpu;  ///< GPU1
  std::string product;
  std::string route;
  std::string adapter;
  bool from_its_start = false;  ///< nothing that was printed before its table is missing
  bool asks_for_gpu = false;    ///< on the command line
  bool host_buffer = false;     ///< memory of the host was allocated by CUDA
  bool titled = false;
  bool headed = false;
  std::optional<double> rate;  ///< MB/s
  core::TextLine result;
};

class PerftestParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {"ib_write_bw",
                                                 "ib_read_bw",
                                                 "ib_send_bw",
                                                 "ib_write_lat",
                                                 "ib_read_lat",
                                                 "ib_send_lat",
                                                 "initializing CUDA",
                                                 "Listing all CUDA devices",
                                                 "Perftest doesn't supports CUDA",
                                                 "Picking device No. ",
                                                 "device name = [",
                                                 "Using ROCm Device with ID:",
                                                 "cuMemAlloc()",
                                                 "GPU buffer",
                                                 "ibv_reg_dmabuf_mr",
                                                 "dmabuf export",
                                                 "CUDA device ",
                                                 "creating CUDA Ctx",
                                                 "making it the current CUDA Ctx",
                                                 " BW Test",
                                                 " Latency Test",
                                                 "#bytes",
                                                 "Failed status ",
                                                 "Couldn't allocate MR",
                                                 "failed to create mr",
                                                 "Failed to create MR"};
    return {words, 40};
  }

  bool take(const Line& line) override {
    const std::string_view text = trim(line.text);
    if (text.empty()) return false;
    return take_command(text, line) || take_gpu(text, line) || take_title(text, line) ||
           take_failure(text, line) || take_row(text, line);
  }

  void end() override {
    finish_run();
    finish();
    close();
  }

 private:
  void ensure(const Line& line) {
    if (!near(line, 80)) {
      finish_run();
      finish();
      open("perftest", line);
    }
    reach(line);
  }

  static bool is_command(std::string_view text) {
    for (const std::string_view tool : {"ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat",
                                        "ib_read_lat", "ib_send_lat"}) {
      if (has(text, tool)) return true;
    }
    return false;
  }

  /// A command line as it was typed, and no sentence about it.
  static bool starts_run(std::string_view text) {
    const std::size_t at = text.find("ib_");
    std::string_view rest = text.substr(at);
    rest.remove_prefix(first_word(rest).size());
    rest = trim(rest);
    const std::string_view before = trim(text.substr(0, at));
    const bool prompt = before.empty() || before.back() == '$' || before.back() == '#' ||
                        before.back() == '>' || before.back() == '/';
    return rest.empty() || rest.front() == '-' || (prompt && words_of(rest).size() == 1) ||
           has(rest, " -");
  }

  bool take_command(std::string_view text, const Line& line) {
    if (!is_command(text)) return false;
    ensure(line);
    finish_run();
    run_.from_its_start = starts_run(text);
    run_.asks_for_gpu = has(text, "--use_cuda") || has(text, "--use_rocm");
    if (const auto device = after(text, "-d "); device.has_value())
      run_.adapter = std::string(first_word(*device));
    for (const std::string_view option :
         {"--use_cuda=", "--use_cuda ", "--use_rocm=", "--use_rocm "}) {
      if (const auto number = number_after(text, option); number.has_value() && *number < 1024)
        run_.gpu = "GPU" + std::to_string(*number);
    }
    return true;
  }

  bool take_gpu(std::string_view text, const Line& line) {
    if (starts(text, "initializing CUDA") || starts(text, "Listing all CUDA devices") ||
        starts(text, "Perftest doesn't supports CUDA")) {
      ensure(line);
      if (run_.rate.has_value()) finish_run();
      return true;
    }
    if (const auto number = number_after(text, "Picking device No. "); number.has_value()) {
      ensure(line);
      if (*number < 1024) run_.gpu = "GPU" + std::to_string(*number);
      return true;
    }
    if (const auto name = after(text, "device name = ["); name.has_value()) {
      ensure(line);
      run_.product = std::string(until(*name, "]"));
      return true;
    }
    if (starts(text, "Using ROCm Device with ID:")) {
      ensure(line);
      if (run_.rate.has_value()) finish_run();
      if (const auto number = number_after(text, "ID:"); number.has_value() && *number < 1024)
        run_.gpu = "GPU" + std::to_string(*number);
      run_.product = std::string(trim(until(after(text, "Name:").value_or(""), ",")));
      return true;
    }
    return take_buffer(text, line);
  }

  bool take_buffer(std::string_view text, const Line& line) {
    if (const auto bytes = number_after(text, "cuMemAlloc() of a "); bytes.has_value()) {
      ensure(line);
      set_fact(facts(), "buffer_bytes", *bytes);
      return true;
    }
    const bool allocated = starts(text, "allocated ") && has(text, "GPU buffer");
    // Managed and host memory of CUDA is no GPU memory to an adapter.
    if (allocated && has(text, "CUDA_MEM_") && !has(text, "CUDA_MEM_DEVICE")) {
      ensure(line);
      run_.host_buffer = true;
      return true;
    }
    if (allocated) {
      ensure(line);
      if (const auto bytes = whole_number(text.substr(10)); bytes.has_value())
        set_fact(facts(), "buffer_bytes", *bytes);
      run_.buffer = evidence(line);
      return true;
    }
    if (has(text, "ibv_reg_dmabuf_mr") || has(text, "using DMA-BUF for GPU buffer")) {
      if (has(text, "failed")) return false;
      ensure(line);
      run_.route = "dma-buf";
      return true;
    }
    for (const std::string_view word : {"dmabuf export", "CUDA device ", "creating CUDA Ctx",
                                        "making it the current CUDA Ctx", "cuMemAlloc()"}) {
      if (!starts(text, word)) continue;
      ensure(line);
      return true;
    }
    return false;
  }

  bool take_title(std::string_view text, const Line& line) {
    const bool title = (has(text, " BW Test") || has(text, " Latency Test")) &&
                       (has(text, "RDMA_") || has(text, "Send ") || has(text, "Write") ||
                        has(text, "Read") || has(text, "Atomic"));
    if (title) {
      ensure(line);
      // Another run: what was allocated before is none of its memory.
      if (run_.rate.has_value() || run_.titled) {
        finish_run();
        run_.from_its_start = true;  // what it printed would stand between
      }
      run_.titled = true;
      return true;
    }
    if (const auto device = after(text, "Device         :"); device.has_value() && near(line, 20)) {
      reach(line);
      run_.adapter = std::string(first_word(*device));
      return true;
    }
    if (starts(text, "#bytes")) {
      ensure(line);
      if (run_.headed) finish_run();
      run_.headed = true;
      gigabits_ = has(text, "[Gb/sec]");
      latency_ = has(text, "usec");
      row_line_ = line.number;
      return true;
    }
    if (!near(line, 3)) return false;
    if (text.find_first_not_of('-') == std::string_view::npos && text.size() > 10) {
      reach(line);
      return true;
    }
    for (const std::string_view word :
         {"Dual-port", "Number of qps", "Connection type", "PCIe relax", "ibv_wr", "TX depth",
          "CQ Moderation", "Mtu", "Link type", "Max inline", "rdma_cm", "Data ex", "local address",
          "remote address", "GID", "RDMA", "Using", "GID index"}) {
      if (!starts(text, word)) continue;
      reach(line);
      return true;
    }
    return false;
  }

  bool take_failure(std::string_view text, const Line& line) {
    const auto status = number_after(text, "Failed status ");
    if (status.has_value()) {
      ensure(line);
      const std::string_view syndrome = after(text, "syndrom ").value_or("");
      set_fact(facts(), "wc_status", *status);
      const auto vendor = hex_number(syndrome);
      if (vendor.has_value()) set_fact(facts(), "vendor_err", *vendor);
      core::CaptureSign one;
      one.kind = core::SignKind::net_error;
      one.source = run_.gpu;
      one.target = run_.adapter;
      one.other = "perftest";
      one.value = static_cast<double>(*status);
      one.second = static_cast<double>(vendor.value_or(0));
      one.lines.push_back(evidence(line));
      sign(std::move(one));
      run_.failed = evidence(line);
      run_.failure = "completion";
      return true;
    }
    if (has(text, "Couldn't allocate MR") || has(text, "failed to create mr") ||
        has(text, "Failed to create MR")) {
      ensure(line);
      if (!run_.failed.has_value()) run_.failed = evidence(line);
      if (run_.failure.empty()) run_.failure = "registration";
      if (has(text, "error=93")) run_.failure = "dmabuf";
      return true;
    }
    if (!run_.failed.has_value() || !near(line, 6)) return false;
    if (has(text, "Protocol not supported") || has(text, "EPROTONOSUPPORT"))
      run_.failure = "dmabuf";
    if (starts(text, "ERRNO") || has(text, "Failed to initialize")) {
      reach(line);
      return true;
    }
    return false;
  }

  /// ` 65536      5000             10688.31            10671.94             0.170751`
  bool take_row(std::string_view text, const Line& line) {
    if (row_line_ == 0 || line.number > row_line_ + 40 || !is_digit(text.front())) return false;
    const std::vector<std::string_view> words = words_of(text);
    if (words.size() < 4) return false;
    for (const std::string_view word : words) {
      if (word.find_first_not_of("0123456789.") != std::string_view::npos) return false;
    }
    const auto rate = real_number(words[3]);
    if (!rate.has_value()) return false;
    reach(line);
    // No iteration: nothing travelled.
    if (whole_number(words[1]).value_or(0) == 0 || (*rate <= 0 && !latency_)) return true;
    if (line.open && words.size() == 4) return true;  // the number may go on
    run_.result = evidence(line);
    run_.rate = latency_ ? 0 : gigabits_ ? *rate * 1000 / 8 : *rate;
    shown_ = *rate;
    return true;
  }

  void finish_run() {
    const PerftestRun run = std::move(run_);
    run_ = {};
    row_line_ = 0;
    if (!is_open()) return;
    if (!run.rate.has_value() && !run.failed.has_value()) return;
    if (!run.adapter.empty()) set_fact(facts(), "nic", run.adapter);
    if (!run.product.empty()) set_fact(facts(), "gpu", run.product);
    if (!run.route.empty()) set_fact(facts(), "route", run.route);
    if (run.rate.has_value() && !latency_)
      set_fact(facts(),
               gigabits_                ? "gbps"
               : run.buffer.has_value() ? "gpu_mb_s"
                                        : "host_mb_s",
               shown_);
    if (runs_.size() < 256) runs_.push_back(run);
  }

  void finish() {
    for (const PerftestRun& run : runs_) leave(run);
    runs_.clear();
  }

  /// Known to be so; that lines about GPU memory are missing shows nothing by itself.
  static bool in_host_memory(const PerftestRun& run) {
    return !run.buffer.has_value() &&
           (run.host_buffer || (run.from_its_start && !run.asks_for_gpu && run.gpu.empty()));
  }

  void leave(const PerftestRun& run) {
    core::CaptureSign one;
    one.source = run.gpu.empty() ? "GPU" : run.gpu;
    one.target = run.adapter;
    one.word = run.route;
    if (run.failed.has_value()) {
      if (run.failure == "completion") return;
      one.kind = core::SignKind::registration_failed;
      one.word = run.failure == "dmabuf" ? "dmabuf" : "perftest";
      one.lines.push_back(*run.failed);
      if (run.buffer.has_value()) one.lines.push_back(*run.buffer);
      if (!run.buffer.has_value() && run.gpu.empty()) return;  // host memory
    } else if (run.buffer.has_value()) {
      one.kind = core::SignKind::buffer_registered;
      one.value = run.rate.value_or(0);
      one.lines = {run.result, *run.buffer};
      for (const PerftestRun& other : runs_) {
        if (other.failed.has_value() || other.adapter != run.adapter || !in_host_memory(other))
          continue;
        one.second = other.rate.value_or(0);
        one.lines.push_back(other.result);
      }
    } else {
      one.kind = core::SignKind::host_memory_run;
      one.value = run.rate.value_or(0);
      one.source.clear();
      one.word = in_host_memory(run) ? "host" : run.asks_for_gpu ? "asked" : "";
      one.lines.push_back(run.result);
    }
    sign(std::move(one));
  }

  PerftestRun run_;
  std::vector<PerftestRun> runs_;
  std::uint64_t row_line_ = 0;
  double shown_ = 0;
  bool gigabits_ = false;
  bool latency_ = false;
};

}  // namespace

std::unique_ptr<Parser> perftest_parser(Sink& sink) {
  return std::make_unique<PerftestParser>(sink);
}

}  // namespace nobounce::captures
