// QEMU over its test socket, and PCI functions over that.
#include "qtest.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>

extern char** environ;  // NOLINT: what spawned programs inherit

namespace nobounce::test {
namespace {

constexpr std::uint64_t ecam = 0xb0000000;
constexpr std::uint64_t page_bytes = 4096;

std::string hex(std::uint64_t value) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  do {
    text.insert(text.begin(), digits[value & 15]);
    value >>= 4;
  } while (value != 0);
  return "0x" + text;
}

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error("qtest: " + what);
}

void make_file(const std::string& path, std::uint64_t length) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0 || ::ftruncate(descriptor, static_cast<off_t>(length)) != 0) fail(path);
  ::close(descriptor);
}

/// A function of the machine: registers and configuration space by the socket.
class QtestFunction final : public system::PciFunction {
 public:
  struct Window {
    std::uint64_t address = 0;
    std::uint64_t length_bytes = 0;
    std::span<std::byte> mapping;
  };

  QtestFunction(Qtest& machine, unsigned bus, std::map<unsigned, Window> windows)
      : machine_(machine),
        bus_(bus),
        bdf_("0000:0" + std::to_string(bus) + ":00.0"),
        windows_(std::move(windows)) {}
  ~QtestFunction() override { (void)set_bus_mastering(system::BusMastering::off); }

  const std::string& bdf() const override { return bdf_; }
  Result<std::uint32_t> config_read32(std::uint32_t offset) override {
    return static_cast<std::uint32_t>(machine_.read(Qtest::config(bus_, 0, offset), 4));
  }
  Status config_write32(std::uint32_t offset, std::uint32_t value) override {
    machine_.write(Qtest::config(bus_, 0, offset), value, 4);
    return {};
  }
  std::uint64_t bar_bytes(unsigned bar) const override {
    const auto found = windows_.find(bar);
    return found == windows_.end() ? 0 : found->second.length_bytes;
  }
  std::uint32_t read32(unsigned bar, std::uint64_t offset) override {
    return static_cast<std::uint32_t>(machine_.read(windows_.at(bar).address + offset, 4));
  }
  std::uint64_t read64(unsigned bar, std::uint64_t offset) override {
    return machine_.read(windows_.at(bar).address + offset, 8);
  }
  void write32(unsigned bar, std::uint64_t offset, std::uint32_t value) override {
    machine_.write(windows_.at(bar).address + offset, value, 4);
  }
  void write64(unsigned bar, std::uint64_t offset, std::uint64_t value) override {
    write32(bar, offset, static_cast<std::uint32_t>(value));
    write32(bar, offset + 4, static_cast<std::uint32_t>(value >> 32));
  }
  std::span<std::byte> bar_mapping(unsigned bar) override {
    const auto found = windows_.find(bar);
    return found == windows_.end() ? std::span<std::byte>{} : found->second.mapping;
  }
  Status set_bus_mastering(system::BusMastering mode) override {
    const bool on = mode == system::BusMastering::on;
    return config_write32(4, on ? 6 : 2);
  }
  Status reset() override { return os_error(EOPNOTSUPP, "reset " + bdf_); }

  Result<system::DmaBuffer> allocate_dma(std::uint64_t length_bytes) override {
    const auto address = machine_.take_ram(length_bytes);
    if (!address.has_value()) return os_error(ENOMEM, "take guest memory");
    std::byte* const bytes = machine_.ram().data() + *address;
    std::memset(bytes, 0, length_bytes);
    return system::DmaBuffer{bytes, Iova{*address}, length_bytes};
  }
  void free_dma(const system::DmaBuffer&) override {}  // the guest's memory ends with the guest
  Result<Iova> map_host(std::byte* address, std::uint64_t) override {
    const std::span<std::byte> ram = machine_.ram();
    if (address < ram.data() || address >= ram.data() + ram.size())
      return os_error(EFAULT, "map memory that the guest does not have");
    return Iova{static_cast<std::uint64_t>(address - ram.data())};
  }
  Status can_map_gpu(std::uint32_t) override {
    return os_error(EOPNOTSUPP, "map a GPU of QEMU", Cause::nvme_peer_unmapped);
  }
  Result<Iova> map_gpu(const GpuMemory& memory) override { return can_map_gpu(memory.gpu).error(); }
  Result<Iova> map_peer(system::PciFunction& peer, unsigned bar, std::uint64_t offset,
                        std::uint64_t) override {
    return Iova{dynamic_cast<QtestFunction&>(peer).windows_.at(bar).address + offset};
  }
  void unmap(Iova) override {}

 private:
  Qtest& machine_;
  const unsigned bus_;
  const std::string bdf_;
  std::map<unsigned, Window> windows_;
};

}  // namespace

