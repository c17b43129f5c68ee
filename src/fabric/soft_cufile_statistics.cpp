// CufileStatistics: one struct of totals under a lock, as the library keeps it in shared memory.
#include "fabric/soft_cufile_statistics.hpp"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <string_view>

namespace nobounce::fabric {
namespace {

using system::cufile::CUfileOpCounter_t;
using system::cufile::CUfilePerGpuStats_t;
using system::cufile::CUfileStatsLevel3_t;

void bump(CUfileOpCounter_t& counter, bool succeeded) {
  ++(succeeded ? counter.ok : counter.err);
}

// Bin 0 is below 1 KiB, bin n from 2^(n-1) KiB on.
std::size_t size_bin(std::uint64_t bytes) {
  return std::min<std::size_t>(std::bit_width(bytes >> 10), 31);
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// `GPU-01234567-89ab-...`: the 16 bytes behind the prefix.
void put_uuid(std::string_view text, char (&target)[16]) {
  std::size_t digit = 0;
  for (const char c : text.substr(text.substr(0, 4) == "GPU-" ? 4 : 0)) {
    const int value = hex_value(c);
    if (value < 0 || digit == 32) continue;
    const int before = static_cast<unsigned char>(target[digit / 2]);
    target[digit / 2] = static_cast<char>((before << 4) | value);
    ++digit;
  }
}

}  // namespace

void CufileStatistics::reset(std::uint64_t level) {
  const std::lock_guard lock(mutex_);
  totals_ = CUfileStatsLevel3_t{};
  const std::size_t gpus = std::min(machine_.gpus.size(), std::size(totals_.per_gpu_stats));
  totals_.num_gpus = static_cast<std::uint32_t>(gpus);
  for (std::size_t i = 0; i < gpus; ++i) {
    put_uuid(machine_.gpus[i].uuid, totals_.per_gpu_stats[i].uuid);
  }
  level_ = static_cast<int>(level);
  running_ = level > 0;
}

void CufileStatistics::set_level(int level) {
  const std::lock_guard lock(mutex_);
  level_ = level;
}

int CufileStatistics::level() const {
  const std::lock_guard lock(mutex_);
  return level_;
}

void CufileStatistics::start() {
  const std::lock_guard lock(mutex_);
  running_ = true;
}

void CufileStatistics::stop() {
  const std::lock_guard lock(mutex_);
  running_ = false;
}

bool CufileStatistics::counting() const {
  return running_ && level_ > 0 && !faults_.statistics_stuck;
}

void CufileStatistics::count_operation(const CufileOperation& operation) {
  const std::lock_guard lock(mutex_);
  if (!counting()) return;
  auto& basic = totals_.detailed.basic;
  bump(operation.writing ? basic.write_ops : basic.read_ops, operation.succeeded);
  (operation.writing ? basic.write_bytes : basic.read_bytes) += operation.bytes;
  auto& histogram =
      operation.writing ? totals_.detailed.write_size_kb_hist : totals_.detailed.read_size_kb_hist;
  if (operation.succeeded) ++histogram[size_bin(operation.bytes)];
  if (!operation.on_gpu || operation.gpu >= totals_.num_gpus) return;
  CUfilePerGpuStats_t& gpu = totals_.per_gpu_stats[operation.gpu];
  if (operation.writing) {
    gpu.writes_bytes += operation.bytes;
    ++gpu.n_total_writes;
    gpu.n_nvfs_writes += operation.nvfs ? 1 : 0;
    gpu.n_posix_writes += operation.posix ? 1 : 0;
    gpu.n_unaligned_writes += operation.unaligned ? 1 : 0;
    gpu.n_writes_err += operation.succeeded ? 0 : 1;
  } else {
    gpu.read_bytes += operation.bytes;
    ++gpu.n_total_reads;
    gpu.n_nvfs_reads += operation.nvfs ? 1 : 0;
    gpu.n_posix_reads += operation.posix ? 1 : 0;
    gpu.n_unaligned_reads += operation.unaligned ? 1 : 0;
    gpu.n_reads_err += operation.succeeded ? 0 : 1;
  }
}

void CufileStatistics::count_handle(bool registering, bool succeeded) {
  const std::lock_guard lock(mutex_);
  if (!counting()) return;
  auto& basic = totals_.detailed.basic;
  bump(registering ? basic.hdl_register_ops : basic.hdl_deregister_ops, succeeded);
}

void CufileStatistics::count_buffer(bool registering, bool succeeded, bool on_gpu,
                                    std::uint32_t gpu, std::uint64_t length_bytes) {
  const std::lock_guard lock(mutex_);
  if (!counting()) return;
  auto& basic = totals_.detailed.basic;
  bump(registering ? basic.buf_register_ops : basic.buf_deregister_ops, succeeded);
  if (!succeeded || !on_gpu || gpu >= totals_.num_gpus) return;
  std::uint64_t& held = totals_.per_gpu_stats[gpu].reg_bytes;
  // A buffer registered before counting began may go while it runs.
  held = registering ? held + length_bytes : held - std::min(held, length_bytes);
}

void CufileStatistics::count_mapping(std::uint32_t gpu, bool succeeded) {
  const std::lock_guard lock(mutex_);
  if (!counting() || gpu >= totals_.num_gpus) return;
  CUfilePerGpuStats_t& stats = totals_.per_gpu_stats[gpu];
  ++stats.n_mmap;
  ++(succeeded ? stats.n_mmap_ok : stats.n_mmap_err);
}

void CufileStatistics::count_unmapping(std::uint32_t gpu) {
  const std::lock_guard lock(mutex_);
  if (!counting() || gpu >= totals_.num_gpus) return;
  ++totals_.per_gpu_stats[gpu].n_mmap_free;
}

void CufileStatistics::read_out(CUfileStatsLevel3_t& target) const {
  const std::lock_guard lock(mutex_);
  target = totals_;
}

}  // namespace nobounce::fabric
