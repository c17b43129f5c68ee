// `copy` on a software machine: bytes by carriage, causes, refusals, round trips, whole files.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/program.hpp"
#include "support/schema.hpp"
#include "support/temporary_directory.hpp"

namespace nobounce::test {
namespace {

std::uint64_t total_of(const core::Json& receipt) {
  std::uint64_t total = 0;
  for (const auto& [name, bytes] : *receipt.find("bytes")->as_object())
    total += *bytes.as_unsigned();
  return total;
}

class CopySizes : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  CopySizes() { write_file(source_, random_bytes(GetParam(), 7)); }
  TemporaryDirectory folder_;
  std::string source_ = folder_.file("source.bin");
};

TEST_P(CopySizes, ArriveDirectlyAndAreVerified) {
  const Ran ran = run_soft({"copy", source_, "gpu:0", "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  const core::Json receipt = document_of(ran);
  EXPECT_EQ(schema_violations(receipt), "");
  EXPECT_EQ(number_at(receipt, "/bytes/direct") + number_at(receipt, "/bytes/device_bounced"),
            GetParam());
  EXPECT_EQ(number_at(receipt, "/bytes/staged"), 0U);
  EXPECT_EQ(total_of(receipt), GetParam());
  EXPECT_TRUE(flag_at(receipt, "/verified"));
  EXPECT_EQ(text_at(receipt, "/machine/kind"), "soft");
  EXPECT_TRUE(receipt.find("elapsed_ns")->is_null());
  EXPECT_EQ(ran.err, "");
}

TEST_P(CopySizes, StageWithTheCauseWithoutTheModule) {
  const Ran ran =
      run_soft({"copy", source_, "gpu:0", "--json", "--set", "/modules/nvidia_fs=false"});
  ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  const core::Json receipt = document_of(ran);
  EXPECT_EQ(number_at(receipt, "/bytes/staged"), GetParam());
  EXPECT_EQ(total_of(receipt), GetParam());
  EXPECT_EQ(text_at(receipt, "/causes/0"), "storage.nvidia_fs_absent");
  EXPECT_TRUE(flag_at(receipt, "/verified"));
}

TEST_P(CopySizes, AreRefusedWithoutTheModuleWhereDirectIsRequired) {
  const Ran ran = run_soft({"copy", source_, "gpu:0", "--json", "--set", "/modules/nvidia_fs=false",
                            "--policy", "direct_required"});
  EXPECT_EQ(ran.exit_code, 3) << ran.out << ran.err;
  const core::Json receipt = document_of(ran);
  EXPECT_EQ(schema_violations(receipt), "");
  EXPECT_EQ(text_at(receipt, "/state"), "refused");
  EXPECT_EQ(total_of(receipt), 0U);
  EXPECT_EQ(number_at(receipt, "/requested_bytes"), GetParam());
  EXPECT_TRUE(holds(core::dump_json(*receipt.find("causes")), "storage.nvidia_fs_absent"))
      << ran.out;
}

TEST_P(CopySizes, RoundTripThroughAGpu) {
  const std::string target = folder_.file("copy.bin");
  const Ran ran = run_soft({"copy", source_, "gpu:0", target, "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  const core::Json receipts = document_of(ran);
  EXPECT_EQ(schema_violations(receipts), "");
  ASSERT_EQ(receipts.find("receipts")->as_array()->size(), 2U);
  EXPECT_EQ(text_at(receipts, "/receipts/1/target"), "file:" + target);
  EXPECT_TRUE(flag_at(receipts, "/receipts/1/verified"));
  EXPECT_EQ(read_file(target), read_file(source_));
  EXPECT_EQ(folder_.names().size(), 2U);  // no temporary file is left
}

INSTANTIATE_TEST_SUITE_P(All, CopySizes, ::testing::Values(0U, 1U, 4097U, 50000001U),
                         [](const auto& instance) {
                           return std::to_string(instance.param) + "Bytes";
                         });

TEST(CopyLarge, ThreeGibibytesArriveDirectly) {
  if (!program_is_optimised())
    GTEST_SKIP() << "the program was built without optimisation: this takes too long";
  const TemporaryDirectory folder;
  const std::string source = folder.file("sparse.bin");
  constexpr std::uint64_t length = 3ULL << 30;
  { std::ofstream stream(source); }
  std::filesystem::resize_file(source, length);
  for (const std::uint64_t offset : {std::uint64_t{0}, length / 2 + 77, length - 5}) {
    std::fstream stream(source, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(offset));
    stream << "seen?";
  }
  const Ran ran = run_soft({"copy", source, "gpu:0", "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  const core::Json receipt = document_of(ran);
  EXPECT_EQ(number_at(receipt, "/bytes/direct") + number_at(receipt, "/bytes/device_bounced"),
            length);
  EXPECT_EQ(number_at(receipt, "/bytes/staged"), 0U);
  EXPECT_TRUE(flag_at(receipt, "/verified"));
}

/// Two GPUs below one switch, which decides what becomes of a copy between them.
class CopyPair : public ::testing::Test {
 protected:
  static Ran copy(std::vector<std::string> settings, const std::string& machine,
                  const std::string& policy = "direct_preferred") {
    std::vector<std::string> words{"copy", "gpu:0",    "gpu:1", "--json",    "--length",
                                   "1MiB", "--policy", policy,  "--machine", machine};
    for (std::string& setting : settings) {
      words.emplace_back("--set");
      words.push_back(std::move(setting));
    }
    return run(std::move(words));
  }
  static constexpr std::uint64_t length = 1U << 20;
};

TEST_F(CopyPair, IsDirectBelowASwitchThatDoesNotRedirect) {
  const Ran ran = run({"copy", "--machine", "soft:workstation", "--json", "gpu:0", "gpu:1"});
  ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  const core::Json receipt = document_of(ran);
  EXPECT_EQ(schema_violations(receipt), "");
  EXPECT_EQ(text_at(receipt, "/member"), "p2p");
  EXPECT_EQ(number_at(receipt, "/bytes/direct"), 256U << 20);  // the default length
  EXPECT_EQ(number_at(receipt, "/bytes/staged"), 0U);
  EXPECT_EQ(total_of(receipt), 256U << 20);
  EXPECT_EQ(text_at(receipt, "/link"), "pcie_switch");
  EXPECT_TRUE(receipt.find("causes")->as_array()->empty()) << ran.out;
  EXPECT_TRUE(flag_at(receipt, "/verified"));
}

TEST_F(CopyPair, StagesAllOfItWhereAcsRedirects) {
  const Ran ran = copy({"/switches/0/acs=redirect"}, "soft:workstation");
  ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  const core::Json receipt = document_of(ran);
  EXPECT_EQ(number_at(receipt, "/bytes/direct"), 0U);
  EXPECT_EQ(number_at(receipt, "/bytes/staged"), length);
  EXPECT_EQ(text_at(receipt, "/causes/0"), "machine.acs_redirect");
  EXPECT_TRUE(flag_at(receipt, "/verified"));
  const Ran strict = copy({"/switches/0/acs=redirect"}, "soft:workstation", "direct_required");
  EXPECT_EQ(strict.exit_code, 3) << strict.out << strict.err;
  EXPECT_EQ(total_of(document_of(strict)), 0U);
}

TEST_F(CopyPair, IsDirectAndDegradedWhereTheHostBridgeForwards) {
  const Ran ran = copy({"/switches/0/acs=redirect", "/host_bridges/0/peer_forwarding=allowed"},
                       "soft:workstation");
  ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  const core::Json receipt = document_of(ran);
  EXPECT_EQ(number_at(receipt, "/bytes/direct"), length);
  EXPECT_EQ(number_at(receipt, "/bytes/staged"), 0U);
  EXPECT_TRUE(flag_at(receipt, "/degraded"));
  EXPECT_EQ(text_at(receipt, "/causes/0"), "machine.acs_redirect");
  EXPECT_EQ(text_at(receipt, "/link"), "host_bridge");
}

TEST_F(CopyPair, StagesInACloudGuestWithTheProductOrChipsetCause) {
  const Ran ran = copy({}, "soft:cloud-guest");
  ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  const core::Json receipt = document_of(ran);
  EXPECT_EQ(number_at(receipt, "/bytes/direct"), 0U);
  EXPECT_EQ(number_at(receipt, "/bytes/staged"), length);
  const std::string cause = text_at(receipt, "/causes/0");
  EXPECT_TRUE(cause == "p2p.product_not_supported" || cause == "p2p.chipset_not_supported")
      << cause;
}

TEST(Copy, SaysFirstThatTheMachineIsSoftware) {
  const TemporaryDirectory folder;
  write_file(folder.file("a"), random_bytes(100, 1));
  const Ran ran = run_soft({"copy", folder.file("a"), "gpu:1"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.out.rfind("software machine: workstation (", 0), 0U) << ran.out;
  EXPECT_TRUE(holds(ran.out, "-> gpu:1")) << ran.out;
  EXPECT_FALSE(holds(ran.out, "\x1b")) << ran.out;
  EXPECT_EQ(ran.err, "");
}

TEST(Copy, PrintsARefusalAsReceiptAndOneErrorLine) {
  const TemporaryDirectory folder;
  write_file(folder.file("a"), random_bytes(100, 1));
  const Ran ran = run_soft({"copy", folder.file("a"), "gpu:0", "--policy", "direct_required",
                            "--set", "/modules/nvidia_fs=false"});
  EXPECT_EQ(ran.exit_code, 3);
  EXPECT_TRUE(holds(ran.out, "refused")) << ran.out;
  EXPECT_TRUE(holds(ran.out, "storage.nvidia_fs_absent")) << ran.out;
  EXPECT_EQ(ran.err.rfind("nobounce: ", 0), 0U) << ran.err;
  EXPECT_LE(line_count(ran.err), 2U) << ran.err;
}

TEST(Copy, ShowsTheBusLedgerBesideTheReceiptAndTheyAgree) {
  const TemporaryDirectory folder;
  write_file(folder.file("a"), random_bytes(1000001, 1));
  for (const char* nvidia_fs : {"true", "false"}) {
    const Ran ran = run_soft({"copy", folder.file("a"), "gpu:0", folder.file("b"), "--ledger",
                              "--set", std::string("/modules/nvidia_fs=") + nvidia_fs});
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_TRUE(holds(ran.out, "bus ledger")) << ran.out;
    EXPECT_TRUE(holds(ran.out, "equal")) << ran.out;
    EXPECT_FALSE(holds(ran.out, "DIFFERENT")) << ran.out;
    EXPECT_FALSE(holds(ran.out, "its bytes are gone")) << ran.out;
  }
}

TEST(Copy, FillsABareGpuWithASeededPattern) {
  const TemporaryDirectory folder;
  for (const char* name : {"one", "two", "three"}) {
    const Ran ran = run_soft({"copy", "gpu:0", folder.file(name), "--length", "100001", "--seed",
                              std::string(name) == "three" ? "8" : "7"});
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
  }
  EXPECT_EQ(read_file(folder.file("one")).size(), 100001U);
  EXPECT_EQ(read_file(folder.file("one")), read_file(folder.file("two")));
  EXPECT_NE(read_file(folder.file("one")), read_file(folder.file("three")));
}

TEST(Copy, ReachesTheHostAndAnotherGpu) {
  const TemporaryDirectory folder;
  write_file(folder.file("a"), random_bytes(300000, 3));
  const Ran ran =
      run_soft({"copy", folder.file("a"), "host", "gpu:0", "gpu:1", folder.file("b"), "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  const core::Json receipts = document_of(ran);
  EXPECT_EQ(schema_violations(receipts), "");
  EXPECT_EQ(receipts.find("receipts")->as_array()->size(), 4U);
  EXPECT_EQ(read_file(folder.file("b")), read_file(folder.file("a")));
}

TEST(Copy, SaysDurableOnlyWhenAskedTo) {
  const TemporaryDirectory folder;
  const core::Json plain =
      document_of(run_soft({"copy", "gpu:0", folder.file("a"), "--length", "5000", "--json"}));
  EXPECT_FALSE(flag_at(plain, "/durable"));
  const core::Json durable = document_of(
      run_soft({"copy", "gpu:0", folder.file("a"), "--length", "5000", "--json", "--durable"}));
  EXPECT_TRUE(flag_at(durable, "/durable"));
}

TEST(Copy, ReplacesAFileWholeAndKeepsItsMode) {
  const TemporaryDirectory folder;
  const std::string target = folder.file("old");
  write_file(target, random_bytes(10, 1));
  ::chmod(target.c_str(), 0640);
  struct stat before {};
  ::stat(target.c_str(), &before);
  ASSERT_EQ(run_soft({"copy", "gpu:0", target, "--length", "5000"}).exit_code, 0);
  struct stat after {};
  ::stat(target.c_str(), &after);
  EXPECT_EQ(after.st_size, 5000);
  EXPECT_EQ(after.st_mode & 07777U, 0640U);
  EXPECT_NE(after.st_ino, before.st_ino);
}

TEST(Copy, WritesInPlaceWhenToldAndSaysSo) {
  const TemporaryDirectory folder;
  const std::string target = folder.file("old");
  write_file(target, random_bytes(10, 1));
  struct stat before {};
  ::stat(target.c_str(), &before);
  const Ran ran = run_soft({"copy", "gpu:0", target, "--length", "5000", "--in-place", "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  struct stat after {};
  ::stat(target.c_str(), &after);
  EXPECT_EQ(after.st_ino, before.st_ino);
  EXPECT_EQ(after.st_size, 5000);
  EXPECT_TRUE(holds(ran.out, "file.written_in_place")) << ran.out;
}

TEST(Copy, SkipsTheComparisonWhenTold) {
  const core::Json receipt =
      document_of(run_soft({"copy", "host", "gpu:0", "--length", "4096", "--json", "--no-verify"}));
  ASSERT_NE(receipt.find("verified"), nullptr);
  EXPECT_TRUE(receipt.find("verified")->is_null());
}

TEST(Copy, RunsTheSameInSeededOrder) {
  const TemporaryDirectory folder;
  write_file(folder.file("a"), random_bytes(200001, 3));
  const std::vector<std::string> words{"copy",   folder.file("a"),  "gpu:0",
                                       "--json", "--deterministic", "--seed",
                                       "42",     "--policy",        "staged_only"};
  const Ran first = run_soft(words);
  EXPECT_EQ(first.exit_code, 0) << first.out;
  EXPECT_EQ(first.out, run_soft(words).out);
}

TEST(Copy, PassesADeadlineAsAnError) {
  const TemporaryDirectory folder;
  const Ran ran = run_soft({"copy", "gpu:0", folder.file("a"), "--length", "256MiB", "--policy",
                            "staged_only", "--deadline", "0.000001", "--json"});
  EXPECT_EQ(ran.exit_code, 1) << ran.out;
  const core::Json error = document_of(ran);
  EXPECT_EQ(schema_violations(error), "");
  EXPECT_EQ(text_at(error, "/cause"), "session.deadline_passed");
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace nobounce::test
