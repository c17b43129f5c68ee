// A log of NCCL of a large job, made up line by line in the wording of 2.28, the log of a training
// between whose lines NCCL says something, and how fast and in how much memory each is explained.
#include <sys/resource.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "bench/measure.hpp"
#include "captures/read_text.hpp"
#include "judge/explain.hpp"

namespace nobounce::bench {

namespace {

constexpr unsigned gpus_per_node = 8;

/// What a rank says, until the file has its size: rings, then connections to all others.
class NcclLogWriter {
 public:
  NcclLogWriter(std::FILE* file, unsigned ranks, std::uint64_t bytes)
      : file_(file), ranks_(ranks), bytes_(bytes) {}

  void write() {
    for (unsigned rank = 0; rank < ranks_; ++rank) begin(rank);
    for (unsigned channel = 0; channel < 16; ++channel) {
      for (unsigned rank = 0; rank < ranks_; ++rank) ring(rank, channel);
    }
    // Communicators of one's own for each dimension of parallelism: the same pairs again.
    for (unsigned round = 0; !full(); ++round) {
      for (unsigned step = 1; step < ranks_ && !full(); ++step) {
        for (unsigned rank = 0; rank < ranks_ && !full(); ++rank)
          connect(rank, (rank + step) % ranks_, 2 * (round % 8));
      }
    }
    flush();
  }

 private:
  [[nodiscard]] bool full() const { return written_ + text_.size() >= bytes_; }

  void prefix(unsigned rank) {
    const unsigned node = rank / gpus_per_node;
    const unsigned device = rank % gpus_per_node;
    char front[96];
    std::snprintf(front, sizeof front, "node%04u:%u:%u [%u] NCCL INFO ", node, 20000 + device,
                  21000 + device, device);
    text_ += front;
  }

  void say(unsigned rank, const char* words) {
    prefix(rank);
    text_ += words;
    text_ += '\n';
    if (text_.size() > (1u << 20)) flush();
  }

  void begin(unsigned rank) {
    char words[400];
    if (rank == 0) text_ += "NCCL version 2.28.9+cuda13.0\n";
    say(rank,
        "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB [3]mlx5_3:1/IB [4]mlx5_4:1/IB "
        "[5]mlx5_5:1/IB [6]mlx5_6:1/IB [7]mlx5_7:1/IB [RO]; OOB eth0:192.0.2.1<0>");
    say(rank, "Using network IB");
    std::snprintf(words, sizeof words,
                  "ncclCommInitRankConfig comm 0x55d0c0de rank %u nranks %u cudaDev %u nvmlDev %u "
                  "busId %x000 commId 0x1 - Init START",
                  rank, ranks_, rank % gpus_per_node, rank % gpus_per_node,
                  0x1b + rank % gpus_per_node);
    say(rank, words);
    for (unsigned adapter = 0; adapter < gpus_per_node; ++adapter) {
      std::snprintf(words, sizeof words, "NET/IB : GPU Direct RDMA Enabled for HCA %u 'mlx5_%u'",
                    adapter, adapter);
      say(rank, words);
    }
    if (rank != 0) return;
    for (unsigned channel = 0; channel < 16; ++channel) {
      std::string all = "Channel " + std::to_string(channel) + "/16 :";
      for (unsigned other = 0; other < ranks_; ++other) all += ' ' + std::to_string(other);
      say(rank, all.c_str());
    }
  }

  void ring(unsigned rank, unsigned channel) { connect(rank, (rank + 1) % ranks_, channel); }

  void connect(unsigned from, unsigned to, unsigned channel) {
    char words[160];
    const unsigned a = from % gpus_per_node;
    const unsigned b = to % gpus_per_node;
    if (from / gpus_per_node == to / gpus_per_node) {
      std::snprintf(words, sizeof words, "Channel %02u/1 : %u[%u] -> %u[%u] via P2P/CUMEM", channel,
                    from, a, to, b);
      return say(from, words);
    }
    std::snprintf(words, sizeof words,
                  "Channel %02u/1 : %u[%u] -> %u[%u] [send] via NET/IB/%u/GDRDMA/Shared", channel,
                  from, a, to, b, a);
    say(from, words);
    std::snprintf(words, sizeof words,
                  "Channel %02u/1 : %u[%u] -> %u[%u] [receive] via NET/IB/%u/GDRDMA/Shared",
                  channel, from, a, to, b, b);
    say(to, words);
  }

  void flush() {
    written_ += std::fwrite(text_.data(), 1, text_.size(), file_);
    text_.clear();
  }

  std::FILE* file_;
  unsigned ranks_;
  std::uint64_t bytes_;
  std::uint64_t written_ = 0;
  std::string text_;
};

/// The log of a training: lines that no format takes, and every fiftieth one of NCCL.
class TrainingLogWriter {
 public:
  TrainingLogWriter(std::FILE* file, std::uint64_t bytes) : file_(file), bytes_(bytes) {}

  void write() {
    for (unsigned step = 0; written_ < bytes_; ++step) line(step);
  }

