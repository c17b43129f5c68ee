// The libcufile model: recorded answers, both paths and what tells them apart, configuration,
// statistics, faults.
#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <functional>

#include "fabric/soft_cufile_config.hpp"
#include "machine_rig.hpp"

namespace nobounce::fabric {
namespace {

namespace cufile = system::cufile;
using system::FileAccess;
using system::FileHandle;

constexpr std::size_t block = 4096;
constexpr std::size_t mebibyte = 1u << 20;

std::vector<std::byte> part_of(const std::vector<std::byte>& bytes, std::size_t begin,
                               std::size_t length) {
  const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(length)};
}

/// One file on a machine, and the calls that tests make.
struct CufileRig : MachineRig {
  explicit CufileRig(const Machine& described, const SoftFaults& given = {})
      : MachineRig(described, given) {}
  ~CufileRig() {
    for (const FileHandle file : opened) (void)storage->close(file);
  }
  CufileRig(const CufileRig&) = delete;
  CufileRig& operator=(const CufileRig&) = delete;

  FileHandle open_file(const std::string& path, FileAccess access = FileAccess::read,
                       bool direct = true) {
    const FileHandle file =
        open(path, {.access = access, .create = access != FileAccess::read, .direct = direct});
    opened.push_back(file);
    return file;
  }
  int register_handle(FileHandle file, cufile::CUfileHandle_t& handle) {
    return register_descriptor(file.descriptor, handle);
  }
  int register_descriptor(int descriptor, cufile::CUfileHandle_t& handle) {
    cufile::CUfileDescr_t description{};
    description.type = cufile::handle_type_opaque_fd;
    description.handle.fd = descriptor;
    return this->MachineRig::cufile->handle_register(&handle, &description).err;
  }
  cufile::CUfileHandle_t must_register(FileHandle file) {
    cufile::CUfileHandle_t handle = nullptr;
    EXPECT_EQ(register_handle(file, handle), 0);
    return handle;
  }
  int register_buffer(DevicePointer pointer, std::size_t length) {
    return table().buf_register(as_pointer(pointer), length, 0).err;
  }
  static void* as_pointer(DevicePointer pointer) { return reinterpret_cast<void*>(pointer.value); }

  ssize_t read(cufile::CUfileHandle_t handle, DevicePointer base, std::size_t size,
               off_t offset = 0, off_t inside = 0) {
    errno = 0;
    return table().read(handle, as_pointer(base), size, offset, inside);
  }
  ssize_t write(cufile::CUfileHandle_t handle, DevicePointer base, std::size_t size,
                off_t offset = 0, off_t inside = 0) {
    errno = 0;
    return table().write(handle, as_pointer(base), size, offset, inside);
  }
  system::Cufile& table() { return *this->MachineRig::cufile; }
  /// The statistics of GPU 0, counting since the first call.
  cufile::CUfilePerGpuStats_t gpu_stats(std::size_t gpu = 0) {
    cufile::CUfileStatsLevel3_t stats{};
    EXPECT_EQ(table().get_stats_l3(&stats).err, 0);
    return stats.per_gpu_stats[gpu];
  }
  void start_statistics() {
    EXPECT_EQ(table().set_stats_level(3).err, 0);
    EXPECT_EQ(table().stats_start().err, 0);
  }
  std::uint64_t host_dram_bytes() { return bus->ledger().dram_bytes(); }

  std::vector<FileHandle> opened;
};

Machine with_variable(Machine machine, const std::string& name, const std::string& value) {
  machine.environment[name] = value;
  return machine;
}

Machine without_module(Machine machine) {
  machine.modules.nvidia_fs = false;
  return machine;
}

Machine strict(Machine machine) {
  return with_variable(std::move(machine), "CUFILE_ALLOW_COMPAT_MODE", "false");
}

class CufileTest : public ::testing::Test {
 protected:
  Folder folder;
};

// --- The direct path ---------------------------------------------------------------------------

TEST_F(CufileTest, AlignedReadsIntoARegisteredBufferAreDirect) {
  const auto content = pattern(40 * mebibyte);
  const std::string path = folder.add_file("a", content);
  CufileRig rig(built_in("workstation"));
  const auto handle = rig.must_register(rig.open_file(path));
  const DevicePointer memory = rig.allocate(content.size());
  ASSERT_EQ(rig.register_buffer(memory, content.size()), 0);
  rig.start_statistics();
  ASSERT_EQ(rig.read(handle, memory, content.size()), static_cast<ssize_t>(content.size()));
  EXPECT_EQ(rig.inspect(memory, content.size()), content);
  EXPECT_EQ(rig.arrivals(memory, content.size())[Carriage::direct], content.size());
  EXPECT_EQ(rig.host_dram_bytes(), 0u);
  const auto stats = rig.gpu_stats();
  EXPECT_EQ(stats.n_total_reads, 1u);  // operations, however many pieces the bus saw
  EXPECT_EQ(stats.n_nvfs_reads, 1u);
  EXPECT_EQ(stats.n_posix_reads, 0u);
  EXPECT_EQ(stats.n_unaligned_reads, 0u);
  EXPECT_EQ(stats.read_bytes, content.size());
}

TEST_F(CufileTest, AlignedWritesFromARegisteredBufferAreDirect) {
  const auto content = pattern(3 * mebibyte);
  CufileRig rig(built_in("workstation"));
  const FileHandle file = rig.open_file(folder / "a", FileAccess::write);
  const auto handle = rig.must_register(file);
  const DevicePointer memory = rig.allocate(content.size());
  rig.plant(memory, content);
  ASSERT_EQ(rig.register_buffer(memory, content.size()), 0);
  rig.start_statistics();
  ASSERT_EQ(rig.write(handle, memory, content.size()), static_cast<ssize_t>(content.size()));
  EXPECT_EQ(Folder::content(folder / "a"), content);
  EXPECT_EQ(rig.arrivals(file, 0, content.size())[Carriage::direct], content.size());
  EXPECT_EQ(rig.host_dram_bytes(), 0u);
  EXPECT_EQ(rig.gpu_stats().n_nvfs_writes, 1u);
  EXPECT_EQ(rig.gpu_stats().n_posix_writes, 0u);
}

TEST_F(CufileTest, UnalignedRequestsBounceInsideTheGpuInBothDirections) {
  const auto content = pattern(2 * mebibyte + 4097);
  const std::string path = folder.add_file("a", content);
  const struct {
    std::size_t offset, inside, size;
  } cases[] = {{1, 0, block}, {0, 1, block}, {0, 0, block - 1}, {4095, 3, 2 * mebibyte}, {7, 9, 1}};
  for (const auto& each : cases) {
    CufileRig rig(built_in("workstation"));
    const auto handle = rig.must_register(rig.open_file(path));
    const FileHandle copy = rig.open_file(folder / "copy", FileAccess::read_write);
    const auto copy_handle = rig.must_register(copy);
    const DevicePointer memory = rig.allocate(4 * mebibyte);
    const auto before = pattern(4 * mebibyte, 99);
    rig.plant(memory, before);
    ASSERT_EQ(rig.register_buffer(memory, 4 * mebibyte), 0);
    rig.start_statistics();
    const auto inside = static_cast<off_t>(each.inside);
    const auto offset = static_cast<off_t>(each.offset);
    ASSERT_EQ(rig.read(handle, memory, each.size, offset, inside), static_cast<ssize_t>(each.size));
    const std::vector<std::byte> wanted = part_of(content, each.offset, each.size);
    const DevicePointer at = memory.plus(each.inside);
    EXPECT_EQ(rig.inspect(at, each.size), wanted);
    // Nothing beyond was touched.
    EXPECT_EQ(rig.inspect(at.plus(each.size), 64), part_of(before, each.inside + each.size, 64));
    EXPECT_EQ(rig.arrivals(at, each.size)[Carriage::device_bounced], each.size);
    EXPECT_EQ(rig.gpu_stats().n_nvfs_reads, 1u);
    EXPECT_EQ(rig.gpu_stats().n_unaligned_reads, 1u);
    ASSERT_EQ(rig.write(copy_handle, memory, each.size, offset, inside),
              static_cast<ssize_t>(each.size));
    const auto written = Folder::content(folder / "copy");
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), written.begin() + offset));
    EXPECT_EQ(rig.arrivals(copy, each.offset, each.size)[Carriage::device_bounced], each.size);
    EXPECT_EQ(rig.gpu_stats().n_unaligned_writes, 1u);
    EXPECT_EQ(rig.host_dram_bytes(), 0u);
    std::filesystem::remove(folder / "copy");
  }
}

