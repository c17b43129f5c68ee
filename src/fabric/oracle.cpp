// The oracle's sweep, by /proc/self/maps, pagemap and process_vm_readv.
#include "fabric/oracle.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "fabric/bus.hpp"

namespace nobounce::fabric {

namespace {

constexpr std::uint64_t window_bytes = 64;
constexpr std::uint64_t windows_max = 6;
constexpr std::uint64_t resident_page_bytes = 4096;
constexpr std::uint64_t chunk_bytes = 4u << 20;
constexpr std::uint64_t mapping_max_bytes = std::uint64_t{64} << 30;

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct MappedRange {
  Range range;
  std::string line;
};

Range range_of(std::span<const std::byte> bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  return {begin, begin + bytes.size()};
}

/// Memory of the oracle's own, outside the heap, so that its copies are not taken for findings.
class Buffer {
 public:
  explicit Buffer(std::uint64_t length_bytes) : length_bytes_(length_bytes) {
    void* begin =
        mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (begin != MAP_FAILED) begin_ = static_cast<std::byte*>(begin);
  }
  ~Buffer() {
    if (begin_ != nullptr) munmap(begin_, length_bytes_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  [[nodiscard]] std::span<std::byte> bytes() const {
    return {begin_, begin_ == nullptr ? 0 : length_bytes_};
  }

 private:
  std::byte* begin_ = nullptr;
  std::uint64_t length_bytes_;
};

std::string read_maps() {
  std::string text;
  const int descriptor = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return text;
  std::array<char, 16384> part{};
  for (;;) {
    const ssize_t got = ::read(descriptor, part.data(), part.size());
    if (got <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  ::close(descriptor);
  return text;
}

std::vector<MappedRange> writable_mappings() {
  std::vector<MappedRange> mappings;
  const std::string text = read_maps();
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    Range range;
    const char* end = line.data() + line.size();
    const auto first = std::from_chars(line.data(), end, range.begin, 16);
    if (first.ec != std::errc() || first.ptr == end) continue;
    const auto second = std::from_chars(first.ptr + 1, end, range.end, 16);
    if (second.ec != std::errc() || end - second.ptr < 3) continue;
    const bool readable = second.ptr[1] == 'r';
    const bool writable = second.ptr[2] == 'w';
    if (!readable || !writable || range.end - range.begin > mapping_max_bytes) continue;
    mappings.push_back({range, std::string(line)});
  }
  return mappings;
}

/// What is left of a range when others are taken out.
std::vector<Range> without(Range range, const std::vector<Range>& excluded) {
  std::vector<Range> left{range};
  for (const Range& out : excluded) {
    std::vector<Range> next;
    for (const Range& part : left) {
      if (out.end <= part.begin || out.begin >= part.end) {
        next.push_back(part);
        continue;
      }
      if (part.begin < out.begin) next.push_back({part.begin, out.begin});
      if (out.end < part.end) next.push_back({out.end, part.end});
    }
    left = std::move(next);
  }
  return left;
}

/// Which pages of this process are resident. Where it cannot be told, all are.
class Residency {
 public:
  Residency() : descriptor_(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {}
  ~Residency() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Residency(const Residency&) = delete;
  Residency& operator=(const Residency&) = delete;

  /// The resident parts of a range, in order, adjoining ones joined.
  [[nodiscard]] std::vector<Range> resident(Range range) const {
    std::vector<Range> parts;
    std::array<std::uint64_t, 1024> entries{};
    std::uint64_t page = range.begin / resident_page_bytes;
    const std::uint64_t end = (range.end + resident_page_bytes - 1) / resident_page_bytes;
    while (page < end) {
      const std::uint64_t want = std::min<std::uint64_t>(entries.size(), end - page);
      const std::uint64_t got = read_entries(page, {entries.data(), want});
      if (got == 0) return {range};
      for (std::uint64_t i = 0; i < got; ++i, ++page) {
        constexpr std::uint64_t present_or_swapped = std::uint64_t{3} << 62;
        if ((entries[i] & present_or_swapped) == 0) continue;
        const Range here{std::max(range.begin, page * resident_page_bytes),
                         std::min(range.end, (page + 1) * resident_page_bytes)};
        if (!parts.empty() && parts.back().end == here.begin) {
          parts.back().end = here.end;
        } else {
          parts.push_back(here);
        }
      }
    }
    return parts;
  }

 private:
  [[nodiscard]] std::uint64_t read_entries(std::uint64_t page,
                                           std::span<std::uint64_t> entries) const {
    if (descriptor_ < 0) return 0;
    if (lseek(descriptor_, static_cast<off_t>(page * sizeof(std::uint64_t)), SEEK_SET) < 0) {
      return 0;
    }
    const ssize_t got = ::read(descriptor_, entries.data(), entries.size_bytes());
    return got <= 0 ? 0 : static_cast<std::uint64_t>(got) / sizeof(std::uint64_t);
  }
  int descriptor_;
};

struct Window {
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes;
};

/// A window that is all zeros or text of few letters would be found by chance.
bool is_telling(std::span<const std::byte> window) {
  std::array<bool, 256> seen{};
  std::size_t distinct = 0;
  for (const std::byte byte : window) {
    bool& known = seen[std::to_integer<std::size_t>(byte)];
    distinct += known ? 0 : 1;
    known = true;
  }
  return distinct >= 24;
}

std::vector<Window> windows_of(std::span<const std::byte> payload) {
  std::vector<Window> windows;
  if (payload.size() < window_bytes) return windows;
  const std::uint64_t last = payload.size() - window_bytes;
  const std::uint64_t wanted = std::min<std::uint64_t>(windows_max, payload.size() / window_bytes);
  for (std::uint64_t i = 0; i < wanted; ++i) {
    // Spread over the payload, the ends included, at odd places in between.
    std::uint64_t offset = wanted == 1 ? 0 : last / (wanted - 1) * i;
    if (i + 1 == wanted) offset = last;
    const auto bytes = payload.subspan(offset, window_bytes);
    if (is_telling(bytes)) windows.push_back({offset, bytes});
  }
  return windows;
}

class Sweep {
 public:
  Sweep(std::vector<Window> windows, SweepResult& result)
      : windows_(std::move(windows)), result_(result), buffer_(chunk_bytes + window_bytes) {}

  [[nodiscard]] Range own_memory() const { return range_of(buffer_.bytes()); }

  void look_through(Range range, const std::string& line) {
    for (std::uint64_t at = range.begin; at < range.end; at += chunk_bytes) {
      // A little more than the chunk, so that a window across its end is seen once, in the first of
      // the two.
      const std::uint64_t length = std::min(range.end - at, chunk_bytes + window_bytes - 1);
      const std::uint64_t got = read_memory(at, length);
      result_.swept_bytes += std::min(got, chunk_bytes);
      for (const Window& window : windows_) look_for(window, at, got, line);
    }
  }

 private:
  [[nodiscard]] std::uint64_t read_memory(std::uint64_t address, std::uint64_t length_bytes) {
    iovec local{buffer_.bytes().data(), static_cast<std::size_t>(length_bytes)};
    iovec remote{reinterpret_cast<void*>(address), static_cast<std::size_t>(length_bytes)};
    ssize_t got = process_vm_readv(::getpid(), &local, 1, &remote, 1, 0);
    // Containers may forbid that call even to oneself.
    if (got < 0 && (errno == EPERM || errno == ENOSYS)) got = read_by_file(address, local);
    return got < 0 ? 0 : static_cast<std::uint64_t>(got);
  }
  [[nodiscard]] static ssize_t read_by_file(std::uint64_t address, const iovec& target) {
    const int descriptor = ::open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return -1;
    ssize_t got = -1;
    if (lseek(descriptor, static_cast<off_t>(address), SEEK_SET) >= 0) {
      got = ::read(descriptor, target.iov_base, target.iov_len);
    }
    ::close(descriptor);
    return got;
  }

  void look_for(const Window& window, std::uint64_t address, std::uint64_t length_bytes,
                const std::string& line) {
    const std::byte* begin = buffer_.bytes().data();
    const std::byte* from = begin;
    const std::byte* end = begin + length_bytes;
    while (from < end) {
      const void* hit = memmem(from, static_cast<std::size_t>(end - from), window.bytes.data(),
                               window.bytes.size());
      if (hit == nullptr) return;
      const auto* place = static_cast<const std::byte*>(hit);
      ++result_.found;
      if (result_.hits.size() < 16) {
        result_.hits.push_back(
            {address + static_cast<std::uint64_t>(place - begin), window.offset, line});
      }
      from = place + 1;
    }
  }

  std::vector<Window> windows_;
  SweepResult& result_;
  Buffer buffer_;
};

}  // namespace

SweepResult sweep_process(std::span<const std::byte> payload,
                          const std::vector<std::span<const std::byte>>& excluded) {
  SweepResult result;
  std::vector<Window> windows = windows_of(payload);
  result.windows = windows.size();
  if (windows.empty()) return result;
  Sweep sweep(std::move(windows), result);
  std::vector<Range> out{range_of(payload), sweep.own_memory()};
  for (const std::span<const std::byte> bytes : excluded) out.push_back(range_of(bytes));
  const Residency residency;
  for (const MappedRange& mapping : writable_mappings()) {
    for (const Range& part : without(mapping.range, out)) {
      for (const Range& resident : residency.resident(part)) {
        sweep.look_through(resident, mapping.line);
      }
    }
  }
  return result;
}

SweepResult sweep_for(std::span<const std::byte> payload,
                      std::vector<std::span<const std::byte>> excluded, SoftHost& host) {
  for (const std::span<const std::byte> vram : host.bus().vram_mappings()) {
    excluded.push_back(vram);
  }
  return sweep_process(payload, excluded);
}

}  // namespace nobounce::fabric