MappedFile::MappedFile(const std::string& path, std::uint64_t length_bytes)
    : length_(length_bytes) {
  make_file(path, length_bytes);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  void* const memory = ::mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  if (memory == MAP_FAILED) fail("map " + path);
  begin_ = static_cast<std::byte*>(memory);
}

MappedFile::~MappedFile() {
  ::munmap(begin_, length_);
}

std::string Qtest::program() {
  const char* path = std::getenv("PATH");
  std::string folders = path == nullptr ? "/usr/bin:/usr/local/bin" : path;
  for (std::size_t at = 0; at <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', at), folders.size());
    const std::string file = folders.substr(at, end - at) + "/qemu-system-x86_64";
    if (::access(file.c_str(), X_OK) == 0) return file;
    at = end + 1;
  }
  return {};
}

Qtest::Qtest() {
  ram_ = std::make_unique<MappedFile>(folder_.file("ram"), ram_bytes);
  peer_ = std::make_unique<MappedFile>(folder_.file("peer"), peer_bytes);
  for (unsigned disk = 0; disk < 3; ++disk) make_file(disk_path(disk), disk_bytes);
  start();
  enumerate();
}

Qtest::~Qtest() {
  if (socket_ >= 0) ::close(socket_);
  if (process_ > 0) {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
}

std::string Qtest::disk_path(unsigned index) const {
  return folder_.file("disk" + std::to_string(index));
}

void Qtest::start() {
  const std::string path = folder_.path().string();
  {
    // Halts at once, so that the virtual processor parks and the devices' clock runs.
    std::vector<char> bios(64u << 10, static_cast<char>(0xf4));
    const char reset[] = {static_cast<char>(0xfa), static_cast<char>(0xf4), static_cast<char>(0xeb),
                          static_cast<char>(0xfd)};
    std::memcpy(bios.data() + 0xfff0, reset, sizeof reset);
    const int file = ::open((path + "/bios").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (::write(file, bios.data(), bios.size()) != static_cast<ssize_t>(bios.size())) fail("bios");
    ::close(file);
  }
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = path + "/qtest";
  if (name.size() >= sizeof address.sun_path) fail("the path of the socket is too long: " + name);
  std::memcpy(address.sun_path, name.c_str(), name.size() + 1);
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener, 1) != 0)
    fail("listen");

  std::vector<std::string> words{program(),      "-machine",     "q35,memory-backend=ram",
                                 "-accel",       "tcg",          "-bios",
                                 path + "/bios", "-m",           "64M",
                                 "-nodefaults",  "-display",     "none",
                                 "-qtest",       "unix:" + name, "-qtest-log",
                                 "/dev/null"};
  const auto add = [&](const char* option, const std::string& value) {
    words.emplace_back(option);
    words.push_back(value);
  };
  add("-object", "memory-backend-file,id=ram,mem-path=" + path + "/ram,size=64M,share=on");
  add("-device", "pcie-root-port,id=rp1,bus=pcie.0,addr=1,chassis=1");
  add("-device", "x3130-upstream,id=up,bus=rp1");
  for (const char* slot : {"0", "1", "2", "3"}) {
    const std::string n(slot);
    add("-device", "xio3130-downstream,id=d" + n + ",bus=up,chassis=10,slot=" + n + ",addr=" + n);
  }
  for (unsigned disk = 0; disk < 3; ++disk) {
    const std::string n = std::to_string(disk);
    add("-drive", "file=" + disk_path(disk) + ",if=none,format=raw,id=dr" + n +
                      (disk == 2 ? ",throttling.bps-total=4096" : ""));
  }
  add("-device", "nvme,serial=a,drive=dr0,bus=d0,cmb_size_mb=1");
  add("-device", "nvme,serial=b,drive=dr1,bus=d1");
  add("-device", "nvme,serial=c,drive=dr2,bus=d3");
  add("-object", "memory-backend-file,id=m0,mem-path=" + path + "/peer,size=16M,share=on");
  add("-device", "ivshmem-plain,memdev=m0,bus=d2");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  if (::posix_spawn(&process_, words[0].c_str(), nullptr, nullptr, arguments.data(), environ) != 0)
    fail("start " + words[0]);
  // QEMU connects, or ends: wait for either.
  for (int tries = 0; tries < 2000 && socket_ < 0; ++tries) {
    ::fcntl(listener, F_SETFL, O_NONBLOCK);
    socket_ = ::accept(listener, nullptr, nullptr);
    int status = 0;
    if (socket_ < 0 && ::waitpid(process_, &status, WNOHANG) == process_) {
      process_ = -1;
      break;
    }
    if (socket_ < 0) ::usleep(10'000);
  }
  ::close(listener);
  if (socket_ < 0) fail("QEMU did not start");
  ::fcntl(socket_, F_SETFD, FD_CLOEXEC);
}

std::string Qtest::ask(const std::string& line) {
  const std::string sent = line + "\n";
  for (std::size_t done = 0; done < sent.size();) {
    const ssize_t put = ::send(socket_, sent.data() + done, sent.size() - done, MSG_NOSIGNAL);
    if (put <= 0) fail("QEMU is gone: " + line);
    done += static_cast<std::size_t>(put);
  }
  for (;;) {
    const std::size_t end = received_.find('\n');
    if (end != std::string::npos) {
      const std::string answer = received_.substr(0, end);
      received_.erase(0, end + 1);
      if (answer.rfind("OK", 0) == 0) return answer.size() > 3 ? answer.substr(3) : std::string();
      if (answer.rfind("FAIL", 0) == 0) fail(line + ": " + answer);
      continue;  // interrupts and the like
    }
    std::array<char, 65536> buffer;
    const ssize_t got = ::recv(socket_, buffer.data(), buffer.size(), 0);
    if (got <= 0) fail("QEMU is gone: " + line);
    received_.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

std::uint64_t Qtest::read(std::uint64_t address, unsigned bytes) {
  return std::stoull(ask((bytes == 8 ? "readq " : "readl ") + hex(address)), nullptr, 16);
}

void Qtest::write(std::uint64_t address, std::uint64_t value, unsigned bytes) {
  (void)ask((bytes == 8 ? "writeq " : "writel ") + hex(address) + " " + hex(value));
}

std::vector<std::byte> Qtest::read_block(std::uint64_t address, std::size_t length) {
  const std::string text = ask("read " + hex(address) + " " + hex(length));
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < length; ++i) {
    bytes[i] = static_cast<std::byte>(std::stoul(text.substr(2 + 2 * i, 2), nullptr, 16));
  }
  return bytes;
}

std::uint64_t Qtest::config(unsigned bus, unsigned device, unsigned offset) {
  return ecam + (std::uint64_t{bus} << 20) + (std::uint64_t{device} << 15) + offset;
}

std::optional<std::uint64_t> Qtest::take_ram(std::uint64_t length_bytes) {
  const std::uint64_t length = (length_bytes + page_bytes - 1) / page_bytes * page_bytes;
  if (next_ram_ + length > ram_bytes) return std::nullopt;
  return std::exchange(next_ram_, next_ram_ + length);
}

void Qtest::enumerate() {
  (void)ask("outl 0xcf8 0x80000060");
  (void)ask("outl 0xcfc " + hex(ecam | 1));
  struct Bridge {
    unsigned bus, device, secondary, last;
    std::uint64_t base, limit;
  };
  const Bridge bridges[] = {
      {0, 1, 1, 6, 0xc0000000, 0xc7ffffff}, {1, 0, 2, 6, 0xc0000000, 0xc7ffffff},
      {2, 0, 3, 3, 0xc0000000, 0xc0ffffff}, {2, 1, 4, 4, 0xc1000000, 0xc1ffffff},
      {2, 2, 5, 5, 0xc2000000, 0xc3ffffff}, {2, 3, 6, 6, 0xc4000000, 0xc4ffffff}};
  for (const Bridge& bridge : bridges) {
    write(config(bridge.bus, bridge.device, 0x18),
          bridge.bus | bridge.secondary << 8 | bridge.last << 16, 4);
    write(config(bridge.bus, bridge.device, 0x20),
          (bridge.base >> 16 & 0xfff0) | (bridge.limit & 0xfff00000), 4);
    write(config(bridge.bus, bridge.device, 0x24), 0xfff0, 4);
    write(config(bridge.bus, bridge.device, 0x04), 6, 4);
  }
  const auto place = [&](unsigned bus, std::uint64_t first, std::uint64_t second) {
    write(config(bus, 0, 0x10), first, 4);
    write(config(bus, 0, 0x14), 0, 4);
    if (second != 0) {
      write(config(bus, 0, 0x18), second, 4);
      write(config(bus, 0, 0x1c), 0, 4);
    }
    write(config(bus, 0, 0x04), 2, 4);
  };
  place(3, 0xc0000000, buffer_address);
  place(4, 0xc1000000, 0);
  place(5, 0xc2000000, peer_address);
  place(6, 0xc4000000, 0);
}

std::unique_ptr<system::PciFunction> Qtest::drive(unsigned index) {
  const unsigned buses[] = {3, 4, 6};
  const std::uint64_t bases[] = {0xc0000000, 0xc1000000, 0xc4000000};
  std::map<unsigned, QtestFunction::Window> windows{{0, {bases[index], 0x4000, {}}}};
  if (index == 0) windows[2] = {buffer_address, 1u << 20, {}};
  return std::make_unique<QtestFunction>(*this, buses[index], std::move(windows));
}

std::unique_ptr<system::PciFunction> Qtest::peer() {
  return std::make_unique<QtestFunction>(
      *this, 5,
      std::map<unsigned, QtestFunction::Window>{{2, {peer_address, peer_bytes, peer_memory()}}});
}

}  // namespace nobounce::test
