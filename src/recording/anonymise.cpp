// Recognises secrets by their form and by known words.
#include "recording/anonymise.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace nobounce::recording {
namespace {

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::string padded(std::size_t number, std::size_t width) {
  std::string text = std::to_string(number);
  return text.size() < width ? std::string(width - text.size(), '0') + text : text;
}

/// Length of groups of exactly these sizes of hexadecimal digits, parted by `separator`; 0: none.
std::size_t groups_length(std::string_view text, std::initializer_list<std::size_t> sizes,
                          char separator) {
  std::size_t at = 0;
  bool first = true;
  for (const std::size_t size : sizes) {
    if (!first && (at >= text.size() || text[at++] != separator)) return 0;
    first = false;
    for (std::size_t i = 0; i < size; ++i, ++at) {
      if (at >= text.size() || !is_hex(text[at])) return 0;
    }
  }
  const bool goes_on = at < text.size() && (is_word(text[at]) || text[at] == separator);
  return goes_on ? 0 : at;
}

std::size_t ipv4_length(std::string_view text) {
  std::size_t at = 0;
  for (int group = 0; group < 4; ++group) {
    if (group > 0 && (at >= text.size() || text[at++] != '.')) return 0;
    std::uint32_t value = 0;
    std::size_t digits = 0;
    while (at < text.size() && is_digit(text[at]) && digits < 4) {
      value = value * 10 + static_cast<std::uint32_t>(text[at++] - '0');
      ++digits;
    }
    if (digits == 0 || digits > 3 || value > 255) return 0;
  }
  const bool version = at + 1 < text.size() && text[at] == '.' && is_digit(text[at + 1]);
  return version || (at < text.size() && is_word(text[at])) ? 0 : at;
}

/// Addresses of version 6: eight groups, or two colons together.
std::size_t ipv6_length(std::string_view text) {
  std::size_t at = 0;
  std::size_t colons = 0;
  std::size_t digits = 0;
  std::size_t run = 0;
  bool pair = false;
  while (at < text.size() && (is_hex(text[at]) || text[at] == ':')) {
    if (text[at] == ':') {
      ++colons;
      pair = pair || (at > 0 && text[at - 1] == ':');
      run = 0;
    } else {
      ++digits;
      if (++run > 4) return 0;
    }
    ++at;
  }
  if (at < text.size() && is_word(text[at])) return 0;
  return (pair && digits >= 4 && colons >= 2) || colons == 7 ? at : 0;
}

/// A run of letters and digits that is too long for a word: container ids, volume ids.
std::size_t identifier_length(std::string_view text) {
  std::size_t at = 0;
  std::size_t digits = 0;
  std::size_t letters = 0;
  while (at < text.size() && is_word(text[at])) {
    (is_digit(text[at]) ? digits : letters) += 1;
    ++at;
  }
  // 0x0000010000000000 is an address on the bus, and so are kernel symbols.
  return at >= 24 && digits >= 4 && letters >= 4 ? at : 0;
}

std::size_t after_prefix(std::string_view text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return 0;
  std::size_t at = prefix.size();
  while (at < text.size() && is_hex(text[at])) ++at;
  return at >= prefix.size() + 8 ? at : 0;
}

/// Words that a machine's own vocabulary holds: no replacing of these.
bool is_vocabulary(std::string_view word) {
  constexpr std::string_view words[] = {"root", "nvme",  "data", "home",  "nvidia",   "mlx5",
                                        "host", "ext4",  "node", "gpu",   "proc",     "sys",
                                        "dev",  "local", "none", "linux", "localhost"};
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

bool short_or_common(std::string_view word) {
  return word.size() < 3 || is_vocabulary(word);
}

std::size_t find_word(std::string_view text, std::string_view word, std::size_t from) {
  for (std::size_t at = text.find(word, from); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    // Long words are replaced wherever they stand, short ones where they are words.
    if (word.size() >= 6) return at;
    const bool before = at > 0 && is_word(text[at - 1]);
    const std::size_t end = at + word.size();
    const bool behind = end < text.size() && is_word(text[end]);
    if (!before && !behind) return at;
  }
  return std::string_view::npos;
}

/// The Device Serial Number capability of configuration space: of adapters it is their address.
void hide_serial(std::string& config) {
  constexpr std::size_t extended = 256;
  constexpr std::uint32_t serial_capability = 0x0003;
  const auto word = [&config](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 4; i-- > 0;)
      value = value << 8 | static_cast<std::uint8_t>(config[at + i]);
    return value;
  };
  std::size_t at = extended;
  for (int capabilities = 0; capabilities < 96 && at + 12 <= config.size(); ++capabilities) {
    const std::uint32_t header = word(at);
    if (header == 0 || header == 0xffffffff) return;
    if ((header & 0xffff) == serial_capability) {
      for (std::size_t i = 4; i < 12; ++i) config[at + i] = '\0';
    }
    const std::size_t next = header >> 20 & 0xffc;
    if (next < extended) return;
    at = next;
  }
}

bool begins(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

/// Of `/proc/cmdline` the keys that a judgement may rest on. Any other word may hold anything.
bool is_kept_token(std::string_view token) {
  constexpr std::string_view kept[] = {
      "iommu",      "intel_iommu",        "amd_iommu",      "iommu.passthrough", "iommu.strict",
      "pci",        "pcie_aspm",          "pcie_ports",     "pcie_acs_override", "hugepages",
      "hugepagesz", "default_hugepagesz", "numa_balancing", "mitigations",       "swiotlb"};
  constexpr std::string_view modules[] = {
      "nvidia",    "nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia_peermem",
      "nvidia_fs", "nvme",       "nvme_core",  "nvme_rdma",      "nvme_tcp"};
  const std::string_view key = token.substr(0, token.find('='));
  const std::string_view module = key.substr(0, key.find('.'));
  const auto is = [](std::string_view word) {
    return [word](std::string_view each) { return each == word; };
  };
  return std::any_of(std::begin(kept), std::end(kept), is(key)) ||
         (module != key && std::any_of(std::begin(modules), std::end(modules), is(module)));
}

/// Blanks inside of quotes part no words.
std::string kept_tokens(std::string_view line) {
  std::string result;
  for (std::size_t at = 0; at < line.size();) {
    bool quoted = false;
    std::size_t end = at;
    for (; end < line.size(); ++end) {
      if (line[end] == '"') quoted = !quoted;
      const bool blank = line[end] == ' ' || line[end] == '\t' || line[end] == '\n';
      if (blank && !quoted) break;
    }
    const std::string_view token = line.substr(at, end - at);
    at = end + 1;
    if (!is_kept_token(token)) continue;
    if (!result.empty()) result += ' ';
    result += token;
  }
  return result + "\n";
}

/// `Linux version 6.8.0 (alice@node17) (gcc ...) #1 SMP`: who built it stands in the first
/// brackets.
std::string without_builder(std::string_view version) {
  const std::size_t open = version.find(" (");
  if (open == std::string_view::npos) return std::string(version);
  std::size_t end = open + 1;
  for (int depth = 0; end < version.size(); ++end) {
    if (version[end] == '(') ++depth;
    if (version[end] == ')' && --depth == 0) break;
  }
  std::string result(version.substr(0, open));
  if (end < version.size()) result += version.substr(end + 1);
  return result;
}

/// Replaced already.
bool is_numbered(std::string_view word, std::string_view kind) {
  return begins(word, kind) && word.size() > kind.size() + 1 && word[kind.size()] == '-' &&
         word.find_first_not_of("0123456789", kind.size() + 1) == std::string_view::npos;
}

bool ends(std::string_view text, std::string_view ending) {
  return text.size() >= ending.size() && text.substr(text.size() - ending.size()) == ending;
}

bool is_config(std::string_view path) {
  return ends(path, "/config") && begins(path, "/sys/");
}

/// `CRYPT-LUKS2-0123456789abcdef-name`: who made a mapping stands in front, and is all that is
/// asked.
std::string without_mapping(std::string_view uuid) {
  const std::size_t dash = uuid.find('-');
  return dash == std::string_view::npos ? std::string(uuid)
                                        : std::string(uuid.substr(0, dash)) + "-id\n";
}

}  // namespace

Anonymiser::Anonymiser(KnownSecrets secrets) {
  const auto add = [this](const std::vector<std::string>& words, const char* kind) {
    for (const std::string& word : words) {
      if (!short_or_common(word)) words_.emplace_back(word, kind);
    }
  };
  add(secrets.hosts, "host");
  add(secrets.users, "user");
  add(secrets.serials, "serial");
  std::stable_sort(words_.begin(), words_.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
}

std::string Anonymiser::numbered(const char* kind, std::string_view original) {
  std::map<std::string, std::size_t>& known = seen_[kind];
  const std::size_t number =
      known.try_emplace(std::string(original), known.size() + 1).first->second;
  const std::string_view what = kind;
  if (what == "uuid") return "00000000-0000-4000-8000-" + padded(number, 12);
  if (what == "mac")
    return "02:00:00:00:" + padded(number / 100 % 100, 2) + ":" + padded(number % 100, 2);
  if (what == "guid") return "0200:0000:0000:" + padded(number, 4);
  if (what == "ipv4") return "192.0.2." + std::to_string(number % 256);
  if (what == "ipv6") return "2001:db8::" + std::to_string(number);
  return what == "id" ? "id-" + std::to_string(number)
                      : std::string(kind) + "-" + std::to_string(number);
}

std::string Anonymiser::by_form(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const char before = at == 0 ? ' ' : text[at - 1];
    const bool starts = !is_word(before) && before != '.' && before != ':';
    std::size_t length = 0;
    const char* kind = "";
    const auto found = [&](const char* name, std::size_t matched) {
      if (length != 0 || matched == 0) return;
      kind = name;
      length = matched;
    };
    if (starts || before == ':') found("uuid", groups_length(rest, {8, 4, 4, 4, 12}, '-'));
    if (starts) {
      found("mac", groups_length(rest, {2, 2, 2, 2, 2, 2}, ':'));
      found("mac", groups_length(rest, {2, 2, 2, 2, 2, 2}, '-'));
      found("mac", groups_length(rest, {2, 2, 2, 2, 2, 2, 2}, '-'));  // BOOTIF: its kind in front
      found("guid", groups_length(rest, {4, 4, 4, 4}, ':'));
      found("ipv6", ipv6_length(rest));
      found("ipv4", ipv4_length(rest));
      found("wwn", after_prefix(rest, "eui."));
      found("wwn", after_prefix(rest, "wwn-0x"));
      found("wwn", after_prefix(rest, "naa."));
      found("id", identifier_length(rest));
    }
    const std::string_view matched = rest.substr(0, length);
    const bool harmless = matched == "0.0.0.0" || matched == "127.0.0.1";
    if (length == 0 || harmless) {
      result += text[at++];
      continue;
    }
    result += numbered(kind, matched);
    at += length;
  }
  return result;
}

std::string Anonymiser::text(std::string_view original) {
  std::string result(original);
  for (const auto& [word, kind] : words_) {
    for (std::size_t at = find_word(result, word, 0); at != std::string::npos;
         at = find_word(result, word, at)) {
      const std::string replacement = numbered(kind, word);
      result.replace(at, word.size(), replacement);
      at += replacement.size();
    }
  }
  return by_form(without_owners(result));
}

/// The step below a folder that has one for each user or project.
std::string Anonymiser::without_owners(std::string_view text) {
  constexpr std::string_view folders[] = {"/home/",   "/users/",    "/Users/",  "/scratch/",
                                          "/export/", "/projects/", "/project/"};
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const auto* folder = std::find_if(std::begin(folders), std::end(folders),
                                      [rest](std::string_view each) { return begins(rest, each); });
    if (folder == std::end(folders)) {
      result += text[at++];
      continue;
    }
    // The slash behind a step may begin the next folder: `/export/home/alice`.
    result += folder->substr(0, folder->size() - 1);
    at += folder->size() - 1;
    const std::size_t begin = at + 1;
    const std::size_t end = std::min(text.find_first_of("/ \t\n,:;\"", begin), text.size());
    const std::string_view step = text.substr(begin, end - begin);
    const bool common = step.empty() || is_vocabulary(step) || is_numbered(step, "user") ||
                        is_numbered(step, "host");
    if (common) continue;
    result += '/' + numbered("user", step);
    at = end;
  }
  return result;
}

