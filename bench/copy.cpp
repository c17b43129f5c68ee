// Staged file <-> GPU with the file in the page cache, beside plain pinned copies of the same run.
#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <optional>

#include <nobounce/session.hpp>

#include "bench/measure.hpp"
#include "support/cuda_driver.hpp"
#include "system/live_host.hpp"

namespace nobounce::bench {

namespace {

using test::CudaDriver;
constexpr std::uint64_t mib = 1u << 20;
constexpr std::uint64_t plain_bytes = 256 * mib;
constexpr int repeats = 7;

/// Rates of cuMemcpy*Async between pinned and GPU memory: what nothing on this bus exceeds.
bool plain_rates(const CudaDriver& driver, Samples& to_device, Samples& to_host) {
  const test::Primary primary(driver, 0);
  void* host = nullptr;
  test::Pointer device = 0;
  if (driver.allocate_host(&host, plain_bytes, 0) != 0 ||
      driver.allocate(&device, plain_bytes) != 0) {
    return false;
  }
  bool good = true;
  for (int i = 0; i < repeats + 1 && good; ++i) {
    Samples warm;
    good = time_rate(i == 0 ? warm : to_device, 8 * plain_bytes, [&] {
      for (int j = 0; j < 8; ++j) (void)driver.to_device(device, host, plain_bytes, nullptr);
      return driver.synchronize(nullptr) == 0;
    });
    good = good && time_rate(i == 0 ? warm : to_host, 8 * plain_bytes, [&] {
             for (int j = 0; j < 8; ++j) (void)driver.to_host(host, device, plain_bytes, nullptr);
             return driver.synchronize(nullptr) == 0;
           });
  }
  (void)driver.free(device);
  (void)driver.free_host(host);
  return good;
}

bool write_file(const std::string& path, std::uint64_t bytes) {
  std::vector<std::uint64_t> piece(64 * mib / 8);
  std::uint64_t state = 88172645463325252ull;
  for (std::uint64_t& word : piece) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    word = state;
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t now = std::min<std::uint64_t>(64 * mib, bytes - done);
    file.write(reinterpret_cast<const char*>(piece.data()), static_cast<std::streamsize>(now));
    done += now;
  }
  return static_cast<bool>(file.flush());
}

/// Reads a file once, so that it lies in the page cache.
void warm_cache(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::vector<char> buffer(16 * mib);
  while (::read(descriptor, buffer.data(), buffer.size()) > 0) {
  }
  ::close(descriptor);
}

struct Point {
  std::uint32_t readers = 0;
  std::uint64_t slot_bytes = 4 * mib;
};

/// A session's rates with one setting: its first transfer, which pins the ring, and later ones.
struct Rates {
  double first = 0;
  Samples to_gpu;
  Samples to_file;
  double cpu_seconds_per_gb = 0;
  CarriageBytes carried;
  std::string failure;
};

Rates measure(const std::string& path, const std::string& out_path, const Point& point, int runs) {
  Rates rates;
  const auto host = system::make_live_host();
  SessionOptions options;
  options.warn_on_close = false;
  options.readers = point.readers;
  options.slot_bytes = point.slot_bytes;
  auto session = Session::open(*host, options);
  if (!session.ok()) return rates.failure = to_string(session.error()), rates;
  const auto file = session->open_file(path);
  if (!file.ok()) return rates.failure = to_string(file.error()), rates;
  const std::uint64_t bytes = file->length_bytes();
  const auto region = session->allocate(0, bytes);
  if (!region.ok()) return rates.failure = to_string(region.error()), rates;
  const auto move = [&](const Place& source, const Place& target) {
    const Outcome outcome = session->transfer(source, target);
    if (!outcome.ok()) rates.failure = to_string(*outcome.error);
    rates.carried += outcome.receipt.bytes;
    return outcome.ok();
  };
  Samples first;
  if (!time_rate(first, bytes, [&] { return move(file->place(), region->place()); })) return rates;
  rates.first = first.median();
  const auto cpu_before = host->counters().cpu_time_ns();
  for (int i = 0; i < runs; ++i) {
    if (!time_rate(rates.to_gpu, bytes, [&] { return move(file->place(), region->place()); })) {
      return rates;
    }
  }
  const auto cpu_after = host->counters().cpu_time_ns();
  if (cpu_before.ok() && cpu_after.ok()) {
    rates.cpu_seconds_per_gb = static_cast<double>(*cpu_after - *cpu_before) /
                               static_cast<double>(bytes * static_cast<std::uint64_t>(runs));
  }
  for (int i = 0; i < (out_path.empty() ? 0 : 3); ++i) {
    FileOptions writing;
    writing.mode = FileMode::in_place;
    writing.length_bytes = bytes;
    auto out = session->open_file(out_path, writing);
    if (!out.ok()) return rates.failure = to_string(out.error()), rates;
    if (!time_rate(rates.to_file, bytes, [&] { return move(region->place(), out->place()); })) {
      return rates;
    }
  }
  return rates;
}

core::Json carriages(const CarriageBytes& bytes) {
  core::JsonObject object;
  for (std::size_t i = 0; i < carriage_count; ++i) {
    object.emplace_back(std::string(to_string(static_cast<Carriage>(i))), bytes.by[i]);
  }
  return object;
}

core::Json sweep(const std::string& path, double plain) {
  core::JsonArray rows;
  for (const std::uint32_t readers : {2u, 4u, 8u, 16u}) {
    for (const std::uint64_t slot : {mib, 4 * mib, 16 * mib}) {
      const Rates rates = measure(path, "", {readers, slot}, 3);
      core::JsonObject row;
      row.emplace_back("readers", readers);
      row.emplace_back("slot_bytes", slot);
      row.emplace_back("file_to_gpu_gb_per_s", rates.to_gpu.json());
      row.emplace_back("of_pinned_host_to_gpu", rates.to_gpu.median() / plain);
      row.emplace_back("cpu_seconds_per_gb", rates.cpu_seconds_per_gb);
      if (!rates.failure.empty()) row.emplace_back("failure", rates.failure);
      rows.emplace_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace

int copy(const std::vector<std::string>& words) {
  const CudaDriver driver;
  if (driver.gpus() == 0) return failed("no GPU: " + driver.missing);
  const std::string folder = option(words, "--folder", ".");
  const std::uint64_t bytes = std::stoull(option(words, "--bytes", std::to_string(4096 * mib)));
  std::string path = option(words, "--file", "");
  const bool own = path.empty();
  if (own) path = folder + "/nobounce-bench-in";
  if (own && !write_file(path, bytes)) return failed("cannot write " + path);
  warm_cache(path);
  Samples plain_in;
  Samples plain_out;
  const bool plain = plain_rates(driver, plain_in, plain_out);
  const std::string out_path = own ? folder + "/nobounce-bench-out" : "";
  const Rates rates = plain ? measure(path, out_path, {}, repeats) : Rates{};
  core::JsonObject result;
  result.emplace_back("case", "copy");
  result.emplace_back("pinned_host_to_gpu_gb_per_s", plain_in.json());
  result.emplace_back("pinned_gpu_to_host_gb_per_s", plain_out.json());
  result.emplace_back("file_to_gpu_gb_per_s", rates.to_gpu.json());
  result.emplace_back("first_file_to_gpu_gb_per_s", rates.first);
  result.emplace_back("cpu_seconds_per_gb", rates.cpu_seconds_per_gb);
  result.emplace_back("carriage_bytes", carriages(rates.carried));
  core::JsonObject ratios;
  ratios.emplace_back("file_to_gpu_of_pinned_host_to_gpu",
                      rates.to_gpu.median() / plain_in.median());
  ratios.emplace_back("first_file_to_gpu_of_pinned_host_to_gpu", rates.first / plain_in.median());
  if (own) {
    result.emplace_back("gpu_to_file_gb_per_s", rates.to_file.json());
    ratios.emplace_back("gpu_to_file_of_pinned_gpu_to_host",
                        rates.to_file.median() / plain_out.median());
  }
  result.emplace_back("ratios", std::move(ratios));
  if (rates.failure.empty() && option(words, "--sweep", "no") == "yes") {
    result.emplace_back("sweep", sweep(path, plain_in.median()));
  }
  if (!rates.failure.empty()) result.emplace_back("failure", rates.failure);
  if (own) {
    ::unlink(path.c_str());
    ::unlink(out_path.c_str());
  }
  const int printed = print(std::move(result));
  if (!plain) return failed("the plain copies failed");
  return rates.failure.empty() ? printed : failed(rates.failure);
}

}  // namespace nobounce::bench
