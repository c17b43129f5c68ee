// `nobounce explain`: texts in, verdicts out; pages of causes.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>

#include "support/program.hpp"
#include "support/schema.hpp"
#include "support/temporary_directory.hpp"

namespace nobounce::test {
namespace {

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
  // Every cause has its page in the program.
  for (const core::Json& cause : *json.find("causes")->as_array()) {
    const std::string id = *cause.find("id")->as_text();
    const Ran shown = run({"explain", id});
    EXPECT_EQ(shown.exit_code, 0) << id;
    for (const char* part :
         {"**What is so.**", "**How it is seen.**", "**Why it matters.**", "**How to mend it.**",
          "**How to check.**", "**When it is harmless.**", "**Sources.**"})
      EXPECT_TRUE(holds(shown.out, part)) << id << ": " << part;
  }
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
  EXPECT_EQ(nothing.exit_code, 4);
  EXPECT_TRUE(holds(nothing.out, "nothing was recognised")) << nothing.out;
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
