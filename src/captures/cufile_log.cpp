// cufile.log: what libcufile did with a file, and why. Numbers behind the module differ by version,
// so only the words count.
#include <array>

#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

/// Words that name a reason, and its cause.
struct CufileReason {
  std::string_view words;
  std::string_view cause;
};
constexpr std::array cufile_reasons = {
    CufileReason{"Driver not registered with nvidia-fs", "storage.driver_not_registered"},
    CufileReason{"nvidia-fs.ko driver not loaded", "storage.nvidia_fs_absent"},
    CufileReason{"nvidia-fs driver is not loaded", "storage.nvidia_fs_absent"},
    CufileReason{"Unsupported block device", "storage.block_device_unsupported"},
    CufileReason{"udev property not found", "storage.block_device_unsupported"},
    CufileReason{"error creating udev_device", "storage.udev_missing"},
    CufileReason{"mount options not specified", "storage.mount_options"},
    CufileReason{"Unsupported file system", "storage.filesystem_unsupported"},
    CufileReason{"unsupported filesystem", "storage.filesystem_unsupported"},
    CufileReason{"File system not supported", "storage.filesystem_unsupported"},
    CufileReason{"ext4 journal mode", "storage.mount_options"},
    CufileReason{"Failed to get cuda p2p device address", "storage.p2pdma_off"},
    CufileReason{"pci_p2pdma not supported", "storage.p2pdma_off"},
    CufileReason{"O_DIRECT not supported", "storage.direct_io_refused"},
    CufileReason{"opened without O_DIRECT", "storage.direct_io_refused"}};

class CufileLogParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {"[pid=",   " cufio", " cufile",
                                                 " curdma", " 0:",    "posix="};
    return {words, 0};
  }

  bool take(const Line& line) override {
    const std::string_view text = line.text;
    const bool marked = is_marked(text);
    if (!marked && !has(text, "posix=")) return false;
    if (take_device(text, line)) return true;
    if (has(text, "Inc-bar-usage failed")) return take_window(text, line);
    if (take_path(text, line)) return true;
    for (const CufileReason& reason : cufile_reasons) {
      if (!has(text, reason.words)) continue;
      ensure(line);
      core::CaptureSign one;
      one.kind = core::SignKind::storage_obstacle;
      one.word = std::string(reason.cause);
      one.source = device_in(text);
      // Major number 0: there is no block device below it, which udev could know.
      if (reason.cause == "storage.udev_missing" && starts(one.source, "0:"))
        one.word = "storage.filesystem_unsupported";
      one.other = process_in(text);
      if (!one.source.empty()) add_item(facts(), "devices", one.source);
      one.lines.push_back(evidence(line));
      sign(std::move(one));
      return true;
    }
    if (!marked) return false;
    ensure(line);
    return true;
  }

  void end() override { close(); }

 private:
  /// `[pid=1 tid=2] ERROR  cufio-fs:204`, or what is left of it.
  static bool is_marked(std::string_view text) {
    if (has(text, "[pid=") && has(text, "tid=")) return true;
    for (const std::string_view module : {" cufio", " cufile", " curdma", " 0:"}) {
      const std::size_t at = text.find(module);
      if (at == std::string_view::npos) continue;
      const std::string_view front = trim(text.substr(0, at));
      for (const std::string_view level : {"ERROR", "WARN", "NOTICE", "INFO", "DEBUG", "TRACE"}) {
        if (ends(front, level)) return true;
      }
    }
    return false;
  }

  void ensure(const Line& line) {
    if (!is_open()) open("cufile_log", line);
    reach(line);
  }

  static std::string process_in(std::string_view text) {
    const auto rest = after(text, "[pid=");
    return rest.has_value() ? std::string(until(*rest, " ]")) : std::string();
  }

  static std::string device_in(std::string_view text) {
    if (const auto rest = after(text, "dev_no: "); rest.has_value())
      return std::string(first_word(*rest));
    const std::size_t at = text.find("/dev/");
    if (at != std::string_view::npos) return std::string(until(text.substr(at), " ,;\t"));
    if (const std::size_t dm = text.find("dm-"); dm != std::string_view::npos)
      return "/dev/" + std::string(until(text.substr(dm), " ,;\t"));
    return {};
  }

  bool take_device(std::string_view text, const Line& line) {
    const auto rest = after(text, "dumping volume attributes:");
    if (!rest.has_value()) return false;
    ensure(line);
    for (const std::string_view part : split(*rest, ',')) {
      const std::size_t colon = part.find(':');
      if (colon == std::string_view::npos) continue;
      const std::string_view key = trim(part.substr(0, colon));
      const std::string_view value = trim(part.substr(colon + 1));
      if (key == "DEVNAME") set_fact(facts(), "device", value);
      if (key == "ID_FS_TYPE") set_fact(facts(), "fs", value);
      if (key == "ext4_journal_mode") set_fact(facts(), "journal_mode", value);
      if (key == "numa_node") {
        if (const auto node = signed_number(value); node.has_value())
          set_fact(facts(), "numa_node", *node);
      }
    }
    return true;
  }

  bool take_window(std::string_view text, const Line& line) {
    ensure(line);
    const auto asked = number_after(text, " size ");
    const auto left = number_after(text, "remaining bytes ");
    core::CaptureSign one;
    one.kind = core::SignKind::window_exhausted;
    if (asked.has_value()) set_fact(facts(), "requested_bytes", *asked);
    if (left.has_value()) set_fact(facts(), "remaining_bytes", *left);
    one.value = static_cast<double>(asked.value_or(0));
    one.second = static_cast<double>(left.value_or(0));
    one.lines.push_back(evidence(line));
    sign(std::move(one));
    return true;
  }

  /// A line that names a path, and says that it was not gone, or not to the end.
  static bool is_failure(std::string_view text) {
    for (const std::string_view level : {"ERROR ", "WARN "}) {
      if (has(text, level)) return true;
    }
    const std::string lowered = lower(text);
    for (const std::string_view word : {"fail", "error", "fall", " not ", "taken:", "unable"}) {
      if (has(lowered, word)) return true;
    }
    // A negative number: what a call answers that was refused.
    for (std::size_t at = lowered.find('-'); at != std::string::npos;
         at = lowered.find('-', at + 1)) {
      if (at > 0 && at + 1 < lowered.size() && (lowered[at - 1] == ' ' || lowered[at - 1] == '=') &&
          is_digit(lowered[at + 1]))
        return true;
    }
    return false;
  }

  /// An error of a read or a write, and not of a device, a file or a setting.
  static bool is_failed_request(std::string_view text) {
    if (!has(text, "ERROR ")) return false;
    for (const std::string_view words :
         {"nvfs_io", "io_submit", "cuFileRead", "cuFileWrite", "I/O error", "IO error",
          "read failed", "write failed", "Read failed", "Write failed", "IO failed"}) {
      if (has(text, words)) return true;
    }
    return false;
  }

  /// Lines that say which way was taken.
  bool take_path(std::string_view text, const Line& line) {
    const auto direct = number_after(text, "nvfs=");
    const auto posix = number_after(text, "posix=");
    if (direct.has_value() && posix.has_value()) {
      ensure(line);
      set_fact(facts(), "nvfs_ops", *direct);
      set_fact(facts(), "posix_ops", *posix);
      if (*direct > 0)
        sign(core::SignKind::storage_direct, line, "", "", "summary", static_cast<double>(*direct));
      if (*posix > 0)
        sign(core::SignKind::storage_posix, line, "", "", "summary", static_cast<double>(*posix));
      return true;
    }
    if ((has(text, "gds path taken") || has(text, "nvfs_io_submit")) && !is_failure(text)) {
      ensure(line);
      sign(core::SignKind::storage_direct, line, process_in(text), "", "path");
      return true;
    }
    if (is_failed_request(text)) {
      ensure(line);
      core::CaptureSign one;
      one.kind = core::SignKind::storage_failed;
      one.other = process_in(text);
      one.lines.push_back(evidence(line));
      sign(std::move(one));
      return true;
    }
    if (has(text, "cuFileHandleRegister error")) {
      ensure(line);
      core::CaptureSign one;
      one.kind = core::SignKind::register_refused;
      one.word = "cufile";
      one.other = process_in(text);
      one.lines.push_back(evidence(line));
      sign(std::move(one));
      return true;
    }
    const bool compat = has(text, "cufile IO mode: POSIX") || has(text, "compat mode enabled") ||
                        has(text, "in compatible mode") || has(text, "in compatibility mode") ||
                        has(text, "using cuFile posix read/write");
    if (!compat) return false;
    ensure(line);
    sign(core::SignKind::storage_posix, line, process_in(text), "", "mode");
    if (!has(text, "nvidia-fs.ko driver not loaded")) return true;
    core::CaptureSign one;
    one.kind = core::SignKind::storage_obstacle;
    one.word = "storage.nvidia_fs_absent";
    one.other = process_in(text);
    one.lines.push_back(evidence(line));
    sign(std::move(one));
    return true;
  }
};

}  // namespace

std::unique_ptr<Parser> cufile_log_parser(Sink& sink) {
  return std::make_unique<CufileLogParser>(sink);
}

}  // namespace nobounce::captures
