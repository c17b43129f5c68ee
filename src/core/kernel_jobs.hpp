// What the project's own kernels are told, and where they say what they did. Compiled for CUDA too.
#pragma once

#include <cstdint>
#include <string_view>

#include <nobounce/device/nvme_queue.hpp>
#include <nobounce/device/queue_set.hpp>

namespace nobounce::core {

inline constexpr std::string_view read_pages_kernel = "nobounce_read_pages";
inline constexpr std::string_view read_drive_kernel = "nobounce_read_drive";

/// Each block reads pages of a file one after the other through its queue, compares them with the
/// pattern and keeps them in GPU memory. Block b uses token b.
struct ReadPagesJob {
  device::QueueSet queues;
  std::uint64_t target = 0;     ///< a page for each read, in GPU memory; 0: only compare
  std::uint64_t results = 0;    ///< a ReadPagesResult for each block
  std::uint64_t latencies = 0;  ///< 32-bit nanoseconds of each read; 0: none wanted
  std::uint64_t pages = 0;      ///< of the file, which holds the pattern; below 2^32
  std::uint64_t seed = 0;       ///< of the pattern, and of the pages to read
  std::uint64_t sequence = 0;   ///< of the first read of each token; later ones count up
  std::uint64_t wait_ns = 0;    ///< for each read; 0: no deadline
  std::uint32_t reads = 0;      ///< by each block
  std::uint32_t page_bytes = 4096;
  std::uint32_t bad_every =
      0;                       ///< each so many reads, one lies beyond the end of the file; 0: none
  std::uint32_t in_order = 0;  ///< 1: block b reads its share in a row, instead of pages at random
};

/// All 64 bits wide, written by one thread.
struct ReadPagesResult {
  std::uint64_t good = 0;         ///< reads whose bytes are those of the pattern
  std::uint64_t wrong = 0;        ///< reads that ended well, with other bytes
  std::uint64_t refused = 0;      ///< reads that ended with an error, as they should
  std::uint64_t failed = 0;       ///< reads that ended in any other way
  std::uint64_t last_code = 0;    ///< the code of the last error
  std::uint64_t last_result = 0;  ///< device::Result of the last read that ended in another way
};

/// splitmix64 of a seed and a position: as Session::fill_pattern writes it, by 8 bytes.
NOBOUNCE_DEVICE constexpr std::uint64_t pattern_word(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

NOBOUNCE_DEVICE constexpr bool is_bad_read(const ReadPagesJob& job, std::uint32_t read) {
  return job.bad_every != 0 && read % job.bad_every == job.bad_every - 1;
}

/// Where a block's next read begins in the file.
NOBOUNCE_DEVICE constexpr std::uint64_t offset_of_read(const ReadPagesJob& job, std::uint32_t block,
                                                       std::uint32_t read) {
  const std::uint64_t number = static_cast<std::uint64_t>(block) * job.reads + read;
  if (is_bad_read(job, read)) return (job.pages + number) * job.page_bytes;
  // The upper half of a product instead of a remainder: a GPU takes long to divide.
  const std::uint64_t page =
      job.in_order != 0 ? number % job.pages
                        : (pattern_word(job.seed ^ 0x70616765, number) >> 32) * job.pages >> 32;
  return page * job.page_bytes;
}

NOBOUNCE_DEVICE constexpr device::Request request_of_read(const ReadPagesJob& job,
                                                          std::uint32_t block, std::uint32_t read) {
  device::Request request;
  request.operation = device::Operation::read;
  request.offset_bytes = offset_of_read(job, block, read);
  request.length_bytes = job.page_bytes;
  request.token = block;
  request.sequence = job.sequence + read;
  return request;
}

/// Enters the end of a read: what there is to say, but for its bytes.
NOBOUNCE_DEVICE constexpr void note_end(const ReadPagesJob& job, std::uint32_t read,
                                        device::Result result, std::uint16_t code,
                                        ReadPagesResult& results) {
  if (result == device::Result::ok) return;
  if (result == device::Result::error) {
    results.last_code = code;
    if (is_bad_read(job, read) && code == device::code_bad_range) {
      ++results.refused;
      return;
    }
  }
  ++results.failed;
  results.last_result = static_cast<std::uint64_t>(result);
}

/// Each block reads its part of a drive, a command after the other, into the same place of GPU
/// memory, and adds up the words that arrived. Block b uses token b and rings by itself.
struct ReadDriveJob {
  device::NvmeQueueSet queue;
  std::uint64_t data = 0;        ///< where NvmeQueueSet::data_iova lies for the GPU
  std::uint64_t results = 0;     ///< a ReadDriveResult for each block
  std::uint64_t sequence = 0;    ///< of the first command of each token; later ones count up
  std::uint64_t wait_ns = 0;     ///< for each command; 0: no deadline
  std::uint32_t reads = 0;       ///< by each block
  std::uint32_t read_bytes = 0;  ///< of each command, a multiple of 16
};

/// All 64 bits wide, written by one thread.
struct ReadDriveResult {
  std::uint64_t good = 0;         ///< commands that ended well
  std::uint64_t failed = 0;       ///< commands that ended in any other way
  std::uint64_t last_code = 0;    ///< the code of the last error
  std::uint64_t last_result = 0;  ///< device::Result of the last command that ended in another way
  std::uint64_t sum = 0;          ///< of the 64-bit words that arrived, as the kernel saw them
};

NOBOUNCE_DEVICE constexpr device::Request request_of_drive_read(const ReadDriveJob& job,
                                                                std::uint32_t block,
                                                                std::uint32_t read) {
  device::Request request;
  request.operation = device::Operation::read;
  request.offset_bytes = (static_cast<std::uint64_t>(block) * job.reads + read) * job.read_bytes;
  request.place = request.offset_bytes;
  request.length_bytes = job.read_bytes;
  request.token = block;
  request.sequence = job.sequence + read;
  return request;
}

/// Enters the end of a command: what there is to say, but for its bytes.
NOBOUNCE_DEVICE constexpr void note_end(device::Result result, std::uint16_t code,
                                        ReadDriveResult& results) {
  if (result == device::Result::ok) {
    ++results.good;
    return;
  }
  ++results.failed;
  results.last_result = static_cast<std::uint64_t>(result);
  if (result == device::Result::error) results.last_code = code;
}

}  // namespace nobounce::core
