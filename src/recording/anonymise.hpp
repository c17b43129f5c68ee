// Takes out of a recording what says whose machine it is: names, addresses, serial numbers.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "recording/recording.hpp"
#include "system/host.hpp"

namespace nobounce::recording {

/// Words to replace wherever they stand, besides what is recognised by its form.
struct KnownSecrets {
  std::vector<std::string> hosts;  ///< `node17`, `node17.example.org`, file servers
  std::vector<std::string> users;
  std::vector<std::string> serials;  ///< serial numbers, hardware addresses, machine ids
};

/// Looks in the places where such words stand: /proc, /sys, /etc/passwd, the environment, home
/// folders and servers among the mounts.
[[nodiscard]] KnownSecrets find_secrets(system::Host& host);

/// Replaces alike what is alike: the same word becomes the same word everywhere.
class Anonymiser {
 public:
  explicit Anonymiser(KnownSecrets secrets);

  /// UUIDs, MAC and IP addresses, GUIDs, long hexadecimal numbers, WWNs, the known words, and
  /// whose folder it is below /home, /scratch, /export and /projects.
  [[nodiscard]] std::string text(std::string_view original);
  /// All texts of it; besides, of the kernel's command line only what judging may need stays, and
  /// of its version not who built it; of mounts, control groups and cufile.json nobody's own words.
  void apply(Recording& recording);

 private:
  [[nodiscard]] std::string by_form(std::string_view text);
  [[nodiscard]] std::string without_owners(std::string_view text);
  [[nodiscard]] std::string content(std::string_view path, std::string original);
  /// Where files lie that variables name is nobody's business; what they are called stays.
  void move_files_of_variables(Recording& recording);
  [[nodiscard]] std::string path(const std::string& original);
  /// A whole path: each step that is of no common vocabulary becomes `folder-N`, so that what lies
  /// in what stays as it was.
  [[nodiscard]] std::string folder_path(std::string_view original);
  [[nodiscard]] std::string mount_table(std::string_view table);
  [[nodiscard]] std::string mount_source(std::string_view source, std::string_view type);
  [[nodiscard]] std::string mount_options(std::string_view options, std::string_view type);
  [[nodiscard]] std::string control_groups(std::string_view groups);
  /// Settings stay; comments, paths and names go. Lines stay where they are.
  [[nodiscard]] std::string cufile_json(std::string_view original);
  [[nodiscard]] std::string own_word(const char* kind, std::string_view word);
  [[nodiscard]] static bool is_replaced(std::string_view word);
  [[nodiscard]] std::string numbered(const char* kind, std::string_view original);
  void apply(core::Json& json);

  std::vector<std::pair<std::string, const char*>> words_;  ///< longest first
  std::map<std::string, std::map<std::string, std::size_t>> seen_;
  std::map<std::string, std::string> moved_;  ///< files that variables name: where they lie now
  std::string cufile_path_;                   ///< cufile.json that a variable names
};

}  // namespace nobounce::recording