TEST_F(CufileTest, TheDriveReadsWholeBlocksForAnUnalignedRequest) {
  const std::string path = folder.add_file("a", pattern(4 * block));
  CufileRig rig(built_in("workstation"));
  const auto handle = rig.must_register(rig.open_file(path));
  const DevicePointer memory = rig.allocate(block);
  ASSERT_EQ(rig.read(handle, memory, 2, static_cast<off_t>(2 * block - 1)), 2);
  std::uint64_t from_media = 0;
  for (const auto& [flow, moved] : rig.bus->ledger().flows()) {
    if (flow.source.kind == Space::Kind::media) from_media += moved;
  }
  EXPECT_EQ(from_media, 2 * block);
}

TEST_F(CufileTest, UnregisteredBuffersBounceToo) {
  const auto content = pattern(mebibyte);
  const std::string path = folder.add_file("a", content);
  CufileRig rig(built_in("workstation"));
  const auto handle = rig.must_register(rig.open_file(path));
  const DevicePointer memory = rig.allocate(content.size());
  rig.start_statistics();
  ASSERT_EQ(rig.read(handle, memory, content.size()), static_cast<ssize_t>(content.size()));
  EXPECT_EQ(rig.inspect(memory, content.size()), content);
  EXPECT_EQ(rig.arrivals(memory, content.size())[Carriage::device_bounced], content.size());
  EXPECT_EQ(rig.gpu_stats().n_nvfs_reads, 1u);
  EXPECT_EQ(rig.gpu_stats().n_unaligned_reads, 0u);
  EXPECT_EQ(rig.host_dram_bytes(), 0u);
}

TEST_F(CufileTest, APointerInsideARegistrationCountsAsUnregistered) {
  const auto content = pattern(2 * mebibyte);
  const std::string path = folder.add_file("a", content);
  CufileRig rig(built_in("workstation"));
  const auto handle = rig.must_register(rig.open_file(path));
  const DevicePointer memory = rig.allocate(2 * mebibyte);
  ASSERT_EQ(rig.register_buffer(memory, 2 * mebibyte), 0);
  ASSERT_EQ(rig.read(handle, memory, mebibyte, 0, mebibyte), static_cast<ssize_t>(mebibyte));
  EXPECT_EQ(rig.arrivals(memory.plus(mebibyte), mebibyte)[Carriage::direct], mebibyte);
  ASSERT_EQ(rig.read(handle, memory.plus(mebibyte), mebibyte), static_cast<ssize_t>(mebibyte));
  EXPECT_EQ(rig.arrivals(memory.plus(mebibyte), mebibyte)[Carriage::device_bounced], mebibyte);
}

TEST_F(CufileTest, AnAlignedReadOverTheEndIsDirectButForItsLastBlock) {
  const auto content = pattern(2 * block + 100);
  const std::string path = folder.add_file("a", content);
  CufileRig rig(built_in("workstation"));
  const auto handle = rig.must_register(rig.open_file(path));
  const DevicePointer memory = rig.allocate(mebibyte);
  ASSERT_EQ(rig.register_buffer(memory, mebibyte), 0);
  rig.start_statistics();
  ASSERT_EQ(rig.read(handle, memory, mebibyte), static_cast<ssize_t>(content.size()));
  EXPECT_EQ(rig.inspect(memory, content.size()), content);
  const CarriageBytes bytes = rig.arrivals(memory, content.size());
  EXPECT_EQ(bytes[Carriage::direct], 2 * block);
  EXPECT_EQ(bytes[Carriage::device_bounced], 100u);
  EXPECT_EQ(rig.gpu_stats().n_unaligned_reads, 1u);
}

TEST_F(CufileTest, EndsOfFilesAnswerShortOrZero) {
  const std::string path = folder.add_file("a", pattern(5000));
  CufileRig rig(built_in("workstation"));
  const auto handle = rig.must_register(rig.open_file(path));
  const DevicePointer memory = rig.allocate(mebibyte);
  EXPECT_EQ(rig.read(handle, memory, mebibyte), 5000);
  EXPECT_EQ(rig.read(handle, memory, 4096, 4096), 904);
  EXPECT_EQ(rig.read(handle, memory, 4096, 5000), 0);
  EXPECT_EQ(rig.read(handle, memory, 4096, 1 << 20), 0);
  EXPECT_EQ(rig.read(handle, memory, 0), 0);
  EXPECT_EQ(rig.write(handle, memory, 0), -1);  // opened for reading
}

TEST_F(CufileTest, RemoteDrivesAreReadByTheirNic) {
  const auto content = pattern(mebibyte);
  const std::string path = folder.add_file("a", content);
  for (const char* name : {"nvmeof", "nfs-rdma"}) {
    Machine machine = built_in(name);
    machine.mounts.back().point = folder.path();
    CufileRig rig(strict(machine));
    const auto handle = rig.must_register(rig.open_file(path));
    const DevicePointer memory = rig.allocate(content.size());
    ASSERT_EQ(rig.register_buffer(memory, content.size()), 0);
    ASSERT_EQ(rig.read(handle, memory, content.size()), static_cast<ssize_t>(content.size()));
    EXPECT_EQ(rig.inspect(memory, content.size()), content);
    EXPECT_EQ(rig.arrivals(memory, content.size())[Carriage::direct], content.size());
    for (const Request& request : rig.bus->ledger().requests()) {
      EXPECT_EQ(request.initiator.kind, Initiator::Kind::nic);
    }
  }
}

