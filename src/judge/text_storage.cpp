// Text about GPUs and storage.
#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "judge/text_case.hpp"

namespace nobounce::judge {

namespace {

using core::CaptureSign;
using core::SignKind;

TextRow& storage_text_row(TextCase& text, const CaptureSign& sign, Verdict verdict,
                          std::string subject, std::string direction, std::string reason) {
  TextRow& row = text.add(Member::storage, verdict, std::move(subject), std::move(direction),
                          std::move(reason));
  cite(row, sign);
  return row;
}

/// An entry of CaptureSign::numbers of driver_counter; below zero where the text has none.
enum CounterNumber : std::uint8_t {
  ok_before,
  ok_after,
  err_before,
  err_after,
  mib_before,
  mib_after
};

/// How many more a reading has; nothing where one of the two is missing.
std::optional<double> counter_rise(const CaptureSign& sign, CounterNumber from, CounterNumber to) {
  if (to >= sign.numbers.size() || sign.numbers[from] < 0 || sign.numbers[to] < 0)
    return std::nullopt;
  return sign.numbers[to] - sign.numbers[from];
}

/// The count of requests rose, or that of those that succeeded. Only the latter moved bytes.
void judge_rise(TextCase& text, const CaptureSign& sign, const char* direction,
                std::optional<double> good) {
  const std::string subject = pair_subject(text, sign.host, sign.source, "");
  const double bad = counter_rise(sign, err_before, err_after).value_or(0);
  const auto number = [](double value) {
    return std::to_string(static_cast<std::uint64_t>(value));
  };
  const bool pair = sign.source != "reads" && sign.source != "writes";
  const auto moved = counter_rise(sign, mib_before, mib_after);
  if (!pair && good.value_or(0) > 0 && moved.has_value() && *moved <= 0) {
    TextRow& row = storage_text_row(text, sign, Verdict::unknown, subject, direction,
                                    number(*good) +
                                        " more requests are counted as successful, and the count "
                                        "of MiB did not rise");
    blame(row, Cause::evidence_text_incomplete);
    return;
  }
  if (pair || (good.has_value() && *good > 0)) {
    std::string reason =
        "the driver's counter rose by " + number(pair ? sign.second - sign.value : *good);
    if (bad > 0) reason += "; " + number(bad) + " more failed";
    TextRow& row =
        storage_text_row(text, sign, Verdict::direct, subject, direction, std::move(reason));
    row.use = true;
    return;
  }
  if (bad > 0) {
    TextRow& row = storage_text_row(
        text, sign, Verdict::broken, subject, direction,
        "requests reached the driver, " + number(bad) + " failed and none succeeded");
    blame(row, Cause::storage_cufile_refused);
    return;
  }
  TextRow& row = storage_text_row(
      text, sign, Verdict::unknown, subject, direction,
      good.has_value() ? "requests reached the driver, and none is counted as successful"
                       : "requests reached the driver; whether they succeeded (ok=) is not shown");
  blame(row, Cause::evidence_text_incomplete);
}

void judge_counters(TextCase& text) {
  bool moved = false;
  bool told = false;
  const CaptureSign* still = nullptr;
  // Readings between which requests failed and none succeeded: transfers of a pair are those.
  std::set<std::uint64_t> failing;
  std::set<std::uint64_t> succeeding;
  for (const CaptureSign* sign : text.all(SignKind::driver_counter)) {
    if (sign->word != "twice") continue;
    if (counter_rise(*sign, ok_before, ok_after).value_or(0) > 0) succeeding.insert(sign->piece);
    if (counter_rise(*sign, err_before, err_after).value_or(0) > 0) failing.insert(sign->piece);
  }
  for (const CaptureSign* sign : text.all(SignKind::driver_counter)) {
    const bool pair = sign->source != "reads" && sign->source != "writes";
    if (pair && sign->word == "twice" && sign->second > sign->value &&
        failing.count(sign->piece) > 0 && succeeding.count(sign->piece) == 0) {
      told = true;
      TextRow& row = storage_text_row(
          text, *sign, Verdict::unknown, pair_subject(text, sign->host, sign->source, ""), "both",
          "transfers of the pair were begun, and all requests between the readings failed");
      blame(row, Cause::storage_cufile_refused);
      continue;
    }
    const char* direction = sign->source == "reads"    ? "read"
                            : sign->source == "writes" ? "write"
                                                       : "both";
    const std::string subject = pair_subject(text, sign->host, sign->source, "");
    const auto good = counter_rise(*sign, ok_before, ok_after);
    const bool back = sign->second < sign->value || good.value_or(0) < 0;
    if (sign->word == "twice" && !back && (sign->second > sign->value || good.value_or(0) > 0)) {
      moved = true;
      judge_rise(text, *sign, direction, good);
    } else if (sign->word == "twice" && back) {
      told = true;
      TextRow& row =
          storage_text_row(text, *sign, Verdict::unknown, subject, direction,
                           "the counter went back: the readings are in the wrong order, or "
                           "the module was loaded anew");
      blame(row, Cause::evidence_text_incomplete);
    } else if (sign->word == "once" && sign->value > 0) {
      told = true;
      TextRow& row = storage_text_row(
          text, *sign, Verdict::unknown, subject, direction,
          "the driver counted " + std::to_string(static_cast<std::uint64_t>(sign->value)) +
              " since it was loaded; nothing shows whether this run was "
              "among them");
      row.weight = RowWeight::background;
      blame(row, Cause::evidence_text_incomplete);
    } else if (still == nullptr || sign->source == "reads") {
      still = sign;
    }
  }
  if (moved || told || still == nullptr) return;
  // The driver saw nothing of a run whose only other route is not there.
  const CaptureSign* run = nullptr;
  for (const CaptureSign* sign : text.all(SignKind::storage_benchmark)) {
    if (sign->word.rfind("GPU", 0) == 0 && sign->value > 0) run = sign;
  }
  const CaptureSign* counting = text.first(SignKind::driver_counting);
  for (const CaptureSign* route : text.all(SignKind::route_row)) {
    if (run == nullptr || counting == nullptr || counting->value == 0) break;
    if (text.several_hosts()) break;  // whose run it was is not said
    if (route->source != "NVMe P2PDMA" || route->word != "unsupported") continue;
    TextRow& row =
        storage_text_row(text, *still, Verdict::staged, "gdsio", "both",
                         "the benchmark made its operations, the driver saw none of them, "
                         "and P2PDMA is not there");
    blame(row, Cause::storage_no_io_reached_driver);
    cite(row, *run);
    cite(row, *route);
    return;
  }
  TextRow& row = storage_text_row(
      text, *still, Verdict::unknown, "nvidia-fs", "both",
      still->word == "once" ? "the driver has seen no read and no write since it was loaded"
                            : "the driver saw no read and no write between the readings");
  row.weight = RowWeight::background;
  blame(row, Cause::storage_no_io_reached_driver);
}

void judge_counting(TextCase& text) {
  for (const CaptureSign* sign : text.all(SignKind::driver_counting)) {
    if (sign->value > 0) continue;
    TextRow& row =
        storage_text_row(text, *sign, Verdict::unknown, "nvidia-fs", "both",
                         "the driver's counters are switched off, so zeros mean nothing");
    row.weight = RowWeight::background;
    blame(row, Cause::storage_counters_disabled);
    return;
  }
}

/// What libcufile says of itself: which way it took, and why.
void judge_library(TextCase& text) {
  std::map<std::string, std::vector<const CaptureSign*>> obstacles;  // by process
  for (const CaptureSign* sign : text.all(SignKind::storage_obstacle)) {
    constexpr std::size_t obstacles_max = 64;  // of one process; what follows repeats them
    std::vector<const CaptureSign*>& of_process = obstacles[sign->other];
    if (of_process.size() < obstacles_max) of_process.push_back(sign);
  }
  const auto subject_of = [&](const std::string& process) {
    for (const CaptureSign* sign : obstacles[process]) {
      if (!sign->source.empty()) return sign->source;
    }
    return process.empty() ? std::string("cuFile") : "process " + process;
  };
  const auto blame_all = [](TextRow& row, const std::vector<const CaptureSign*>& signs) {
    for (const CaptureSign* sign : signs) {
      if (const auto cause = cause_from_string(sign->word)) blame(row, *cause);
      cite(row, *sign);
    }
  };
  std::map<std::string, const CaptureSign*> refused;  // by process
  for (const CaptureSign* sign : text.all(SignKind::register_refused)) {
    if (sign->word == "cufile") refused.emplace(sign->other, sign);
  }
  for (const auto& [process, sign] : refused) {
    TextRow& row = storage_text_row(text, *sign, Verdict::impossible, subject_of(process), "both",
                                    "the library cannot register the file, and the call fails");
    blame_all(row, obstacles[process]);
    blame(row, Cause::storage_compat_refused);
  }
  std::map<std::string, const CaptureSign*> failed;  // by process
  for (const CaptureSign* sign : text.all(SignKind::storage_failed))
    failed.emplace(sign->other, sign);
  const auto failure_of = [&failed](const CaptureSign& sign) -> const CaptureSign* {
    if (failed.empty()) return nullptr;
    // Counts are of a whole log; a path is of its process, where lines name one.
    if (sign.source.empty() || sign.word != "path") return failed.begin()->second;
    const auto own = failed.find(sign.source);
    if (own != failed.end()) return own->second;
    const auto unnamed = failed.find("");
    return unnamed == failed.end() ? nullptr : unnamed->second;
  };
  std::set<std::string> staged;
  std::set<std::string> seen_direct;
  bool any_direct = false;
  for (const CaptureSign* sign : text.all(SignKind::storage_direct)) {
    if (!seen_direct.insert(sign->source + sign->direction).second && sign->word == "path")
      continue;
    const CaptureSign* failure = sign->word == "statistics" ? nullptr : failure_of(*sign);
    std::string reason = sign->word == "path" ? "the library says that it took the direct path"
                                              : "the library counts operations on the direct path";
    if (failure != nullptr) reason += ", and that requests failed: nothing shows which";
    TextRow& row =
        storage_text_row(text, *sign, failure == nullptr ? Verdict::direct : Verdict::unknown,
                         sign->source.empty()   ? "cuFile"
                         : sign->word == "path" ? "process " + sign->source
                                                : sign->source,
                         sign->direction.empty() ? "both" : sign->direction, std::move(reason));
    row.use = failure == nullptr;
    any_direct = true;
    if (failure == nullptr) continue;
    blame(row, Cause::storage_cufile_refused);
    cite(row, *failure);
  }
  for (const auto& [process, sign] : failed) {
    if (any_direct || refused.count(process) > 0) continue;
    TextRow& row = storage_text_row(text, *sign, Verdict::impossible, subject_of(process), "both",
                                    "the library reports that a request failed");
    blame_all(row, obstacles[process]);
    blame(row, Cause::storage_cufile_refused);
  }
  for (const CaptureSign* sign : text.all(SignKind::storage_posix)) {
    if (sign->word == "kvikio") {
      TextRow& row = storage_text_row(text, *sign, Verdict::staged, "KvikIO", "both",
                                      "the library says that it works in compatibility mode: "
                                      "POSIX reads and writes, and a copy");
      row.format = "kvikio";
      blame(row, Cause::storage_compat_used);
      continue;
    }
    const std::string& process = sign->source;
    if (sign->word == "mode" && refused.count(process) > 0) continue;
    if (sign->word == "mode" && !staged.insert(process).second) continue;
    TextRow& row = storage_text_row(
        text, *sign, Verdict::staged, sign->word == "statistics" ? process : subject_of(process),
        sign->direction.empty() ? "both" : sign->direction,
        sign->word == "mode" ? "the library says that it reads and writes through host memory"
                             : "the library counts operations through host memory");
    blame_all(row, obstacles[process]);
    if (process.empty() || obstacles[process].empty()) blame_all(row, obstacles[""]);
    blame(row, Cause::storage_compat_used);
  }
  for (auto& [process, signs] : obstacles) {
    // P2PDMA that is not there is no obstacle where another route was taken.
    if (signs.empty() || staged.count(process) > 0 || refused.count(process) > 0 || any_direct)
      continue;
    TextRow& row =
        storage_text_row(text, *signs.front(), Verdict::unknown, subject_of(process), "both",
                         "the library names what is in the way; whether it fell back or "
                         "failed is not shown");
    blame_all(row, signs);
  }
  for (const CaptureSign* sign : text.all(SignKind::window_exhausted)) {
    TextRow& row = storage_text_row(text, *sign, Verdict::staged, "BAR1", "both",
                                    "the request needs more of the GPU's window than is left");
    blame(row, Cause::machine_bar1_too_small);
  }
}

bool row_is_active(const CaptureSign& row) {
  if (row.source == "Userspace RDMA") return false;
  if (row.other != "routes") return row.word == "supported";
  const bool block = row.source == "NVMe" || row.source == "NVMeOF" || row.source == "SCSI" ||
                     row.source == "Block" || row.source == "NVMe P2PDMA";
  const auto route = [&row](std::string_view name) {
    return (',' + row.word + ',').find(',' + std::string(name) + ',') != std::string::npos;
  };
  return route("nvfs") || route("c2c") || route("dmabuf") || (block && route("p2pdma"));
}

/// gdscheck: whether any route exists, and what happens where none does.
void judge_check(TextCase& text, const CaptureSign& check,
                 const std::vector<const CaptureSign*>& gds_rows) {
  bool any_row = false;
  bool active = false;
  bool only_compat = true;
  const CaptureSign* shown = nullptr;
  const CaptureSign* active_row = nullptr;
  for (const CaptureSign* row : gds_rows) {
    any_row = true;
    if (shown == nullptr || row->source == "NVMe") shown = row;
    if (row_is_active(*row)) {
      active = true;
      if (active_row == nullptr) active_row = row;
    }
    if (row->other != "routes" || row->word != "compat") only_compat = false;
  }
  const char compat = check.word.empty() ? '?' : check.word[0];
  const char force = check.word.size() > 1 ? check.word[1] : '?';
  const char module = check.word.size() > 2 ? check.word[2] : '?';
  if (force == '1') {
    TextRow& row = storage_text_row(text, check, Verdict::staged, "all files", "both",
                                    "compatibility mode is forced");
    blame(row, Cause::storage_compat_forced);
    return;
  }
  if (!any_row) return;
  if (active) {
    TextRow& row = storage_text_row(text, *active_row, Verdict::unknown, active_row->source, "both",
                                    "a route is supported, which is a capability; no I/O is shown");
    row.weight = RowWeight::background;
    blame(row, Cause::evidence_capability_only);
    return;
  }
  const Cause reason =
      module == '0' ? Cause::storage_nvidia_fs_absent : Cause::storage_driver_not_registered;
  const bool routes = only_compat && shown != nullptr && shown->other == "routes";
  if (compat == '1' || routes) {
    TextRow& row = storage_text_row(text, *shown, Verdict::staged, "all files", "both",
                                    "no route is supported, and falling back is allowed");
    blame(row, routes ? Cause::storage_compat_used : reason);
    cite(row, check);
    return;
  }
  if (compat == '0') {
    TextRow& row = storage_text_row(text, *shown, Verdict::impossible, "all files", "both",
                                    "no route is supported, and falling back is not allowed");
    blame(row, Cause::storage_compat_refused);
    blame(row, reason);
    cite(row, check);
    return;
  }
  TextRow& row =
      storage_text_row(text, *shown, Verdict::unknown, "all files", "both",
                       "no route is supported; whether calls fail or fall back depends on a "
                       "setting that is not shown");
  blame(row, reason);
}

/// A file system whose block driver is not among those registered with the module.
void judge_mounts(TextCase& text) {
  const auto& registered = text.all(SignKind::driver_registered);
  if (registered.empty()) return;
  const bool nvme_registered =
      std::any_of(registered.begin(), registered.end(),
                  [](const CaptureSign* sign) { return sign->word == "nvme"; });
  if (nvme_registered) return;
  // Two listings show no fallback: gdscheck must say that the drive has no other route either.
  char compat = '?';
  const CaptureSign* check = text.first(SignKind::storage_check);
  bool shown = false;
  bool active = false;
  for (const CaptureSign* route : text.all(SignKind::route_row)) {
    if (route->source.rfind("NVMe", 0) != 0 && route->source != "Block") continue;
    shown = true;
    active = active || row_is_active(*route);
  }
  if (check != nullptr && !check->word.empty() && shown && !active) compat = check->word[0];
  std::size_t written = 0;
  for (const CaptureSign* mount : text.all(SignKind::mount)) {
    const bool nvme = mount->source.rfind("/dev/nvme", 0) == 0;
    if (!nvme || ++written > 200) continue;
    TextRow& row =
        text.add(Member::storage,
                 compat == '1'   ? Verdict::staged
                 : compat == '0' ? Verdict::impossible
                                 : Verdict::unknown,
                 mount->target, "both",
                 active ? "the drive's driver is not registered with nvidia-fs, and another "
                          "route to drives is supported"
                        : "the drive's driver is not registered with nvidia-fs");
    blame(row, Cause::storage_driver_not_registered);
    cite(row, *registered.front());
    cite(row, *mount);
  }
}

void judge_benchmark(TextCase& text) {
  for (const CaptureSign* sign : text.all(SignKind::storage_benchmark)) {
    const std::string direction = sign->other.find("WRITE") != std::string::npos ? "write" : "read";
    if (sign->word == "CPUONLY") {
      TextRow& row = storage_text_row(text, *sign, Verdict::unknown, "gdsio", direction,
                                      "the measurement never touched GPU memory");
      row.weight = RowWeight::pair_only;
      blame(row, Cause::storage_host_memory_test);
    } else if (sign->word.rfind("CPU", 0) == 0) {
      TextRow& row = storage_text_row(
          text, *sign, Verdict::staged, "gdsio", direction,
          "the measurement was told to go through host memory (" + sign->word + ")");
      blame(row, Cause::storage_host_path_requested);
    } else {
      TextRow& row = storage_text_row(text, *sign, Verdict::unknown, "gdsio", direction,
                                      sign->word +
                                          " was asked for; it is printed too where the library "
                                          "falls back");
      row.weight = RowWeight::background;
      blame(row, Cause::evidence_capability_only);
    }
  }
  for (const CaptureSign* sign : text.all(SignKind::register_refused)) {
    if (sign->word == "cufile") continue;
    TextRow& row = storage_text_row(text, *sign, Verdict::impossible,
                                    sign->source.empty() ? "file" : sign->source, "both",
                                    "the file cannot be registered, and nothing falls back");
    blame(row, Cause::storage_compat_refused);
  }
}

void judge_storage_modules(TextCase& text) {
  for (const CaptureSign* sign : text.all(SignKind::module_without_users)) {
    TextRow& row = storage_text_row(text, *sign, Verdict::unknown, "nvidia_fs", "both",
                                    "the module is loaded, and no driver depends on it");
    row.weight = RowWeight::pair_only;
    blame(row, Cause::storage_driver_not_registered);
    if (text.decided(Member::storage)) row.weight = RowWeight::background;
  }
  for (const CaptureSign* sign : text.all(SignKind::module_absent)) {
    if (sign->word != "nvidia_fs") continue;
    TextRow& row = storage_text_row(text, *sign, Verdict::unknown, "nvidia_fs", "both",
                                    "the module is not loaded; libcufile may still use PCI P2PDMA");
    row.weight = RowWeight::background;
    blame(row, Cause::storage_nvidia_fs_absent);
  }
  const CaptureSign* loaded = text.module_loaded("nvidia_fs");
  if (loaded != nullptr && loaded->value > 0) {
    TextRow& row = storage_text_row(text, *loaded, Verdict::unknown, "nvidia_fs", "both",
                                    "the module is loaded and used, which shows no I/O");
    row.weight = RowWeight::background;
    blame(row, Cause::evidence_capability_only);
  }
  std::set<std::string> said;
  for (const CaptureSign* sign : text.all(SignKind::pin_refused)) {
    if (!said.insert(sign->word).second) continue;
    TextRow& row = storage_text_row(text, *sign, Verdict::impossible, sign->word, "both",
                                    "the driver refused to pin GPU memory");
    blame(row, Cause::storage_gpu_not_supported);
  }
  if (!text.any(SignKind::driver_registered) || text.any(SignKind::storage_check)) return;
  TextRow& row =
      storage_text_row(text, *text.first(SignKind::driver_registered), Verdict::unknown,
                       "nvidia-fs", "both", "drivers are registered, which shows no I/O");
  row.weight = RowWeight::background;
  blame(row, Cause::evidence_capability_only);
}

}  // namespace

void judge_text_storage(TextCase& text) {
  judge_counters(text);
  judge_counting(text);
  judge_library(text);
  const bool used = std::any_of(text.rows().begin(), text.rows().end(), [](const TextRow& row) {
    return row.verdict.member == Member::storage && row.use;
  });
  if (!used) {
    std::map<std::uint64_t, std::vector<const CaptureSign*>> rows_of_piece;
    for (const CaptureSign* row : text.all(SignKind::route_row))
      rows_of_piece[row->piece].push_back(row);
    for (const CaptureSign* check : text.all(SignKind::storage_check))
      judge_check(text, *check, rows_of_piece[check->piece]);
    judge_mounts(text);
  }
  judge_benchmark(text);
  judge_storage_modules(text);
}

}  // namespace nobounce::judge
