// What the benchmarks share: medians of repeated runs, and results as JSON with their spread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.hpp"

namespace nobounce::bench {

[[nodiscard]] inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Repeated measurements of one thing.
struct Samples {
  std::vector<double> values;
  void add(double value) { values.push_back(value); }
  [[nodiscard]] double median() const { return at(0.5); }
  [[nodiscard]] double at(double part) const {
    if (values.empty()) return 0;
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1) + 0.5)];
  }
  [[nodiscard]] core::Json json() const {
    core::JsonObject object;
    object.emplace_back("median", median());
    object.emplace_back("smallest", at(0));
    object.emplace_back("largest", at(1));
    object.emplace_back("runs", static_cast<std::uint64_t>(values.size()));
    return object;
  }
};

/// Bytes per second in 10^9.
[[nodiscard]] inline double gigabytes_per_second(std::uint64_t bytes, double seconds) {
  return seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0;
}

/// Runs `body` and adds its rate in GB/s; false where it failed.
template <typename Body>
bool time_rate(Samples& rates, std::uint64_t bytes, Body&& body) {
  const double begin = seconds_now();
  if (!body()) return false;
  rates.add(gigabytes_per_second(bytes, seconds_now() - begin));
  return true;
}

/// `--name VALUE`, or what is to be assumed.
[[nodiscard]] inline std::string option(const std::vector<std::string>& words,
                                        std::string_view name, std::string assumed) {
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == name) return words[i + 1];
  }
  return assumed;
}

[[nodiscard]] inline int failed(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  return 1;
}

inline int print(core::JsonObject result) {
  result.insert(result.begin(), {"schema", "nobounce.measurement/1"});
  return std::puts(core::dump_json(core::Json(std::move(result))).c_str()) < 0 ? 1 : 0;
}

int copy(const std::vector<std::string>& words);
int peer(const std::vector<std::string>& words);
int async_reads(const std::vector<std::string>& words);
int ledger_cost(const std::vector<std::string>& words);
int nccl_log(const std::vector<std::string>& words);
int training_log(const std::vector<std::string>& words);
int explain(const std::vector<std::string>& words);
int peer_import(const std::vector<std::string>& words);
int ledger_cost(const std::vector<std::string>& words);
int overhead(const std::vector<std::string>& words);

}  // namespace nobounce::bench
