// Fuzzes /sys and /proc as a host may show them: lists, numbers, modules, versions, links and
// configuration space. Whatever they hold, there is a machine, and it can be walked.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "core/bus_address.hpp"
#include "support/memory_files.hpp"
#include "system/host.hpp"
#include "topology/mount_table.hpp"
#include "topology/pci_tree.hpp"
#include "topology/read_machine.hpp"
#include "topology/sysfs_text.hpp"

namespace {

using namespace nobounce;

void require(bool holds) {
  if (!holds) std::abort();
}

class NoEnvironment : public system::Environment {
 public:
  std::optional<std::string> get(std::string_view) override { return std::nullopt; }
  Status set(std::string_view, std::string_view) override { return os_error(EPERM, "set"); }
};

/// A host that has files, an empty environment and nothing else; topology asks for no more.
class FilesHost : public system::Host {
 public:
  support::MemoryFiles tree;

  HostKind kind() const override { return HostKind::recorded; }
  std::string_view name() const override { return "fuzz"; }
  Result<system::Cuda*> cuda() override { return os_error(ENOENT, "load libcuda.so.1"); }
  Result<system::Nvml*> nvml() override { return os_error(ENOENT, "load libnvidia-ml.so.1"); }
  Result<system::Cufile*> cufile() override { return os_error(ENOENT, "load libcufile.so.0"); }
  system::Files& files() override { return tree; }
  system::Storage& storage() override { return absent<system::Storage>(); }
  system::Memory& memory() override { return absent<system::Memory>(); }
  system::Workers& workers() override { return absent<system::Workers>(); }
  system::Counters& counters() override { return absent<system::Counters>(); }
  system::Environment& environment() override { return environment_; }
  system::Process& process() override { return absent<system::Process>(); }
  system::Clock& clock() override { return absent<system::Clock>(); }
  system::Entropy& entropy() override { return absent<system::Entropy>(); }

 private:
  template <typename Part>
  static Part& absent() {
    std::abort();
  }
  NoEnvironment environment_;
};

/// `=PATH` begins a file whose content follows, `>PATH` a link whose target does, `+PATH` a folder.
/// `@` in a path or target stands for /sys/devices/pci0000:00, which inputs would spend their
/// length on.
std::string spelled(std::string_view text) {
  std::string plain;
  for (const char c : text.substr(0, 300)) {
    if (c == '@') {
      plain += "/sys/devices/pci0000:00";
    } else if (c != '\0') {
      plain += c;
    }
  }
  return plain;
}

void fill(support::MemoryFiles& files, std::string_view text) {
  constexpr int entries_max = 64;
  for (int entries = 0; !text.empty() && entries < entries_max; ++entries) {
    const char kind = text.front();
    const std::string_view line = text.substr(1, text.find('\n') - 1);
    text.remove_prefix(std::min(text.size(), line.size() + 2));
    std::size_t next = 0;  // of the next line that begins an entry
    while (next < text.size() && !((next == 0 || text[next - 1] == '\n') &&
                                   (text[next] == '=' || text[next] == '>' || text[next] == '+'))) {
      ++next;
    }
    std::string_view content = text.substr(0, next);
    text.remove_prefix(next);
    const std::string path = spelled(line);
    if (path.empty() || path.front() != '/') continue;
    if (kind == '=') files.text(path, std::string(content));
    if (kind == '+') files.directory(path);
    if (kind == '>' && !content.empty()) files.link(path, spelled(topology::trimmed(content)));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FilesHost host;
  fill(host.tree, std::string_view(reinterpret_cast<const char*>(data), size));
  const Result<Machine> read = topology::read_machine(host);
  require(read.ok());
  const Machine& machine = *read;
  require(machine.name == "fuzz");
  require(!machine.numa_nodes.empty());
  require(mount_of(machine, "/") != nullptr);
  for (std::size_t gpu = 0; gpu < machine.gpus.size() && gpu < 4; ++gpu) {
    const DeviceRef ref{DeviceRef::Kind::gpu, static_cast<std::uint16_t>(gpu)};
    for (std::size_t drive = 0; drive < machine.drives.size() && drive < 4; ++drive) {
      const DeviceRef other{DeviceRef::Kind::drive, static_cast<std::uint16_t>(drive)};
      require(!level_text(path_between(machine, ref, other)).empty());
    }
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string bdf = core::canonical_bdf(text);
  require(bdf.size() <= size);
  require(topology::trimmed(bdf) != bdf || core::canonical_bdf(bdf) == bdf);
  return 0;
}
