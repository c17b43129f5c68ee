// Bad input: one clear line each, the right exit code, nothing left behind.
#include <gtest/gtest.h>

#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "support/program.hpp"
#include "support/schema.hpp"
#include "support/temporary_directory.hpp"

namespace nobounce::test {
namespace {

/// An error as text: nothing on standard output, `nobounce: ...` and a remedy on standard error.
/// The same as JSON.
core::Json expect_error(const std::vector<std::string>& words, int exit_code) {
  const Ran text = run(words);
  EXPECT_EQ(text.exit_code, exit_code) << text.out << text.err;
  EXPECT_EQ(text.out, "");
  EXPECT_EQ(text.err.rfind("nobounce: ", 0), 0U) << text.err;
  EXPECT_LE(line_count(text.err), 2U) << text.err;
  EXPECT_TRUE(holds(text.err, "\ntry: ")) << text.err;
  std::vector<std::string> with_json = words;
  with_json.emplace_back("--json");
  const Ran json = run(with_json);
  EXPECT_EQ(json.exit_code, exit_code) << json.out << json.err;
  EXPECT_EQ(json.err, "");
  const core::Json document = document_of(json);
  EXPECT_EQ(schema_violations(document), "") << json.out;
  EXPECT_EQ(text_at(document, "/schema"), "nobounce.error/1");
  return document;
}

core::Json expect_soft_error(std::vector<std::string> words, int exit_code) {
  words.insert(words.end(), {"--machine", "soft:workstation"});
  return expect_error(words, exit_code);
}

TEST(BadFiles, AMissingFileIsNamed) {
  const TemporaryDirectory folder;
  const core::Json error = expect_soft_error({"copy", folder.file("none"), "gpu:0"}, 1);
  EXPECT_EQ(text_at(error, "/origin"), "os");
  EXPECT_EQ(number_at(error, "/code"), static_cast<std::uint64_t>(ENOENT));
  EXPECT_TRUE(holds(text_at(error, "/attempted"), folder.file("none")))
      << text_at(error, "/attempted");
}

TEST(BadFiles, ARecordingThatIsNoneIsAnError) {
  const TemporaryDirectory folder;
  expect_error({"check", "--machine", "recorded:" + folder.file("none.json")}, 1);
  std::ofstream(folder.file("machine.json")) << R"({"schema":"nobounce.machine/1"})";
  const core::Json error =
      expect_error({"check", "--machine", "recorded:" + folder.file("machine.json")}, 1);
  EXPECT_TRUE(holds(text_at(error, "/detail"), "nobounce.recording/1"))
      << text_at(error, "/detail");
}

/// What a wrong file of a command is answered with: its own name, and what would do instead.
TEST(BadFiles, AreAnsweredWithWhatTheCommandTakes) {
  const TemporaryDirectory folder;
  const std::string directory = folder.path().string();
  const std::string none = folder.file("none");
  const std::string text = folder.file("text");
  const std::string machine = folder.file("machine");
  std::ofstream(text) << "hello\n";
  std::ofstream(machine) << R"({"schema":"nobounce.machine/1"})";
  const auto expect = [](const std::vector<std::string>& words, const std::string& named,
                         const char* remedy) {
    const core::Json error = expect_error(words, 1);
    EXPECT_EQ(text_at(error, "/attempted"), "read " + named);
    EXPECT_TRUE(holds(text_at(error, "/remedy"), remedy)) << text_at(error, "/remedy");
  };
  expect({"topo", "--from", none}, none, "nvidia-smi topo -m");
  expect({"topo", "--from", directory}, directory, "one file");
  expect({"explain", none}, none, "captured text");
  expect({"explain", directory}, directory, "its files");
  for (const std::string& wrong : {none, directory, text}) {
    expect({"diff", wrong, "live"}, wrong, "nobounce record -o");
    expect({"diff", "live", wrong}, wrong, "nobounce record -o");
    expect({"check", "--machine", "recorded:" + wrong}, wrong, "nobounce record -o");
    expect({"check", "--machine", "soft:" + wrong}, wrong, "nobounce topo --json");
  }
  expect({"diff", machine, "live"}, machine, "soft:");
}

TEST(BadFiles, ThatCannotBeWrittenAreCalledAsTheyWereNamed) {
  const TemporaryDirectory folder;
  const std::string path = folder.file("no/such.json");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"record", "-o", path},
                                                std::vector<std::string>{"topo", "--svg", path}}) {
    const core::Json error = expect_error(words, 1);
    EXPECT_EQ(text_at(error, "/attempted"), "write " + path);
    EXPECT_TRUE(holds(text_at(error, "/remedy"), "mkdir -p " + folder.file("no")))
        << text_at(error, "/remedy");
  }
}

