// `nobounce explain`: texts in, verdicts out; pages of causes.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/program.hpp"
#include "support/schema.hpp"
#include "support/temporary_directory.hpp"

namespace nobounce::test {
namespace {

/// Waits until the process has a handler for the signal.
bool caught_by(pid_t process, int number) {
  for (int looks = 0; looks < 30000; ++looks) {
    std::ifstream status("/proc/" + std::to_string(process) + "/status");
    std::string word;
    while (status >> word && word != "SigCgt:") {
    }
    if (status >> word && (std::stoull(word, nullptr, 16) >> (number - 1) & 1) != 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

std::string case_file(const std::string& name) {
  return std::string(NOBOUNCE_SOURCE_DIR) + "/tests/captures/cases/" + name;
}

core::Json parsed(const std::string& text) {
  Result<core::Json> json = core::parse_json(text, "output");
  EXPECT_TRUE(json.ok()) << text;
  return json.ok() ? std::move(json).value() : core::Json();
}

TEST(Explain, EachVerdictHasItsExitCode) {
  const std::vector<std::pair<std::string, int>> cases = {
      {"nccl_log/gdrdma_both_directions.txt", 0},
      {"simple_p2p/owner_reads_zeros.txt", 1},
      {"ibv_devinfo/port_down.txt", 1},
      {"nccl_log/shm_called_direct.txt", 3},
      {"p2p_bw/engaged_but_no_gain.txt", 3},
      {"topo_m/one_bridge_pair.txt", 4},
      {"README.md", 4}};
  for (const auto& [name, exit_code] : cases) {
    for (const bool json : {false, true}) {
      std::vector<std::string> words = {"explain", case_file(name)};
      if (json) words.emplace_back("--json");
      const Ran ran = run(words);
      EXPECT_EQ(ran.exit_code, exit_code) << name << ran.out << ran.err;
      EXPECT_EQ(ran.err, "");
      if (json) {
        EXPECT_EQ(schema_violations(parsed(ran.out)), "") << ran.out;
      }
    }
  }
}

TEST(Explain, TextsOfOneMachineAreReadTogether) {
  const std::string folder = case_file("bundle/module_unseen_by_library/");
  const Ran ran =
      run({"explain", folder + "lsmod.txt", folder + "memory_peers.txt", folder + "nccl.txt"});
  EXPECT_EQ(ran.exit_code, 3);
  for (const char* word :
       {"rdma    staged", "rdma.peermem_unseen_by_library", "nccl.txt:4", "lsmod.txt:1", "  do "})
    EXPECT_TRUE(holds(ran.out, word)) << word << '\n' << ran.out;
}

TEST(Explain, AnUnknownRowSaysWhatWouldDecide) {
  const Ran ran = run({"explain", case_file("topo_m/one_bridge_pair.txt")});
  EXPECT_TRUE(holds(ran.out, "What would decide")) << ran.out;
  EXPECT_TRUE(holds(ran.out, "nothing shows a transfer")) << ran.out;
}

TEST(Explain, PagesAndListOfCauses) {
  const Ran page = run({"explain", "rdma.host_buffers"});
  EXPECT_EQ(page.exit_code, 0);
  EXPECT_EQ(page.out,
            text_of_file(std::string(NOBOUNCE_SOURCE_DIR) + "/docs/causes/rdma.host_buffers.md"));
  EXPECT_EQ(schema_violations(parsed(run({"explain", "rdma.host_buffers", "--json"}).out)), "");
  const Ran list = run({"explain", "--list", "--json"});
  EXPECT_EQ(list.exit_code, 0);
  const core::Json json = parsed(list.out);
  EXPECT_EQ(schema_violations(json), "");
  EXPECT_TRUE(holds(run({"explain", "--list"}).out, "rdma.host_buffers"));
}

TEST(Explain, SaysWhatCannotBeRead) {
  const Ran absent = run({"explain", "/nowhere/text"});
  EXPECT_EQ(absent.exit_code, 1);
  EXPECT_TRUE(holds(absent.err, "/nowhere/text") && holds(absent.err, "try:")) << absent.err;
  EXPECT_EQ(run({"explain"}).exit_code, 2);
  EXPECT_EQ(run({"explain", "--list", "file"}).exit_code, 2);
  EXPECT_EQ(run({"explain", "-", "-"}).exit_code, 2);
  const Ran nothing = run({"explain", "-"});  // an empty input
  EXPECT_EQ(nothing.exit_code, 1);
  EXPECT_EQ(nothing.out, "");
  EXPECT_TRUE(holds(nothing.err, "it is empty") && holds(nothing.err, "2>&1 | nobounce explain -"))
      << nothing.err;
}

/// What is no text is not parsed; what makes a text of it is said.
TEST(Explain, RefusesWhatIsNoText) {
  const TemporaryDirectory folder;
  const std::string log = text_of_file(case_file("nccl_log/gdrdma_both_directions.txt"));
  std::string noise;
  for (unsigned i = 0; i < 5000; ++i) noise += static_cast<char>(i * i * 7 + (i >> 3) * 31);
  const std::vector<std::pair<std::string, std::string>> given = {
      {"", "it is empty"},
      {"\x1f\x8b\x08" + noise, "try: zcat " + folder.file("given") + " | nobounce explain -"},
      {"\x28\xb5\x2f\xfd" + noise, "try: zstdcat "},
      {"PK\x03\x04" + noise, "try: unzip -p "},
      {noise + log, "it is no text"}};
  for (const auto& [text, said] : given) {
    std::ofstream(folder.file("given"), std::ios::binary) << text;
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"explain", folder.file("given")},
          std::vector<std::string>{"explain", case_file("README.md"), folder.file("given")},
          std::vector<std::string>{"topo", "--from", folder.file("given")}}) {
      const Ran ran = run(words);
      EXPECT_EQ(ran.exit_code, 1);
      EXPECT_EQ(ran.out, "");
      if (words.front() == "explain") {
        EXPECT_TRUE(holds(ran.err, said)) << ran.err;
      }
    }
  }
  // Through the command that is proposed.
  std::ofstream(folder.file("a log")) << log;
  const Ran piped = Running({"sh", "-c",
                             "gzip -c '" + folder.file("a log") + "' | zcat | exec '" +
                                 program_path() + "' explain -"})
                        .finish();
  EXPECT_EQ(piped.exit_code, 0) << piped.err;
  const Ran packed = Running({"sh", "-c",
                              "gzip '" + folder.file("a log") + "'; exec '" + program_path() +
                                  "' explain '" + folder.file("a log.gz") + "'"})
                         .finish();
  EXPECT_TRUE(holds(packed.err, "zcat '" + folder.file("a log.gz") + "' | nobounce explain -"))
      << packed.err;
}

/// As Windows writes it.
TEST(Explain, ReadsUtf16) {
  const TemporaryDirectory folder;
  std::string wide = "\xff\xfe";
  for (const char c : text_of_file(case_file("nccl_log/gdrdma_both_directions.txt"))) {
    if (static_cast<unsigned char>(c) >= 0x80) continue;
    wide += c;
    wide += '\0';
  }
  std::ofstream(folder.file("log"), std::ios::binary) << wide;
  EXPECT_EQ(run({"explain", folder.file("log")}).exit_code, 0);
  const Ran piped =
      Running(
          {"sh", "-c", "exec '" + program_path() + "' explain - < '" + folder.file("log") + "'"})
          .finish();
  EXPECT_EQ(piped.exit_code, 0) << piped.out;
}

TEST(Explain, AnEndlessInputEnds) {
  const Ran limited =
      Running({"sh", "-c", "yes 'no end' | '" + program_path() + "' explain --limit 64KiB -"})
          .finish();
  EXPECT_EQ(limited.exit_code, 1);
  EXPECT_EQ(limited.out, "");
  EXPECT_TRUE(holds(limited.err, "more than 64 KiB") && holds(limited.err, "--limit"))
      << limited.err;
  EXPECT_EQ(run({"explain", "--limit", "", "file"}).exit_code, 2);
  EXPECT_EQ(run({"explain", "--limit", "3", case_file("README.md")}).exit_code, 1);
  EXPECT_EQ(run({"explain", "--list", "--limit", "3MiB"}).exit_code, 2);
}

/// A signal ends it also while nothing comes.
TEST(Explain, ASignalEndsIt) {
  const TemporaryDirectory folder;
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  // Held open for writing by the shell that becomes the program: the input never ends.
  Running running({"sh", "-c",
                   "exec 3<>'" + folder.file("pipe") + "'; echo GPU0 >&3; exec '" + program_path() +
                       "' explain - < '" + folder.file("pipe") + "'"});
  ASSERT_TRUE(caught_by(running.pid(), SIGINT));
  running.send(SIGINT);
  const Ran ran = running.finish();
  EXPECT_EQ(ran.exit_code, 128 + SIGINT);
  EXPECT_EQ(ran.out, "");
  EXPECT_TRUE(holds(ran.err, "interrupted by signal 2")) << ran.err;
}

TEST(Explain, EscapesOfATextReachNoTerminal) {
  const TemporaryDirectory folder;
  std::ofstream(folder.file("log"))
      << "n:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\x1b]0;title\x07\x1b[2J\n";
  const Ran ran = run({"explain", folder.file("log")});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.out.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace nobounce::test
