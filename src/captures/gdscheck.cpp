// `gdscheck -p` in all layouts: routes by file system or device, configuration, GPUs, platform.
#include <algorithm>
#include <array>
#include <iterator>

#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

constexpr std::array gds_rows = {"NVMe P2PDMA",
                                 "NVMeOF",
                                 "NVMe",
                                 "SCSI",
                                 "ScaleFlux CSD",
                                 "NVMesh",
                                 "DDN EXAScaler",
                                 "IBM Spectrum Scale",
                                 "NFS",
                                 "BeeGFS",
                                 "WekaFS",
                                 "VIRTIOFS",
                                 "ScaTeFS",
                                 "Lustre",
                                 "LUSTRE",
                                 "GPFS",
                                 "Userspace RDMA",
                                 "HPE",
                                 "VAST",
                                 "Block",
                                 "EXT4",
                                 "XFS"};

constexpr auto gds_words = [] {
  constexpr std::string_view others[] = {"GDS release version",
                                         "nvidia_fs version:",
                                         "nvidia_fs minimum version:",
                                         "libcufile version:",
                                         "ENVIRONMENT:",
                                         "DRIVER CONFIGURATION:",
                                         "CUFILE CONFIGURATION:",
                                         "GPU INFO:",
                                         "PLATFORM INFO:",
                                         "properties.",
                                         "fs.",
                                         "logging.",
                                         "denylist.",
                                         "execution.",
                                         "profile.",
                                         "GPU index "};
  std::array<std::string_view, gds_rows.size() + std::size(others)> all{};
  std::copy(gds_rows.begin(), gds_rows.end(), all.begin());
  std::copy(std::begin(others), std::end(others), all.begin() + gds_rows.size());
  return all;
}();

bool gds_is_routes(std::string_view value) {
  bool any = false;
  for (const std::string_view part : split(value, ',')) {
    const std::string route = lower(trim(part));
    if (route != "p2pdma" && route != "nvfs" && route != "c2c" && route != "dmabuf" &&
        route != "compat" && route != "none")
      return false;
    any = true;
  }
  return any;
}

class GdscheckParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override { return {gds_words, 20}; }

  bool take(const Line& line) override {
    const std::string_view text = trim(line.text);
    if (text.empty()) return false;
    if (text.find_first_not_of('=') == std::string_view::npos && text.size() >= 6) {
      if (!near(line, 4)) return false;
      reach(line);
      return true;
    }
    return take_version(text, line) || take_section(text, line) || take_rows(text, line) ||
           take_property(text, line) || take_gpu(text, line) || take_platform(text, line);
  }

  void end() override {
    finish();
    close();
  }

 private:
  void ensure(const Line& line) {
    if (!near(line, 40)) {
      finish();
      open("gdscheck", line);
      header_ = false;
      rows_ = 0;
      first_ = evidence(line);
    }
    reach(line);
  }

  bool take_version(std::string_view text, const Line& line) {
    bool any = false;
    if (const auto version = after(text, "GDS release version"); version.has_value()) {
      if (is_open() && header_) {
        finish();
        close();
      }
      ensure(line);
      header_ = true;
      set_fact(facts(), "gds_version",
               first_word(starts(*version, ":") ? version->substr(1) : *version));
      any = true;
    }
    if (const auto version = after(text, "nvidia_fs version:"); version.has_value()) {
      ensure(line);
      set_fact(facts(), "nvidia_fs_version", first_word(*version));
      any = true;
    }
    if (const auto version = after(text, "nvidia_fs minimum version:"); version.has_value()) {
      ensure(line);
      set_fact(facts(), "nvidia_fs_minimum_version", first_word(*version));
      any = true;
    }
    if (const auto version = after(text, "libcufile version:"); version.has_value()) {
      ensure(line);
      set_fact(facts(), "libcufile_version", first_word(*version));
      any = true;
    }
    return any;
  }

  bool take_section(std::string_view text, const Line& line) {
    for (const std::string_view section :
         {"ENVIRONMENT:", "DRIVER CONFIGURATION:", "CUFILE CONFIGURATION:", "GPU INFO:",
          "PLATFORM INFO:"}) {
      if (text != section) continue;
      ensure(line);
      return true;
    }
    if (starts(text, "CUFILE_") && near(line, 20)) {
      reach(line);
      return true;
    }
    return false;
  }

  /// One row, or several whose line ends got lost.
  bool take_rows(std::string_view text, const Line& line) {
    if (starts(text, "--") && near(line, 20)) {
      reach(line);
      return true;
    }
    bool any = false;
    for (int i = 0; i < 32; ++i) {
      text = trim(text);
      const auto row = std::find_if(gds_rows.begin(), gds_rows.end(),
                                    [text](const char* name) { return starts(text, name); });
      if (row == gds_rows.end()) break;
      std::string_view rest = trim(text.substr(std::string_view(*row).size()));
      if (!starts(rest, ":")) break;
      rest = trim(rest.substr(1));
      std::string_view value;
      for (const std::string_view word : {"Supported", "Unsupported"}) {
        if (starts(rest, word)) value = word;
      }
      const bool routes = value.empty() && gds_is_routes(rest);
      if (value.empty() && !routes) break;
      ensure(line);
      add_row(*row, routes ? rest : value, routes, line);
      any = true;
      if (routes) break;
      text = rest.substr(value.size());
    }
    return any;
  }

  void add_row(std::string_view name, std::string_view value, bool routes, const Line& line) {
    ++rows_;
    core::CaptureSign one;
    one.kind = core::SignKind::route_row;
    one.source = std::string(name);
    one.lines.push_back(evidence(line));
    if (routes) {
      core::JsonArray list;
      for (const std::string_view part : split(value, ',')) {
        list.emplace_back(lower(trim(part)));
        one.word += (one.word.empty() ? "" : ",") + lower(trim(part));
      }
      set_entry(facts(), "rows", name, std::move(list));
      one.other = "routes";
    } else {
      set_entry(facts(), "rows", name, value);
      one.word = lower(value);
    }
    sign(std::move(one));
  }

  bool take_property(std::string_view text, const Line& line) {
    if (!starts(text, "properties.") && !starts(text, "fs.") && !starts(text, "logging.") &&
        !starts(text, "denylist.") && !starts(text, "execution.") && !starts(text, "profile."))
      return false;
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) return false;
    ensure(line);
    const std::string_view key = trim(text.substr(0, colon));
    const std::string_view value = trim(text.substr(colon + 1));
    const bool yes = starts(value, "true");
    if (!yes && !starts(value, "false")) return true;
    if (key == "properties.use_compat_mode") keep("compat_mode", yes, line);
    if (key == "properties.force_compat_mode") keep("force_compat_mode", yes, line);
    if (key == "properties.use_pci_p2pdma") set_fact(facts(), "use_pci_p2pdma", yes);
    if (starts(key, "properties.allow_compat_mode")) keep("compat_mode", yes, line);
    return true;
  }

  void keep(const char* name, bool yes, const Line& line) {
    set_fact(facts(), name, yes);
    settings_.push_back(evidence(line));
  }

  /// `GPU index 0 NVIDIA L40S bar:1 bar size (MiB):65536 supports GDS, IOMMU State: Disabled`.
  bool take_gpu(std::string_view text, const Line& line) {
    if (!starts(text, "GPU index ")) return false;
    const auto index = whole_number(text.substr(10));
    if (!index.has_value() || *index > 1024) return false;
    ensure(line);
    const std::string gpu = "GPU" + std::to_string(*index);
    gpus_ = std::max(gpus_, *index + 1);
    set_fact(facts(), "gpus", gpus_);
    std::string_view product = text.substr(10);
    product.remove_prefix(std::to_string(*index).size());
    product = trim(before(product, " bar:"));
    sign(core::SignKind::product, line, gpu, "", std::string(product));
    if (const auto size = number_after(text, "bar size (MiB):"); size.has_value()) {
      if (fact(facts(), "bar1_mib") == nullptr) set_fact(facts(), "bar1_mib", *size);
      sign(core::SignKind::bar1_size, line, gpu, "", "", static_cast<double>(*size));
    }
    return true;
  }

  bool take_platform(std::string_view text, const Line& line) {
    if (!near(line, 12)) return false;
    if (starts(text, "IOMMU:")) {
      reach(line);
      set_fact(facts(), "iommu", trim(text.substr(6)));
      return true;
    }
    if (starts(text, "Nvidia Driver Info Status:")) {
      reach(line);
      set_fact(facts(), "driver_status", trim(text.substr(26)));
      return true;
    }
    for (const std::string_view word :
         {"Platform", "Cuda Driver Version", "WARN: GDS", "ACS", "Found ACS"}) {
      if (!starts(text, word)) continue;
      reach(line);
      return true;
    }
    return false;
  }

  void finish() {
    if (!is_open() || rows_ + settings_.size() + gpus_ == 0) return;
    if (header_ && fact(facts(), "nvidia_fs_version") == nullptr)
      set_fact(facts(), "nvidia_fs_version", nullptr);
    // Facts move when one is added: read first.
    const auto word = [this](const char* name) {
      const core::Json* json = fact(facts(), name);
      return json == nullptr ? "?" : *json->as_bool() ? "1" : "0";
    };
    core::CaptureSign one;
    one.kind = core::SignKind::storage_check;
    // Compatibility mode allowed, forced; the module's version printed, missing or not shown.
    one.word = std::string(word("compat_mode")) + word("force_compat_mode");
    const core::Json* version = fact(facts(), "nvidia_fs_version");
    one.word += version == nullptr ? "?" : version->is_null() ? "0" : "1";
    set_fact(facts(), "partial", rows_ == 0 || one.word[0] == '?');
    one.lines = settings_;
    if (one.lines.empty()) one.lines.push_back(first_);
    one.numbers = {static_cast<double>(rows_)};
    sign(std::move(one));
    rows_ = 0;
    gpus_ = 0;
    settings_.clear();
  }

  core::TextLine first_;
  std::vector<core::TextLine> settings_;
  std::uint64_t rows_ = 0;
  std::uint64_t gpus_ = 0;
  bool header_ = false;
};

}  // namespace

std::unique_ptr<Parser> gdscheck_parser(Sink& sink) {
  return std::make_unique<GdscheckParser>(sink);
}

}  // namespace nobounce::captures