TEST_F(CufileTest, NetworkFileSystemsForReadsOnlyStageOrRefuseWrites) {
  for (const bool allowed : {true, false}) {
    Machine machine = built_in("nfs-rdma");
    machine.mounts.back().point = folder.path();
    CufileRig rig(allowed ? machine : strict(machine));
    const FileHandle file = rig.open_file(folder / "b", FileAccess::read_write);
    const auto handle = rig.must_register(file);
    const auto content = pattern(mebibyte);
    const DevicePointer memory = rig.allocate(content.size());
    rig.plant(memory, content);
    rig.start_statistics();
    const ssize_t written = rig.write(handle, memory, content.size());
    const int code = errno;
    if (allowed) {
      EXPECT_EQ(written, static_cast<ssize_t>(content.size()));
      EXPECT_EQ(rig.arrivals(file, 0, content.size())[Carriage::staged], content.size());
      EXPECT_EQ(rig.gpu_stats().n_posix_writes, 1u);
    } else {
      EXPECT_EQ(written, -1);
      EXPECT_EQ(code, cufile::error_io_not_supported);
      EXPECT_TRUE(Folder::content(folder / "b").empty());
    }
    std::filesystem::remove(folder / "b");
  }
}

// --- Compatibility mode ------------------------------------------------------------------------

struct Broken {
  const char* name;
  std::function<void(Machine&)> adjust;
  int strict_code;  ///< of cuFileHandleRegister without compatibility mode
  bool compat_works = true;
};

std::vector<Broken> broken_machines() {
  return {
      {"no data=ordered", [](Machine& m) { m.mounts[0].options = "rw,relatime"; }, 5008},
      {"btrfs", [](Machine& m) { m.mounts[0].type = "btrfs"; }, 5008},
      {"driver not registered", [](Machine& m) { m.drives[0].nvidia_fs_registered = false; }, 5030},
      {"dm", [](Machine& m) { m.drives[0].driver = "dm"; }, 5030},
      {"iommu translated", [](Machine& m) { m.kernel.iommu = IommuMode::translated; }, 5007},
      {"no udev", [](Machine& m) { m.udev = false; }, 5027, false},
      {"module absent", [](Machine& m) { m.modules.nvidia_fs = false; }, 5001},
  };
}

TEST_F(CufileTest, WhatCannotBeDirectStagesInSilenceWhereAllowed) {
  const auto content = pattern(2 * mebibyte + 5);
  const std::string path = folder.add_file("a", content);
  for (const Broken& broken : broken_machines()) {
    SCOPED_TRACE(broken.name);
    Machine machine = built_in("workstation");
    broken.adjust(machine);
    CufileRig rig(machine);
    cufile::CUfileHandle_t handle = nullptr;
    const int code = rig.register_handle(rig.open_file(path), handle);
    if (!broken.compat_works) {
      EXPECT_EQ(code, broken.strict_code);
      continue;
    }
    ASSERT_EQ(code, 0);
    const DevicePointer memory = rig.allocate(content.size());
    ASSERT_EQ(rig.register_buffer(memory, content.size()), 0);
    rig.start_statistics();
    // Nothing in the answers differs from the direct path ...
    ASSERT_EQ(rig.read(handle, memory, content.size()), static_cast<ssize_t>(content.size()));
    EXPECT_EQ(rig.inspect(memory, content.size()), content);
    // ... only the statistics and the bus tell.
    EXPECT_EQ(rig.gpu_stats().n_posix_reads, 1u);
    EXPECT_EQ(rig.gpu_stats().n_nvfs_reads, 0u);
    EXPECT_EQ(rig.arrivals(memory, content.size())[Carriage::staged], content.size());
    EXPECT_GE(rig.host_dram_bytes(), 2 * content.size());
  }
}

TEST_F(CufileTest, WhatCannotBeDirectIsRefusedWhereStagingIsNotAllowed) {
  const std::string path = folder.add_file("a", pattern(block));
  for (const Broken& broken : broken_machines()) {
    SCOPED_TRACE(broken.name);
    Machine machine = strict(built_in("workstation"));
    broken.adjust(machine);
    CufileRig rig(machine);
    cufile::CUfileHandle_t handle = nullptr;
    EXPECT_EQ(rig.register_handle(rig.open_file(path), handle), broken.strict_code);
    EXPECT_TRUE(rig.bus->ledger().flows().empty());
  }
}

TEST_F(CufileTest, FilesWithoutODirectStageOrAreRefused) {
  const std::string path = folder.add_file("a", pattern(block));
  Machine machine = built_in("workstation");
  machine.mounts[0].direct_io = false;
  CufileRig lenient(machine);
  cufile::CUfileHandle_t handle = nullptr;
  EXPECT_EQ(lenient.register_handle(lenient.open_file(path, FileAccess::read, false), handle), 0);
  CufileRig hard(strict(machine));
  EXPECT_EQ(hard.register_handle(hard.open_file(path, FileAccess::read, false), handle), 5020);
}

TEST_F(CufileTest, ABufferedDescriptorIsNoObstacle) {
  const auto content = pattern(mebibyte);
  const std::string path = folder.add_file("a", content);
  CufileRig rig(strict(built_in("workstation")));
  const auto handle = rig.must_register(rig.open_file(path, FileAccess::read, false));
  const DevicePointer memory = rig.allocate(content.size());
  ASSERT_EQ(rig.register_buffer(memory, content.size()), 0);
  ASSERT_EQ(rig.read(handle, memory, content.size()), static_cast<ssize_t>(content.size()));
  EXPECT_EQ(rig.arrivals(memory, content.size())[Carriage::direct], content.size());
}

TEST_F(CufileTest, PassThroughIommuIsTolerated) {
  const std::string path = folder.add_file("a", pattern(block));
  Machine machine = strict(built_in("workstation"));
  machine.kernel.iommu = IommuMode::identity;
  CufileRig rig(machine);
  const auto handle = rig.must_register(rig.open_file(path));
  const DevicePointer memory = rig.allocate(block);
  EXPECT_EQ(rig.read(handle, memory, block), static_cast<ssize_t>(block));
}

TEST_F(CufileTest, AGpuThatCannotBePinnedStagesOrIsRefused) {
  const std::string path = folder.add_file("a", pattern(block));
  Machine machine = built_in("workstation");
  machine.gpus[0].gpudirect_rdma = false;
  CufileRig lenient(machine);
  auto handle = lenient.must_register(lenient.open_file(path));
  DevicePointer memory = lenient.allocate(block);
  EXPECT_EQ(lenient.register_buffer(memory, block), 0);
  EXPECT_EQ(lenient.read(handle, memory, block), static_cast<ssize_t>(block));
  EXPECT_EQ(lenient.arrivals(memory, block)[Carriage::staged], block);
  CufileRig hard(strict(machine));
  handle = hard.must_register(hard.open_file(path));
  memory = hard.allocate(block);
  EXPECT_EQ(hard.register_buffer(memory, block), 5009);
  EXPECT_EQ(hard.read(handle, memory, block), -1);
  EXPECT_EQ(errno, 5009);
}

