// What somebody runs into who tries the program a second time: wrong names, half-written files,
// reports that nobody could read.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/program.hpp"
#include "support/schema.hpp"
#include "support/serving.hpp"
#include "support/temporary_directory.hpp"

namespace nobounce::test {
namespace {

core::Json expect_usage_error(std::vector<std::string> words) {
  words.insert(words.end(), {"--machine", "soft:workstation", "--json"});
  const Ran ran = run(words);
  EXPECT_EQ(ran.exit_code, 2) << ran.out << ran.err;
  const core::Json document = document_of(ran);
  EXPECT_EQ(schema_violations(document), "") << ran.out;
  return document;
}

std::string remedy_to(const std::vector<std::string>& words) {
  return run(words).err;
}

TEST(Adapters, ThatAreNotThereAreNamedBesideThoseThatAre) {
  Serving server({"--place", "gpu:0", "--length", "4096", "--name", "w"});
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"copy", server.place("w"), "gpu:1", "--nic", "foo"},
        {"serve", "--place", "gpu:0", "--name", "x", "--nic", "foo"},
        {"prove", "--peer", server.address(), "--nic", "mlx5_0", "--nic", "foo"}}) {
    const core::Json error = expect_usage_error(words);
    EXPECT_TRUE(holds(text_at(error, "/detail"), "no adapter foo")) << core::dump_json(error);
    EXPECT_TRUE(holds(text_at(error, "/remedy"), "mlx5_0")) << core::dump_json(error);
  }
  EXPECT_EQ(run_soft({"copy", server.place("w"), "gpu:1", "--nic", "mlx5_0", "--nic", "mlx5_0"})
                .exit_code,
            0);
}

TEST(Hops, ThatNobodyMovesAreNotSupportedRatherThanRefused) {
  const TemporaryDirectory folder;
  const std::string file = folder.file("w.bin");
  Serving server({"--place", "gpu:0", "--length", "4096", "--name", "w", "--access", "write"});
  const std::string there = server.place("w");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"copy", there, file},
                                                {"copy", "gpu:0", there, file},
                                                {"copy", there, there}}) {
    const core::Json error = expect_usage_error(words);
    EXPECT_TRUE(holds(text_at(error, "/detail"), "not supported")) << core::dump_json(error);
    EXPECT_TRUE(holds(text_at(error, "/remedy"), there + " host ")) << core::dump_json(error);
  }
  const std::string drive = "nvme:0000:0a:00.0";
  for (const std::vector<std::string>& words : {std::vector<std::string>{"copy", drive, file},
                                                {"copy", file, drive},
                                                {"copy", drive, "nvme:0000:0b:00.0"},
                                                {"copy", there, drive}}) {
    std::vector<std::string> taking = words;
    taking.emplace_back("--take");
    const core::Json error = expect_usage_error(taking);
    EXPECT_TRUE(holds(text_at(error, "/detail"), "not supported")) << core::dump_json(error);
  }
  EXPECT_TRUE(folder.names().empty());
  EXPECT_EQ(run_soft({"copy", there, "host", file}).exit_code, 0);
  EXPECT_EQ(run_soft({"copy", file, "host", there}).exit_code, 0);
}

TEST(Places, ThatAreNearlyOthersBecomeNoFiles) {
  const TemporaryDirectory folder;
  const std::string words =
      " && exec \"$0\" copy gpu:0 \"$1\" --length 10 --machine soft:workstation";
  const auto copy = [&](const std::string& place) {
    return Running(
               {"bash", "-c", "cd '" + folder.path().string() + "'" + words, program_path(), place})
        .finish();
  };
  for (const char* place : {"GPU:0", "cuda:0", "CUDA:1", "gpu0", "Gpu1", "HOST", "cpu:0",
                            "NVME:0000:01:00.0", "RDMA://127.0.0.1:1/w", "File:x"}) {
    const Ran ran = copy(place);
    EXPECT_EQ(ran.exit_code, 2) << place << ran.out << ran.err;
    EXPECT_TRUE(holds(ran.err, "did you mean ")) << ran.err;
    EXPECT_TRUE(holds(ran.err, "./" + std::string(place))) << ran.err;
    EXPECT_TRUE(folder.names().empty()) << place;
  }
  for (const char* place : {"./GPU:0", "gpus", "gpu-0.bin", "hosts", "cudart", "x:gpu:0"})
    EXPECT_EQ(copy(place).exit_code, 0) << place;
  EXPECT_TRUE(holds(remedy_to({"serve", "--place", "GPU:0", "--name", "w"}), "gpu:0"));
}

