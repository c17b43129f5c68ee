// Two processes, each on a software machine: memory served and used, by adapters where both can,
// staged with the causes where one cannot, and what happens when one of them is killed.
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/program.hpp"
#include "support/schema.hpp"
#include "support/serving.hpp"
#include "support/temporary_directory.hpp"

namespace nobounce::test {
namespace {

const std::vector<std::string> without_registration = {"--set", "/modules/nvidia_peermem=false",
                                                       "--set", "/kernel/dmabuf=false"};

std::vector<std::string> operator+(std::vector<std::string> first,
                                   const std::vector<std::string>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

std::uint64_t direct_bytes(const core::Json& receipt) {
  return number_at(receipt, "/bytes/direct") + number_at(receipt, "/bytes/device_bounced");
}

bool names_cause(const core::Json& receipt, std::string_view cause) {
  for (const core::Json& one : *receipt.find("causes")->as_array()) {
    if (*one.as_text() == cause) return true;
  }
  return false;
}

std::string causes_of(const core::Json& receipt) {
  return core::dump_json(*receipt.find("causes"), true);
}

/// The last event of that kind.
core::Json last(const std::vector<core::Json>& events, std::string_view kind) {
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (text_at(*event, "/event") == kind) return *event;
  }
  ADD_FAILURE() << "no event " << kind;
  return {};
}

// --- direct -------------------------------------------------------------------------------------

class RemoteSizes : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(RemoteSizes, ArriveDirectlyByReadAndByWriteAndAreVerified) {
  const std::string length = std::to_string(GetParam());
  Serving server({"--place", "gpu:0", "--length", length, "--name", "w", "--access", "write"});
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"copy", server.place("w"), "gpu:1", "--json"},
        std::vector<std::string>{"copy", "gpu:1", server.place("w"), "--length", length, "--seed",
                                 "77", "--json"}}) {
    const Ran ran = run_soft(words + std::vector<std::string>{"--policy", "direct_required"});
    ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err;
    const core::Json receipt = document_of(ran);
    EXPECT_EQ(schema_violations(receipt), "");
    EXPECT_EQ(text_at(receipt, "/member"), "rdma");
    EXPECT_EQ(direct_bytes(receipt), GetParam()) << ran.out;
    EXPECT_TRUE(flag_at(receipt, "/verified"));
    EXPECT_EQ(causes_of(receipt), "[]");
  }
  const std::vector<core::Json> events = server.end();
  const core::Json told = last(events, "ended");
  EXPECT_EQ(schema_violations(told), "");
  EXPECT_EQ(number_at(told, "/receipt/bytes/direct"), GetParam());
  EXPECT_EQ(text_at(told, "/receipt/known"), "claimed");
  EXPECT_EQ(text_at(told, "/target"), "gpu:0");
}

INSTANTIATE_TEST_SUITE_P(Each, RemoteSizes, ::testing::Values(1, 4097, 3000001, 64u << 20));

TEST(Remote, OneGibibyteTravelsDirectlyAndCostsNoHostMemory) {
  if (!program_is_optimised()) GTEST_SKIP() << "smaller sizes are tested above";
  Serving server({"--place", "gpu:0", "--length", "1GiB", "--name", "w"});
  const Ran ran = run_soft({"copy", server.place("w"), "gpu:1", "--ledger", "--policy",
                            "direct_required", "--no-verify"});
  ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_TRUE(holds(ran.out, "direct          1,073,741,824 B")) << ran.out;
  // The line of this end's bus: what remains is the probe of the registration.
  const std::size_t at = ran.out.find(" B  of host DRAM read or written");
  ASSERT_NE(at, std::string::npos) << ran.out;
  const std::size_t begin = ran.out.rfind(' ', at - 1) + 1;
  std::string digits = ran.out.substr(begin, at - begin);
  std::erase(digits, ',');
  EXPECT_LE(std::stoull(digits), 64U << 10) << ran.out;
}