 private:
  void line(unsigned step) {
    char text[400];
    char time[40];
    const unsigned rank = step % 8;
    const double loss = 2 + 8.0 / (1 + step % 1000);
    std::snprintf(time, sizeof time, "2026-02-%02u %02u:%02u:%02u,%03u", step / 86400 % 28 + 1,
                  step / 3600 % 24, step / 60 % 60, step % 60, step * 7 % 1000);
    if (step % 50 == 0) {
      std::snprintf(text, sizeof text,
                    "node%04u:%u:%u [%u] NCCL INFO Channel %02u/0 : %u[%u] -> %u[%u] [send] via "
                    "NET/IB/%u/GDRDMA\n",
                    step / 50 % 128, 20000 + rank, 21000 + rank, rank, step / 400 % 16, rank, rank,
                    rank + 8, rank, rank);
    } else if (step % 7 < 2) {
      std::snprintf(
          text, sizeof text,
          " [%.19s] iteration %8u/  500000 | consumed samples: %12u | elapsed time per "
          "iteration (ms): %.1f | throughput per GPU (TFLOP/s/GPU): %.1f | learning rate: "
          "%.6E | global batch size:  2048 | lm loss: %.6E | grad norm: %.3f |\n",
          time, step, step % 2'000'000 * 2048, 4000 + loss, 400 + loss, 1e-4, loss, loss);
    } else if (step % 7 < 4) {
      std::snprintf(text, sizeof text,
                    "[rank%u]:%s [INFO] trainer.py:%u - step %u loss %.4f tokens/s %.1f mem %.2f "
                    "GiB\n",
                    rank, time, step % 900, step, loss, 90000 + loss, 70 + loss);
    } else if (step % 7 < 5) {
      std::snprintf(text, sizeof text,
                    "node%04u: INFO:root:worker %u finished shard /data/c4/shard-%05u.tar in "
                    "%.2fs (%u samples)\n",
                    step % 128, rank, step % 90000, loss, step % 10000);
    } else {
      std::snprintf(text, sizeof text,
                    "%s | INFO     | train:log_metrics:%u - {'loss': %.4f, 'grad_norm': %.6f, "
                    "'epoch': %.2f}\n",
                    time, step % 500, loss, loss / 3, step / 1e4);
    }
    const std::string_view words(text);
    written_ += std::fwrite(words.data(), 1, words.size(), file_);
  }

  std::FILE* file_;
  std::uint64_t bytes_;
  std::uint64_t written_ = 0;
};

/// Of this process: what a machine that does other things too takes nothing from.
double processor_seconds_now() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

int nccl_log(const std::vector<std::string>& words) {
  const std::string path = option(words, "--output", "");
  std::FILE* file = path.empty() ? nullptr : std::fopen(path.c_str(), "wb");
  if (file == nullptr) return failed("nccl-log --output FILE [--ranks N] [--bytes N]");
  NcclLogWriter(
      file,
      static_cast<unsigned>(std::strtoul(option(words, "--ranks", "1024").c_str(), nullptr, 10)),
      std::strtoull(option(words, "--bytes", "1000000000").c_str(), nullptr, 10))
      .write();
  return std::fclose(file) == 0 ? 0 : failed("cannot write " + path);
}

int training_log(const std::vector<std::string>& words) {
  const std::string path = option(words, "--output", "");
  std::FILE* file = path.empty() ? nullptr : std::fopen(path.c_str(), "wb");
  if (file == nullptr) return failed("training-log --output FILE [--bytes N]");
  TrainingLogWriter(file, std::strtoull(option(words, "--bytes", "200000000").c_str(), nullptr, 10))
      .write();
  return std::fclose(file) == 0 ? 0 : failed("cannot write " + path);
}

int explain(const std::vector<std::string>& words) {
  const std::string path = option(words, "--file", "");
  const auto runs = std::strtoul(option(words, "--runs", "3").c_str(), nullptr, 10);
  Samples rates;
  Samples processor_rates;
  core::Explanation explanation;
  std::uint64_t bytes = 0;
  for (unsigned long run = 0; run < runs; ++run) {
    std::FILE* file = path.empty() ? nullptr : std::fopen(path.c_str(), "rb");
    if (file == nullptr) return failed("explain --file FILE [--runs N]");
    captures::TextReader reader;
    reader.begin("log");
    std::vector<char> chunk(1u << 20);
    bytes = 0;
    const double begin = seconds_now();
    const double processor_begin = processor_seconds_now();
    while (const std::size_t got = std::fread(chunk.data(), 1, chunk.size(), file)) {
      reader.feed({chunk.data(), got});
      bytes += got;
    }
    reader.end();
    explanation = judge::explain(reader.finish());
    rates.add(gigabytes_per_second(bytes, seconds_now() - begin));
    processor_rates.add(gigabytes_per_second(bytes, processor_seconds_now() - processor_begin));
    std::fclose(file);
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return print({{"case", "explain a log, one thread, from the page cache"},
                {"bytes", bytes},
                {"gigabytes_per_second", rates.json()},
                {"gigabytes_per_processor_second", processor_rates.json()},
                {"resident_bytes_max", static_cast<std::uint64_t>(usage.ru_maxrss) * 1024},
                {"verdicts", static_cast<std::uint64_t>(explanation.verdicts.size())},
                {"overall", to_string(explanation.overall)}});
}

}  // namespace nobounce::bench