TEST(InPlace, WhatEndsOnTheWaySaysThatItMayBeHalfWritten) {
  const TemporaryDirectory folder;
  const std::string path = folder.file("target");
  write_file(path, random_bytes(64U << 20, 1));
  const std::vector<std::string> words{"copy",  "gpu:0",      path,         "--length",
                                       "64MiB", "--deadline", "0.000000001"};
  const std::vector<std::string> in_place = [&] {
    std::vector<std::string> more = words;
    more.emplace_back("--in-place");
    return more;
  }();
  const Ran replaced = run_soft(words);
  EXPECT_EQ(replaced.exit_code, 1) << replaced.out << replaced.err;
  EXPECT_FALSE(holds(replaced.err + replaced.out, "half written")) << replaced.err;
  const Ran ran = run_soft(in_place);
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  EXPECT_TRUE(holds(ran.err, path + " was written in place and may be half written")) << ran.err;
  EXPECT_TRUE(holds(ran.out, "did not end well")) << ran.out;
  EXPECT_FALSE(holds(ran.out, "would have left")) << ran.out;
}

TEST(InPlace, AnInterruptionNamesTheFileAndWhatBecameOfIt) {
  const TemporaryDirectory folder;
  const std::string path = folder.file("target");
  for (const bool in_place : {false, true}) {
    std::vector<std::string> words{program_path(), "copy",      "gpu:0",
                                   path,           "--length",  "256MiB",
                                   "--no-verify",  "--machine", "soft:workstation"};
    write_file(path, random_bytes(1000, 1));
    if (in_place) words.emplace_back("--in-place");
    Running running(words);
    // Its file is there as soon as it has begun to write.
    struct ::stat status {};
    for (int i = 0; i < 20000 && !running.ended(); ++i) {
      const bool began = in_place ? ::stat(path.c_str(), &status) == 0 && status.st_size > 1000
                                  : folder.names().size() > 1;
      if (began) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    running.send(SIGINT);
    const Ran ran = running.finish();
    if (ran.exit_code == 0) continue;  // it was faster
    EXPECT_EQ(ran.exit_code, 130) << ran.out << ran.err;
    EXPECT_FALSE(holds(ran.err, "a file that was to be replaced")) << ran.err;
    if (holds(ran.err, path)) {
      EXPECT_TRUE(
          holds(ran.err, in_place ? path + " was written in place" : path + " is as it was"))
          << ran.err;
    }
  }
}

TEST(Recordings, OfThisMachineDoNotDifferFromItByNames) {
  const TemporaryDirectory folder;
  const std::string path = folder.file("r.json");
  for (const char* machine : {"soft:workstation", "soft:nvmeof"}) {
    ASSERT_EQ(run({"record", "-o", path, "--machine", machine}).exit_code, 0);
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"diff", path, machine, "--json"},
          {"diff", machine, path, "--json"}}) {
      const Ran ran = run(words);
      EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
      EXPECT_FALSE(holds(ran.out, "folder-")) << ran.out;
    }
  }
}

TEST(Explain, NamesTextsOfWhichItRecognisesNothing) {
  const TemporaryDirectory folder;
  const std::string log = folder.file("a.log");
  const std::string none = folder.file("n.txt");
  std::ofstream(log)
      << "node-a:31877:33510 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM\n";
  std::ofstream(none) << "hello\n";
  const Ran text = run({"explain", log, none});
  EXPECT_TRUE(holds(text.out, none + ": nothing in it was recognised")) << text.out;
  EXPECT_FALSE(holds(text.out, log + ": nothing")) << text.out;
  const core::Json document = document_of(run({"explain", log, none, "--json"}));
  EXPECT_EQ(schema_violations(document), "");
  EXPECT_EQ(text_at(document, "/unrecognised/0"), none);
  EXPECT_EQ(document.find("unrecognised")->as_array()->size(), 1U);
}

