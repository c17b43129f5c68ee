// `nobounce prove` as its users run it, and `check --pair`.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "support/program.hpp"
#include "support/schema.hpp"
#include "support/temporary_directory.hpp"

namespace nobounce::test {
namespace {

class Prove : public ::testing::Test {
 protected:
  /// `prove` with small volumes and its scratch files in the test's directory.
  [[nodiscard]] Ran prove(std::vector<std::string> arguments,
                          const std::string& machine = "soft:workstation") const {
    arguments.insert(arguments.begin(), {"prove", "--machine", machine, "--path", scratch(),
                                         "--volumes", "512KiB,1MiB,2MiB"});
    return run(arguments);
  }
  [[nodiscard]] std::string scratch() const { return directory_.path().string(); }

  TemporaryDirectory directory_;
};

std::size_t row_count(const core::Json& document) {
  return core::resolve_pointer(document, "/rows")->as_array()->size();
}

double real_at(const core::Json& json, std::string_view pointer) {
  const core::Json* found = core::resolve_pointer(json, pointer);
  if (found != nullptr) {
    if (const auto* real = std::get_if<double>(&found->value)) return *real;
    if (const auto* number = found->as_unsigned()) return static_cast<double>(*number);
  }
  ADD_FAILURE() << "no number at " << pointer;
  return -1;
}

TEST_F(Prove, ShowsEveryRowOfTheWorkstationDirectBesideItsControl) {
  const Ran ran = prove({"--json"});
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_EQ(ran.err, "");
  const core::Json document = document_of(ran);
  EXPECT_EQ(schema_violations(document), "");
  // Drive and adapter, read and written, and each GPU to the other.
  ASSERT_EQ(row_count(document), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    const std::string row = "/rows/" + std::to_string(i);
    EXPECT_EQ(text_at(document, row + "/verdict"), "direct");
    EXPECT_EQ(text_at(document, row + "/known"), "witnessed");
    EXPECT_EQ(text_at(document, row + "/link"), "pcie_switch");
    EXPECT_EQ(number_at(document, row + "/runtime/bytes/staged"), 0U);
    EXPECT_LT(real_at(document, row + "/physical/host_dram_bytes_per_byte"), 0.1);
    const double control = real_at(document, row + "/physical/control_host_dram_bytes_per_byte");
    if (text_at(document, row + "/member") == "rdma") {
      EXPECT_GT(control, 3.9) << "staged at both ends, with sockets between";
    } else {
      EXPECT_NEAR(control, 2, 0.1);
    }
    EXPECT_TRUE(core::resolve_pointer(document, row + "/physical/cpu_ns_per_byte")->is_null());
  }
  EXPECT_TRUE(directory_.names().empty()) << "scratch files were left";
}

TEST_F(Prove, PrintsATableThatSaysWhatItRestsOn) {
  const Ran ran = prove({"--pair", "gpu:0,gpu:1"});
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_TRUE(holds(ran.out, "software machine: workstation")) << ran.out;
  EXPECT_TRUE(holds(ran.out, "gpu:0 -> gpu:1  copy   direct (witnessed)")) << ran.out;
  EXPECT_TRUE(holds(ran.out, "a model from link widths")) << ran.out;
  EXPECT_TRUE(holds(ran.out, "1 row: 1 direct.")) << ran.out;
  EXPECT_FALSE(holds(ran.out, "CONTRADICTION")) << ran.out;
}

TEST_F(Prove, JoinsAGpuToItselfByAnAdapterAndCountsWhatItCosts) {
  const Ran ran = prove({"--pair", "gpu:0,nic:mlx5_0", "--pair", "nic:mlx5_0,gpu:1", "--json"});
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  const core::Json document = document_of(ran);
  EXPECT_EQ(schema_violations(document), "");
  ASSERT_EQ(row_count(document), 2U);
  EXPECT_EQ(text_at(document, "/rows/0/source"), "gpu:0");
  EXPECT_EQ(text_at(document, "/rows/0/target"), "nic:mlx5_0");
  EXPECT_EQ(text_at(document, "/rows/1/source"), "nic:mlx5_0");
  for (const std::string row : {"/rows/0", "/rows/1"}) {
    EXPECT_EQ(text_at(document, row + "/member"), "rdma");
    EXPECT_EQ(text_at(document, row + "/verdict"), "direct");
    EXPECT_EQ(text_at(document, row + "/known"), "witnessed");
    EXPECT_EQ(text_at(document, row + "/link"), "pcie_switch");
    EXPECT_EQ(number_at(document, row + "/runtime/bytes/staged"), 0U);
    EXPECT_LT(real_at(document, row + "/physical/host_dram_bytes_per_byte"), 0.1);
    EXPECT_GT(real_at(document, row + "/physical/control_host_dram_bytes_per_byte"), 1.9);
  }
}

TEST_F(Prove, AnAdapterThatCannotReachTheGpuIsStagedAndSaysWhy) {
  const Ran ran = prove({"--pair", "gpu:0,nic:mlx5_0", "--json", "--set", "/kernel/dmabuf=false",
                         "--set", "/modules/nvidia_peermem=false"});
  EXPECT_EQ(ran.exit_code, 3) << ran.out << ran.err;
  EXPECT_EQ(text_at(document_of(ran), "/rows/0/verdict"), "staged");
  EXPECT_TRUE(holds(ran.out, "rdma.dmabuf_not_supported")) << ran.out;
}

TEST_F(Prove, ShowsWhatAStreamAndAKernelOrderBesideTheHost) {
  const Ran ran = prove({"--async", "--pair", "drive:nvme0n1,gpu:0", "--json"});
  EXPECT_EQ(ran.exit_code, 3) << ran.out << ran.err;
  const core::Json document = document_of(ran);
  EXPECT_EQ(schema_violations(document), "");
  ASSERT_EQ(row_count(document), 3U);
  EXPECT_EQ(text_at(document, "/rows/0/verdict"), "direct");
  for (const auto& [row, issuer, carriage, verdict] :
       {std::tuple{"/rows/1", "stream", "direct", "degraded"},
        std::tuple{"/rows/2", "kernel", "staged", "staged"}}) {
    const std::string at = row;
    EXPECT_EQ(text_at(document, at + "/member"), "async");
    EXPECT_EQ(text_at(document, at + "/issuer"), issuer);
    EXPECT_EQ(text_at(document, at + "/poster"), "cpu_proxy");
    EXPECT_EQ(text_at(document, at + "/verdict"), verdict);
    EXPECT_EQ(text_at(document, at + "/causes/0"), "async.cpu_proxy");
    EXPECT_GT(number_at(document, at + "/runtime/bytes/" + carriage), 0U);
    EXPECT_TRUE(*core::resolve_pointer(document, at + "/runtime/data_verified")->as_bool());
  }
  const Ran text = prove({"--async", "--pair", "drive:nvme0n1,gpu:0"});
  EXPECT_TRUE(holds(text.out, "by a kernel, posted by cpu_proxy")) << text.out;
  EXPECT_TRUE(holds(text.out, "1.00 system calls per operation")) << text.out;
}

TEST_F(Prove, ShowsAKernelThatRingsTheDrivesDoorbell) {
  const Ran ran = prove({"--async", "--take", "--pair", "nvme:0000:0a:00.0,gpu:0", "--json"},
                        "soft:spare-drive");
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  const core::Json document = document_of(ran);
  EXPECT_EQ(schema_violations(document), "");
  ASSERT_EQ(row_count(document), 2U);
  for (const auto& [row, member, issuer, poster] :
       {std::tuple{"/rows/0", "storage", "host", "cpu"},
        std::tuple{"/rows/1", "async", "kernel", "gpu"}}) {
    const std::string at = row;
    EXPECT_EQ(text_at(document, at + "/member"), member);
    EXPECT_EQ(text_at(document, at + "/source"), "nvme:0000:0a:00.0");
    EXPECT_EQ(text_at(document, at + "/issuer"), issuer);
    EXPECT_EQ(text_at(document, at + "/poster"), poster);
    EXPECT_EQ(text_at(document, at + "/verdict"), "direct");
    EXPECT_EQ(text_at(document, at + "/known"), "witnessed");
    EXPECT_EQ(number_at(document, at + "/runtime/bytes/staged"), 0U);
    EXPECT_GT(number_at(document, at + "/runtime/bytes/direct"), 0U);
    EXPECT_EQ(number_at(document, at + "/runtime/control_bytes/direct"), 0U);
    EXPECT_TRUE(*core::resolve_pointer(document, at + "/runtime/data_verified")->as_bool());
    EXPECT_LT(real_at(document, at + "/physical/host_dram_bytes_per_byte"), 0.1);
    EXPECT_NEAR(real_at(document, at + "/physical/control_host_dram_bytes_per_byte"), 2, 0.1);
  }
  EXPECT_EQ(text_at(document, "/rows/1/static/findings/0/cause"), "async.ordering_unproven");
}

TEST_F(Prove, RowsOfKernelsMoveTheVolumesThatWereAskedForInWholeRounds) {
  const Ran ran = run({"prove", "--machine", "soft:spare-drive", "--async", "--take", "--pair",
                       "nvme:0000:0a:00.0,gpu:0", "--volumes", "4096,128KiB,1000000", "--json"});
  const core::Json document = document_of(ran);
  // 32 blocks of 4 KiB: one round, another one, and the next whole number of them.
  for (const auto& [at, bytes] :
       {std::pair{"0", 131072u}, std::pair{"1", 262144u}, std::pair{"2", 1048576u}}) {
    EXPECT_EQ(number_at(document, std::string("/rows/1/physical/volumes_bytes/") + at), bytes);
  }
  EXPECT_EQ(number_at(document, "/rows/1/runtime/bytes/direct"), 131072u + 262144u + 1048576u);
}

TEST_F(Prove, TakesNoRawDriveUnasked) {
  const Ran unasked = prove({"--pair", "nvme:0000:0a:00.0,gpu:0"}, "soft:spare-drive");
  EXPECT_NE(unasked.exit_code, 0);
  EXPECT_TRUE(holds(unasked.err, "nvme.take_needed")) << unasked.err;
  for (const char* pair : {"gpu:0,nvme:0000:0a:00.0", "nvme:0000:0a:00.0", "nvme:there,gpu:0",
                           "nvme:0000:0a:00.0,gpu:7", "nvme:0000:0a:00.0,nvme:0000:0a:00.0"}) {
    const Ran ran = prove({"--take", "--pair", pair}, "soft:spare-drive");
    EXPECT_NE(ran.exit_code, 0) << pair;
    EXPECT_EQ(ran.out, "") << pair;
    EXPECT_TRUE(holds(ran.err, "try: ")) << ran.err;
  }
  const Ran used = prove({"--take", "--pair", "nvme:0000:09:00.0,gpu:0"}, "soft:spare-drive");
  EXPECT_NE(used.exit_code, 0) << used.out;
}

TEST_F(Prove, AStreamMayWaitForWhatIsStaged) {
  // No third device writes: what is staged by the copy engine can be waited for all the same.
  const Ran ran = prove(
      {"--async", "--pair", "drive:nvme0n1,gpu:0", "--json", "--set", "/modules/nvidia_fs=false"});
  const core::Json document = document_of(ran);
  ASSERT_EQ(row_count(document), 3U);
  EXPECT_EQ(text_at(document, "/rows/1/verdict"), "staged");
  EXPECT_GT(number_at(document, "/rows/1/runtime/bytes/staged"), 0U);
}

TEST_F(Prove, ChecksWhatStreamsAndKernelsNeed) {
  const Ran ran =
      run({"check", "--machine", "soft:workstation", "--async", "--gpu", "0", "--json"});
  EXPECT_EQ(ran.exit_code, 3) << ran.out << ran.err;
  const core::Json document = document_of(ran);
  EXPECT_EQ(schema_violations(document), "");
  EXPECT_TRUE(holds(ran.out, "async.cpu_proxy"));
  EXPECT_TRUE(holds(ran.out, "async.stream_memory_ops_unavailable"));
}

TEST_F(Prove, CallsRedirectedAndForwardedTrafficDegraded) {
  const Ran ran = prove({"--pair", "gpu:0,gpu:1", "--json", "--set", "/switches/0/acs=redirect",
                         "--set", "/host_bridges/0/peer_forwarding=allowed"});
  EXPECT_EQ(ran.exit_code, 3) << ran.out;
  const core::Json document = document_of(ran);
  EXPECT_EQ(text_at(document, "/rows/0/verdict"), "degraded");
  EXPECT_TRUE(holds(ran.out, "machine.acs_redirect"));
}

TEST_F(Prove, SaysStagedInACloudGuestAndWhy) {
  const Ran ran = prove({"--json"}, "soft:cloud-guest");
  EXPECT_EQ(ran.exit_code, 3) << ran.out << ran.err;
  const core::Json document = document_of(ran);
  EXPECT_EQ(schema_violations(document), "");
  for (std::size_t i = 0; i < row_count(document); ++i) {
    EXPECT_EQ(text_at(document, "/rows/" + std::to_string(i) + "/verdict"), "staged");
    EXPECT_NE(text_at(document, "/rows/" + std::to_string(i) + "/causes/0"), "(no text)");
  }
  const Ran text = prove({}, "soft:cloud-guest");
  EXPECT_TRUE(holds(text.out, "p2p.chipset_not_supported")) << text.out;
  EXPECT_TRUE(holds(text.out, "try: ")) << text.out;
}

TEST_F(Prove, SavesAndComparesAndKeepsTheExitCodeOfTheRows) {
  const std::string saved = directory_.file("good.json");
  const std::vector<std::string> pair{"--pair", "gpu:0,gpu:1", "--pair", "drive:nvme0n1,gpu:0"};
  std::vector<std::string> arguments = pair;
  arguments.insert(arguments.end(), {"--save", saved});
  EXPECT_EQ(prove(arguments).exit_code, 0);
  EXPECT_EQ(directory_.names(), std::vector<std::string>{"good.json"});
  const core::Json document = json_of_file(saved);
  EXPECT_EQ(schema_violations(document), "");
  EXPECT_EQ(row_count(document), 2U);

  arguments = pair;
  arguments.insert(arguments.end(), {"--against", saved});
  const Ran same = prove(arguments);
  EXPECT_EQ(same.exit_code, 0);
  EXPECT_TRUE(holds(same.out, "Nothing changed since " + saved)) << same.out;

  arguments.insert(arguments.end(), {"--set", "/modules/nvidia_fs=false"});
  const Ran changed = prove(arguments);
  EXPECT_EQ(changed.exit_code, 3);
  EXPECT_TRUE(holds(changed.out, "storage drive:nvme0n1 -> gpu:0 read")) << changed.out;
  EXPECT_TRUE(holds(changed.out, "verdict: direct -> staged")) << changed.out;
  EXPECT_FALSE(holds(changed.out, "p2p gpu:0 -> gpu:1 copy")) << changed.out;

  arguments.push_back("--json");
  const core::Json changes = document_of(prove(arguments));
  EXPECT_EQ(schema_violations(changes), "");
  EXPECT_EQ(core::resolve_pointer(changes, "/changes")->as_array()->size(), 1U);
  EXPECT_EQ(text_at(changes, "/changes/0/kind"), "changed");
}

TEST_F(Prove, ReplacesASavedFileWholeAndSaysWhereItCannot) {
  const std::string saved = directory_.file("proof.json");
  std::ofstream(saved) << std::string(100000, 'x');
  EXPECT_EQ(prove({"--pair", "gpu:0,gpu:1", "--save", saved}).exit_code, 0);
  EXPECT_EQ(schema_violations(json_of_file(saved)), "");
  const Ran ran = prove({"--pair", "gpu:0,gpu:1", "--save", directory_.file("no/such.json")});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(holds(ran.err, "no/such.json")) << ran.err;
  EXPECT_EQ(ran.out, "") << "nothing is proved before";
  const Ran json =
      prove({"--pair", "gpu:0,gpu:1", "--json", "--save", directory_.file("no/such.json")});
  EXPECT_EQ(text_at(document_of(json), "/schema"), "nobounce.error/1");
}

TEST_F(Prove, RefusesToCompareWithWhatIsNoProof) {
  const std::string wrong = directory_.file("wrong.json");
  std::ofstream(wrong) << R"({"schema": "nobounce.check/1"})";
  const Ran ran = prove({"--against", wrong});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_EQ(ran.out, "") << "nothing is moved before";
  EXPECT_TRUE(holds(ran.err, "/schema")) << ran.err;
  EXPECT_EQ(prove({"--against", directory_.file("absent.json")}).exit_code, 1);
  EXPECT_EQ(prove({"--against", scratch()}).exit_code, 1);
}

TEST_F(Prove, NamesWhatIsWrongWithAPair) {
  const auto expect = [this](const char* pair, int exit_code) {
    const Ran ran = prove({"--pair", pair});
    EXPECT_EQ(ran.exit_code, exit_code) << pair;
    EXPECT_TRUE(holds(ran.err, "try: ")) << ran.err;
    EXPECT_TRUE(holds(ran.err, "--pair: ")) << ran.err;
  };
  for (const char* no_pair : {"gpu:0", "gpu:0,gpu:0", "drive:nvme0n1,drive:nvme0n1",
                              "drive:nvme0n1,nic:mlx5_0", ",", "foo"})
    expect(no_pair, 2);
  for (const char* not_there : {"gpu:0,gpu:7", "gpu:0,nic:mlx5_7", "drive:sda,gpu:0"})
    expect(not_there, 1);
}

TEST_F(Prove, SaysWhereTheScratchDirectoryLiesOnAnotherDrive) {
  const Ran ran = prove({"--pair", "drive:nvme3n1,gpu:3"}, "soft:dgx");
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(holds(ran.err, "does not lie on that drive")) << ran.err;
  EXPECT_TRUE(holds(ran.err, "drive:nvme3n1")) << ran.err;
}

TEST_F(Prove, NeedsADirectoryForScratchFiles) {
  for (const std::string& path : {directory_.file("absent"), std::string("/dev/null")}) {
    const Ran ran = run_soft({"prove", "--path", path});
    EXPECT_EQ(ran.exit_code, 1) << path;
    EXPECT_TRUE(holds(ran.err, path)) << ran.err;
  }
}

TEST_F(Prove, NeedsAGpuOnALiveMachine) {
  if (live_gpu()) GTEST_SKIP() << "this machine has a GPU";
  const Ran ran = run({"prove"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(holds(ran.err, "machine.no_gpu")) << ran.err;
  EXPECT_TRUE(holds(ran.err, "--machine soft:workstation")) << ran.err;
}

TEST(CheckPair, JudgesTwoGpusInOrder) {
  const Ran ran = run_soft({"check", "--pair", "gpu:1,gpu:0", "--json"});
  const core::Json document = document_of(ran);
  EXPECT_EQ(schema_violations(document), "");
  ASSERT_EQ(row_count(document), 1U);
  EXPECT_EQ(text_at(document, "/rows/0/member"), "p2p");
  EXPECT_EQ(text_at(document, "/rows/0/source"), "gpu:1");
  EXPECT_EQ(text_at(document, "/rows/0/direction"), "copy");
  const Ran redirected =
      run_soft({"check", "--pair", "gpu:1,gpu:0", "--set", "/switches/0/acs=redirect"});
  EXPECT_EQ(redirected.exit_code, 4) << redirected.out;  // a doubt: the copy itself will tell
  EXPECT_TRUE(holds(redirected.out, "machine.acs_redirect")) << redirected.out;
}

TEST(CheckPair, JudgesADriveAndAGpuOnEveryMountOfTheDrive) {
  const Ran ran =
      run({"check", "--machine", "soft:dgx", "--pair", "gpu:0,drive:nvme0n1", "--json"});
  const core::Json document = document_of(ran);
  ASSERT_EQ(row_count(document), 2U);  // / and /data0
  EXPECT_EQ(text_at(document, "/rows/0/direction"), "write");
  EXPECT_EQ(text_at(document, "/rows/1/path"), "/data0");
}

TEST(CheckPair, JudgesAGpuAndAnAdapterAndNamesANearerOne) {
  for (const char* pair : {"gpu:0,nic:mlx5_5", "nic:mlx5_5,gpu:0"}) {
    const Ran ran = run({"check", "--machine", "soft:dgx", "--pair", pair, "--json"});
    EXPECT_EQ(ran.exit_code, 3) << ran.out;
    const core::Json document = document_of(ran);
    EXPECT_EQ(schema_violations(document), "");
    ASSERT_EQ(row_count(document), 1U);
    EXPECT_EQ(text_at(document, "/rows/0/member"), "rdma");
    EXPECT_EQ(text_at(document, "/rows/0/source"), "gpu:0");
    EXPECT_EQ(text_at(document, "/rows/0/target"), "nic:mlx5_5");
    EXPECT_EQ(text_at(document, "/rows/0/direction"), "both");
    EXPECT_TRUE(holds(ran.out, "rdma.wrong_nic")) << ran.out;
    EXPECT_TRUE(holds(ran.out, "use nic:mlx5_0")) << ran.out;
  }
  const Ran near = run({"check", "--machine", "soft:dgx", "--pair", "gpu:0,nic:mlx5_0"});
  EXPECT_EQ(near.exit_code, 0) << near.out;
  const Ran without = run_soft({"check", "--pair", "gpu:0,nic:mlx5_0", "--set",
                                "/kernel/dmabuf=false", "--set", "/modules/nvidia_peermem=false"});
  EXPECT_EQ(without.exit_code, 3) << without.out;
  EXPECT_TRUE(holds(without.out, "rdma.dmabuf_not_supported")) << without.out;
  EXPECT_TRUE(holds(without.out, "rdma.peermem_not_loaded")) << without.out;
}

TEST(CheckPair, IsEnoughOfAQuestion) {
  EXPECT_EQ(run_soft({"check", "--pair", "gpu:0,gpu:1", "--gpu", "0"}).exit_code, 2);
  EXPECT_EQ(run_soft({"check", "--pair", "gpu:0"}).exit_code, 2);
}

}  // namespace
}  // namespace nobounce::test
