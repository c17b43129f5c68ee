// File systems that direct storage works on: what each is known to carry, and what its mount must
// show.
#pragma once

#include <string_view>

namespace nobounce::judge {

struct FileSystemRow {
  std::string_view type;  ///< as in /proc/self/mountinfo
  bool reads = false;
  bool writes = false;
  std::string_view option;  ///< must stand in the mount options; empty: none
  bool network = false;     ///< no block device of this host lies under it
};

/// The row of a file system, or null where it is not on the list.
[[nodiscard]] const FileSystemRow* file_system_row(std::string_view type);

/// Block drivers whose requests may carry GPU addresses.
[[nodiscard]] bool block_driver_supported(std::string_view driver);

/// Drivers of media behind a network adapter, block devices or not.
[[nodiscard]] bool network_driver(std::string_view driver);

/// True if `option` is one of the comma-separated `options`.
[[nodiscard]] bool has_option(std::string_view options, std::string_view option);

/// The types on the list, for messages: `beegfs, ext4, ...`.
[[nodiscard]] std::string_view file_system_list();

}  // namespace nobounce::judge
