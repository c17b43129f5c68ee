// Takes people's own words out of paths, mount tables, control groups and cufile.json: what is not
// of a system's or a tool's vocabulary is replaced, and the same word by the same.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/mount_table.hpp"
#include "recording/anonymise.hpp"

namespace nobounce::recording {
namespace {

bool is_decimal(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

template <std::size_t count>
bool is_one_of(const std::string_view (&words)[count], std::string_view word) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

/// Folders whose next step is a person or a project.
bool holds_owners(std::string_view step) {
  constexpr std::string_view steps[] = {"home",   "users",    "Users",   "scratch",
                                        "export", "projects", "project", "media"};
  return is_one_of(steps, step);
}

/// Steps of paths that any machine may have, their digits left out.
bool is_common_step(std::string_view step) {
  constexpr std::string_view steps[] = {
      "",          "-",           ".",           "..",         "@",        "@home",
      "@root",     "backup",      "beegfs",      "bin",        "boot",     "bus",
      "by-id",     "by-label",    "by-partuuid", "by-path",    "by-uuid",  "cache",
      "ceph",      "cgroup",      "containerd",  "containers", "config",   "cuda",
      "data",      "datasets",    "dev",         "dev-shm",    "disk",     "dm-",
      "docker",    "dshm",        "efi",         "etc",        "export",   "exports",
      "ext",       "fast",        "fs",          "fuse",       "gds",      "gpfs",
      "gpu",       "hdd",         "home",        "hostname",   "hosts",    "hugepages",
      "images",    "infiniband",  "kubelet",     "lib",        "libx",     "local",
      "lock",      "log",         "loop",        "lost+found", "lustre",   "mapper",
      "md",        "media",       "merged",      "mmcblk",     "mmcblkp",  "mnt",
      "mqueue",    "netns",       "nfs",         "null",       "nvidia",   "nvidia-uvm",
      "nvidiactl", "nvme",        "nvmen",       "nvmenp",     "opt",      "overlay",
      "pmem",      "pods",        "proc",        "project",    "projects", "ptmx",
      "pts",       "raid",        "ram",         "rdma",       "remote",   "resolv.conf",
      "root",      "run",         "sbin",        "scratch",    "share",    "shared",
      "shm",       "snap",        "spool",       "sr",         "srv",      "ssd",
      "storage",   "swap",        "sys",         "test",       "tmp",      "tty",
      "user",      "users",       "Users",       "usr",        "uverbs",   "var",
      "vfio",      "vol",         "volume",      "volumes",    "weka",     "work",
      "workspace", "zero",        "zram",        "console",    "full",     "random",
      "urandom",   "cufile.json", "cufile.log",  "cufile",     "log.d"};
  std::string without_digits;
  std::copy_if(step.begin(), step.end(), std::back_inserter(without_digits),
               [](char c) { return !is_decimal(c); });
  return is_one_of(steps, without_digits);
}

/// `sda1`, `vdb`, `xvdf`
bool is_disk_name(std::string_view step) {
  for (const std::string_view head : {"xvd", "sd", "vd", "hd"}) {
    if (step.substr(0, head.size()) != head) continue;
    step.remove_prefix(head.size());
    const std::size_t letters = std::min(step.find_first_of("0123456789"), step.size());
    return letters >= 1 && letters <= 2 &&
           std::all_of(step.begin(), step.begin() + static_cast<std::ptrdiff_t>(letters),
                       is_letter) &&
           std::all_of(step.begin() + static_cast<std::ptrdiff_t>(letters), step.end(), is_decimal);
  }
  return false;
}

bool is_public_step(std::string_view step) {
  constexpr std::size_t digits_max = 5;  // of a user's number; longer ones may be anybody's
  const bool number = std::all_of(step.begin(), step.end(), is_decimal);
  return (number && step.size() <= digits_max) || (!number && is_common_step(step)) ||
         is_disk_name(step);
}

/// What stands for a mount without a device of its own.
bool is_public_source(std::string_view source, std::string_view type) {
  constexpr std::string_view sources[] = {"none",         "udev",        "systemd-1",
                                          "shm",          "overlay",     "mqueue",
                                          "beegfs_nodev", "binfmt_misc", "tracefs"};
  return source == type || is_one_of(sources, source);
}

/// Options whose value is a word out of a driver's own list.
bool has_public_value(std::string_view key, std::string_view type) {
  constexpr std::string_view keys[] = {
      "acl",          "alloc_mode", "cache",     "commit",      "compress",    "compression",
      "data",         "discard",    "errors",    "fsc",         "gid",         "hidepid",
      "huge",         "iocharset",  "jqfmt",     "local_lock",  "lookupcache", "mode",
      "mountproto",   "mpol",       "nr_inodes", "pagesize",    "prjquota",    "proto",
      "redirect_dir", "sec",        "size",      "space_cache", "subvolid",    "sync",
      "trans",        "uid",        "vers",      "version",     "wsync",       "xino"};
  return is_one_of(keys, key) || (key == "name" && type == "cgroup");
}

/// `8192k`, `4.2`, `0755`
bool is_quantity(std::string_view value) {
  if (!value.empty() && std::string_view("kKmMgGtT%").find(value.back()) != std::string_view::npos)
    value.remove_suffix(1);
  return value.find_first_not_of("0123456789.-") == std::string_view::npos;
}

/// Words that container runtimes and init systems call their groups by.
bool is_group_word(std::string_view word) {
  constexpr std::string_view words[] = {
      "besteffort", "buildkit", "burstable",  "containerd", "cri",    "crio",    "docker",
      "guaranteed", "init",     "job",        "kubepods",   "libpod", "lxc",     "lxd",
      "machine",    "payload",  "pod",        "podman",     "scope",  "service", "session",
      "slice",      "slurm",    "slurmstepd", "step",       "system", "task",    "uid",
      "user",       "id",       "uuid"};
  return is_one_of(words, word);
}

std::vector<std::string> split_at(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string joined(const std::vector<std::string>& parts, char separator) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += separator;
    text += parts[i];
  }
  return text;
}

/// Answers a line for each line.
template <typename Each>
std::string each_line(std::string_view text, Each each) {
  std::vector<std::string> lines = split_at(text, '\n');
  for (std::string& line : lines) {
    if (!line.empty()) line = each(line);
  }
  return joined(lines, '\n');
}

bool is_cufile_word(std::string_view word) {
  constexpr std::string_view words[] = {"TRACE",
                                        "DEBUG",
                                        "INFO",
                                        "NOTICE",
                                        "WARN",
                                        "ERROR",
                                        "FATAL",
                                        "RoundRobin",
                                        "RoundRobinMaxMin",
                                        "RandomNicCpuAffinity",
                                        "rr",
                                        "none",
                                        "auto",
                                        "on",
                                        "off"};
  return is_one_of(words, word);
}

}  // namespace

bool Anonymiser::is_replaced(std::string_view word) {
  for (const std::string_view kind :
       {"host", "user", "serial", "folder", "volume", "value", "group", "id", "wwn"}) {
    if (word.size() > kind.size() + 1 && word.substr(0, kind.size()) == kind &&
        word[kind.size()] == '-' &&
        word.find_first_not_of("0123456789", kind.size() + 1) == std::string_view::npos) {
      return true;
    }
  }
  return word.substr(0, 24) == "00000000-0000-4000-8000-" || word.substr(0, 8) == "192.0.2." ||
         word.substr(0, 10) == "2001:db8::";
}

std::string Anonymiser::own_word(const char* kind, std::string_view word) {
  if (is_replaced(word)) return std::string(word);
  std::string hidden = text(word);
  return is_replaced(hidden) ? hidden : numbered(kind, word);
}

std::string Anonymiser::folder_path(std::string_view original) {
  std::vector<std::string> steps = split_at(original, '/');
  const std::string first = steps.size() > 1 ? steps[1] : std::string();
  if (first == "sys" || first == "proc") return text(original);
  for (std::size_t i = steps.size(); i-- > 0;) {
    const bool owner = i > 0 && holds_owners(steps[i - 1]) && !steps[i].empty();
    if (is_public_step(steps[i])) continue;
    steps[i] = own_word(owner ? "user" : "folder", steps[i]);
  }
  return joined(steps, '/');
}

std::string Anonymiser::mount_source(std::string_view source, std::string_view type) {
  if (is_public_source(source, type)) return std::string(source);
  if (source.substr(0, 2) == "//") {
    const std::size_t end = std::min(source.find('/', 2), source.size());
    return text(source.substr(0, end)) + folder_path(source.substr(end));
  }
  if (source.substr(0, 1) == "/") return folder_path(source);
  const std::size_t server_end = source.find(":/");
  if (server_end != std::string_view::npos)
    return text(source.substr(0, server_end + 1)) + folder_path(source.substr(server_end + 1));
  std::vector<std::string> steps = split_at(source, '/');
  for (std::string& step : steps) {
    if (!step.empty()) step = own_word("volume", step);
  }
  return joined(steps, '/');
}

std::string Anonymiser::mount_options(std::string_view options, std::string_view type) {
  std::vector<std::string> each = split_at(options, ',');
  for (std::string& option : each) {
    const std::size_t equals = option.find('=');
    if (equals == std::string::npos) continue;
    const std::string key = option.substr(0, equals);
    const std::string value = option.substr(equals + 1);
    if (has_public_value(key, type)) continue;
    if (value.find('/') != std::string::npos) {
      std::vector<std::string> paths = split_at(value, ':');  // as overlay lists its layers
      for (std::string& path : paths) path = folder_path(path);
      option = key + '=' + joined(paths, ':');
    } else {
      const std::string hidden = text(value);
      const bool kept = hidden != value || is_quantity(value) || is_replaced(value);
      option = key + '=' + (kept ? hidden : numbered("value", value));
    }
  }
  return joined(each, ',');
}

std::string Anonymiser::mount_table(std::string_view table) {
  return each_line(table, [this](const std::string& line) {
    std::vector<std::string> words = split_at(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    // `21 1 259:0 ROOT POINT OPTIONS [TAGS] - TYPE SOURCE OPTIONS`
    if (words.size() < 9 || words.end() - dash < 3) return text(line);
    for (const std::size_t path : {3, 4})
      words[path] = folder_path(core::without_octal_escapes(words[path]));
    std::string& type = *(dash + 1);
    std::string& source = *(dash + 2);
    source = mount_source(core::without_octal_escapes(source), type);
    if (words.end() - dash > 3) {
      std::string& options = *(dash + 3);
      options = mount_options(core::without_octal_escapes(options), type);
    }
    return joined(words, ' ');
  });
}

std::string Anonymiser::control_groups(std::string_view groups) {
  return each_line(groups, [this](const std::string& line) {
    const std::size_t controllers = line.find(':');
    const std::size_t path =
        controllers == std::string::npos ? std::string::npos : line.find(':', controllers + 1);
    if (path == std::string::npos) return text(line);
    std::string result = line.substr(0, path + 1);
    const std::string names = text(line.substr(path + 1));
    for (std::size_t at = 0; at < names.size();) {
      const auto in_word = [](char c) { return is_letter(c) || is_decimal(c); };
      std::size_t end = at;
      while (end < names.size() && in_word(names[end])) ++end;
      const std::string word = names.substr(at, end - at);
      const bool number = std::all_of(word.begin(), word.end(), is_decimal);
      result += number || is_group_word(word) ? word : numbered("group", word);
      if (end < names.size()) result += names[end++];
      at = end;
    }
    return result;
  });
}

std::string Anonymiser::cufile_json(std::string_view original) {
  std::string result;
  for (std::size_t at = 0; at < original.size();) {
    const std::string_view rest = original.substr(at);
    if (rest.substr(0, 2) == "//") {  // a comment may say anything
      at = std::min(original.find('\n', at), original.size());
      continue;
    }
    if (rest.substr(0, 2) == "/*") {
      const std::size_t end = std::min(original.find("*/", at + 2), original.size());
      result.append(static_cast<std::size_t>(
                        std::count(original.begin() + static_cast<std::ptrdiff_t>(at),
                                   original.begin() + static_cast<std::ptrdiff_t>(end), '\n')),
                    '\n');
      at = std::min(end + 2, original.size());
      continue;
    }
    if (rest.front() == '"') {
      std::size_t end = at + 1;
      while (end < original.size() && original[end] != '"' && original[end] != '\n')
        end += original[end] == '\\' ? 2 : 1;
      end = std::min(end, original.size());
      const std::string_view inside = original.substr(at + 1, end - at - 1);
      std::size_t behind = end + 1;
      while (behind < original.size() && (original[behind] == ' ' || original[behind] == '\t'))
        ++behind;
      const bool key = behind < original.size() && original[behind] == ':';
      const bool path = inside.find('/') != std::string_view::npos;
      const std::string hidden = text(inside);
      const bool kept = key || is_cufile_word(inside) || hidden != inside || is_quantity(inside);
      result += '"';
      result += path ? folder_path(inside) : kept ? hidden : numbered("value", inside);
      at = end;
      if (at < original.size() && original[at] == '"') {
        result += '"';
        ++at;
      }
      continue;
    }
    std::size_t end = at;
    while (end < original.size() && (is_letter(original[end]) || original[end] == '_')) ++end;
    if (end == at) {
      result += original[at++];
      continue;
    }
    // Outside of quotes JSON has three words; any other is a mistake, which stays one.
    const std::string_view word = original.substr(at, end - at);
    const bool known = word == "true" || word == "false" || word == "null";
    result += known ? std::string(word) : std::string(word.size(), 'x');
    at = end;
  }
  return result;
}

}  // namespace nobounce::recording
