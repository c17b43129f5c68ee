// Recorded machines of many kinds: what check and topo say of each stands in golden files, and a
// software twin of each proves. See README.md here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/json.hpp"
#include "support/program.hpp"
#include "support/temporary_directory.hpp"

namespace nobounce::test {
namespace {

namespace fs = std::filesystem;

const fs::path folder = fs::path(NOBOUNCE_SOURCE_DIR) / "tests/machines";

std::string text_of(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<std::string> names() {
  std::vector<std::string> found;
  const std::string ending = ".recording.json";
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.size() <= ending.size()) continue;
    if (name.compare(name.size() - ending.size(), ending.size(), ending) != 0) continue;
    found.push_back(name.substr(0, name.size() - ending.size()));
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string recording_of(const std::string& name) {
  return (folder / (name + ".recording.json")).string();
}

/// Holds a text against a golden file; with NOBOUNCE_WRITE_GOLDEN set it writes the file instead.
void expect_golden(const std::string& file, const std::string& text) {
  const fs::path path = folder / "golden" / file;
  if (std::getenv("NOBOUNCE_WRITE_GOLDEN") != nullptr) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    ADD_FAILURE() << "written, not compared: " << path;
    return;
  }
  EXPECT_EQ(text_of(path), text) << file << ": see tests/machines/README.md";
}

class RecordedMachine : public ::testing::TestWithParam<std::string> {};

TEST_P(RecordedMachine, IsJudgedAsItsGoldenFilesSay) {
  const std::string machine = "recorded:" + recording_of(GetParam());
  const Ran check = run({"check", "--machine", machine});
  EXPECT_EQ(check.err, "");
  expect_golden(GetParam() + ".check.txt", check.out);
  const Ran check_json = run({"check", "--json", "--machine", machine});
  EXPECT_EQ(check_json.exit_code, check.exit_code);
  expect_golden(GetParam() + ".check.json", check_json.out);
}

TEST_P(RecordedMachine, IsShownAsItsGoldenFilesSay) {
  const std::string machine = "recorded:" + recording_of(GetParam());
  TemporaryDirectory temporary;
  const std::string svg = (temporary.path() / "machine.svg").string();
  const Ran topo = run({"topo", "--machine", machine, "--svg", svg});
  EXPECT_EQ(topo.exit_code, 0) << topo.err;
  expect_golden(GetParam() + ".topo.txt", topo.out);
  expect_golden(GetParam() + ".svg", text_of(svg));
  const Ran json = run({"topo", "--json", "--machine", machine});
  EXPECT_EQ(json.exit_code, 0) << json.err;
  expect_golden(GetParam() + ".topo.json", json.out);
}

TEST_P(RecordedMachine, HasATwinThatProves) {
  TemporaryDirectory temporary;
  const std::string twin = "soft:" + recording_of(GetParam());
  const Result<core::Json> machine =
      core::parse_json(run({"topo", "--json", "--machine", twin}).out, "topo");
  ASSERT_TRUE(machine);
  const std::size_t gpus = machine->find("gpus")->as_array()->size();
  std::vector<std::string> words = {"prove",     "--json",
                                    "--machine", twin,
                                    "--volumes", "64KiB,128KiB,256KiB",
                                    "--path",    temporary.path().string()};
  if (gpus > 1) words.insert(words.end(), {"--pair", "gpu:0,gpu:1"});
  const Ran proved = run(words);
  const Result<core::Json> proof = core::parse_json(proved.out, "proof");
  ASSERT_TRUE(proof) << proved.out << proved.err;
  const core::Json* rows = proof->find("rows");
  ASSERT_NE(rows, nullptr) << proved.out << proved.err;
  EXPECT_FALSE(rows->as_array()->empty());
  for (const core::Json& row : *rows->as_array()) {
    EXPECT_NE(*row.find("verdict"), core::Json("broken")) << core::dump_json(row);
  }
}

TEST_P(RecordedMachine, MovesNothing) {
  const Ran copied = run({"copy", "host", "gpu:0", "--length", "4096", "--machine",
                          "recorded:" + recording_of(GetParam())});
  EXPECT_EQ(copied.exit_code, 1);
  EXPECT_NE(copied.err.find("recording"), std::string::npos) << copied.err;
}

INSTANTIATE_TEST_SUITE_P(All, RecordedMachine, ::testing::ValuesIn(names()),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// Without the first line, which names the machine.
std::string without_banner(const std::string& text) {
  return text.substr(text.find('\n') + 1);
}

class RoundTrip : public ::testing::TestWithParam<const char*> {};

TEST_P(RoundTrip, CheckOfTheRecordingIsCheckOfTheMachine) {
  TemporaryDirectory temporary;
  const std::string file = (temporary.path() / "recording.json").string();
  const std::string machine = std::string("soft:") + GetParam();
  const Ran recorded = run({"record", "--machine", machine, "-o", file, "--name", GetParam()});
  ASSERT_EQ(recorded.exit_code, 0) << recorded.err;
  for (const char* all : {"--no-color", "--all"}) {
    const Ran there = run({"check", all, "--machine", machine});
    const Ran here = run({"check", all, "--machine", "recorded:" + file});
    EXPECT_EQ(without_banner(here.out), without_banner(there.out));
    EXPECT_EQ(here.exit_code, there.exit_code);
  }
  const Ran same = run({"diff", file, file});
  EXPECT_EQ(same.exit_code, 0) << same.out;
}

/// Verdicts, states and causes of all rows, in order.
std::vector<std::string> judged(const Ran& check) {
  std::vector<std::string> rows;
  const Result<core::Json> document = core::parse_json(check.out, "check");
  if (!document.ok() || document->find("rows") == nullptr) return rows;
  for (const core::Json& row : *document->find("rows")->as_array()) {
    std::string text;
    for (const char* key : {"member", "direction", "state", "verdict", "causes"})
      text += core::dump_json(*row.find(key), true) + " ";
    rows.push_back(std::move(text));
  }
  return rows;
}

TEST(RoundTripOfOwnNames, IsJudgedTheSameWithoutThem) {
  TemporaryDirectory temporary;
  const std::string machine = (temporary.path() / "machine.json").string();
  std::ofstream(machine) << R"({"schema": "nobounce.machine/1", "name": "orca",
    "gpus": [{}], "drives": [{"name": "nvme0n1"}, {"name": "nvme1n1"},
      {"name": "dm-0", "driver": "dm", "layer": "lvm", "parts": ["nvme1n1"]}],
    "mounts": [{"point": "/", "drive": "nvme0n1", "type": "ext4",
                "options": "rw,data=ordered"},
      {"point": "/mnt/acme-secret", "drive": "nvme1n1", "type": "ext4", "options": "rw"},
      {"point": "/mnt/acme-secret/blue", "drive": "nvme0n1", "type": "xfs", "options": "rw"},
      {"point": "/whale", "drive": "dm-0", "type": "xfs", "options": "rw"},
      {"point": "/dev/shm", "type": "tmpfs", "options": "rw"}]})";
  const std::string file = (temporary.path() / "recording.json").string();
  const Ran recorded = run({"record", "--machine", "soft:" + machine, "-o", file});
  ASSERT_EQ(recorded.exit_code, 0) << recorded.err;
  for (const char* word : {"acme", "blue", "whale"})
    EXPECT_EQ(text_of(file).find(word), std::string::npos) << word;
  const Ran there = run({"check", "--all", "--json", "--machine", "soft:" + machine});
  const Ran here = run({"check", "--all", "--json", "--machine", "recorded:" + file});
  EXPECT_GE(judged(there).size(), 8U) << there.out << there.err;
  EXPECT_EQ(judged(here), judged(there));
  EXPECT_EQ(here.exit_code, there.exit_code);
}

INSTANTIATE_TEST_SUITE_P(BuiltIn, RoundTrip,
                         // Not nfs-rdma: its drive is called after a server, which is replaced.
                         ::testing::Values("workstation", "two-socket", "cloud-guest", "nvmeof",
                                           "dgx"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(RoundTrip, CheckOfARecordingOfThisMachineIsCheckOfThisMachine) {
  TemporaryDirectory temporary;
  const std::string file = (temporary.path() / "recording.json").string();
  ASSERT_EQ(run({"record", "-o", file}).exit_code, 0);
  const Ran there = run({"check"});
  const Ran here = run({"check", "--machine", "recorded:" + file});
  EXPECT_EQ(without_banner(here.out), there.out) << "of a live machine there is no first line";
}

TEST(Diff, NamesTheWorstFirst) {
  TemporaryDirectory temporary;
  const std::string good = (temporary.path() / "good.json").string();
  const std::string bad = (temporary.path() / "bad.json").string();
  ASSERT_EQ(run({"record", "--machine", "soft:workstation", "-o", good}).exit_code, 0);
  ASSERT_EQ(run({"record", "--machine", "soft:workstation", "--set", "/modules/nvidia_fs=false",
                 "--set", "/kernel/release=6.9.0", "-o", bad})
                .exit_code,
            0);
  const Ran differs = run({"diff", good, bad, "--json"});
  EXPECT_EQ(differs.exit_code, 3);
  const Result<core::Json> document = core::parse_json(differs.out, "diff");
  ASSERT_TRUE(document) << differs.out << differs.err;
  const core::JsonArray& lines = *document->find("differences")->as_array();
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(*lines.front().find("weight"), core::Json("verdict"));
  EXPECT_EQ(*lines.front().find("cause"), core::Json("storage.nvidia_fs_absent"));
  const auto subject = [&](const char* pointer) {
    return std::find_if(lines.begin(), lines.end(), [pointer](const core::Json& line) {
      return *line.find("subject") == core::Json(pointer);
    });
  };
  ASSERT_NE(subject("/modules/nvidia_fs"), lines.end());
  ASSERT_NE(subject("/kernel/release"), lines.end());
  EXPECT_LT(subject("/modules/nvidia_fs"), subject("/kernel/release"));
}

}  // namespace
}  // namespace nobounce::test