TEST(Remote, TheServersLedgerAgreesWithWhatItsClientSaysOrSaysWhyItIsNotCompared) {
  const std::string elsewhere = "not compared: the bytes arrived in the memory of another process";
  for (const char* place : {"gpu:0", "host"}) {
    SCOPED_TRACE(place);
    Serving server(std::vector<std::string>{"--place", place, "--length", "3000001", "--name", "w",
                                            "--access", "write", "--ledger"} +
                       without_registration,
                   Serving::Format::text);
    const std::string there = server.place("w");
    // From the second one on, what lay there before is nobody's arrival.
    for (const bool writing : {false, true, false}) {
      SCOPED_TRACE(writing ? "written" : "read");
      const Ran ran = run_soft(std::vector<std::string>{"copy", writing ? "gpu:1" : there,
                                                        writing ? there : "gpu:1", "--length",
                                                        "3000001", "--ledger"} +
                               without_registration);
      ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err;
      EXPECT_TRUE(holds(ran.out, "staged          3,000,001 B")) << ran.out;
      EXPECT_TRUE(holds(ran.out, writing ? elsewhere : "equal")) << ran.out;
      EXPECT_FALSE(holds(ran.out, "DIFFERENT")) << ran.out;
    }
    const Ran served = server.finish(SIGTERM);
    EXPECT_EQ(served.exit_code, 0) << served.err;
    EXPECT_FALSE(holds(served.out, "DIFFERENT")) << served.out;
    EXPECT_TRUE(holds(served.out, "staged                    3,000,001        3,000,001  equal"))
        << served.out;
    EXPECT_TRUE(holds(served.out, elsewhere)) << served.out;
  }
}