TEST(Explain, SaysWhatWouldDecideWhereNothingShowsATransfer) {
  const TemporaryDirectory folder;
  const std::string log = folder.file("a.log");
  std::ofstream(log) << "train-7:4711:4790 [1] NCCL INFO NCCL version 2.20.5+cuda12.4\n";
  const Ran ran = run({"explain", log});
  EXPECT_EQ(ran.exit_code, 4) << ran.out;
  EXPECT_TRUE(holds(ran.out, "overall unknown")) << ran.out;
  EXPECT_TRUE(holds(ran.out, "NCCL_DEBUG=INFO")) << ran.out;
}

TEST(Reports, ThatNobodyCouldReadAreNoVerdicts) {
  const TemporaryDirectory folder;
  const std::string log = folder.file("a.log");
  std::ofstream(log)
      << "node-a:31877:33510 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via SHM/direct/direct\n";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"explain", log},
        {"explain", "--json", log},
        {"diff", "soft:workstation", "soft:dgx"},
        {"check", "--machine", "soft:workstation", "--set", "/modules/nvidia_fs=false"}}) {
    EXPECT_EQ(run(words).exit_code, 3);
    std::vector<std::string> full = words;
    full.insert(full.begin(), program_path());
    const Ran ran = Running(full, "/dev/full").finish();
    EXPECT_EQ(ran.exit_code, 1) << words.front();
    EXPECT_TRUE(holds(ran.err, "standard output")) << ran.err;
  }
}

TEST(Repetitions, AreJudgedOnce) {
  const TemporaryDirectory folder;
  const std::string file = folder.file("a");
  write_file(file, random_bytes(10, 1));
  const auto rows = [](std::vector<std::string> words) {
    words.emplace_back("--json");
    const core::Json document = document_of(run_soft(words));
    return document.find("rows")->as_array()->size();
  };
  EXPECT_EQ(rows({"check", "--gpu", "0", "--gpu", "gpu:0", "--path", file, "--path", file}), 2U);
  EXPECT_EQ(
      rows({"check", "--path", file, "--gpu", "0", "--path", folder.path().string() + "/./a"}), 2U);
  EXPECT_EQ(rows({"check", "--pair", "gpu:0,gpu:1", "--pair", "gpu:0,gpu:1"}), 1U);
  EXPECT_EQ(rows({"check", "--pair", "gpu:0,gpu:1", "--pair", "gpu:1,gpu:0"}), 2U);
  EXPECT_EQ(rows({"prove", "--pair", "gpu:0,gpu:1", "--pair", "gpu:0,gpu:1", "--volumes",
                  "1MiB,2MiB,4MiB"}),
            1U);
}

TEST(Proofs, ThatCannotBeKeptAreFoundOutBeforeTheyAreMade) {
  const TemporaryDirectory folder;
  ::mkdir(folder.file("d").c_str(), 0700);
  for (const std::string& path : {folder.file("none/p.json"), folder.file("d")}) {
    const Ran ran =
        run_soft({"prove", "--pair", "gpu:0,gpu:1", "--volumes", "1MiB,2MiB,4MiB", "--save", path});
    EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
    EXPECT_EQ(ran.out, "") << "no row was proved";
  }
  EXPECT_EQ(folder.names().size(), 1U);
}

TEST(Proofs, WhoseRowsVanishedAreNotDirectAltogether) {
  const TemporaryDirectory folder;
  const std::string saved = folder.file("p.json");
  const std::vector<std::string> one{"prove", "--pair", "gpu:0,gpu:1", "--volumes",
                                     "1MiB,2MiB,4MiB"};
  std::vector<std::string> two = one;
  two.insert(two.end(), {"--pair", "gpu:1,gpu:0", "--save", saved});
  ASSERT_EQ(run_soft(two).exit_code, 0);
  std::vector<std::string> against = one;
  against.insert(against.end(), {"--against", saved});
  const Ran ran = run_soft(against);
  EXPECT_EQ(ran.exit_code, 4) << ran.out << ran.err;
  EXPECT_TRUE(holds(ran.out, "vanished")) << ran.out;
  EXPECT_EQ(folder.names().size(), 1U);
}