TEST_F(CufileTest, StagedWritesArriveWhole) {
  const auto content = pattern(2 * mebibyte + 77);
  CufileRig rig(without_module(built_in("workstation")));
  const FileHandle file = rig.open_file(folder / "a", FileAccess::write);
  const auto handle = rig.must_register(file);
  const DevicePointer memory = rig.allocate(content.size());
  rig.plant(memory, content);
  rig.start_statistics();
  ASSERT_EQ(rig.write(handle, memory, content.size()), static_cast<ssize_t>(content.size()));
  EXPECT_EQ(Folder::content(folder / "a"), content);
  EXPECT_EQ(rig.arrivals(file, 0, content.size())[Carriage::staged], content.size());
  EXPECT_EQ(rig.gpu_stats().n_posix_writes, 1u);
}

TEST_F(CufileTest, HostMemoryIsReadWithoutAGpu) {
  const auto content = pattern(5000);
  const std::string path = folder.add_file("a", content);
  CufileRig rig(built_in("workstation"));
  const auto handle = rig.must_register(rig.open_file(path));
  std::vector<std::byte> memory(8192);
  EXPECT_EQ(rig.table().buf_register(memory.data(), memory.size(), 0).err, 0);
  EXPECT_EQ(rig.table().read(handle, memory.data(), memory.size(), 0, 0), 5000);
  EXPECT_TRUE(std::equal(content.begin(), content.end(), memory.begin()));
}

// --- The bus loses requests ----------------------------------------------------------------------

TEST_F(CufileTest, PeerRequestsLostOnTheBusAreIoErrorsAndChangeNothing) {
  const std::string path = folder.add_file("a", pattern(mebibyte));
  Machine redirected = built_in("workstation");
  redirected.switches[0].acs = AcsMode::redirect;
  SoftFaults faults;
  faults.dma_fault = 1;
  struct Case {
    Machine machine;
    SoftFaults faults;
    std::uint32_t gpu;
  };
  const std::vector<Case> cases = {
      {redirected, {}, 0}, {built_in("two-socket"), {}, 1}, {built_in("workstation"), faults, 0}};
  for (const Case& each : cases) {
    CufileRig rig(each.machine, each.faults);
    const auto handle = rig.must_register(rig.open_file(path));
    const DevicePointer memory = rig.allocate(mebibyte, each.gpu);
    const auto before = pattern(mebibyte, 5);
    rig.plant(memory, before);
    ASSERT_EQ(rig.register_buffer(memory, mebibyte), 0);
    rig.start_statistics();
    EXPECT_EQ(rig.read(handle, memory, mebibyte), -1);
    EXPECT_EQ(errno, EIO);
    EXPECT_EQ(rig.inspect(memory, mebibyte), before);
    EXPECT_EQ(rig.bus->ledger().lost_bytes(), mebibyte);
    EXPECT_EQ(rig.gpu_stats(each.gpu).n_reads_err, 1u);
    EXPECT_EQ(rig.gpu_stats(each.gpu).n_posix_reads, 0u);  // not retried another way
    EXPECT_NE(
        rig.files->read("/proc/driver/nvidia-fs/stats")->find("Reads\t\t\t\t: n=1 ok=0 err=1"),
        std::string::npos);
  }
}

// --- Recorded answers ----------------------------------------------------------------------------

class RecordedAnswers : public CufileTest {
 protected:
  RecordedAnswers() : path(folder.add_file("a", pattern(mebibyte))), rig(built_in("workstation")) {
    file = rig.open_file(path);
    handle = rig.must_register(file);
    memory = rig.allocate(mebibyte);
    EXPECT_EQ(rig.register_buffer(memory, mebibyte), 0);
  }
  void expect_read_fails(ssize_t answer, int code, const char* what) {
    const int seen = errno;
    EXPECT_EQ(answer, -1) << what;
    EXPECT_EQ(seen, code) << what;
  }
  std::string path;
  CufileRig rig;
  FileHandle file;
  cufile::CUfileHandle_t handle = nullptr;
  DevicePointer memory;
};

TEST_F(RecordedAnswers, OfReadsWithWrongArguments) {
  expect_read_fails(rig.read(nullptr, memory, block), EINVAL, "null handle");
  expect_read_fails(rig.read(&rig, memory, block), EINVAL, "never issued");
  errno = 0;
  expect_read_fails(rig.table().read(handle, nullptr, block, 0, 0), EINVAL, "null buffer");
  expect_read_fails(rig.read(handle, memory, mebibyte + 1), 5017, "past a registration");
  expect_read_fails(rig.read(handle, memory, block, 0, mebibyte), 5017, "offset past it");
  const DevicePointer loose = rig.allocate(4 * mebibyte);
  expect_read_fails(rig.read(handle, loose, 4 * mebibyte + 1), EIO, "past an allocation");
  expect_read_fails(rig.read(handle, memory, block, -1), 5022, "negative file offset");
  expect_read_fails(rig.read(handle, memory, block, 0, -1), 5030, "negative buffer offset");
  expect_read_fails(rig.read(handle, loose, block, 0, -1), EIO, "the same, not registered");
  rig.table().handle_deregister(handle);
  expect_read_fails(rig.read(handle, memory, block), 5027, "deregistered handle");
}

TEST_F(RecordedAnswers, OfTheWrongDirection) {
  const auto writer = rig.must_register(rig.open_file(folder / "w", FileAccess::write));
  expect_read_fails(rig.read(writer, memory, block), 5019, "read on O_WRONLY");
  expect_read_fails(rig.write(handle, memory, block), EIO, "write on O_RDONLY");
}

TEST_F(RecordedAnswers, OfHandleRegister) {
  cufile::CUfileHandle_t other = nullptr;
  EXPECT_EQ(rig.register_handle(file, other), 5028);
  EXPECT_EQ(rig.register_descriptor(-1, other), 5022);
  EXPECT_EQ(rig.register_descriptor(1 << 20, other), 5022);
  const int directory = ::open(folder.path().c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(rig.register_descriptor(directory, other), 5018);
  ::close(directory);
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_EQ(rig.register_descriptor(ends[0], other), 5018);
  ::close(ends[0]);
  ::close(ends[1]);
  const int appending = ::open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC);
  EXPECT_EQ(rig.register_descriptor(appending, other), 5019);
  ::close(appending);
  for (const int type : {0, 2, 3, 9}) {
    cufile::CUfileDescr_t description{};
    description.type = type;
    description.handle.fd = file.descriptor;
    EXPECT_EQ(rig.table().handle_register(&other, &description).err, 5008) << type;
  }
  EXPECT_EQ(rig.table().handle_register(&other, nullptr).err, 5022);
  rig.table().handle_deregister(handle);
  EXPECT_EQ(rig.register_handle(file, other), 0);
  EXPECT_NE(other, handle);
}

