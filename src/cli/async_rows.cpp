// Runs a stream and a kernel for the rows of member async.
#include "cli/async_rows.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <nobounce/async.hpp>
#include <nobounce/doorbell.hpp>
#include "async/drive_reader.hpp"
#include "async/own_stream.hpp"
#include "async/page_reader.hpp"
#include "cli/check_rows.hpp"
#include "judge/async.hpp"
#include "preconditions/read_async_facts.hpp"
#include "proof/ordered_row.hpp"

namespace nobounce::cli {

namespace {

constexpr std::uint32_t kernel_blocks = 64;
constexpr std::uint32_t drive_blocks = 32;
constexpr std::uint64_t bytes_of_page = 4096;
constexpr std::uint64_t order_patience_ns = 60'000'000'000;

core::AsyncFacts facts_of(Session& session, system::Host& host, std::uint32_t gpu) {
  return preconditions::read_async_facts(host, session.machine(), gpu, host.cuda().ok());
}

/// Volumes for kernels, whose blocks all do the same: those asked for, each the next whole number
/// of rounds and no two the same; otherwise `rounds` and twice and four times that.
std::vector<std::uint64_t> in_rounds(const std::vector<std::uint64_t>& asked_bytes,
                                     std::uint64_t round_bytes, std::uint64_t rounds) {
  if (asked_bytes.empty())
    return {rounds * round_bytes, 2 * rounds * round_bytes, 4 * rounds * round_bytes};
  std::vector<std::uint64_t> volumes;
  std::uint64_t last = 0;
  for (const std::uint64_t bytes : asked_bytes) {  // the smallest first
    last = std::max((bytes + round_bytes - 1) / round_bytes, last + 1);
    volumes.push_back(last * round_bytes);
  }
  return volumes;
}

class StreamRun final : public proof::OrderedRun {
 public:
  StreamRun(Session& session, system::Host& host, std::uint32_t gpu)
      : session_(session), host_(host), gpu_(gpu) {}
  Issuer issuer() const override { return Issuer::stream; }
  std::vector<Finding> findings() override {
    problem_ = open();  // before anything is counted
    return judge::judge_stream_order(facts_of(session_, host_, gpu_));
  }
  Result<proof::OrderedResult> run(const Place& source, const Place& target,
                                   std::uint64_t) override {
    if (!problem_.ok()) return problem_.error();
    Result<StreamTransfer> transfer = streams_->enqueue(stream_->handle(), source, target);
    if (!transfer.ok()) return std::move(transfer).error();
    std::optional<Outcome> outcome = transfer->wait(order_patience_ns);
    if (!outcome.has_value()) {
      return Error{.origin = ErrorOrigin::session,
                   .attempted = "order a transfer on a stream",
                   .cause = Cause::session_deadline_passed,
                   .detail = "the stream has not come to it"};
    }
    return proof::OrderedResult{.outcome = std::move(*outcome), .seen_by_issuer = std::nullopt};
  }

 private:
  Status open() {
    Result<Streams> streams = Streams::open(session_);
    if (!streams.ok()) return streams.error();
    Result<async::OwnStream> stream = async::OwnStream::make(session_, gpu_);
    if (!stream.ok()) return stream.error();
    streams_.emplace(std::move(*streams));
    stream_.emplace(std::move(*stream));
    return {};
  }

  Session& session_;
  system::Host& host_;
  const std::uint32_t gpu_;
  Status problem_;
  std::optional<async::OwnStream> stream_;
  std::optional<Streams> streams_;  ///< goes first
};

/// Reads that a kernel orders. What it needs is loaded before any queue is open.
template <typename Reader>
class ReadingRun : public proof::OrderedRun {
 public:
  using Judge = std::vector<Finding> (*)(const core::AsyncFacts&);

  ReadingRun(Session& session, system::Host& host, std::uint32_t gpu, std::uint32_t blocks,
             Judge judge)
      : session_(session), host_(host), gpu_(gpu), blocks_(blocks), judge_(judge) {}
  Issuer issuer() const final { return Issuer::kernel; }
  std::vector<Finding> findings() final {
    Result<Reader> reader = Reader::load(session_, gpu_, blocks_);
    if (reader.ok()) {
      reader_.emplace(std::move(*reader));
    } else {
      problem_ = reader.error();
    }
    return judge_(facts_of(session_, host_, gpu_));
  }
  Result<proof::OrderedResult> run(const Place& source, const Place& target,
                                   std::uint64_t seed) final {
    if (!problem_.ok()) return problem_.error();
    return read(*reader_, source, target, seed);
  }

 protected:
  [[nodiscard]] Session& session() { return session_; }
  [[nodiscard]] std::uint32_t gpu() const { return gpu_; }
  [[nodiscard]] std::uint32_t reads_per_block(const Place& source) const {
    return static_cast<std::uint32_t>(length_bytes(source) / bytes_of_page / blocks_);
  }

 private:
  virtual Result<proof::OrderedResult> read(Reader& reader, const Place& source,
                                            const Place& target, std::uint64_t seed) = 0;

