// Where a machine says what it is called, who works on it, and what numbers its parts have.
#include <algorithm>
#include <string>
#include <string_view>

#include "core/mount_table.hpp"
#include "core/trimmed.hpp"
#include "recording/anonymise.hpp"

namespace nobounce::recording {
namespace {

class SecretFinder {
 public:
  explicit SecretFinder(system::Host& host) : host_(host), files_(host.files()) {}

  KnownSecrets find() {
    find_hosts();
    find_users();
    find_mounts();
    find_numbers();
    return std::move(secrets_);
  }

 private:
  std::string read(const std::string& path) {
    Result<std::string> text = files_.read(path);
    return text ? std::string(core::trimmed(*text)) : std::string();
  }
  std::vector<std::string> list(const std::string& path) {
    Result<std::vector<std::string>> names = files_.list(path);
    return names ? *std::move(names) : std::vector<std::string>();
  }
  static void add(std::vector<std::string>& words, std::string word) {
    if (!word.empty() && word != "(none)") words.push_back(std::move(word));
  }

  void add_host(const std::string& name) {
    add(secrets_.hosts, name);
    // Of a full name the first step alone, too; of an address nothing.
    const std::size_t dot = name.find('.');
    const bool address = name.find_first_not_of("0123456789.") == std::string::npos;
    if (dot != std::string::npos && !address) {
      add(secrets_.hosts, name.substr(0, dot));
      add(secrets_.hosts, name.substr(dot + 1));
    }
  }

  void find_hosts() {
    add_host(read("/proc/sys/kernel/hostname"));
    add_host(read("/etc/hostname"));
    add(secrets_.hosts, read("/proc/sys/kernel/domainname"));
    add_host(host_.environment().get("HOSTNAME").value_or(""));
  }

  void find_users() {
    for (const char* name : {"USER", "LOGNAME", "SUDO_USER"}) {
      add(secrets_.users, host_.environment().get(name).value_or(""));
    }
    add_home(host_.environment().get("HOME").value_or(""));
    const std::string users = read("/etc/passwd");
    for (std::size_t at = 0; at < users.size();) {
      const std::size_t end = std::min(users.find('\n', at), users.size());
      add_user(std::string_view(users).substr(at, end - at));
      at = end + 1;
    }
  }

  /// `alice:x:1000:1000:...`: people's numbers begin at 1000.
  void add_user(std::string_view line) {
    const std::size_t name_end = line.find(':');
    if (name_end == std::string_view::npos) return;
    const std::size_t number_at = line.find(':', name_end + 1);
    if (number_at == std::string_view::npos) return;
    const std::string_view number =
        line.substr(number_at + 1, line.find(':', number_at + 1) - number_at - 1);
    const bool person = number.size() >= 4 && number != "65534" &&
                        number.find_first_not_of("0123456789") == std::string_view::npos;
    if (person) add(secrets_.users, std::string(line.substr(0, name_end)));
  }

  void add_home(const std::string& path) {
    for (const std::string_view folder : {"/home/", "/users/", "/Users/", "/media/"}) {
      for (std::size_t at = path.find(folder); at != std::string::npos;
           at = path.find(folder, at + 1)) {
        const std::size_t begin = at + folder.size();
        add(secrets_.users, path.substr(begin, path.find('/', begin) - begin));
      }
    }
  }

  void find_mounts() {
    for (const core::MountLine& line : core::parse_mount_table(read("/proc/self/mountinfo"))) {
      add_home(line.point);
      add_home(line.source);
      add_users_of_options(line);
      // `server:/export`, `alice@server:/export`, `mds1@o2ib:mds2@o2ib:/scratch`,
      // `mon1:6789,mon2:6789:/x`, `alice@cluster-id.name=/` of Ceph, `//server/share`,
      // `server/name` of WekaFS.
      const std::string& source = line.source;
      const std::size_t colon = source.find(":/");
      if (line.type == "ceph" && source.find('@') != std::string::npos) {
        add(secrets_.users, source.substr(0, source.find('@')));
      } else if (source.substr(0, 2) == "//") {
        add_host(source.substr(2, source.find('/', 2) - 2));
      } else if (colon != std::string::npos) {
        add_servers(line, source.substr(0, colon));
      } else if (line.type == "wekafs") {
        add_servers(line, source.substr(0, source.find('/')));
      }
    }
  }

