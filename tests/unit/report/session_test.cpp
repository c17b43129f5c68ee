// Session ledgers as text, JSON and Prometheus metrics.
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>

#include "report/session_report.hpp"

namespace nobounce::report {
namespace {

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

LedgerSnapshot busy_ledger() {
  LedgerSnapshot ledger;
  ledger.process_id = 4711;
  ledger.session = 2;
  ledger.software_machine = true;
  ledger.transfers_done = 3;
  ledger.transfers_refused = 1;
  ledger.staged_under_preferred = 1;
  ledger.bytes[Carriage::direct] = 3000;
  ledger.bytes[Carriage::staged] = 1000;
  ledger.bytes_by_member[static_cast<std::size_t>(Member::storage)] = ledger.bytes;
  ledger.pinned_bytes = 4096;
  ledger.last_cause = Cause::storage_nvidia_fs_absent;
  return ledger;
}

TEST(SessionsText, ShowsCarriagesAndTheLastCause) {
  const std::string text = sessions_text({busy_ledger()}, {});
  EXPECT_TRUE(holds(text, "session 2 of process 4711, software machine")) << text;
  EXPECT_TRUE(holds(text, "3 done, 1 refused")) << text;
  EXPECT_TRUE(holds(text, "direct          3,000 B    75.0 %")) << text;
  EXPECT_TRUE(holds(text, "storage.nvidia_fs_absent")) << text;
  EXPECT_TRUE(holds(sessions_text({}, {}), "no running session"));
}

TEST(SessionsJson, RepeatsTheSnapshot) {
  const core::Json json = sessions_json({busy_ledger()});
  EXPECT_EQ(*core::resolve_pointer(json, "/sessions/0/process_id")->as_unsigned(), 4711U);
  EXPECT_EQ(*core::resolve_pointer(json, "/sessions/0/bytes/staged")->as_unsigned(), 1000U);
  EXPECT_EQ(
      *core::resolve_pointer(json, "/sessions/0/bytes_by_member/storage/direct")->as_unsigned(),
      3000U);
  EXPECT_EQ(*core::resolve_pointer(json, "/sessions/0/bytes_by_member/p2p/direct")->as_unsigned(),
            0U);
  EXPECT_EQ(*core::resolve_pointer(json, "/sessions/0/transfers/refused")->as_unsigned(), 1U);
}

TEST(SessionsPrometheus, GivesEverySampleATypeAndOneValue) {
  const std::string text = sessions_prometheus({busy_ledger()});
  EXPECT_TRUE(
      holds(text,
            "nobounce_bytes_total{pid=\"4711\",session=\"2\",machine=\"soft\",member=\"storage\","
            "carriage=\"staged\"} 1000\n"))
      << text;
  EXPECT_TRUE(holds(text,
                    "nobounce_transfers_total{pid=\"4711\",session=\"2\",machine=\"soft\",state="
                    "\"refused\"} 1\n"))
      << text;
  std::set<std::string> typed;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("# TYPE ", 0) == 0) typed.insert(line.substr(7, line.find(' ', 7) - 7));
    if (line.empty() || line[0] == '#') continue;
    EXPECT_EQ(typed.count(line.substr(0, line.find('{'))), 1U) << line;
    EXPECT_TRUE(holds(line, "} ")) << line;
  }
  EXPECT_EQ(typed.size(), 5U);
}

}  // namespace
}  // namespace nobounce::report
