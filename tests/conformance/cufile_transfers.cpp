// cuFileRead and cuFileWrite in compatibility mode: where bytes land, short counts, wrong
// arguments, and what the statistics say.
#include "conformance/cufile_rig.hpp"

#include <algorithm>

namespace nobounce::conformance {

namespace {

constexpr std::size_t mib = 1u << 20;

/// A registered file and GPU memory of twice its size, planted.
struct Transfer {
  explicit Transfer(Run& in, std::size_t file_bytes = mib + 777,
                    system::FileAccess access = system::FileAccess::read_write, bool direct = false)
      : run((start_cuda(in), in)), file(in, file_bytes), length(2 * mib) {
    table = *run.host.cufile();
    descriptor = file.open(access, direct);
    auto description = description_of(descriptor);
    const auto answer = table->handle_register(&handle, &description);
    if (answer.err != 0) run.note("no handle to begin with: " + std::to_string(answer.err));
    device = run.allocate(length);
    run.plant(device, length, 41);
  }
  ~Transfer() {
    if (handle != nullptr) table->handle_deregister(handle);
    run.free(device);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  [[nodiscard]] void* base() const { return reinterpret_cast<void*>(device); }
  void look() { run.device_bytes("GPU memory", device, length); }
  void read(std::size_t size, off_t file_offset, off_t base_offset) {
    (void)run.cufile().read(handle, base(), size, file_offset, base_offset);
  }
  void write(std::size_t size, off_t file_offset, off_t base_offset) {
    (void)run.cufile().write(handle, base(), size, file_offset, base_offset);
  }

  Run& run;
  TestFile file;
  system::Cufile* table = nullptr;
  int descriptor = -1;
  cufile::CUfileHandle_t handle = nullptr;
  cuda::CUdeviceptr device = 0;
  std::size_t length;
};

struct Request {
  const char* name;
  std::size_t size;
  off_t file_offset;
  off_t base_offset;
};

const Request requests[] = {
    {"all", mib + 777, 0, 0},
    {"aligned", 65536, 4096, 8192},
    {"unaligned_size", 5000, 4096, 4096},
    {"unaligned_offset", 4096, 1234, 4096},
    {"unaligned_memory", 4096, 4096, 321},
    {"one_byte", 1, 777777, 99},
    {"nothing", 0, 4096, 0},
    {"nothing_past_the_end", 0, 64 * mib, 0},
    {"beyond_the_end", 65536, mib, 0},
    {"at_the_end", 4096, mib + 777, 0},
    {"past_the_end", 4096, 16 * mib, 0},
    {"negative_file_offset", 4096, -1, 0},
    {"negative_memory_offset", 4096, 0, -4096},
};

void registered(Run& run, const Request& request) {
  Transfer transfer(run);
  (void)run.cufile().buf_register(transfer.base(), transfer.length, 0);
  transfer.read(request.size, request.file_offset, request.base_offset);
  transfer.look();
  (void)run.cufile().buf_deregister(transfer.base());
}

void unregistered(Run& run, const Request& request) {
  Transfer transfer(run);
  transfer.read(request.size, request.file_offset, request.base_offset);
  transfer.look();
}

void write(Run& run, const Request& request) {
  Transfer transfer(run);
  transfer.write(request.size, request.file_offset, request.base_offset);
  transfer.file.note("file");
}

void past_registration(Run& run) {
  Transfer transfer(run);
  (void)run.cufile().buf_register(transfer.base(), 65536, 0);
  transfer.read(65536, 0, 4096);
  transfer.read(4096, 0, 65536);
  transfer.read(131072, 0, 0);
  transfer.look();
  (void)run.cufile().buf_deregister(transfer.base());
}

void inside_registration(Run& run) {
  Transfer transfer(run);
  (void)run.cufile().buf_register(transfer.base(), transfer.length, 0);
  auto* inside = reinterpret_cast<void*>(transfer.device + 8192);
  (void)run.cufile().read(transfer.handle, inside, 4096, 0, 0);
  transfer.look();
  (void)run.cufile().buf_deregister(transfer.base());
}

void past_allocation(Run& run) {
  Transfer transfer(run, 8 * mib);
  (void)run.cufile().read(transfer.handle, transfer.base(), 8 * mib, 0, 900 * mib);
}

void wrong_memory(Run& run) {
  Transfer transfer(run);
  (void)run.cufile().read(transfer.handle, nullptr, 4096, 0, 0);
  (void)run.cufile().write(transfer.handle, nullptr, 4096, 0, 0);
}

void wrong_handles(Run& run) {
  Transfer transfer(run);
  (void)run.cufile().read(nullptr, transfer.base(), 4096, 0, 0);
  (void)run.cufile().write(nullptr, transfer.base(), 4096, 0, 0);
  transfer.look();
}

void deregistered_handle(Run& run) {
  Transfer transfer(run);
  transfer.table->handle_deregister(transfer.handle);
  (void)run.cufile().read(transfer.handle, transfer.base(), 4096, 0, 0);
  transfer.handle = nullptr;
}

void by_access(Run& run, system::FileAccess access) {
  Transfer transfer(run, mib, access);
  transfer.read(4096, 0, 0);
  transfer.write(4096, 0, 0);
  transfer.look();
  transfer.file.note("file");
}

void host_memory(Run& run) {
  Transfer transfer(run);
  std::vector<std::byte> host = pattern(65536, 42);
  (void)run.cufile().read(transfer.handle, host.data(), host.size(), 4096, 0);
  run.bytes("pageable", host);
  (void)run.cufile().write(transfer.handle, host.data(), 1000, 0, 0);
  std::byte* pinned = run.pinned(65536);
  (void)run.cufile().read(transfer.handle, pinned, 65536, 8192, 0);
  run.bytes("pinned", {pinned, 65536});
  run.free_pinned(pinned);
  transfer.file.note("file");
}

void managed_memory(Run& run) {
  Transfer transfer(run);
  cuda::CUdeviceptr managed = 0;
  (void)run.quiet().mem_alloc_managed(&managed, 65536, cuda::managed_attach_global);
  auto* base = reinterpret_cast<std::byte*>(managed);
  std::fill(base, base + 65536, std::byte{0});
  (void)run.cufile().read(transfer.handle, base, 65536, 4096, 0);
  (void)run.quiet().ctx_synchronize();
  run.bytes("managed", {base, 65536});
  run.free(managed);
}

void file_grows(Run& run) {
  Transfer transfer(run, 0);
  transfer.write(10000, 0, 0);
  transfer.write(10000, 30000, 10000);
  transfer.file.note("file");
  transfer.read(65536, 0, mib);
  transfer.look();
}

void direct_descriptor(Run& run) {
  Transfer transfer(run, mib, system::FileAccess::read_write, true);
  transfer.read(65536, 4096, 4096);
  transfer.read(5000, 123, 321);
  transfer.write(4096, 8192, 0);
  transfer.write(100, 10, 0);
  transfer.look();
  transfer.file.note("file");
}

void statistics(Run& run) {
  start_cuda(run);
  (void)run.cufile().driver_open();
  (void)run.cufile().set_stats_level(3);
  (void)run.cufile().stats_start();
  {
    Transfer transfer(run);
    (void)run.cufile().buf_register(transfer.base(), transfer.length, 0);
    transfer.read(65536, 0, 0);
    transfer.read(1000, 1, 1);
    transfer.write(4096, 0, 0);
    (void)run.cufile().buf_deregister(transfer.base());
  }
  static cufile::CUfileStatsLevel3_t stats{};
  (void)run.cufile().get_stats_l3(&stats);
  const auto& basic = stats.detailed.basic;
  run.number("reads", basic.read_ops.ok);
  run.number("reads failed", basic.read_ops.err);
  run.number("writes", basic.write_ops.ok);
  run.number("bytes read", basic.read_bytes);
  run.number("bytes written", basic.write_bytes);
  run.number("handles registered", basic.hdl_register_ops.ok);
  run.number("handles deregistered", basic.hdl_deregister_ops.ok);
  run.number("buffers registered", basic.buf_register_ops.ok);
  run.number("GPUs", stats.num_gpus);
  const auto& gpu = stats.per_gpu_stats[0];
  run.number("GPU: reads", gpu.n_total_reads);
  run.number("GPU: bytes read", gpu.read_bytes);
  run.number("GPU: POSIX reads", gpu.n_posix_reads);
  run.number("GPU: nvidia-fs reads", gpu.n_nvfs_reads);
  run.number("GPU: P2P reads", gpu.n_p2p_reads);
  run.number("GPU: unaligned reads", gpu.n_unaligned_reads);
  run.number("GPU: writes", gpu.n_total_writes);
  run.number("GPU: POSIX writes", gpu.n_posix_writes);
  run.number("GPU: mappings", gpu.n_mmap);
  (void)run.cufile().stats_stop();
  (void)run.cufile().set_stats_level(0);
}

void after_close(Run& run) {
  Transfer transfer(run);
  (void)run.cufile().driver_close();
  (void)run.cufile().read(transfer.handle, transfer.base(), 4096, 0, 0);
  transfer.handle = nullptr;
}

}  // namespace

void add_cufile_transfers(Catalogue& all) {
  const Needs compat = compat_needs();
  for (const Request& request : requests) {
    const std::string name = request.name;
    all.add(
        "cufile.read.registered." + name, [&request](Run& run) { registered(run, request); },
        compat);
    all.add(
        "cufile.read.unregistered." + name, [&request](Run& run) { unregistered(run, request); },
        compat);
    all.add(
        "cufile.write." + name, [&request](Run& run) { write(run, request); }, compat);
  }
  all.add("cufile.read.past_registration", past_registration, compat);
  all.add("cufile.read.inside_registration", inside_registration, compat);
  all.add("cufile.read.past_allocation", past_allocation, compat);
  all.add("cufile.read.wrong_memory", wrong_memory, compat);
  all.add("cufile.read.wrong_handles", wrong_handles, compat);
  all.add("cufile.read.deregistered_handle", deregistered_handle, compat);
  all.add("cufile.read.after_close", after_close, compat);
  all.add(
      "cufile.transfers.read_only", [](Run& run) { by_access(run, system::FileAccess::read); },
      compat);
  all.add(
      "cufile.transfers.write_only", [](Run& run) { by_access(run, system::FileAccess::write); },
      compat);
  all.add("cufile.transfers.host_memory", host_memory, compat);
  all.add("cufile.transfers.managed_memory", managed_memory, compat);
  all.add("cufile.transfers.file_grows", file_grows, compat);
  all.add("cufile.transfers.direct_descriptor", direct_descriptor, compat);
  all.add("cufile.transfers.statistics", statistics, compat);
}

}  // namespace nobounce::conformance