TEST(Servers, OfNoBytesAreRefused) {
  const core::Json error =
      expect_usage_error({"serve", "--place", "gpu:0", "--length", "0", "--name", "w"});
  EXPECT_EQ(text_at(error, "/attempted"), "--length");
}

TEST(Servers, AtAllAddressesNameNoneThatNobodyCanReach) {
  const TemporaryDirectory folder;
  const std::string token = folder.file("token");
  std::ofstream(token) << "a token of some length\n";
  ::chmod(token.c_str(), 0600);
  Serving server({"--place", "gpu:0", "--length", "4096", "--name", "w", "--listen", "0.0.0.0:0",
                  "--token-file", token},
                 Serving::Format::text);
  const Ran ran = server.finish(SIGTERM);
  EXPECT_FALSE(holds(ran.out, "rdma://0.0.0.0")) << ran.out;
  EXPECT_TRUE(holds(ran.out, "rdma://HOST:")) << ran.out;
  EXPECT_TRUE(holds(ran.out, "--token-file FILE")) << ran.out;
}

TEST(Suggestions, AreNearOrNone) {
  EXPECT_TRUE(holds(remedy_to({"version"}), "nobounce --version"));
  EXPECT_TRUE(holds(remedy_to({"-V"}), "--version"));
  EXPECT_TRUE(holds(remedy_to({"chek"}), "did you mean nobounce check?"));
  EXPECT_TRUE(holds(remedy_to({"topo", "--machin", "live"}), "did you mean --machine?"));
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"dance"}, {"topo", "-j"}, {"topo", "--nosuch"}}) {
    const std::string said = remedy_to(words);
    EXPECT_FALSE(holds(said, "did you mean")) << said;
    EXPECT_TRUE(holds(said, "nobounce ")) << said;
  }
}

TEST(Remedies, AreThoseOfTheError) {
  const TemporaryDirectory folder;
  const Ran deadline = run_soft({"copy", "gpu:0", "host", "--deadline", "99999999999"});
  EXPECT_EQ(deadline.exit_code, 2);
  EXPECT_TRUE(holds(deadline.err, "more than 3153600000 seconds")) << deadline.err;
  for (const char* setting : {"/modules/nvidia_fs=7", "nowhere", "/modules/nvidia_sf=false"}) {
    const Ran ran = run_soft({"topo", "--set", setting});
    EXPECT_FALSE(holds(ran.err, "shows the devices there are")) << ran.err;
  }
  EXPECT_TRUE(holds(run_soft({"copy", folder.file(std::string(300, 'x')), "gpu:0"}).err, "255"));
  EXPECT_TRUE(holds(run_soft({"copy", "gpu:0", "gpu:9"}).err, "shows the devices there are"));
  const Ran name = run_soft({"serve", "--place", "gpu:0", "--length", "4096", "--name", "a/b"});
  EXPECT_EQ(name.exit_code, 2);
  EXPECT_TRUE(holds(name.err, "try: --name ")) << name.err;
  Serving server({"--place", "gpu:0", "--length", "4096", "--name", "w"});
  const Ran taken = run_soft({"serve", "--place", "gpu:0", "--length", "4096", "--name", "w",
                              "--listen", server.address()});
  EXPECT_TRUE(holds(taken.err, "ss -ltnp")) << taken.err;
}

TEST(Help, OfTheProgramSaysWhichOptionsAreNotOfEveryCommand) {
  const std::string out = run({"--help"}).out;
  const std::size_t some = out.find("Options of commands that work on a machine");
  ASSERT_NE(some, std::string::npos) << out;
  EXPECT_LT(out.find("Options of every command"), some);
  EXPECT_GT(out.find("--machine MACHINE"), some);
  EXPECT_LT(out.find("--json"), some);
}

}  // namespace
}  // namespace nobounce::test