TEST_F(RecordedAnswers, OfBufferRegistration) {
  EXPECT_EQ(rig.register_buffer(memory, mebibyte), 5023);
  EXPECT_EQ(rig.register_buffer(memory.plus(block), 0), 5022);
  EXPECT_EQ(rig.table().buf_register(nullptr, block, 0).err, 5022);
  const DevicePointer fresh = rig.allocate(4 * mebibyte);
  EXPECT_EQ(rig.register_buffer(fresh, 4 * mebibyte + 1), 5014);
  EXPECT_EQ(rig.register_buffer(fresh.plus(mebibyte), mebibyte), 0);  // a part
  EXPECT_EQ(rig.register_buffer(fresh.plus(16 * mebibyte), mebibyte), 5012);
  std::vector<std::byte> host(block);
  EXPECT_EQ(rig.table().buf_register(host.data(), host.size(), 77).err, 0);
  ASSERT_TRUE(rig.allocations->add_host(&rig, block, AllocationKind::managed));
  EXPECT_EQ(rig.table().buf_register(&rig, block, 0).err, 5013);
  EXPECT_EQ(rig.table().buf_deregister(CufileRig::as_pointer(fresh)).err, 5024);
  EXPECT_EQ(rig.table().buf_deregister(nullptr).err, 5022);
  EXPECT_EQ(rig.table().buf_deregister(CufileRig::as_pointer(memory)).err, 0);
  EXPECT_EQ(rig.bus->bar1_used_bytes(0), mebibyte);
}

TEST_F(RecordedAnswers, OfUseCountAndClosing) {
  EXPECT_EQ(rig.table().use_count(), 1);  // the implicit open
  EXPECT_EQ(rig.table().driver_open().err, 0);
  EXPECT_EQ(rig.table().use_count(), 2);
  EXPECT_EQ(rig.table().driver_close().err, 0);
  EXPECT_EQ(rig.table().driver_close().err, 0);
  EXPECT_EQ(rig.bus->bar1_used_bytes(0), 0u);
  EXPECT_EQ(rig.table().driver_close().err, 5001);
  EXPECT_EQ(rig.table().buf_deregister(CufileRig::as_pointer(memory)).err, 5006);
  expect_read_fails(rig.read(handle, memory, block), 5027, "after the last close");
}

TEST_F(RecordedAnswers, OfStatisticsAndParameters) {
  cufile::CUfileStatsLevel3_t stats{};
  bool value = false;
  std::size_t kilobytes = 0;
  EXPECT_EQ(rig.table().set_stats_level(-1).err, 5022);
  EXPECT_EQ(rig.table().set_stats_level(4).err, 5022);
  EXPECT_EQ(rig.table().set_stats_level(2).err, 0);
  EXPECT_EQ(rig.table().get_stats_l3(&stats).err, 5022);
  EXPECT_EQ(rig.table().set_parameter_bool(1, false).err, 0) << "for the next opening";
  EXPECT_EQ(rig.table().get_parameter_bool(1, &value).err, 0);
  EXPECT_FALSE(value);
  EXPECT_EQ(rig.table().set_parameter_bool(2, true).err, 5026) << "not on while it is open";
  EXPECT_EQ(rig.table().get_parameter_bool(2, &value).err, 0);
  EXPECT_FALSE(value);
  EXPECT_EQ(rig.table().get_parameter_bool(12, &value).err, 5022);
  EXPECT_EQ(rig.table().get_parameter_bool(1, nullptr).err, 5022);
  EXPECT_EQ(rig.table().get_bar_size_in_kb(0, &kilobytes).err, 0);
  EXPECT_EQ(kilobytes, rig.machine.gpus[0].bar1_bytes / 1024);
  EXPECT_EQ(rig.table().get_bar_size_in_kb(2, &kilobytes).err, 5022);
  EXPECT_EQ(rig.table().driver_close().err, 0);
  EXPECT_EQ(rig.table().set_stats_level(3).err, 0) << "goes over the file's at the next opening";
  EXPECT_EQ(rig.table().stats_start().err, 5001);
  EXPECT_EQ(rig.table().get_stats_l3(&stats).err, 5001);
  EXPECT_EQ(rig.table().driver_open().err, 0);
  int level = 0;
  EXPECT_EQ(rig.table().get_stats_level(&level).err, 0);
  EXPECT_EQ(level, 3);
  EXPECT_EQ(rig.table().get_stats_l3(&stats).err, 0);
}

TEST_F(RecordedAnswers, OfParametersBeforeOpening) {
  CufileRig closed(built_in("workstation"));
  for (int parameter = 0; parameter < 12; ++parameter) {
    bool value = true;
    EXPECT_EQ(closed.table().get_parameter_bool(parameter, &value).err, 0);
    EXPECT_FALSE(value) << "no default is known yet: " << parameter;
  }
  bool value = false;
  EXPECT_EQ(closed.table().set_parameter_bool(2, true).err, 0);
  EXPECT_EQ(closed.table().get_parameter_bool(2, &value).err, 0);
  EXPECT_TRUE(value);
}

TEST_F(CufileTest, PropertiesTellTheModuleFromCompatibilityMode) {
  cufile::CUfileDrvProps_t properties{};
  CufileRig with(built_in("workstation"));
  EXPECT_EQ(with.table().driver_get_properties(&properties).err, 0) << "also before opening";
  EXPECT_EQ(with.table().use_count(), 0);
  ASSERT_EQ(with.table().driver_open().err, 0);
  ASSERT_EQ(with.table().driver_get_properties(&properties).err, 0);
  EXPECT_EQ(properties.nvfs.major_version, 2u);
  EXPECT_EQ(properties.nvfs.dstatusflags, 1u << 4);
  EXPECT_EQ(properties.nvfs.max_direct_io_size, 16384u);
  EXPECT_EQ(properties.per_buffer_cache_size, 1024u);
  CufileRig guest(built_in("cloud-guest"));
  ASSERT_EQ(guest.table().driver_open().err, 0);
  ASSERT_EQ(guest.table().driver_get_properties(&properties).err, 0);
  EXPECT_EQ(properties.nvfs.major_version, 0u);
  EXPECT_EQ(properties.nvfs.dstatusflags, 0u);
  EXPECT_EQ(properties.nvfs.dcontrolflags, 2u);
  EXPECT_EQ(properties.nvfs.poll_thresh_size, 4u);
  EXPECT_EQ(properties.per_buffer_cache_size, 0u);
  std::size_t kilobytes = 1;
  EXPECT_EQ(guest.table().get_bar_size_in_kb(0, &kilobytes).err, 0);
  EXPECT_EQ(kilobytes, guest.machine.gpus[0].bar1_bytes / 1024) << "of the hardware, module or not";
  int version = 0;
  EXPECT_EQ(guest.table().get_version(&version).err, 0);
  EXPECT_EQ(version, 1150);
}

// --- BAR1 ----------------------------------------------------------------------------------------

