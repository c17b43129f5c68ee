// `topo`, `check`, `stat` and `--version`: texts, documents, exit codes, live and on software
// machines.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/program.hpp"
#include "support/schema.hpp"
#include "support/temporary_directory.hpp"

namespace nobounce::test {
namespace {

const std::vector<std::string> machines{"workstation", "dgx",      "two-socket", "cloud-guest",
                                        "nvmeof",      "nfs-rdma", "spare-drive"};

TEST(Topo, DescribesEverySoftwareMachine) {
  for (const std::string& name : machines) {
    const Ran text = run({"topo", "--machine", "soft:" + name});
    EXPECT_EQ(text.exit_code, 0) << text.err;
    EXPECT_EQ(text.out.rfind("software machine: " + name, 0), 0U) << text.out;
    EXPECT_TRUE(holds(text.out, "gpu:0")) << text.out;
    const core::Json machine = document_of(run({"topo", "--machine", "soft:" + name, "--json"}));
    EXPECT_EQ(schema_violations(machine), "") << name;
    EXPECT_FALSE(machine.find("gpus")->as_array()->empty());
  }
}

TEST(Topo, DocumentsCanBeFedBack) {
  const TemporaryDirectory folder;
  for (const std::string& name : machines) {
    const Ran first = run({"topo", "--machine", "soft:" + name, "--json"});
    std::ofstream(folder.file("machine.json")) << first.out;
    const Ran second = run({"topo", "--machine", "soft:" + folder.file("machine.json"), "--json"});
    EXPECT_EQ(second.exit_code, 0) << second.out;
    EXPECT_EQ(second.out, first.out) << name;
  }
}

TEST(Topo, LiveWithoutAGpuSaysSoAndSucceeds) {
  if (live_gpu()) GTEST_SKIP() << "this machine has a GPU";
  const Ran text = run({"topo"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_TRUE(holds(text.out, "no GPU was found")) << text.out;
  EXPECT_TRUE(holds(text.out, "Linux ")) << text.out;
  EXPECT_FALSE(holds(text.out, "software machine")) << text.out;
  EXPECT_EQ(schema_violations(document_of(run({"topo", "--json"}))), "");
}

TEST(Topo, SettingsShow) {
  const Ran ran = run_soft(
      {"topo", "--json", "--set", "/modules/nvidia_fs=false", "--set", "/kernel/iommu=translated"});
  const core::Json machine = document_of(ran);
  EXPECT_FALSE(flag_at(machine, "/modules/nvidia_fs"));
  EXPECT_EQ(text_at(machine, "/kernel/iommu"), "translated");
}

TEST(Check, LiveWithoutAGpuIsImpossible) {
  if (live_gpu()) GTEST_SKIP() << "this machine has a GPU";
  const Ran text = run({"check"});
  EXPECT_EQ(text.exit_code, 1) << text.out << text.err;
  EXPECT_TRUE(holds(text.out, "machine.no_gpu")) << text.out;
  EXPECT_TRUE(holds(text.out, "soft:workstation")) << text.out;
  EXPECT_EQ(text.err, "");
  const Ran json = run({"check", "--json"});
  EXPECT_EQ(json.exit_code, 1);
  const core::Json report = document_of(json);
  EXPECT_EQ(schema_violations(report), "");
  EXPECT_EQ(text_at(report, "/machine/kind"), "live");
  EXPECT_EQ(text_at(report, "/rows/0/verdict"), "impossible");
  EXPECT_EQ(text_at(report, "/rows/0/causes/0"), "machine.no_gpu");
}

TEST(Check, FindsTheWorkstationInOrder) {
  const Ran ran = run_soft({"check", "--json"});
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  const core::Json report = document_of(ran);
  EXPECT_EQ(schema_violations(report), "");
  const core::JsonArray& rows = *report.find("rows")->as_array();
  // Two GPUs, one mount, reads and writes; the pairs of GPUs; each GPU and the adapter.
  EXPECT_EQ(rows.size(), 8U);
  for (const core::Json& row : rows)
    EXPECT_EQ(text_at(row, "/verdict"), "direct") << core::dump_json(row);
}

TEST(Check, NamesWhatIsMissingAndTheRemedy) {
  const Ran text = run_soft({"check", "--set", "/modules/nvidia_fs=false"});
  EXPECT_EQ(text.exit_code, 3) << text.out << text.err;
  EXPECT_EQ(text.out.rfind("software machine: workstation", 0), 0U) << text.out;
  EXPECT_TRUE(holds(text.out, "storage.nvidia_fs_absent")) << text.out;
  EXPECT_TRUE(holds(text.out, "modprobe")) << text.out;
  const core::Json report =
      document_of(run_soft({"check", "--json", "--set", "/modules/nvidia_fs=false"}));
  EXPECT_EQ(text_at(report, "/rows/0/state"), "unmet");
  EXPECT_EQ(text_at(report, "/rows/0/verdict"), "staged");
  EXPECT_EQ(text_at(report, "/rows/0/causes/0"), "storage.nvidia_fs_absent");
}

TEST(Check, SeesThatASwitchIsBetterThanAHostBridge) {
  const Ran refused = run({"check", "--machine", "soft:two-socket", "--json"});
  EXPECT_EQ(schema_violations(document_of(refused)), "");
  const Ran allowed = run({"check", "--machine", "soft:two-socket", "--json", "--gpu", "1", "--set",
                           "/host_bridges/0/peer_forwarding=allowed", "--set",
                           "/host_bridges/1/peer_forwarding=allowed"});
  const core::Json report = document_of(allowed);
  EXPECT_EQ(schema_violations(report), "");
  for (const core::Json& row : *report.find("rows")->as_array()) {
    EXPECT_NE(text_at(row, "/verdict"), "direct") << core::dump_json(row);
  }
}

TEST(Check, JudgesOnePathForOneGpu) {
  const TemporaryDirectory folder;
  write_file(folder.file("a"), random_bytes(10, 1));
  const core::Json report =
      document_of(run_soft({"check", "--json", "--path", folder.file("a"), "--gpu", "1"}));
  EXPECT_EQ(report.find("rows")->as_array()->size(), 2U);
  EXPECT_EQ(text_at(report, "/rows/0/path"), folder.file("a"));
  EXPECT_EQ(text_at(report, "/rows/0/target"), "gpu:1");
  EXPECT_EQ(text_at(report, "/rows/1/direction"), "write");
  const Ran future = run_soft({"check", "--json", "--path", folder.file("not-yet")});
  EXPECT_EQ(future.exit_code, 1) << future.out;  // nothing is there to read
  const Ran directory = run_soft({"check", "--json", "--path", folder.path().string()});
  EXPECT_EQ(directory.exit_code, 0) << directory.out;
}

TEST(Check, ShowsMetFindingsOnlyWithAll) {
  EXPECT_FALSE(holds(run_soft({"check"}).out, "         needed "));  // notes only observe
  EXPECT_TRUE(holds(run_soft({"check", "--all"}).out, "         needed "));
}

TEST(Check, RunsOnEverySoftwareMachine) {
  for (const std::string& name : machines) {
    const Ran ran = run({"check", "--machine", "soft:" + name, "--json"});
    EXPECT_EQ(schema_violations(document_of(ran)), "") << name;
    EXPECT_TRUE(ran.exit_code == 0 || ran.exit_code == 3 || ran.exit_code == 4)
        << name << ": " << ran.exit_code;
  }
}

TEST(Stat, WithoutSessionsIsAnEmptyList) {
  const Ran ran = run({"stat", "--json"});
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_EQ(schema_violations(document_of(ran)), "");
  EXPECT_EQ(run({"stat", "999999999"}).exit_code, 1);
  EXPECT_EQ(run({"stat", "--json", "--prometheus"}).exit_code, 2);
}

TEST(Stat, ShowsARunningCopyUntilItIsInterrupted) {
  const TemporaryDirectory folder;
  const std::string target = folder.file("old");
  const std::vector<std::byte> old = random_bytes(1000, 1);
  write_file(target, old);
  // Tiny slots and one reader make it slow enough to be watched.
  Running copy({program_path(), "copy", "gpu:0", target, "--length", "256MiB", "--policy",
                "staged_only", "--slot-bytes", "4096", "--pinned-bytes", "8192", "--readers", "1",
                "--machine", "soft:workstation", "--json"});
  const std::string pid = std::to_string(copy.pid());
  core::Json ledger;
  while (!copy.ended()) {
    const Ran ran = run({"stat", pid, "--json"});
    if (ran.exit_code == 0) {
      ledger = document_of(ran);
      if (number_at(ledger, "/sessions/0/transfers/running") == 1) break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(schema_violations(ledger), "");
  EXPECT_TRUE(flag_at(ledger, "/sessions/0/software_machine"));
  EXPECT_TRUE(holds(run({"stat", pid}).out, "process " + pid));
  EXPECT_TRUE(holds(run({"stat", pid, "--prometheus"}).out,
                    "nobounce_transfers_running{pid=\"" + pid + "\""));

  copy.send(SIGINT);
  const Ran ended = copy.finish();
  EXPECT_EQ(ended.exit_code, 130) << ended.out << ended.err;
  const core::Json error = document_of(ended);
  EXPECT_EQ(schema_violations(error), "");
  EXPECT_EQ(text_at(error, "/cause"), "session.cancelled");
  EXPECT_EQ(text_at(error, "/receipts/0/state"), "cancelled");
  EXPECT_LT(number_at(error, "/receipts/0/bytes/staged"), 256U << 20);
  EXPECT_EQ(read_file(target), old);
  EXPECT_EQ(folder.names().size(), 1U);
  EXPECT_EQ(run({"stat", pid, "--json"}).exit_code, 1);
}

TEST(Version, IsPrintedAsTextAndDocument) {
  const Ran text = run({"--version"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_EQ(text.out.rfind("nobounce ", 0), 0U);
  EXPECT_EQ(schema_violations(document_of(run({"--version", "--json"}))), "");
}

TEST(Help, GoesToStandardOutput) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--help"},
                                                {"copy", "--help"},
                                                {"check", "--help"},
                                                {"topo", "--help"}}) {
    const Ran ran = run(words);
    EXPECT_EQ(ran.exit_code, 0);
    EXPECT_TRUE(holds(ran.out, "Examples:")) << ran.out;
    EXPECT_EQ(ran.err, "");
  }
}

}  // namespace
}  // namespace nobounce::test