void Anonymiser::apply(core::Json& json) {
  if (auto* value = std::get_if<std::string>(&json.value)) *value = text(*value);
  if (core::JsonArray* items = json.as_array()) {
    for (core::Json& item : *items) apply(item);
  }
  if (core::JsonObject* members = json.as_object()) {
    for (auto& [key, value] : *members) apply(value);
  }
}

std::string Anonymiser::content(std::string_view path, std::string original) {
  if (is_config(path)) {
    hide_serial(original);
    return original;
  }
  if (path == "/proc/cmdline") return text(kept_tokens(original));
  if (path == "/proc/version") return text(without_builder(original));
  if (path == "/proc/self/mountinfo") return mount_table(original);
  if (path == "/proc/self/cgroup") return control_groups(original);
  if (path == cufile_path_ || ends(path, "/cufile.json")) return cufile_json(original);
  if (ends(path, "/dm/uuid")) return text(without_mapping(original));
  return text(original);
}

void Anonymiser::move_files_of_variables(Recording& recording) {
  for (auto& [name, value] : recording.environment) {
    const std::size_t slash = value.rfind('/');
    const bool file = name.find("PATH") != std::string::npos ||
                      name.find("FILE") != std::string::npos || begins(value, "/");
    if (slash == std::string::npos || !file) continue;
    const std::string_view where = std::string_view(value).substr(0, slash);
    if (where == "/etc" || begins(where, "/usr/local/cuda")) continue;
    const std::string folder = '/' + numbered("folder", where);
    moved_[value] = folder + text(value.substr(slash));
  }
}

