// The libcufile model under threads: requests of both paths, registrations and statistics at once.
#include <atomic>
#include <cstring>
#include <thread>

#include "machine_rig.hpp"

namespace nobounce::fabric {
namespace {

namespace cufile = system::cufile;

constexpr std::size_t thread_count = 4;
constexpr std::size_t rounds = 12;
constexpr std::size_t piece_bytes = 256u << 10;

void* as_pointer(DevicePointer pointer) {
  return reinterpret_cast<void*>(pointer.value);
}

class CufileThreads : public ::testing::Test {
 protected:
  Folder folder;
};

TEST_F(CufileThreads, RequestsDoNotDisturbOneAnother) {
  const auto content = pattern(thread_count * piece_bytes);
  const std::string path = folder.add_file("a", content);
  MachineRig rig(built_in("workstation"));
  const system::FileHandle file = rig.open(path);
  cufile::CUfileDescr_t description{};
  description.type = cufile::handle_type_opaque_fd;
  description.handle.fd = file.descriptor;
  cufile::CUfileHandle_t handle = nullptr;
  ASSERT_EQ(rig.cufile->handle_register(&handle, &description).err, 0);
  ASSERT_EQ(rig.cufile->set_stats_level(3).err, 0);
  ASSERT_EQ(rig.cufile->stats_start().err, 0);
  std::vector<DevicePointer> memory;
  for (std::size_t i = 0; i < thread_count; ++i) {
    memory.push_back(rig.allocate(piece_bytes + 4096, static_cast<std::uint32_t>(i % 2)));
  }
  std::atomic<std::size_t> wrong{0};
  const auto work = [&](std::size_t index) {
    for (std::size_t round = 0; round < rounds; ++round) {
      const bool registered = round % 3 != 0;
      const std::size_t shift = round % 2;  // every other request is unaligned
      void* base = as_pointer(memory[index]);
      if (registered && rig.cufile->buf_register(base, piece_bytes + 4096, 0).err != 0) ++wrong;
      const auto offset = static_cast<off_t>(index * piece_bytes);
      const ssize_t got =
          rig.cufile->read(handle, base, piece_bytes, offset, static_cast<off_t>(shift));
      if (got != static_cast<ssize_t>(piece_bytes)) ++wrong;
      if (registered && rig.cufile->buf_deregister(base).err != 0) ++wrong;
      std::vector<std::byte> arrived(piece_bytes);
      if (!rig.bus->inspect(End::of(memory[index].plus(shift)), arrived)) ++wrong;
      if (std::memcmp(arrived.data(), content.data() + index * piece_bytes, piece_bytes) != 0) {
        ++wrong;
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < thread_count; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0u);
  cufile::CUfileStatsLevel3_t stats{};
  ASSERT_EQ(rig.cufile->get_stats_l3(&stats).err, 0);
  std::uint64_t reads = 0;
  std::uint64_t unaligned = 0;
  for (std::size_t gpu = 0; gpu < 2; ++gpu) {
    reads += stats.per_gpu_stats[gpu].n_nvfs_reads;
    unaligned += stats.per_gpu_stats[gpu].n_unaligned_reads;
    EXPECT_EQ(stats.per_gpu_stats[gpu].reg_bytes, 0u);
  }
  EXPECT_EQ(reads, thread_count * rounds);
  EXPECT_EQ(unaligned, thread_count * rounds / 2);
  rig.cufile->handle_deregister(handle);
  (void)rig.storage->close(file);
}

TEST_F(CufileThreads, ClosingTheDriverWaitsForRunningRequests) {
  const std::string path = folder.add_file("a", pattern(piece_bytes));
  MachineRig rig(built_in("workstation"));
  const system::FileHandle file = rig.open(path);
  const DevicePointer memory = rig.allocate(piece_bytes);
  std::atomic<bool> stop{false};
  std::atomic<std::size_t> wrong{0};
  std::thread reader([&] {
    while (!stop.load()) {
      cufile::CUfileDescr_t description{};
      description.type = cufile::handle_type_opaque_fd;
      description.handle.fd = file.descriptor;
      cufile::CUfileHandle_t handle = nullptr;
      if (rig.cufile->handle_register(&handle, &description).err != 0) continue;
      errno = 0;
      const ssize_t got = rig.cufile->read(handle, as_pointer(memory), piece_bytes, 0, 0);
      const bool closed = got == -1 && errno == cufile::error_handle_not_registered;
      if (!closed && got != static_cast<ssize_t>(piece_bytes)) ++wrong;
      rig.cufile->handle_deregister(handle);
    }
  });
  for (int i = 0; i < 50; ++i) {
    (void)rig.cufile->driver_open();
    while (rig.cufile->use_count() > 0) (void)rig.cufile->driver_close();
  }
  stop.store(true);
  reader.join();
  EXPECT_EQ(wrong.load(), 0u);
  (void)rig.storage->close(file);
}

}  // namespace
}  // namespace nobounce::fabric