TEST_F(CufileTest, RegistrationMapsWholeWindowsAndEndsWhenBar1IsFull) {
  Machine machine = built_in("workstation");
  machine.gpus[0].bar1_bytes = 4 * mebibyte;
  CufileRig rig(machine);
  const DevicePointer memory = rig.allocate(8 * mebibyte);
  ASSERT_EQ(rig.register_buffer(memory, 3 * mebibyte + 1), 0);
  EXPECT_EQ(rig.bus->bar1_used_bytes(0), 3 * mebibyte + Bus::bar1_window_bytes);
  EXPECT_EQ(rig.register_buffer(memory.plus(4 * mebibyte), mebibyte), 5016);
  ASSERT_EQ(rig.table().buf_deregister(CufileRig::as_pointer(memory)).err, 0);
  EXPECT_EQ(rig.bus->bar1_used_bytes(0), 0u);
  EXPECT_EQ(rig.register_buffer(memory.plus(4 * mebibyte), mebibyte), 0);
}

TEST_F(CufileTest, RequestsThatNeedTheBounceCacheFailWhereBar1HasNoRoomForIt) {
  const std::string path = folder.add_file("a", pattern(block));
  Machine machine = built_in("workstation");
  machine.gpus[0].bar1_bytes = mebibyte / 2;
  CufileRig rig(machine);
  const auto handle = rig.must_register(rig.open_file(path));
  const DevicePointer memory = rig.allocate(block);
  EXPECT_EQ(rig.read(handle, memory, block), -1);
  EXPECT_EQ(errno, 5016);
  ASSERT_EQ(rig.register_buffer(memory, block), 0);
  EXPECT_EQ(rig.read(handle, memory, block), static_cast<ssize_t>(block));
}

TEST_F(CufileTest, PinnedMemoryHasALimit) {
  const std::string json = folder / "cufile.json";
  std::ofstream(json) << R"({"properties": {"max_device_pinned_mem_size_kb": 1024}})";
  CufileRig rig(with_variable(built_in("workstation"), "CUFILE_ENV_PATH_JSON", json));
  const DevicePointer memory = rig.allocate(4 * mebibyte);
  EXPECT_EQ(rig.register_buffer(memory, 2 * mebibyte), 5016);
  EXPECT_EQ(rig.register_buffer(memory, mebibyte), 0);
  EXPECT_EQ(rig.register_buffer(memory.plus(mebibyte), 64u << 10), 5016);
}

// --- Configuration -------------------------------------------------------------------------------

TEST_F(CufileTest, ParametersWinOverTheEnvironmentWhichWinsOverTheFile) {
  const std::string json = folder / "cufile.json";
  std::ofstream(json) << "{ // a comment\n \"properties\": {\"allow_compat_mode\": false} }";
  const auto allowed = [](CufileRig& rig) {
    bool value = false;
    EXPECT_EQ(rig.table().driver_open().err, 0);
    EXPECT_EQ(rig.table().get_parameter_bool(1, &value).err, 0);
    return value;
  };
  CufileRig defaults(built_in("workstation"));
  EXPECT_TRUE(allowed(defaults));
  Machine machine = with_variable(built_in("workstation"), "CUFILE_ENV_PATH_JSON", json);
  CufileRig by_file(machine);
  EXPECT_FALSE(allowed(by_file));
  machine = with_variable(machine, "CUFILE_ALLOW_COMPAT_MODE", "true");
  CufileRig by_environment(machine);
  EXPECT_TRUE(allowed(by_environment));
  CufileRig by_parameter(machine);
  EXPECT_EQ(by_parameter.table().set_parameter_bool(1, false).err, 0);
  EXPECT_FALSE(allowed(by_parameter));
}

TEST_F(CufileTest, TheConfigurationMayBeAMemoryFileSetAfterTheMachineStarted) {
  CufileRig rig(built_in("workstation"));
  const auto memory = rig.storage->memory_file(
      "cufile.json",
      R"({"properties": {"allow_compat_mode": false}, "profile": {"cufile_stats": 3}})");
  ASSERT_TRUE(memory.ok());
  ASSERT_TRUE(rig.environment->set("CUFILE_ENV_PATH_JSON", memory->path).ok());
  ASSERT_EQ(rig.table().driver_open().err, 0);
  bool value = true;
  int level = 0;
  EXPECT_EQ(rig.table().get_parameter_bool(1, &value).err, 0);
  EXPECT_FALSE(value);
  EXPECT_EQ(rig.table().get_stats_level(&level).err, 0);
  EXPECT_EQ(level, 3);
  (void)rig.storage->close(memory->file);
}

TEST_F(CufileTest, AConfigurationThatIsNotJsonFailsTheOpen) {
  const std::string json = folder / "cufile.json";
  std::ofstream(json) << "{ broken";
  CufileRig rig(with_variable(built_in("workstation"), "CUFILE_ENV_PATH_JSON", json));
  EXPECT_EQ(rig.table().driver_open().err, 5030);
  EXPECT_EQ(rig.table().use_count(), 0);
}

TEST_F(CufileTest, WithoutModuleAndCompatibilityModeTheDriverDoesNotOpen) {
  CufileRig rig(strict(without_module(built_in("workstation"))));
  EXPECT_EQ(rig.table().driver_open().err, 5001);
}

TEST_F(CufileTest, ForcedCompatibilityModeStagesWhatCouldBeDirect) {
  const std::string path = folder.add_file("a", pattern(block));
  CufileRig rig(with_variable(built_in("workstation"), "CUFILE_FORCE_COMPAT_MODE", "true"));
  const auto handle = rig.must_register(rig.open_file(path));
  const DevicePointer memory = rig.allocate(block);
  ASSERT_EQ(rig.register_buffer(memory, block), 0);
  EXPECT_EQ(rig.bus->bar1_used_bytes(0), 0u);
  EXPECT_EQ(rig.read(handle, memory, block), static_cast<ssize_t>(block));
  EXPECT_EQ(rig.arrivals(memory, block)[Carriage::staged], block);
}

TEST_F(CufileTest, SettingsStageInSilenceEvenWithoutCompatibilityMode) {
  struct Case {
    const char* machine;
    const char* json;
    std::size_t size;
  };
  const Case cases[] = {
      {"workstation",
       R"({"properties": {"allow_compat_mode": false}, "fs": {"generic": {"posix_unaligned_writes": true}}})",
       block - 1},
      {"nvmeof", R"({"properties": {"allow_compat_mode": false, "gds_rdma_write_support": false}})",
       block}};
  for (const Case& each : cases) {
    const std::string json = folder / "cufile.json";
    std::ofstream(json) << each.json;
    Machine machine = with_variable(built_in(each.machine), "CUFILE_ENV_PATH_JSON", json);
    machine.mounts.back().point = folder.path();
    if (machine.mounts.size() == 1) machine.mounts.back().point = "/";
    CufileRig rig(machine);
    const FileHandle file = rig.open_file(folder / "w", FileAccess::write);
    const auto handle = rig.must_register(file);
    const DevicePointer memory = rig.allocate(each.size);
    rig.start_statistics();
    EXPECT_EQ(rig.write(handle, memory, each.size), static_cast<ssize_t>(each.size));
    EXPECT_EQ(rig.arrivals(file, 0, each.size)[Carriage::staged], each.size);
    EXPECT_EQ(rig.gpu_stats().n_posix_writes, 1u);
    std::filesystem::remove(folder / "w");
  }
}