TEST(NearlyCauses, AreAnsweredWithTheCause) {
  const auto remedy = [](const std::vector<std::string>& words) {
    return text_at(expect_error(words, 1), "/remedy");
  };
  for (const char* word : {"storage.nvidia_fs_absnt", "nvidia_fs_absent",
                           "Storage.nvidia_fs_absent", "storage.nvidia-fs-absent"}) {
    EXPECT_TRUE(holds(remedy({"explain", word}), "nobounce explain storage.nvidia_fs_absent?"))
        << word << ": " << remedy({"explain", word});
  }
  EXPECT_TRUE(holds(remedy({"explain", "machine.no_gpu", "p2p.disabled_by_setting"}), "alone"));
  EXPECT_TRUE(holds(remedy({"explain", "nccl.log"}), "captured text"));
}

TEST(Recordings, MoveNothingAndNameTheirTwin) {
  const TemporaryDirectory folder;
  const std::string path = folder.file("r");
  ASSERT_EQ(run({"record", "-o", path}).exit_code, 0);
  for (std::vector<std::string> words : {std::vector<std::string>{"prove"},
                                         {"copy", "gpu:0", "host"},
                                         {"serve", "--place", "host", "--name", "x"}}) {
    words.insert(words.end(), {"--machine", "recorded:" + path});
    const core::Json error = expect_error(words, 1);
    EXPECT_EQ(text_at(error, "/cause"), "evidence.recording_only");
    EXPECT_TRUE(holds(text_at(error, "/remedy"), "--machine soft:" + path))
        << text_at(error, "/remedy");
  }
}

TEST(Recordings, SayWhereTheyWentAndWhatTheyReplaced) {
  const TemporaryDirectory folder;
  const std::string path = folder.file("r.json");
  const Ran first = run({"record", "-o", path});
  EXPECT_TRUE(holds(first.out, path)) << first.out;
  EXPECT_TRUE(holds(first.out, "Read it before you send it")) << first.out;
  EXPECT_FALSE(holds(first.out, "in place of")) << first.out;
  EXPECT_TRUE(holds(run({"record", "-o", path}).out, "in place of a file of")) << first.out;
  EXPECT_EQ(run({"record", "-o", path, "--json"}).out, "");
  const Ran printed = run({"record", "-o", "/dev/stdout"});
  EXPECT_FALSE(holds(printed.out, "Read it")) << "the document stays one";
}

TEST(BadGpus, OfADescribedMachineWithoutAnyAreThatMachines) {
  const TemporaryDirectory folder;
  const std::string path = folder.file("machine.json");
  std::ofstream(path) << R"({"schema":"nobounce.machine/1","name":"bare"})";
  const core::Json error = expect_error({"prove", "--machine", "soft:" + path}, 1);
  EXPECT_EQ(text_at(error, "/detail"), "machine bare has no GPU");
  EXPECT_TRUE(holds(text_at(error, "/remedy"), "--machine soft:workstation"));
}

TEST(BadFiles, ADirectoryIsNoFile) {
  const TemporaryDirectory folder;
  const core::Json error = expect_soft_error({"copy", folder.path().string(), "gpu:0"}, 1);
  EXPECT_TRUE(holds(text_at(error, "/detail"), "directory")) << text_at(error, "/detail");
  expect_soft_error({"copy", "gpu:0", folder.path().string(), "--length", "10"}, 1);
}

TEST(BadFiles, AFifoDoesNotBlock) {
  const TemporaryDirectory folder;
  ASSERT_EQ(::mkfifo(folder.file("fifo").c_str(), 0600), 0);
  expect_soft_error({"copy", folder.file("fifo"), "gpu:0"}, 1);
  expect_soft_error({"copy", "gpu:0", folder.file("fifo"), "--length", "10"}, 1);
}

TEST(BadFiles, ATargetInAMissingDirectoryIsNamed) {
  const TemporaryDirectory folder;
  const core::Json error =
      expect_soft_error({"copy", "gpu:0", folder.file("no/such"), "--length", "10"}, 1);
  EXPECT_EQ(text_at(error, "/origin"), "os");
}

