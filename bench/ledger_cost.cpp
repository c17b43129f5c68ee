// What a receipt and its entry in the session's ledger cost per transfer: the same steps that a
// transfer takes, in a loop, with each part left out in turn. Needs no GPU.
//
// The clock is read once for every look at what is under way (to keep deadlines), receipt or not. A
// blocking transfer has at least two: the first, which finds nothing yet, takes the reading that
// the receipt begins with, and the last one's is when it ended. A copy that was started without
// waiting has two as well: its provider reads the clock when it starts one, to know when it hangs.
// Staging that was started without waiting has no reading at its start but the receipt's.
#include <nobounce/receipt.hpp>

#include "bench/measure.hpp"
#include "bench/quickest_cpu.hpp"
#include "session/session_ledger.hpp"
#include "system/live_host.hpp"

namespace nobounce::bench {

namespace {

constexpr int transfers_per_run = 200'000;
constexpr int runs = 15;

struct Parts {
  int readings = 0;  ///< of the clock: those of the provider and those for the receipt
  bool receipt = false;
  bool ledger = false;
};

/// Keeps a value in memory, so that what made it is not optimised away.
template <typename Value>
void keep(Value& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

double one_run(system::Host& host, session::SessionLedger& ledger, const Parts& parts) {
  const double begin = seconds_now();
  for (int i = 0; i < transfers_per_run; ++i) {
    std::uint64_t submitted_ns = 0;
    std::uint64_t ended_ns = 0;
    if (parts.readings > 1) submitted_ns = host.clock().now_ns();
    Receipt receipt;
    if (parts.receipt) {
      receipt.transfer_id = static_cast<std::uint64_t>(i);
      receipt.requested_bytes = 4096;
      receipt.member = Member::storage;
      receipt.source = {DeviceRef::Kind::file, 0};
      receipt.target = {DeviceRef::Kind::gpu, 0};
      receipt.segments = 1;
      receipt.add_cause(Cause::storage_nvidia_fs_absent);
      receipt.add_cause(Cause::storage_p2pdma_off);
      receipt.bytes[Carriage::staged] += 4096;
      receipt.started_ns = submitted_ns;
      keep(receipt);
    }
    if (parts.ledger) ledger.start();
    if (parts.readings > 0) ended_ns = host.clock().now_ns();
    keep(ended_ns);
    if (parts.ledger) ledger.arrived(receipt.member, receipt.bytes, 1 << 20);
    if (parts.receipt) receipt.elapsed_ns = ended_ns - receipt.started_ns;
    if (parts.ledger) ledger.enter(receipt, true);
    keep(receipt);
  }
  return (seconds_now() - begin) / transfers_per_run * 1e9;
}

}  // namespace

int ledger_cost(const std::vector<std::string>&) {
  const OnQuickestCpu here;
  const auto host = system::make_live_host();
  session::SessionLedger ledger(*host, true);
  const std::pair<const char*, Parts> kinds[] = {{"without", {.readings = 2}},
                                                 {"with", {2, true, true}},
                                                 {"staging_started_without", {.readings = 1}},
                                                 {"staging_started_with", {2, true, true}},
                                                 {"no_reading", {}},
                                                 {"receipt_alone", {0, true, false}},
                                                 {"ledger_alone", {0, false, true}}};
  std::vector<Samples> samples(std::size(kinds));
  for (int run = 0; run < runs; ++run) {  // in turn, so that a slow moment hits all alike
    for (std::size_t i = 0; i < std::size(kinds); ++i) {
      samples[i].add(one_run(*host, ledger, kinds[i].second));
    }
  }
  core::JsonObject result;
  result.emplace_back("case", "ledger_cost");
  result.emplace_back("quickest_cpu", here.json());
  core::JsonObject nanoseconds;
  for (std::size_t i = 0; i < std::size(kinds); ++i) {
    nanoseconds.emplace_back(kinds[i].first, samples[i].json());
  }
  result.emplace_back("ns_per_transfer", std::move(nanoseconds));
  result.emplace_back("added_ns", samples[1].median() - samples[0].median());
  result.emplace_back("added_ns_by_staging_started", samples[3].median() - samples[2].median());
  result.emplace_back("one_reading_of_the_clock_ns", samples[2].median() - samples[4].median());
  return print(std::move(result));
}

}  // namespace nobounce::bench