std::string Anonymiser::path(const std::string& original) {
  const auto moved = moved_.find(original);
  if (moved != moved_.end()) return moved->second;
  return begins(original, "/dev/") ? folder_path(original) : text(original);
}

void Anonymiser::apply(Recording& recording) {
  const auto named = recording.environment.find("CUFILE_ENV_PATH_JSON");
  if (named != recording.environment.end()) cufile_path_ = named->second;
  move_files_of_variables(recording);
  FileRecord files;
  for (auto& [name, original] : recording.files.texts) {
    files.texts[path(name)] = content(name, std::move(original));
  }
  for (auto& [name, names] : recording.files.folders) {
    for (std::string& each : names) each = text(each);
    files.folders[path(name)] = std::move(names);
  }
  for (const auto& [name, target] : recording.files.links) files.links[path(name)] = path(target);
  for (const auto& [name, code] : recording.files.unreadable) files.unreadable[path(name)] = code;
  recording.files = std::move(files);
  const auto map = [this](auto& values) {
    auto old = std::move(values);
    values.clear();
    for (const auto& [key, value] : old) values[path(key)] = path(value);
  };
  map(recording.environment);
  const auto places = std::exchange(recording.places, {});
  for (const auto& [name, real] : places) recording.places[folder_path(name)] = folder_path(real);
  const auto missing = std::exchange(recording.missing_places, {});
  for (const auto& [name, code] : missing) recording.missing_places[folder_path(name)] = code;
  recording.name = text(recording.name);
  apply(recording.nvml);
  apply(recording.cuda);
  apply(recording.cufile);
  apply(recording.verbs);
}

}  // namespace nobounce::recording