TEST_F(CufileTest, TheDenyListIsHonoured) {
  const std::string path = folder.add_file("a", pattern(block));
  const std::string json = folder / "cufile.json";
  for (const char* list : {R"("filesystems": ["ext4"])", R"("mounts": ["/"])",
                           R"("drivers": ["nvme"])", R"("devices": ["/dev/nvme0n1"])"}) {
    std::ofstream(json) << "{\"properties\": {\"allow_compat_mode\": false}, \"denylist\": {"
                        << list << "}}";
    CufileRig rig(with_variable(built_in("workstation"), "CUFILE_ENV_PATH_JSON", json));
    cufile::CUfileHandle_t handle = nullptr;
    EXPECT_EQ(rig.register_handle(rig.open_file(path), handle), 5034) << list;
  }
}

// --- Statistics ----------------------------------------------------------------------------------

TEST_F(CufileTest, StatisticsCountOnlyBetweenStartAndStop) {
  const std::string path = folder.add_file("a", pattern(mebibyte));
  CufileRig rig(built_in("workstation"));
  const auto handle = rig.must_register(rig.open_file(path));
  const DevicePointer memory = rig.allocate(mebibyte);
  (void)rig.read(handle, memory, block);
  rig.start_statistics();
  EXPECT_EQ(rig.gpu_stats().n_total_reads, 0u);
  (void)rig.read(handle, memory, block);
  (void)rig.read(handle, memory, block, 0, 1);
  EXPECT_EQ(rig.gpu_stats().n_total_reads, 2u);
  EXPECT_EQ(rig.table().stats_stop().err, 0);
  (void)rig.read(handle, memory, block);
  EXPECT_EQ(rig.gpu_stats().n_total_reads, 2u);
}

TEST_F(CufileTest, StatisticsNameTheirGpuAndCountTheWholeTable) {
  const std::string path = folder.add_file("a", pattern(mebibyte));
  CufileRig rig(built_in("workstation"));
  ASSERT_EQ(rig.table().driver_open().err, 0);
  rig.start_statistics();
  const auto handle = rig.must_register(rig.open_file(path));
  const DevicePointer memory = rig.allocate(mebibyte, 1);
  ASSERT_EQ(rig.register_buffer(memory, mebibyte), 0);
  ASSERT_EQ(rig.read(handle, memory, mebibyte), static_cast<ssize_t>(mebibyte));
  cufile::CUfileStatsLevel3_t stats{};
  ASSERT_EQ(rig.table().get_stats_l3(&stats).err, 0);
  EXPECT_EQ(stats.num_gpus, 2u);
  const std::string uuid = rig.machine.gpus[1].uuid;  // GPU-xxxxxxxx-...
  const int first = std::stoi(uuid.substr(4, 2), nullptr, 16);
  EXPECT_EQ(static_cast<unsigned char>(stats.per_gpu_stats[1].uuid[0]), first);
  EXPECT_EQ(stats.per_gpu_stats[0].n_total_reads, 0u);
  EXPECT_EQ(stats.per_gpu_stats[1].n_total_reads, 1u);
  EXPECT_EQ(stats.per_gpu_stats[1].reg_bytes, mebibyte);
  EXPECT_EQ(stats.per_gpu_stats[1].n_mmap_ok, 1u);
  const auto& basic = stats.detailed.basic;
  EXPECT_EQ(basic.read_ops.ok, 1u);
  EXPECT_EQ(basic.read_bytes, mebibyte);
  EXPECT_EQ(basic.hdl_register_ops.ok, 1u);
  EXPECT_EQ(basic.buf_register_ops.ok, 1u);
  EXPECT_EQ(stats.detailed.read_size_kb_hist[11], 1u);  // 1024 KiB
}

TEST_F(CufileTest, TheKernelModuleCountsDirectOperationsOnly) {
  const std::string path = folder.add_file("a", pattern(4 * mebibyte));
  CufileRig rig(built_in("workstation"));
  const auto handle = rig.must_register(rig.open_file(path));
  const DevicePointer memory = rig.allocate(4 * mebibyte);
  ASSERT_EQ(rig.register_buffer(memory, 4 * mebibyte), 0);
  ASSERT_EQ(rig.read(handle, memory, 4 * mebibyte), static_cast<ssize_t>(4 * mebibyte));
  std::string text = *rig.files->read("/proc/driver/nvidia-fs/stats");
  EXPECT_NE(text.find("Reads\t\t\t\t: n=1 ok=1 err=0 readMiB=4 "), std::string::npos) << text;
  EXPECT_NE(text.find("Mmap\t\t\t\t: n=1 ok=1 err=0 munmap=0"), std::string::npos) << text;
  rig.faults.compat_in_silence = true;
  ASSERT_EQ(rig.read(handle, memory, 4 * mebibyte), static_cast<ssize_t>(4 * mebibyte));
  text = *rig.files->read("/proc/driver/nvidia-fs/stats");
  EXPECT_NE(text.find("Reads\t\t\t\t: n=1 ok=1 err=0 readMiB=4 "), std::string::npos) << text;
}

// --- Faults --------------------------------------------------------------------------------------

TEST_F(CufileTest, SilentCompatibilityShowsInStatisticsAndLedgerAlone) {
  const auto content = pattern(mebibyte);
  const std::string path = folder.add_file("a", content);
  SoftFaults faults;
  faults.compat_in_silence = true;
  CufileRig rig(strict(built_in("workstation")), faults);
  const auto handle = rig.must_register(rig.open_file(path));
  const DevicePointer memory = rig.allocate(content.size());
  ASSERT_EQ(rig.register_buffer(memory, content.size()), 0);
  rig.start_statistics();
  bool allowed = true;
  ASSERT_EQ(rig.table().get_parameter_bool(1, &allowed).err, 0);
  EXPECT_FALSE(allowed);
  ASSERT_EQ(rig.read(handle, memory, content.size()), static_cast<ssize_t>(content.size()));
  EXPECT_EQ(rig.inspect(memory, content.size()), content);
  EXPECT_EQ(rig.gpu_stats().n_posix_reads, 1u);
  EXPECT_EQ(rig.gpu_stats().n_nvfs_reads, 0u);
  EXPECT_EQ(rig.arrivals(memory, content.size())[Carriage::staged], content.size());
}

TEST_F(CufileTest, RefusalsPinFailuresAndDriveErrorsAreAnswered) {
  const std::string path = folder.add_file("a", pattern(block));
  const auto with = [](double SoftFaults::*member) {
    SoftFaults faults;
    faults.*member = 1;
    return faults;
  };
  const struct {
    double SoftFaults::*member;
    int code;
  } cases[] = {{&SoftFaults::cufile_refusal, 5030}, {&SoftFaults::read_error, EIO}};
  for (const auto& each : cases) {
    CufileRig rig(built_in("workstation"), with(each.member));
    const auto handle = rig.must_register(rig.open_file(path));
    const DevicePointer memory = rig.allocate(block);
    EXPECT_EQ(rig.read(handle, memory, block), -1);
    EXPECT_EQ(errno, each.code);
    EXPECT_TRUE(rig.bus->ledger().flows().empty());
  }
  CufileRig rig(built_in("workstation"), with(&SoftFaults::pin_failure));
  const DevicePointer memory = rig.allocate(block);
  EXPECT_EQ(rig.register_buffer(memory, block), 5036);
  EXPECT_EQ(rig.bus->bar1_used_bytes(0), 0u);
}

