// `df`, `mount`, `findmnt`, /proc/mounts: which device and file system lie under a path.
#include <array>

#include "captures/formats.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {

namespace {

bool mount_is_type(std::string_view word) {
  for (const std::string_view type :
       {"ext4", "xfs", "btrfs", "nfs", "nfs4", "lustre", "beegfs", "wekafs", "gpfs", "overlay",
        "zfs", "tmpfs", "f2fs", "ext3", "fuse", "ceph", "scatefs", "virtiofs"}) {
    if (word == type) return true;
  }
  return false;
}

class MountsParser : public Parser {
 public:
  using Parser::Parser;

  [[nodiscard]] Vocabulary vocabulary() const override {
    static constexpr std::string_view words[] = {
        "Filesystem", "ext4", "xfs",   "btrfs", "nfs",  "lustre", "beegfs", "wekafs",  "gpfs",
        "overlay",    "zfs",  "tmpfs", "f2fs",  "ext3", "fuse",   "ceph",   "scatefs", "virtiofs"};
    return {words, 0};
  }

  bool take(const Line& line) override {
    const std::string_view text = trim(line.text);
    if (starts(text, "Filesystem") && has(text, "Type") && has(text, "Mounted on")) {
      open("mounts", line);
      return true;
    }
    std::vector<std::string_view> words = words_of(text.substr(0, 1000));
    if (words.size() < 3) return false;
    // `dev on point type fs (options)`.
    if (words.size() >= 5 && words[1] == "on" && words[3] == "type")
      return leave(words[0], words[2], words[4], line);
    // `dev fs .. point` of df, `dev point fs options 0 0` of /proc/mounts.
    if (mount_is_type(words[1]) && starts(words.back(), "/") && near(line, 60))
      return leave(words[0], words.back(), words[1], line);
    if (words.size() >= 4 && mount_is_type(words[2]) && starts(words[1], "/") &&
        (starts(words[0], "/dev/") || has(words[3], "rw") || has(words[3], "ro")))
      return leave(words[0], words[1], words[2], line);
    return false;
  }

  void end() override { close(); }

 private:
  bool leave(std::string_view device, std::string_view point, std::string_view type,
             const Line& line) {
    if (!mount_is_type(type) || !starts(point, "/")) return false;
    if (!near(line, 60)) open("mounts", line);
    reach(line);
    set_entry(facts(), "mounts", point, core::JsonObject{{"device", device}, {"type", type}});
    sign(core::SignKind::mount, line, std::string(device), std::string(point), std::string(type));
    return true;
  }
};

}  // namespace

std::unique_ptr<Parser> mounts_parser(Sink& sink) {
  return std::make_unique<MountsParser>(sink);
}

}  // namespace nobounce::captures
