// What somebody who tries the program for the first time runs into.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/program.hpp"
#include "support/schema.hpp"
#include "support/temporary_directory.hpp"

namespace nobounce::test {
namespace {

/// On the software machine, as JSON.
core::Json expect_soft_error(std::vector<std::string> words, int exit_code) {
  words.emplace_back("--json");
  const Ran ran = run_soft(words);
  EXPECT_EQ(ran.exit_code, exit_code) << ran.out << ran.err;
  const core::Json document = document_of(ran);
  EXPECT_EQ(schema_violations(document), "") << ran.out;
  EXPECT_EQ(text_at(document, "/schema"), "nobounce.error/1");
  return document;
}

TEST(FileSizeLimit, IsAnErrorAndLeavesNoTemporaryFile) {
  const TemporaryDirectory folder;
  // The memory of a software machine lies in files, so this is a matter of live ones.
  const Ran ran = Running({"bash", "-c", "ulimit -f 1024; exec \"$0\" \"$@\"", program_path(),
                           "copy", "host", folder.file("big"), "--length", "8MiB", "--json"})
                      .finish();
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  EXPECT_EQ(number_at(document_of(ran), "/code"), static_cast<std::uint64_t>(EFBIG));
  EXPECT_TRUE(folder.names().empty());
}

class BadLastPlaces : public ::testing::TestWithParam<const char*> {};

TEST_P(BadLastPlaces, AreFoundBeforeTheFirstHop) {
  const TemporaryDirectory folder;
  ::mkdir(folder.file("directory").c_str(), 0700);
  ::mkfifo(folder.file("fifo").c_str(), 0600);
  const std::string given = GetParam();
  const std::string last = given.front() == '/' ? given : folder.file(given);
  const std::string first = folder.file("first");
  const core::Json error =
      expect_soft_error({"copy", "gpu:0", first, last, "--length", "64KiB"}, 1);
  EXPECT_EQ(error.find("receipts"), nullptr) << core::dump_json(error);
  EXPECT_EQ(folder.names().size(), 2U);
  // The same words as where it is the only target.
  const core::Json alone = expect_soft_error({"copy", "gpu:0", last, "--length", "64KiB"}, 1);
  EXPECT_EQ(text_at(error, "/detail"), text_at(alone, "/detail"));
  EXPECT_EQ(text_at(error, "/cause"), text_at(alone, "/cause"));
  const core::Json in_place =
      expect_soft_error({"copy", "gpu:0", first, last, "--length", "64KiB", "--in-place"}, 1);
  EXPECT_EQ(in_place.find("receipts"), nullptr) << core::dump_json(in_place);
  EXPECT_EQ(folder.names().size(), 2U);
}

INSTANTIATE_TEST_SUITE_P(All, BadLastPlaces,
                         ::testing::Values("none/file", "directory", "fifo", "/dev/null"));

TEST(LaterTargets, ThatAreGoodAreLeftAloneUntilTheirHop) {
  const TemporaryDirectory folder;
  const Ran ran = run_soft({"copy", "gpu:0", folder.file("a"), "gpu:1", folder.file("b"),
                            "--length", "64KiB", "--in-place"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(read_file(folder.file("a")), read_file(folder.file("b")));
  EXPECT_EQ(folder.names().size(), 2U);
}

TEST(Differences, AreBlamedOnWhoeverWroteToTheSource) {
  const TemporaryDirectory folder;
  const std::string path = folder.file("busy");
  write_file(path, random_bytes(64U << 20, 1));
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    std::fstream stream(path, std::ios::binary | std::ios::in | std::ios::out);
    for (std::uint64_t count = 0; !stop; ++count) {
      stream.seekp(static_cast<std::streamoff>((count % 64) << 20));
      stream.write(reinterpret_cast<const char*>(&count), sizeof(count));
      stream.flush();
    }
  });
  const Ran ran = run_soft({"copy", path, "gpu:0", "--json"});
  stop = true;
  writer.join();
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  const core::Json error = document_of(ran);
  EXPECT_EQ(text_at(error, "/cause"), "file.changed") << ran.out;
  EXPECT_TRUE(holds(text_at(error, "/detail"), "changed while it was being read")) << ran.out;
  EXPECT_FALSE(holds(text_at(error, "/remedy"), "direct path")) << ran.out;
}

TEST(Check, OfAFileThatIsNotThereCannotBeReadButMayBeWritten) {
  const TemporaryDirectory folder;
  const Ran ran = run_soft({"check", "--path", folder.file("none"), "--gpu", "0", "--json"});
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  const core::Json report = document_of(ran);
  EXPECT_EQ(schema_violations(report), "") << ran.out;
  EXPECT_EQ(text_at(report, "/rows/0/direction"), "read");
  EXPECT_EQ(text_at(report, "/rows/0/verdict"), "impossible");
  EXPECT_TRUE(holds(text_at(report, "/rows/0/findings/0/observed"), "does not exist"));
  EXPECT_EQ(text_at(report, "/rows/0/findings/0/subject"), folder.file("none"));
  EXPECT_EQ(text_at(report, "/rows/1/direction"), "write");
  EXPECT_EQ(text_at(report, "/rows/1/verdict"), "direct") << ran.out;
}

TEST(Check, OfAFileInAMissingDirectoryIsImpossibleInBothDirections) {
  const TemporaryDirectory folder;
  const Ran ran = run_soft({"check", "--path", folder.file("no/file"), "--gpu", "0", "--json"});
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  EXPECT_EQ(text_at(document_of(ran), "/rows/1/verdict"), "impossible");
}

TEST(Check, HasRowsForPairsOfGpus) {
  const core::Json report = document_of(run_soft({"check", "--json"}));
  EXPECT_EQ(schema_violations(report), "");
  std::size_t pairs = 0;
  for (const core::Json& row : *report.find("rows")->as_array()) {
    if (text_at(row, "/member") == "p2p") ++pairs;
  }
  EXPECT_EQ(pairs, 2U);
  EXPECT_EQ(run_soft({"check"}).exit_code,
            0);  // and no row is in doubt for what a copy does itself
}

TEST(Check, ShowsEveryPairOfGpusWithAllAndThoseOfANamedGpu) {
  const auto pairs = [](std::vector<std::string> words) {
    words.insert(words.begin(), "check");
    words.insert(words.end(), {"--json", "--machine", "soft:dgx"});
    std::size_t count = 0;
    const core::Json report = document_of(run(words));
    for (const core::Json& row : *report.find("rows")->as_array()) {
      if (text_at(row, "/member") == "p2p") ++count;
    }
    return count;
  };
  EXPECT_EQ(pairs({"--all"}), 56U);
  EXPECT_EQ(pairs({"--gpu", "3"}), 14U);
  EXPECT_GE(pairs({}), 8U);
  EXPECT_EQ(pairs({"--path", "/tmp"}), 0U);
}

TEST(Check, SaysWhyARowIsDegraded) {
  const Ran ran = run_soft({"check", "--set", "/gpus/0/link/width=8"});
  EXPECT_EQ(ran.exit_code, 3) << ran.out;
  EXPECT_TRUE(holds(ran.out, "\ndegraded machine.link_downtrained  gpu:0")) << ran.out;
  EXPECT_TRUE(holds(ran.out, "observed generation 4 of 4, 8 of 16 lanes")) << ran.out;
  EXPECT_TRUE(holds(ran.out, "try ")) << ran.out;
}

TEST(Places, ThatAreNotSupportedAreNoFileNames) {
  for (const char* place :
       {"-", "nic:mlx5_0", "drive:nvme0n1", "rdma:host:1", "nvme:", "gpu:x", "gpu:-1", "gpu:"}) {
    const core::Json error = expect_soft_error({"copy", "gpu:0", place, "--length", "10"}, 2);
    EXPECT_TRUE(holds(core::dump_json(error), place)) << core::dump_json(error);
  }
  EXPECT_EQ(run_soft({"check", "--gpu", "x"}).exit_code, 2);
}

TEST(Places, NamedNvmeAreControllers) {
  const core::Json error =
      expect_soft_error({"copy", "gpu:0", "nvme:0000:01:00.0", "--take", "--length", "4096"}, 1);
  EXPECT_TRUE(holds(core::dump_json(error), "no NVMe controller")) << core::dump_json(error);
}

TEST(Places, BecomeFileNamesBehindADotOrAPrefix) {
  const TemporaryDirectory folder;
  const std::string words =
      " && exec \"$0\" copy gpu:0 ./- \"file:nic:1\" --length 10 --machine "
      "soft:workstation";
  const Ran ran =
      Running({"bash", "-c", "cd '" + folder.path().string() + "'" + words, program_path()})
          .finish();
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(read_file(folder.file("-")), read_file(folder.file("nic:1")));
}

TEST(Numbers, HaveNoSignAndFit) {
  EXPECT_EQ(run({"stat", "--", "-3"}).exit_code, 2);
  EXPECT_EQ(run({"stat", "99999999999999999999"}).exit_code, 2);
  EXPECT_EQ(run({"stat", "0"}).exit_code, 2);
  EXPECT_EQ(run({"stat", "0x10"}).exit_code, 2);
  for (const char* seed : {"-1", "x", "", "18446744073709551616"}) {
    EXPECT_EQ(run_soft({"topo", "--seed", seed}).exit_code, 2) << seed;
  }
  EXPECT_EQ(run_soft({"topo", "--seed", "18446744073709551615"}).exit_code, 0);
  EXPECT_EQ(run_soft({"copy", "gpu:0", "host", "--length", "1", "--readers", "-1"}).exit_code, 2);
}

TEST(BounceMemory, MustHoldASlotAndTheDefaultSlotFitsIntoIt) {
  const TemporaryDirectory folder;
  write_file(folder.file("a"), random_bytes(10000, 1));
  const std::vector<std::vector<std::string>> wrong{
      {"--pinned-bytes", "0"},
      {"--pinned-bytes", "4095"},
      {"--pinned-bytes", "4096", "--slot-bytes", "8192"}};
  for (const std::vector<std::string>& options : wrong) {
    std::vector<std::string> words{"copy", folder.file("a"), "gpu:0"};
    words.insert(words.end(), options.begin(), options.end());
    const core::Json error = expect_soft_error(words, 2);
    EXPECT_EQ(text_at(error, "/cause"), "session.pinned_limit");
    EXPECT_EQ(error.find("receipts"), nullptr) << "nothing was refused: it never began";
    EXPECT_TRUE(holds(text_at(error, "/remedy"), "--pinned-bytes"));
  }
  for (const char* policy : {"direct_required", "staged_only"}) {
    const Ran ran =
        run_soft({"copy", folder.file("a"), "gpu:0", "--pinned-bytes", "5000", "--policy", policy});
    EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  }
}

TEST(BounceMemory, HasSlotsOfWholePages) {
  for (const char* size : {"0", "1", "4097"}) {
    const core::Json error =
        expect_soft_error({"copy", "gpu:0", "host", "--length", "1", "--slot-bytes", size}, 2);
    EXPECT_TRUE(holds(text_at(error, "/detail"), "4096")) << core::dump_json(error);
  }
}

TEST(Messages, NameWhatWasReadOnce) {
  const Ran setting = run_soft({"topo", "--set", "/gpus/0/parent=switch:9"});
  EXPECT_EQ(setting.exit_code, 2);
  EXPECT_TRUE(holds(setting.err, "read --set: /gpus/0/parent: ")) << setting.err;
  const TemporaryDirectory folder;
  std::ofstream(folder.file("bad.json")) << "{\n\"gpus\": [], \"gpus\": []}";
  const Ran machine = run({"topo", "--machine", "soft:" + folder.file("bad.json")});
  EXPECT_TRUE(holds(machine.err, "bad.json: line 2: duplicate key")) << machine.err;
}

TEST(Messages, ShortenLongPaths) {
  const Ran ran = run_soft({"copy", "/" + std::string(6000, 'x'), "gpu:0"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_LT(ran.err.size(), 600U) << ran.err;
  EXPECT_TRUE(holds(ran.err, "xxx ... xxx")) << ran.err;
}

TEST(Messages, SayInJsonTooThatThereIsNoGpu) {
  const TemporaryDirectory folder;
  write_file(folder.file("a"), random_bytes(10, 1));
  const Ran ran = run({"copy", folder.file("a"), "gpu:0", "--json"});
  if (ran.exit_code == 0) GTEST_SKIP() << "this machine has a GPU";
  const core::Json error = document_of(ran);
  EXPECT_EQ(text_at(error, "/cause"), "machine.no_gpu") << ran.out;
  EXPECT_NE(text_at(error, "/detail"), "") << ran.out;
}

TEST(Messages, SayWhoseSessionsAreShown) {
  // Other tests' sessions may be running beside this one.
  const Ran ran = run({"stat"});
  if (!holds(ran.out, "no running session")) GTEST_SKIP() << "some are running";
  EXPECT_TRUE(holds(ran.out, "of this user")) << ran.out;
}

TEST(Names, CannotControlTheTerminal) {
  const TemporaryDirectory folder;
  const std::string name =
      "a\x1b[31m\n\x7f\xc2\x9b"
      "é\xff";
  write_file(folder.file(name), random_bytes(10, 1));
  const Ran ran = run_soft({"copy", folder.file(name), "gpu:0"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(holds(ran.out, R"(a\x1b[31m\x0a\x7f\xc2\x9bé\xff)")) << ran.out;
  const Ran missing = run_soft({"copy", folder.file(name + "z"), "gpu:0"});
  EXPECT_TRUE(holds(missing.err, R"(a\x1b[31m\x0a\x7f\xc2\x9bé\xffz)")) << missing.err;
  const Ran check = run_soft({"check", "--path", folder.file(name), "--all"});
  for (const std::string& text : {ran.out, missing.err, check.out}) {
    EXPECT_FALSE(holds(text, "\x1b")) << text;
    EXPECT_FALSE(holds(text, "\x7f")) << text;
    EXPECT_FALSE(holds(text, "\xc2\x9b")) << text;
  }
}

TEST(Names, CanBeFoundAgainFromJson) {
  const TemporaryDirectory folder;
  write_file(folder.file("a\xff"
                         "b"),
             random_bytes(10, 1));
  const Ran ran = run_soft({"copy",
                            folder.file("a\xff"
                                        "b"),
                            "gpu:0", "--json"});
  EXPECT_EQ(text_at(document_of(ran), "/source"), "file:" + folder.file(R"(a\xffb)")) << ran.out;
}

TEST(Settings, MustLeaveAMachineWithANameAndMemory) {
  const core::Json name = expect_soft_error({"topo", "--set", "/name="}, 2);
  EXPECT_TRUE(holds(text_at(name, "/detail"), "/name")) << core::dump_json(name);
  expect_soft_error({"topo", "--set", "/name=\"\""}, 2);
  const core::Json memory = expect_soft_error({"topo", "--set", "/gpus/0/memory_bytes=0"}, 2);
  EXPECT_TRUE(holds(text_at(memory, "/detail"), "/gpus/0/memory_bytes")) << core::dump_json(memory);
}

}  // namespace
}  // namespace nobounce::test