TEST(BadFiles, AnUnreadableFileIsSaidToBe) {
  const TemporaryDirectory folder;
  const std::string path = folder.file("secret");
  write_file(path, random_bytes(10, 1));
  ::chmod(path.c_str(), 0);
  ::chmod(folder.path().c_str(), 0755);
  std::vector<std::string> words{program_path(),     "copy",  path, "gpu:0", "--machine",
                                 "soft:workstation", "--json"};
  if (::geteuid() == 0) {
    const std::vector<std::string> nobody{"setpriv", "--reuid", "65534",
                                          "--regid", "65534",   "--clear-groups"};
    std::vector<std::string> trial = nobody;
    trial.insert(trial.end(), {program_path(), "--version"});
    if (Running(trial).finish().exit_code != 0)
      GTEST_SKIP() << "nobody cannot run the program, or no setpriv here";
    words.insert(words.begin(), nobody.begin(), nobody.end());
  }
  const Ran ran = Running(words).finish();
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  const core::Json error = document_of(ran);
  EXPECT_EQ(text_at(error, "/origin"), "os");
  EXPECT_EQ(number_at(error, "/code"), static_cast<std::uint64_t>(EACCES));
}

/// A tmpfs of one MiB.
class SmallDisk {
 public:
  SmallDisk()
      : mounted_(::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, "size=1m") == 0),
        errno_(errno) {}
  ~SmallDisk() {
    if (mounted_) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  [[nodiscard]] bool mounted() const { return mounted_; }
  [[nodiscard]] std::string reason() const { return std::strerror(errno_); }
  [[nodiscard]] const TemporaryDirectory& folder() const { return folder_; }

 private:
  TemporaryDirectory folder_;
  bool mounted_;
  int errno_;
};

TEST(BadFiles, AFullDiskLeavesTheOldFileWhole) {
  const SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << "no tmpfs can be mounted here: " << disk.reason();
  const std::string path = disk.folder().file("old");
  const std::vector<std::byte> old = random_bytes(1000, 1);
  write_file(path, old);
  const core::Json error = expect_soft_error({"copy", "gpu:0", path, "--length", "4MiB"}, 1);
  EXPECT_EQ(number_at(error, "/code"), static_cast<std::uint64_t>(ENOSPC));
  EXPECT_EQ(read_file(path), old);
  EXPECT_EQ(disk.folder().names().size(), 1U);
}

TEST(BadFiles, AFullDiskIsFoundOutBeforeAProofIsMade) {
  const SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << "no tmpfs can be mounted here: " << disk.reason();
  std::ofstream(disk.folder().file("full")) << std::string(2u << 20, 'x');
  const Ran ran = run_soft({"prove", "--pair", "gpu:0,gpu:1", "--volumes", "1MiB,2MiB,4MiB",
                            "--save", disk.folder().file("proof.json"), "--json"});
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  EXPECT_EQ(number_at(document_of(ran), "/code"), static_cast<std::uint64_t>(ENOSPC));
  EXPECT_EQ(disk.folder().names().size(), 1U);
}

TEST(BadGpus, OneThatIsNotThereIsRefusedWithTheListOfThoseThatAre) {
  const core::Json error = expect_soft_error({"copy", "gpu:7", "host", "--length", "10"}, 1);
  const std::string text = core::dump_json(error);
  EXPECT_TRUE(holds(text, "gpu:7")) << text;
  EXPECT_TRUE(holds(text, "gpu:1")) << text;
  expect_soft_error({"copy", "gpu:GPU-does-not-exist", "host", "--length", "10"}, 1);
}

TEST(BadGpus, MoreBytesThanGpuMemoryAreRefusedBeforeAnyMoves) {
  const TemporaryDirectory folder;
  const core::Json error = expect_soft_error({"copy", "gpu:0", "gpu:1", "--length", "100TiB"}, 1);
  EXPECT_EQ(text_at(error, "/cause"), "memory.gpu_out_of_memory");
  EXPECT_EQ(text_at(error, "/origin"), "cuda");
}

TEST(BadGpus, AMachineWithoutAnyOffersASoftwareMachine) {
  if (live_gpu()) GTEST_SKIP() << "this machine has a GPU";
  const TemporaryDirectory folder;
  write_file(folder.file("a"), random_bytes(10, 1));
  const core::Json error = expect_error({"copy", folder.file("a"), "gpu:0"}, 1);
  EXPECT_EQ(text_at(error, "/cause"), "machine.no_gpu");
  EXPECT_TRUE(holds(text_at(error, "/remedy"), "--machine soft:workstation"));
}

