// The parts of a software machine put together by hand, with a folder for real files: what these
// tests look into.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nobounce/machine.hpp>

#include "core/machine_json.hpp"
#include "fabric/bus.hpp"
#include "fabric/embedded_machines.hpp"
#include "fabric/soft_cufile.hpp"
#include "fabric/soft_environment.hpp"
#include "fabric/soft_files.hpp"
#include "fabric/soft_gpu.hpp"
#include "fabric/soft_storage.hpp"
#include "support/planted.hpp"
#include "system/live_host.hpp"

namespace nobounce::fabric {

/// A built-in machine, completed.
inline Machine built_in(std::string_view name) {
  for (const EmbeddedMachine& machine : embedded_machines()) {
    if (machine.name != name) continue;
    Result<Machine> parsed = core::machine_from_text(machine.json, machine.name);
    EXPECT_TRUE(parsed.ok()) << to_string(parsed.error());
    if (parsed.ok()) return *parsed;
  }
  ADD_FAILURE() << "no machine " << name;
  return {};
}

/// Bytes that differ from place to place, so that misplaced ones are noticed.
inline std::vector<std::byte> pattern(std::size_t length, std::uint64_t seed = 1) {
  std::vector<std::byte> bytes(length);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (std::byte& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

/// A folder of its own below the system's temporary one, removed at the end.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "fabric-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = std::filesystem::canonical(name).string();
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(std::string_view name) const {
    return path_ + '/' + std::string(name);
  }
  std::string add_file(std::string_view name, const std::vector<std::byte>& content) const {
    const std::string path = *this / name;
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(content.data()),
               static_cast<std::streamsize>(content.size()));
    return path;
  }
  static std::vector<std::byte> content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    std::vector<std::byte> bytes(text.size());
    if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
    return bytes;
  }

 private:
  std::string path_;
};

/// Everything of a machine but its CUDA and its host. `adjust` changes the description first.
struct MachineRig {
  explicit MachineRig(Machine described, const SoftFaults& given_faults = {})
      : machine(std::move(described)), faults(given_faults) {
    core::complete_machine(machine);
    EXPECT_TRUE(validate(machine).ok());
    faults.mutant = test::planted().fabric;
    BusOptions options;
    options.dma_fault = [this] { return random.chance(faults.dma_fault); };
    Result<std::unique_ptr<Bus>> made = Bus::create(machine, options);
    if (!made.ok()) std::abort();
    bus = std::move(*made);
    allocations = std::make_unique<GpuAllocations>(*bus);
    module = std::make_unique<NvfsModule>(machine, bus->ledger(), faults);
    files = make_soft_files(machine, *module, bus->ledger());
    environment = make_soft_environment(machine);
    storage = make_soft_storage(*bus, machine, faults, random, system::make_live_storage());
    cufile = make_soft_cufile(
        {*bus, machine, faults, random, *allocations, *storage, *files, *environment, *module});
  }

  [[nodiscard]] system::FileHandle open(const std::string& path, system::OpenOptions options = {}) {
    Result<system::FileHandle> handle = storage->open(path, options);
    EXPECT_TRUE(handle.ok()) << (handle.ok() ? "" : to_string(handle.error()));
    return handle.ok() ? *handle : system::FileHandle{};
  }

  /// GPU memory, filled with a pattern of its own.
  [[nodiscard]] DevicePointer allocate(std::uint64_t length_bytes, std::uint32_t gpu = 0) {
    const std::optional<DevicePointer> pointer = allocations->allocate(gpu, length_bytes);
    if (!pointer) std::abort();
    return *pointer;
  }
  void plant(DevicePointer pointer, const std::vector<std::byte>& bytes) {
    EXPECT_TRUE(bus->plant(End::of(pointer), bytes));
  }
  [[nodiscard]] std::vector<std::byte> inspect(DevicePointer pointer, std::size_t length) {
    std::vector<std::byte> bytes(length);
    EXPECT_TRUE(bus->inspect(End::of(pointer), bytes));
    return bytes;
  }
  /// How the bytes of a piece of GPU memory arrived.
  [[nodiscard]] CarriageBytes arrivals(DevicePointer pointer, std::uint64_t length_bytes) {
    return bus->ledger().arrivals(bus->extent_of(End::of(pointer)), length_bytes).bytes;
  }
  /// How the bytes of a piece of a file arrived.
  [[nodiscard]] CarriageBytes arrivals(system::FileHandle file, std::uint64_t offset,
                                       std::uint64_t length_bytes) {
    const std::shared_ptr<const SoftFile> known = storage->find(file.descriptor);
    if (known == nullptr) return {};
    const End end = End::of(known->medium, FileOffset{offset});
    return bus->ledger().arrivals(bus->extent_of(end), length_bytes).bytes;
  }

  Machine machine;
  SoftFaults faults;
  SoftRandom random{7};
  std::unique_ptr<Bus> bus;
  std::unique_ptr<GpuAllocations> allocations;
  std::unique_ptr<NvfsModule> module;
  std::unique_ptr<system::Files> files;
  std::unique_ptr<system::Environment> environment;
  std::unique_ptr<SoftStorage> storage;
  std::unique_ptr<system::Cufile> cufile;
};

}  // namespace nobounce::fabric