TEST_F(CufileTest, ShortReadsAreHonest) {
  const auto content = pattern(mebibyte);
  const std::string path = folder.add_file("a", content);
  SoftFaults faults;
  faults.short_read = 1;
  CufileRig rig(built_in("workstation"), faults);
  const auto handle = rig.must_register(rig.open_file(path));
  const DevicePointer memory = rig.allocate(mebibyte);
  ASSERT_EQ(rig.register_buffer(memory, mebibyte), 0);
  for (int i = 0; i < 20; ++i) {
    const ssize_t got = rig.read(handle, memory, mebibyte);
    ASSERT_GT(got, 0);
    ASSERT_LT(got, static_cast<ssize_t>(mebibyte));
    const auto bytes = static_cast<std::size_t>(got);
    EXPECT_EQ(rig.inspect(memory, bytes), part_of(content, 0, bytes));
  }
}

TEST_F(CufileTest, StatisticsMayBeStuckOrMissing) {
  const std::string path = folder.add_file("a", pattern(block));
  SoftFaults stuck;
  stuck.statistics_stuck = true;
  CufileRig rig(built_in("workstation"), stuck);
  const auto handle = rig.must_register(rig.open_file(path));
  rig.start_statistics();
  ASSERT_EQ(rig.read(handle, rig.allocate(block), block), static_cast<ssize_t>(block));
  EXPECT_EQ(rig.gpu_stats().n_total_reads, 0u);
  SoftFaults missing;
  missing.statistics_missing = true;
  CufileRig old(built_in("workstation"), missing);
  ASSERT_EQ(old.table().driver_open().err, 0);
  cufile::CUfileStatsLevel3_t stats{};
  int level = 0;
  int version = 0;
  EXPECT_EQ(old.table().set_stats_level(3).err, cufile::error_absent);
  EXPECT_EQ(old.table().get_stats_level(&level).err, cufile::error_absent);
  EXPECT_EQ(old.table().stats_start().err, cufile::error_absent);
  EXPECT_EQ(old.table().stats_stop().err, cufile::error_absent);
  EXPECT_EQ(old.table().get_stats_l3(&stats).err, cufile::error_absent);
  EXPECT_EQ(old.table().get_version(&version).err, 0);
  EXPECT_LT(version, 1150);
}

TEST_F(CufileTest, SomebodyWhoOpenedBeforeSetsTheConfiguration) {
  SoftFaults faults;
  faults.cufile_opened_before = true;
  CufileRig rig(built_in("workstation"), faults);
  EXPECT_EQ(rig.table().use_count(), 1);
  ASSERT_TRUE(rig.environment->set("CUFILE_ALLOW_COMPAT_MODE", "false").ok());
  ASSERT_EQ(rig.table().driver_open().err, 0);
  bool allowed = false;
  ASSERT_EQ(rig.table().get_parameter_bool(1, &allowed).err, 0);
  EXPECT_TRUE(allowed);
}

TEST_F(CufileTest, RequestsFailOnceTheModuleIsGone) {
  const std::string path = folder.add_file("a", pattern(4 * block));
  SoftFaults faults;
  faults.module_unloaded_after_requests = 2;
  CufileRig rig(built_in("workstation"), faults);
  const auto handle = rig.must_register(rig.open_file(path));
  const DevicePointer memory = rig.allocate(block);
  ASSERT_EQ(rig.register_buffer(memory, block), 0);
  EXPECT_EQ(rig.read(handle, memory, block), static_cast<ssize_t>(block));
  EXPECT_TRUE(rig.files->exists("/proc/driver/nvidia-fs/stats"));
  EXPECT_EQ(rig.read(handle, memory, block), static_cast<ssize_t>(block));
  EXPECT_FALSE(rig.files->exists("/proc/driver/nvidia-fs/stats"));
  EXPECT_EQ(rig.read(handle, memory, block), -1);
  EXPECT_EQ(errno, cufile::error_nvfs_driver);
}

TEST_F(CufileTest, WhatTheRealFileSystemRefusesIsAnswered) {
  // A limit on file sizes stands in for a full disk: the same call fails, with its errno.
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  CufileRig rig(built_in("workstation"));
  const FileHandle file = rig.open_file(folder / "a", FileAccess::write);
  const auto handle = rig.must_register(file);
  const DevicePointer memory = rig.allocate(mebibyte);
  rig.plant(memory, pattern(mebibyte));
  ASSERT_EQ(rig.register_buffer(memory, mebibyte), 0);
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = before;
  small.rlim_cur = 4 * block;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const ssize_t partial = rig.write(handle, memory, mebibyte);
  const ssize_t refused = rig.write(handle, memory, block, 8 * block);
  const int code = errno;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(partial, static_cast<ssize_t>(4 * block));
  EXPECT_EQ(refused, -1);
  EXPECT_EQ(code, EFBIG);
  EXPECT_EQ(rig.arrivals(file, 0, mebibyte)[Carriage::direct], 4 * block);
}

// --- Ownership -----------------------------------------------------------------------------------

TEST_F(CufileTest, AHandleOutlivesTheDescriptorItWasMadeOf) {
  const auto content = pattern(mebibyte);
  const std::string path = folder.add_file("a", content);
  CufileRig rig(built_in("workstation"));
  const FileHandle file = rig.open(path);
  const auto handle = rig.must_register(file);
  (void)rig.storage->close(file);
  const DevicePointer memory = rig.allocate(mebibyte);
  EXPECT_EQ(rig.read(handle, memory, mebibyte), static_cast<ssize_t>(mebibyte));
  EXPECT_EQ(rig.inspect(memory, mebibyte), content);
}

TEST_F(CufileTest, ClosingTheDriverGivesInternalMemoryBack) {
  const std::string path = folder.add_file("a", pattern(block));
  CufileRig rig(built_in("workstation"));
  const auto handle = rig.must_register(rig.open_file(path));
  const DevicePointer memory = rig.allocate(block);
  const std::uint64_t before = rig.allocations->used_bytes(0);
  ASSERT_EQ(rig.read(handle, memory, block), static_cast<ssize_t>(block));
  EXPECT_GT(rig.allocations->used_bytes(0), before);
  EXPECT_GT(rig.bus->bar1_used_bytes(0), 0u);
  ASSERT_EQ(rig.table().driver_close().err, 0);
  EXPECT_EQ(rig.allocations->used_bytes(0), before);
  EXPECT_EQ(rig.bus->bar1_used_bytes(0), 0u);
}

}  // namespace
}  // namespace nobounce::fabric
