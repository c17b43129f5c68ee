// What it costs when a kernel orders its reads: rate and latency by blocks and proxies, errors and
// the receipt included; every byte is verified by the kernel.
#include <nobounce/async.hpp>
#include <nobounce/session.hpp>

#include "async/page_reader.hpp"
#include "bench/measure.hpp"
#include "system/live_host.hpp"
#include "system/storage.hpp"

namespace nobounce::bench {

namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t seed = 11;

/// The file of the pattern, in the page cache.
Status write_hot_file(system::Host& host, const std::string& path, std::uint64_t bytes) {
  system::OpenOptions options;
  options.access = system::FileAccess::write;
  options.create = true;
  options.truncate = true;
  Result<system::FileHandle> file = host.storage().open(path, options);
  if (!file.ok()) return std::move(file).error();
  std::vector<std::uint64_t> words(1u << 19);
  for (std::uint64_t done = 0; done < bytes;) {
    for (std::size_t i = 0; i < words.size(); ++i)
      words[i] = core::pattern_word(seed, done / 8 + i);
    const std::uint64_t length = std::min<std::uint64_t>(words.size() * 8, bytes - done);
    const auto wrote = host.storage().write(*file, reinterpret_cast<const std::byte*>(words.data()),
                                            length, FileOffset{done});
    if (!wrote.ok()) return wrote.error();
    done += *wrote;
  }
  return host.storage().close(*file);
}

struct Case {
  std::uint32_t blocks = 1;
  std::uint32_t proxies = 1;
  std::uint32_t reads = 1;
  std::uint32_t bad_every = 0;
};

Result<core::Json> measure(Session& session, system::Host& host, const Place& file,
                           async::PageReader& reader, const Case& one, int runs) {
  Samples rates;
  Samples p50;
  Samples p99;
  Samples cpu;
  Samples calls;
  core::ReadPagesResult sum;
  Receipt receipt;
  std::uint64_t wake_ups = 0;
  for (int run = 0; run < runs; ++run) {
    auto queue = KernelQueue::open(session, file, {.tokens = one.blocks, .proxies = one.proxies});
    if (!queue.ok()) return std::move(queue).error();
    async::PageReads wanted;
    wanted.blocks = one.blocks;
    wanted.reads = one.reads;
    wanted.file_bytes = length_bytes(file);
    wanted.seed = seed;
    wanted.bad_every = one.bad_every;
    wanted.latencies = true;
    wanted.timeout_ns = 20'000'000'000;
    const auto cpu_before = host.counters().cpu_time_ns();
    const auto result = reader.run(*queue, wanted);
    const auto cpu_after = host.counters().cpu_time_ns();
    if (!result.ok()) return result.error();
    const KernelQueueCounts counts = queue->counts();
    const Outcome outcome = queue->close();
    receipt = outcome.receipt;
    sum = result->sum;
    const double operations = static_cast<double>(one.blocks) * one.reads;
    rates.add(operations / static_cast<double>(result->elapsed_ns) * 1e3);
    Samples latencies;
    for (const std::uint32_t ns : result->latencies_ns) latencies.add(ns / 1e3);
    p50.add(latencies.median());
    p99.add(latencies.at(0.99));
    if (cpu_before.ok() && cpu_after.ok())
      cpu.add(static_cast<double>(*cpu_after - *cpu_before) / operations / 1e3);
    calls.add(static_cast<double>(counts.system_calls) / operations);
    wake_ups = counts.wake_ups;
    if (sum.wrong != 0 || sum.failed != 0) {
      return Error{.origin = ErrorOrigin::session,
                   .attempted = "read pages by a kernel",
                   .detail = std::to_string(sum.wrong) + " wrong, " + std::to_string(sum.failed) +
                             " failed, code " + std::to_string(sum.last_code)};
    }
  }
  core::JsonObject object;
  object.emplace_back("blocks", std::uint64_t{one.blocks});
  object.emplace_back("proxies", std::uint64_t{one.proxies});
  object.emplace_back("reads_per_block", std::uint64_t{one.reads});
  object.emplace_back("bad_every", std::uint64_t{one.bad_every});
  object.emplace_back("million_reads_per_second", rates.json());
  object.emplace_back("latency_p50_us", p50.json());
  object.emplace_back("latency_p99_us", p99.json());
  object.emplace_back("cpu_us_per_read", cpu.json());
  object.emplace_back("system_calls_per_read", calls.json());
  object.emplace_back("wake_ups", wake_ups);
  object.emplace_back("verified_by_kernel", sum.good);
  object.emplace_back("refused_as_they_should", sum.refused);
  core::JsonObject told;
  told.emplace_back("state", std::string(to_string(receipt.state)));
  told.emplace_back("issuer", std::string(to_string(receipt.issuer)));
  told.emplace_back("poster", std::string(to_string(receipt.poster)));
  told.emplace_back("staged_bytes", receipt.bytes[Carriage::staged]);
  told.emplace_back("requested_bytes", receipt.requested_bytes);
  object.emplace_back("receipt", std::move(told));
  return core::Json(std::move(object));
}

}  // namespace

int async_reads(const std::vector<std::string>& words) {
  const std::string path = option(words, "--folder", "/dev/shm") + "/nobounce-hot";
  const std::uint64_t bytes = std::stoull(option(words, "--bytes", "4294967296")) / page * page;
  const auto host = system::make_live_host();
  if (Status wrote = write_hot_file(*host, path, bytes); !wrote.ok())
    return failed(to_string(wrote.error()));
  SessionOptions options;
  options.warn_on_close = false;
  options.publish_ledger = false;
  auto session = Session::open(*host, options);
  if (!session.ok()) return failed(to_string(session.error()));
  core::JsonArray cases;
  int code = 0;
  {
    auto file = session->open_file(path);
    auto reader = async::PageReader::load(*session, 0, 2048, 4u << 20);
    if (!file.ok()) return failed(to_string(file.error()));
    if (!reader.ok()) return failed(to_string(reader.error()));
    const std::uint32_t most = std::max(2U, host->workers().concurrency()) - 1;
    std::vector<Case> list{{1, 1, 5000, 0}, {1, 1, 5000, 10}};
    const bool few = option(words, "--few", "no") == "yes";
    if (few) list.push_back({64, most, 6250, 0});
    for (const std::uint32_t blocks : {16U, 64U, 128U, 256U, 512U, 1024U, 2048U}) {
      if (few) break;
      for (const std::uint32_t proxies : {1U, 4U, 8U, most - 1, most, most + 1}) {
        if (proxies <= blocks && proxies > 0)
          list.push_back({blocks, proxies, std::max(400'000 / blocks, 200U), 0});
      }
    }
    list.push_back({1024, most, 400, 100});
    for (const Case& one : list) {
      Result<core::Json> result = measure(*session, *host, file->place(), *reader, one, 3);
      if (!result.ok()) {
        code = failed(to_string(result.error()));
        break;
      }
      cases.push_back(std::move(*result));
    }
  }
  (void)host->storage().remove(path);
  const int printed =
      print({{"what", std::string("4 KiB reads of a hot file that a kernel orders")},
             {"file", path},
             {"file_bytes", bytes},
             {"cases", std::move(cases)}});
  return code != 0 ? code : printed;
}

}  // namespace nobounce::bench
