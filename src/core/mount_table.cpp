// Parses mountinfo.
#include "core/mount_table.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace nobounce::core {
namespace {

bool is_octal(char c) {
  return c >= '0' && c <= '7';
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    if (end != 0) parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

bool contains(const std::vector<std::string_view>& options, std::string_view option) {
  return std::find(options.begin(), options.end(), option) != options.end();
}

std::string joined_options(std::string_view of_mount, std::string_view of_file_system) {
  const std::vector<std::string_view> first = split(of_mount, ',');
  const std::vector<std::string_view> second = split(of_file_system, ',');
  const bool read_only = contains(first, "ro") || contains(second, "ro");
  std::string options = read_only ? "ro" : "rw";
  const auto add = [&options](std::string_view option) {
    if (option == "rw" || option == "ro") return;
    options += ',';
    options += option;
  };
  for (const std::string_view option : first) add(option);
  for (const std::string_view option : second) {
    if (!contains(first, option)) add(option);
  }
  return options;
}

/// 36 35 98:0 /root /point rw,noatime [optional fields] - type source rw,errors=continue
std::optional<MountLine> parse(std::string_view line) {
  const std::size_t dash = line.find(" - ");
  if (dash == std::string_view::npos) return std::nullopt;
  const std::vector<std::string_view> before = split(line.substr(0, dash), ' ');
  const std::vector<std::string_view> after = split(line.substr(dash + 3), ' ');
  if (before.size() < 6 || after.size() < 2) return std::nullopt;
  MountLine mount;
  mount.device = before[2];
  mount.point = without_octal_escapes(before[4]);
  mount.type = without_octal_escapes(after[0]);
  mount.source = without_octal_escapes(after[1]);
  mount.options = joined_options(before[5], after.size() > 2 ? after[2] : std::string_view());
  return mount;
}

}  // namespace

std::string without_octal_escapes(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '\\' && i + 3 < text.size() && text[i + 1] <= '3' &&
                        is_octal(text[i + 1]) && is_octal(text[i + 2]) && is_octal(text[i + 3]);
    if (!escape) {
      plain += text[i];
      continue;
    }
    plain +=
        static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
    i += 3;
  }
  return plain;
}

std::vector<MountLine> parse_mount_table(std::string_view text) {
  std::vector<MountLine> mounts;
  for (const std::string_view line : split(text, '\n')) {
    std::optional<MountLine> mount = parse(line);
    if (mount.has_value() && !mount->point.empty() && mount->point.front() == '/') {
      mounts.push_back(std::move(*mount));
    }
  }
  return mounts;
}

}  // namespace nobounce::core
