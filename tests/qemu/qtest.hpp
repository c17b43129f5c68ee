// A QEMU without guest, driven over its test socket: real device models, no privileges. Its RAM and
// the peer's memory are files that this process maps too.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "support/temporary_directory.hpp"
#include "system/pci.hpp"

namespace nobounce::test {

/// A file mapped shared.
class MappedFile {
 public:
  MappedFile(const std::string& path, std::uint64_t length_bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  [[nodiscard]] std::span<std::byte> bytes() const { return {begin_, length_}; }

 private:
  std::byte* begin_ = nullptr;
  std::size_t length_ = 0;
};

/// Root port, switch, and below it: an NVMe controller with a controller memory buffer (0), one
/// with a drive to use (1), one whose drive is throttled to a crawl (2), and ivshmem, whose BAR 2
/// stands for a GPU's window.
class Qtest {
 public:
  static constexpr std::uint64_t ram_bytes = 64u << 20;
  static constexpr std::uint64_t peer_bytes = 16u << 20;
  static constexpr std::uint64_t disk_bytes = 16u << 20;
  static constexpr std::uint64_t peer_address = 0xc3000000;
  static constexpr std::uint64_t buffer_address = 0xc0800000;  ///< controller 0's memory buffer
  static constexpr std::uint64_t hole_address = 0xe0000000;    ///< nobody is there

  /// The path of QEMU; empty where there is none.
  [[nodiscard]] static std::string program();

  Qtest();
  ~Qtest();
  Qtest(const Qtest&) = delete;
  Qtest& operator=(const Qtest&) = delete;

  /// Controller 0, 1 or 2.
  [[nodiscard]] std::unique_ptr<system::PciFunction> drive(unsigned index);
  [[nodiscard]] std::unique_ptr<system::PciFunction> peer();

  [[nodiscard]] std::span<std::byte> peer_memory() const { return peer_->bytes(); }
  [[nodiscard]] std::span<std::byte> ram() const { return ram_->bytes(); }
  [[nodiscard]] std::string disk_path(unsigned index) const;

  [[nodiscard]] std::uint64_t read(std::uint64_t address, unsigned bytes);
  void write(std::uint64_t address, std::uint64_t value, unsigned bytes);
  [[nodiscard]] std::vector<std::byte> read_block(std::uint64_t address, std::size_t length);
  /// Configuration space of device 0 on a bus.
  [[nodiscard]] static std::uint64_t config(unsigned bus, unsigned device, unsigned offset);
  /// Guest memory of whole pages; nothing where there is none left.
  [[nodiscard]] std::optional<std::uint64_t> take_ram(std::uint64_t length_bytes);

 private:
  std::string ask(const std::string& line);
  void start();
  void enumerate();

  TemporaryDirectory folder_;
  std::unique_ptr<MappedFile> ram_;
  std::unique_ptr<MappedFile> peer_;
  pid_t process_ = -1;
  int socket_ = -1;
  std::string received_;
  std::uint64_t next_ram_ = 1u << 20;
};

}  // namespace nobounce::test