struct BadMachine {
  const char* name;
  const char* json;
  const char* said;
};

class BadMachines : public ::testing::TestWithParam<BadMachine> {};

TEST_P(BadMachines, AreRefusedNamingTheField) {
  const TemporaryDirectory folder;
  const std::string path = folder.file("machine.json");
  std::ofstream(path) << GetParam().json;
  const core::Json error = expect_error({"topo", "--machine", "soft:" + path}, 1);
  const std::string text = text_at(error, "/attempted") + " " + text_at(error, "/detail");
  EXPECT_TRUE(holds(text, GetParam().said)) << text;
  EXPECT_TRUE(holds(text, "machine.json")) << text;
}

INSTANTIATE_TEST_SUITE_P(
    All, BadMachines,
    ::testing::Values(
        BadMachine{"UnknownField", R"({"name": "x", "gpu": []})", "gpu"},
        BadMachine{"WrongType", R"({"name": "x", "gpus": [{"memory_bytes": "many"}]})",
                   "/gpus/0/memory_bytes"},
        BadMachine{"DuplicateKey", R"({"name": "x", "gpus": [], "gpus": []})", "gpus"},
        BadMachine{"Cycle", R"({"switches": [{"parent": "switch:1"}, {"parent": "switch:0"}]})",
                   "switches"},
        BadMachine{"DanglingReference", R"({"gpus": [{"parent": "switch:4"}]})", "switch:4"},
        BadMachine{"NoJson", "{", "machine.json"}),
    [](const auto& instance) { return instance.param.name; });

TEST(BadMachineArguments, AreUsageErrors) {
  expect_error({"topo", "--machine", "soft:toaster"}, 2);
  expect_error({"topo", "--machine", "soft:"}, 2);
  expect_error({"topo", "--machine", "virtual"}, 2);
  expect_error({"topo", "--machine", "recorded:"}, 2);
  expect_error({"topo", "--machine", "recorded:x", "--set", "/udev=false"}, 2);
  expect_error({"check", "--member", "disk"}, 2);
  expect_error({"topo", "--set", "/udev=false"}, 2);
  expect_error({"topo", "--deterministic"}, 2);
  expect_error({"topo", "--machine", "soft:/no/such/machine.json"}, 1);
}

TEST(BadMachineArguments, ASettingThatDoesNotExistNamesTheNearest) {
  const core::Json error = expect_soft_error({"topo", "--set", "/modules/nvidia_sf=false"}, 2);
  const std::string text = core::dump_json(error);
  EXPECT_TRUE(holds(text, "/modules/nvidia_fs")) << text;
  expect_soft_error({"topo", "--set", "/gpus/9/bar1_bytes=1"}, 2);
  expect_soft_error({"topo", "--set", "no pointer"}, 2);
  expect_soft_error({"topo", "--set", "/modules/nvidia_fs=7"}, 2);
}

TEST(BadArguments, AreUsageErrors) {
  expect_error({"dance"}, 2);
  expect_error({}, 2);
  expect_error({"copy", "a"}, 2);
  expect_soft_error({"copy", "a", "gpu:0", "--policy", "direct"}, 2);
  for (const char* size : {"1K", "ten", "-5", "1.5GiB", "99999999999999999999"}) {
    expect_soft_error({"copy", "gpu:0", "host", "--length", size}, 2);
  }
  expect_soft_error({"copy", "rdma://node:0/x", "gpu:0"}, 2);
  expect_error({"copy", "gpu:0", "host", "--ledger"}, 2);
  expect_soft_error({"copy", "gpu:0", "host", "--deadline", "soon"}, 2);
}

TEST(BadArguments, ALengthForAFileIsRefused) {
  const TemporaryDirectory folder;
  write_file(folder.file("a"), random_bytes(10, 1));
  expect_soft_error({"copy", folder.file("a"), "gpu:0", "--length", "5"}, 2);
}

TEST(Output, ThatCannotBeWrittenIsAnError) {
  Running running({program_path(), "topo", "--machine", "soft:workstation"}, "/dev/full");
  const Ran ran = running.finish();
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(holds(ran.err, "standard output")) << ran.err;
}

}  // namespace
}  // namespace nobounce::test