TEST(Remote, NothingIsTransferredAsSuch) {
  Serving server({"--place", "gpu:0", "--length", "4096", "--name", "w"});
  const Ran ran = run_soft({"copy", server.place("w"), "gpu:1", "--length", "0", "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_EQ(number_at(document_of(ran), "/requested_bytes"), 0U);
}

TEST(Remote, ThroughAnotherProcessAndBackIntoAFile) {
  const TemporaryDirectory folder;
  const std::string source = folder.file("source.bin");
  const std::string target = folder.file("target.bin");
  write_file(source, random_bytes(5000003, 9));
  Serving server({"--place", "gpu:0", "--length", "5000003", "--name", "w", "--access", "write"});
  const Ran ran = run_soft({"copy", source, "gpu:0", server.place("w"), "gpu:1", target, "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_EQ(text_of_file(source), text_of_file(target));
}

// --- staged, refused ----------------------------------------------------------------------------

struct Side {
  const char* name;
  bool server = false;
  bool client = false;
};
void PrintTo(const Side& side, std::ostream* stream) {
  *stream << side.name;
}
class Unregistered : public ::testing::TestWithParam<Side> {
 protected:
  [[nodiscard]] static std::vector<std::string> of_server(std::vector<std::string> words) {
    return GetParam().server ? words + without_registration : words;
  }
  [[nodiscard]] static std::vector<std::string> of_client(std::vector<std::string> words) {
    return GetParam().client ? words + without_registration : words;
  }
};

TEST_P(Unregistered, IsStagedWithBothCausesAndBothEndsSaySo) {
  Serving server(
      of_server({"--place", "gpu:0", "--length", "3000001", "--name", "w", "--access", "write"}));
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"copy", server.place("w"), "gpu:1", "--json"},
        std::vector<std::string>{"copy", "gpu:1", server.place("w"), "--length", "3000001",
                                 "--seed", "5", "--json"}}) {
    const Ran ran = run_soft(of_client(words));
    ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err;
    const core::Json receipt = document_of(ran);
    EXPECT_EQ(number_at(receipt, "/bytes/staged"), 3000001U) << ran.out;
    EXPECT_TRUE(flag_at(receipt, "/verified"));
    EXPECT_TRUE(names_cause(receipt, "rdma.dmabuf_not_supported")) << causes_of(receipt);
    EXPECT_TRUE(names_cause(receipt, "rdma.peermem_not_loaded")) << causes_of(receipt);
  }
  const core::Json told = last(server.end(), "ended");
  EXPECT_EQ(number_at(told, "/receipt/bytes/staged"), 3000001U);
  EXPECT_GE(told.find("receipt")->find("causes")->as_array()->size(), 2U);
}

TEST_P(Unregistered, IsRefusedWhereOnlyTheDirectPathWillDoAndTheOtherEndLearnsWhy) {
  Serving server(of_server({"--place", "gpu:0", "--length", "1MiB", "--name", "w", "--once"}));
  const Ran ran = run_soft(
      of_client({"copy", server.place("w"), "gpu:1", "--json", "--policy", "direct_required"}));
  EXPECT_EQ(ran.exit_code, 3) << ran.out << ran.err;
  const core::Json receipt = document_of(ran);
  EXPECT_EQ(text_at(receipt, "/state"), "refused");
  EXPECT_EQ(number_at(receipt, "/bytes/staged") + direct_bytes(receipt), 0U);
  EXPECT_TRUE(names_cause(receipt, "rdma.peermem_not_loaded")) << causes_of(receipt);
  const std::vector<core::Json> events = server.wait_for_end(3);
  const core::Json told = last(events, "ended");
  EXPECT_EQ(text_at(told, "/receipt/state"), "refused");
  EXPECT_TRUE(names_cause(*told.find("receipt"), "rdma.peermem_not_loaded"));
  EXPECT_EQ(text_at(told, "/error/schema"), "nobounce.error/1");
}

INSTANTIATE_TEST_SUITE_P(Each, Unregistered,
                         ::testing::Values(Side{"server", true, false}, Side{"client", false, true},
                                           Side{"both", true, true}));

TEST(Remote, AServerThatAdmitsDirectTransfersOnlyRefusesWhatItCannotServeSo) {
  Serving server(std::vector<std::string>{"--place", "gpu:0", "--length", "1MiB", "--name", "w",
                                          "--policy", "direct_required"} +
                 without_registration);
  const Ran ran = run_soft({"copy", server.place("w"), "gpu:1", "--json"});
  EXPECT_NE(ran.exit_code, 0) << ran.out << ran.err;
  const core::Json refused = last(server.end(), "refused");
  EXPECT_EQ(text_at(refused, "/error/cause"), "remote.refused_by_peer");
  EXPECT_TRUE(holds(text_at(refused, "/error/detail"), "rdma.dmabuf_not_supported"));
}

// --- who may ------------------------------------------------------------------------------------

TEST(Remote, TokensComeFromAFileTheEnvironmentOrAnArgument) {
  const TemporaryDirectory folder;
  const std::string file = folder.file("token");
  std::ofstream(file) << "a token of some length\n";
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  Serving server({"--place", "gpu:0", "--length", "4096", "--name", "w", "--token-file", file});
  const std::vector<std::string> copy = {"copy", server.place("w"), "gpu:1"};
  EXPECT_EQ(run_soft(copy + std::vector<std::string>{"--token-file", file}).exit_code, 0);
  EXPECT_EQ(
      run_soft(copy + std::vector<std::string>{"--token", "a token of some length"}).exit_code, 0);
  ASSERT_EQ(::setenv("NOBOUNCE_TOKEN", "a token of some length", 1), 0);
  EXPECT_EQ(run_soft(copy).exit_code, 0);
  ::unsetenv("NOBOUNCE_TOKEN");
  const Ran without = run_soft(copy + std::vector<std::string>{"--json"});
  EXPECT_EQ(without.exit_code, 1);
  const Ran wrong =
      run_soft(copy + std::vector<std::string>{"--token", "another of some length", "--json"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_EQ(text_at(document_of(wrong), "/cause"), "remote.authentication_failed");
  const Ran shorter = run_soft(copy + std::vector<std::string>{"--token", "short", "--json"});
  EXPECT_EQ(shorter.exit_code, 2);
  EXPECT_FALSE(holds(shorter.out + shorter.err, "short\"")) << "a token is never printed";
  for (const mode_t mode : {0644, 0604, 0620, 0602}) {
    ASSERT_EQ(::chmod(file.c_str(), mode), 0);
    EXPECT_EQ(run_soft(copy + std::vector<std::string>{"--token-file", file}).exit_code, 1) << mode;
  }
  const std::vector<core::Json> events = server.end();
  EXPECT_EQ(text_at(last(events, "refused"), "/error/cause"), "remote.authentication_failed");
  for (const core::Json& event : events)
    EXPECT_FALSE(holds(core::dump_json(event), "of some length"));
}

TEST(Remote, ServingToOtherMachinesNeedsAToken) {
  const Ran ran = run_soft({"serve", "--place", "gpu:0", "--length", "4096", "--name", "w",
                            "--listen", "0.0.0.0:0", "--json"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_EQ(text_at(document_of(ran), "/cause"), "remote.authentication_failed");
}

TEST(Remote, WhatIsNotServedOrNotGrantedIsRefusedWithItsCause) {
  Serving server({"--place", "gpu:0", "--length", "1MiB", "--name", "w"});
  struct Case {
    std::vector<std::string> words;
    const char* cause;
  };
  for (const Case& one :
       {Case{{"copy", server.place("x"), "gpu:1"}, "remote.name_unknown"},
        Case{{"copy", "gpu:1", server.place("w"), "--length", "4096"}, "remote.access_denied"},
        Case{{"copy", server.place("w"), "gpu:1", "--length", "2MiB"}, "remote.out_of_bounds"}}) {
    const Ran ran = run_soft(one.words + std::vector<std::string>{"--json"});
    EXPECT_EQ(ran.exit_code, 1) << ran.out;
    EXPECT_EQ(text_at(document_of(ran), "/cause"), one.cause);
  }
  EXPECT_EQ(run_soft({"copy", server.place("w"), "gpu:1"}).exit_code, 0);
}

TEST(Remote, EndsCleanlyOnASignalAndSaysWhatItServed) {
  for (const int number : {SIGINT, SIGTERM}) {
    Serving server({"--place", "gpu:0", "--length", "4096", "--name", "w"}, Serving::Format::text);
    EXPECT_EQ(run_soft({"copy", server.place("w"), "gpu:1"}).exit_code, 0);
    const Ran ran = server.finish(number);
    EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
    EXPECT_TRUE(holds(ran.out, "serving  4,096 B (4 KiB) of gpu:0 as w, for reading")) << ran.out;
    EXPECT_TRUE(holds(ran.out, "] 127.0.0.1:")) << ran.out;
    EXPECT_TRUE(holds(ran.out, " ended w: gpu:0 -> peer:127.0.0.1:")) << ran.out;
    EXPECT_EQ(ran.err, "");
  }
}

// --- one of them is killed ----------------------------------------------------------------------

/// Moments are drawn from a seed; what they hit depends on the machine.
constexpr int kills = 4;

TEST(Remote, AKilledServerLeavesAClearErrorAndNoSuccess) {
  std::minstd_rand draw(1);
  int failures = 0;
  for (int i = 0; i < kills; ++i) {
    const bool staged = i % 2 == 0;
    const std::vector<std::string> settings =
        staged ? without_registration : std::vector<std::string>{};
    Serving server(
        std::vector<std::string>{"--place", "gpu:0", "--length", "512MiB", "--name", "w"} +
        settings);
    Running client(std::vector<std::string>{program_path(), "copy", server.place("w"), "gpu:1",
                                            "--json", "--no-verify", "--machine",
                                            "soft:workstation"} +
                   settings);
    ASSERT_TRUE(server.tells("began", 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(draw() % 20));
    server.kill();
    const Ran ran = client.finish(std::chrono::seconds(60));
    const core::Json document = document_of(ran);
    if (ran.exit_code == 0) {
      EXPECT_EQ(text_at(document, "/state"), "done");  // it was faster
      continue;
    }
    ++failures;
    EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
    const std::string cause = text_at(document, "/cause");
    EXPECT_TRUE(cause == "remote.peer_lost" || cause == "remote.unreachable" ||
                cause == "rdma.retry_exceeded")
        << ran.out;
    const core::Json* receipts = document.find("receipts");
    if (receipts == nullptr) continue;  // it had not begun
    const core::Json& receipt = receipts->as_array()->front();
    EXPECT_NE(text_at(receipt, "/state"), "done") << ran.out;
    EXPECT_TRUE(names_cause(receipt, "remote.partial_arrival")) << ran.out;
  }
  EXPECT_GE(failures, 1) << "all clients were faster";
}

TEST(Remote, AKilledClientIsNoticedAndTheServerGoesOn) {
  std::minstd_rand draw(2);
  Serving server({"--place", "gpu:0", "--length", "512MiB", "--name", "w", "--access", "write"});
  for (int i = 0; i < kills; ++i) {
    const std::vector<std::string> settings =
        i % 2 == 0 ? without_registration : std::vector<std::string>{};
    Running client(std::vector<std::string>{program_path(), "copy", "gpu:1", server.place("w"),
                                            "--length", "512MiB", "--no-verify", "--machine",
                                            "soft:workstation"} +
                   settings);
    ASSERT_TRUE(server.tells("began", i + 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(draw() % 20));
    client.send(SIGKILL);
    (void)client.finish();
  }
  const Ran ran = run_soft({"copy", server.place("w"), "gpu:1", "--json"});
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  std::size_t began = 0;
  std::size_t over = 0;
  std::size_t lost = 0;
  for (const core::Json& event : server.end()) {
    const std::string kind = text_at(event, "/event");
    began += kind == "began" ? 1 : 0;
    over += kind == "ended" || kind == "lost" ? 1 : 0;
    if (kind != "lost") continue;
    ++lost;
    EXPECT_EQ(text_at(event, "/error/cause"), "remote.peer_lost");
    EXPECT_EQ(text_at(event, "/receipt/state"), "failed");
    EXPECT_TRUE(names_cause(*event.find("receipt"), "remote.partial_arrival"));
  }
  EXPECT_EQ(began, over);
  EXPECT_GE(lost, 1U) << "all clients were faster";
}

// --- proof --------------------------------------------------------------------------------------

TEST(Remote, APeersMemoryIsProvedToTravelDirectlyOrNot) {
  Serving server({"--place", "gpu:0", "--length", "4MiB", "--name", "w", "--access", "write"});
  const std::vector<std::string> prove = {"prove",  "--peer",    server.address(),
                                          "--json", "--volumes", "1MiB,2MiB,4MiB"};
  const Ran direct = run_soft(prove);
  EXPECT_EQ(direct.exit_code, 0) << direct.out << direct.err;
  const core::Json proof = document_of(direct);
  EXPECT_EQ(schema_violations(proof), "");
  ASSERT_EQ(proof.find("rows")->as_array()->size(), 2U);
  EXPECT_EQ(text_at(proof, "/rows/0/member"), "rdma");
  EXPECT_EQ(text_at(proof, "/rows/0/direction"), "read");
  EXPECT_EQ(text_at(proof, "/rows/0/verdict"), "direct");
  EXPECT_EQ(text_at(proof, "/rows/0/known"), "witnessed");
  EXPECT_EQ(text_at(proof, "/rows/1/direction"), "write");
  EXPECT_EQ(text_at(proof, "/rows/1/verdict"), "direct");
  const Ran staged = run_soft(prove + without_registration);
  EXPECT_EQ(staged.exit_code, 3) << staged.out << staged.err;
  EXPECT_EQ(text_at(document_of(staged), "/rows/0/verdict"), "staged");
}

}  // namespace
}  // namespace nobounce::test