  Session& session_;
  system::Host& host_;
  const std::uint32_t gpu_;
  const std::uint32_t blocks_;
  const Judge judge_;
  Status problem_;
  std::optional<Reader> reader_;
};

/// Through CPU proxies.
class KernelRun final : public ReadingRun<async::PageReader> {
 public:
  KernelRun(Session& session, system::Host& host, std::uint32_t gpu)
      : ReadingRun(session, host, gpu, kernel_blocks, judge::judge_kernel_order) {}

 private:
  Result<proof::OrderedResult> read(async::PageReader& reader, const Place& source,
                                    const Place& target, std::uint64_t seed) override {
    Result<KernelQueue> queue =
        KernelQueue::open(session(), source, {.gpu = gpu(), .tokens = kernel_blocks});
    if (!queue.ok()) return std::move(queue).error();
    async::PageReads wanted;
    wanted.blocks = kernel_blocks;
    wanted.reads = reads_per_block(source);
    wanted.file_bytes = length_bytes(source);
    wanted.seed = seed;
    wanted.in_order = true;
    wanted.target = std::get<GpuMemory>(target).address;
    wanted.timeout_ns = order_patience_ns;
    Result<async::PageReadsResult> result = reader.run(*queue, wanted);
    if (!result.ok()) return std::move(result).error();
    const KernelQueueCounts counts = queue->counts();
    return proof::OrderedResult{.outcome = queue->close(),
                                .seen_by_issuer = result->sum.wrong == 0 && result->sum.failed == 0,
                                .operations = counts.requests,
                                .counted = true,
                                .system_calls = counts.system_calls,
                                .wake_ups = counts.wake_ups};
  }
};

/// By ringing the drive's doorbell.
class DoorbellRun final : public ReadingRun<async::DriveReader> {
 public:
  DoorbellRun(Session& session, system::Host& host, std::uint32_t gpu)
      : ReadingRun(session, host, gpu, drive_blocks, judge::judge_doorbell_order) {}

 private:
  Result<proof::OrderedResult> read(async::DriveReader& reader, const Place& source,
                                    const Place& target, std::uint64_t) override {
    Result<DoorbellQueue> queue =
        DoorbellQueue::open(session(), source, target, {.tokens = drive_blocks});
    if (!queue.ok()) return std::move(queue).error();
    async::DriveReads wanted;
    wanted.blocks = drive_blocks;
    wanted.read_bytes = bytes_of_page;
    wanted.reads = reads_per_block(source);
    wanted.data = std::get<GpuMemory>(target).address;
    wanted.timeout_ns = order_patience_ns;
    const Result<core::ReadDriveResult> result = reader.run(*queue, wanted);
    if (!result.ok()) return result.error();
    return proof::OrderedResult{.outcome = queue->close(),
                                .sum_seen = result->sum,
                                .operations = std::uint64_t{wanted.reads} * drive_blocks};
  }
};

}  // namespace

std::vector<report::CheckRow> async_check_rows(const Machine& machine, system::Host& host,
                                               std::uint32_t gpu) {
  const core::AsyncFacts facts =
      preconditions::read_async_facts(host, machine, gpu, host.cuda().ok());
  const std::string name = "gpu:" + std::to_string(gpu);
  // Whoever orders, a CPU thread tells the devices: better than nothing, and no direct path.
  return {async_row("stream", name, judge::judge_stream_order(facts), {Cause::async_cpu_proxy}),
          async_row("kernel", name, judge::judge_kernel_order(facts), {Cause::async_cpu_proxy})};
}

std::vector<ProofRow> prove_async_rows(Session& session, system::Host& host,
                                       evidence::Witnesses& witnesses,
                                       const proof::Subject& subject,
                                       const proof::ProveOptions& options,
                                       const std::vector<std::uint64_t>& asked_bytes) {
  proof::ProveOptions own = options;
  const std::uint64_t round = kernel_blocks * bytes_of_page;
  own.volumes_bytes = in_rounds(asked_bytes, round, host.kind() == HostKind::live ? 64 : 4);
  std::vector<ProofRow> rows;
  StreamRun stream(session, host, subject.target_gpu);
  rows.push_back(proof::prove_ordered_row(session, host, witnesses, subject, own, stream));
  KernelRun kernel(session, host, subject.target_gpu);
  rows.push_back(proof::prove_ordered_row(session, host, witnesses, subject, own, kernel));
  return rows;
}

ProofRow prove_doorbell_row(Session& session, system::Host& host, evidence::Witnesses& witnesses,
                            const proof::Subject& subject, const proof::ProveOptions& options,
                            const std::vector<std::uint64_t>& asked_bytes) {
  proof::ProveOptions own = options;
  own.volumes_bytes = in_rounds(asked_bytes, drive_blocks * bytes_of_page, 8);
  DoorbellRun kernel(session, host, subject.target_gpu);
  return proof::prove_ordered_row(session, host, witnesses, subject, own, kernel);
}

}  // namespace nobounce::cli
