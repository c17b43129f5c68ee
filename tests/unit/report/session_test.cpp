// Session ledgers as text, JSON and Prometheus metrics.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

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

TEST(Sessions, ThatWereKilledRunNothingAnyMore) {
  LedgerSnapshot ledger = busy_ledger();
  ledger.transfers_running = 1;
  EXPECT_TRUE(holds(sessions_text({ledger}, {}), "1 running"));
  ledger.alive = false;
  EXPECT_TRUE(holds(sessions_text({ledger}, {}), "1 cut off"));
  EXPECT_FALSE(holds(sessions_text({ledger}, {}), "1 running"));
  const core::Json json = sessions_json({ledger});
  EXPECT_EQ(*core::resolve_pointer(json, "/sessions/0/transfers/running")->as_unsigned(), 0U);
  EXPECT_EQ(*core::resolve_pointer(json, "/sessions/0/transfers/cut_off")->as_unsigned(), 1U);
  EXPECT_TRUE(holds(sessions_prometheus({ledger}),
                    "nobounce_transfers_running{pid=\"4711\",session=\"2\",machine=\"soft\"} 0\n"));
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
}

/// What is wrong with a text as Prometheus reads it (exposition format 0.0.4); empty: nothing.
std::string exposition_violations(const std::string& text) {
  static const std::regex name_pattern("[a-zA-Z_:][a-zA-Z0-9_:]*");
  static const std::regex sample_pattern(
      "([a-zA-Z_:][a-zA-Z0-9_:]*)"
      R"re(\{([a-z_]+="([^"\\\n]|\\[\\"n])*"(,[a-z_]+="([^"\\\n]|\\[\\"n])*")*)?\} )re"
      "[0-9]+");
  std::string wrong;
  std::set<std::string> helped;
  std::set<std::string> typed;
  std::set<std::string> series;
  std::string family;
  if (text.empty() || text.back() != '\n') wrong += "the last line has no end\n";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash, keyword, name, rest;
    if (line.rfind("# ", 0) == 0) {
      words >> hash >> keyword >> name >> rest;
      if (!std::regex_match(name, name_pattern) || rest.empty()) wrong += line + '\n';
      if (keyword == "HELP" && !helped.insert(name).second) wrong += "helped twice: " + line + '\n';
      if (keyword == "TYPE") {
        if (!typed.insert(name).second) wrong += "typed twice, or not in one group: " + line + '\n';
        if (rest != "counter" && rest != "gauge") wrong += line + '\n';
        const bool total = name.size() > 6 && name.substr(name.size() - 6) == "_total";
        if ((rest == "counter") != total) wrong += "counters end in _total: " + line + '\n';
        family = name;
      }
      continue;
    }
    std::smatch parts;
    if (!std::regex_match(line, parts, sample_pattern)) {
      wrong += "no sample: " + line + '\n';
      continue;
    }
    if (parts[1] != family || helped.count(family) == 0)
      wrong += "outside its group: " + line + '\n';
    if (!series.insert(line.substr(0, line.rfind(' '))).second) wrong += "twice: " + line + '\n';
  }
  return wrong;
}

TEST(SessionsPrometheus, IsWhatPrometheusReads) {
  LedgerSnapshot other = busy_ledger();
  other.session = 3;
  other.bytes_by_member[static_cast<std::size_t>(Member::p2p)][Carriage::unattributed] = 7;
  for (const auto& ledgers :
       {std::vector<LedgerSnapshot>{}, {busy_ledger()}, {busy_ledger(), other}})
    EXPECT_EQ(exposition_violations(sessions_prometheus(ledgers)), "");
}

TEST(SessionsPrometheus, TheCheckOfItsFormatFindsMistakes) {
  const std::string head = "# HELP a_total Things.\n# TYPE a_total counter\n";
  EXPECT_EQ(exposition_violations(head + "a_total{x=\"1\"} 2\n"), "");
  for (const std::string bad :
       {"# TYPE a_total counter\na_total{x=\"1\"} 2\n",
        "# HELP a Things.\n# TYPE a counter\na{} 2\n",
        "# HELP a_total Things.\n# TYPE a_total counter\na_total{x=\"1\"} 2",
        "# HELP a_total Things.\n# TYPE a_total counter\nb_total{x=\"1\"} 2\n",
        "# HELP a_total Things.\n# TYPE a_total counter\na_total{x=\"\"\"} 2\n",
        "# HELP a_total Things.\n# TYPE a_total counter\na_total{} 2\na_total{} 3\n"}) {
    EXPECT_NE(exposition_violations(bad), "") << bad;
  }
}

TEST(Sessions, SayThatBounceMemoryIsAMaximumAndOfOneTransfer) {
  EXPECT_TRUE(holds(sessions_text({busy_ledger()}, {}), "4,096 B (4 KiB) at most for one transfer"))
      << sessions_text({busy_ledger()}, {});
  EXPECT_TRUE(holds(
      sessions_prometheus({busy_ledger()}),
      "nobounce_transfer_pinned_bytes_max{pid=\"4711\",session=\"2\",machine=\"soft\"} 4096"));
}

}  // namespace
}  // namespace nobounce::report