  /// Lustre's servers have their network behind `@`, all others the user in front of it.
  void add_servers(const core::MountLine& line, const std::string& servers) {
    for (std::size_t at = 0; at < servers.size();) {
      const std::size_t end = std::min(servers.find_first_of(":,", at), servers.size());
      const std::string server = servers.substr(at, end - at);
      at = end + 1;
      const std::size_t at_sign = server.find('@');
      const bool port = server.find_first_not_of("0123456789") == std::string::npos;
      if (port) continue;
      if (line.type == "lustre" || at_sign == std::string::npos) {
        add_host(server.substr(0, at_sign));
      } else {
        add(secrets_.users, server.substr(0, at_sign));
        add_host(server.substr(at_sign + 1));
      }
    }
  }

  void add_users_of_options(const core::MountLine& line) {
    const std::string_view options = line.options;
    for (std::size_t at = 0; at < options.size();) {
      const std::size_t end = std::min(options.find(',', at), options.size());
      const std::string_view option = options.substr(at, end - at);
      at = end + 1;
      const std::size_t equals = option.find('=');
      if (equals == std::string_view::npos) continue;
      const std::string_view key = option.substr(0, equals);
      const std::string value(option.substr(equals + 1));
      // Hierarchies of control groups have names as well, which are nobody's.
      const bool name = key == "name" && line.type != "cgroup";
      if (key == "username" || key == "user" || name) add(secrets_.users, value);
      if (key == "domain") add_host(value);
    }
  }

  void find_numbers() {
    for (const std::string& name : list("/sys/class/nvme")) {
      add(secrets_.serials, read("/sys/class/nvme/" + name + "/serial"));
    }
    for (const std::string& name : list("/sys/block")) {
      add(secrets_.serials, read("/sys/block/" + name + "/device/serial"));
      add(secrets_.serials, read("/sys/block/" + name + "/serial"));
      add(secrets_.serials, read("/sys/block/" + name + "/wwid"));
    }
    for (const char* name : {"product_serial", "board_serial", "chassis_serial", "product_uuid"}) {
      add(secrets_.serials, read(std::string("/sys/class/dmi/id/") + name));
    }
    add(secrets_.serials, read("/etc/machine-id"));
    for (const std::string& name : list("/sys/class/net")) {
      const std::string address = read("/sys/class/net/" + name + "/address");
      if (address != "00:00:00:00:00:00") add(secrets_.serials, address);
    }
    for (const std::string& name : list("/sys/class/infiniband")) {
      add(secrets_.serials, read("/sys/class/infiniband/" + name + "/node_guid"));
      add(secrets_.serials, read("/sys/class/infiniband/" + name + "/sys_image_guid"));
      add(secrets_.hosts, node_name(read("/sys/class/infiniband/" + name + "/node_desc")));
    }
    // "0" is what drives without a serial number say.
    const auto plain = [](const std::string& word) {
      return word.size() < 5 || word.find_first_not_of('0') == std::string::npos;
    };
    secrets_.serials.erase(std::remove_if(secrets_.serials.begin(), secrets_.serials.end(), plain),
                           secrets_.serials.end());
  }

  /// `node17 mlx5_0`
  static std::string node_name(const std::string& description) {
    return description.substr(0, description.find(' '));
  }

  system::Host& host_;
  system::Files& files_;
  KnownSecrets secrets_;
};

}  // namespace

KnownSecrets find_secrets(system::Host& host) {
  return SecretFinder(host).find();
}

}  // namespace nobounce::recording
