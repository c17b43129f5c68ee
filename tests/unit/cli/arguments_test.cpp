// What people type: strict sizes, places, and a command line whose mistakes all exit with 2.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/place_argument.hpp"
#include "cli/progress.hpp"
#include "cli/quantity_argument.hpp"

namespace nobounce::cli {
namespace {

ParsedArguments parsed(std::vector<const char*> words) {
  words.insert(words.begin(), "nobounce");
  return parse_arguments(static_cast<int>(words.size()), words.data());
}

CopyArguments copy_of(const std::vector<const char*>& words) {
  const ParsedArguments result = parsed(words);
  if (const auto* problem = std::get_if<Problem>(&result))
    ADD_FAILURE() << to_string(problem->error);
  const auto* arguments = std::get_if<Arguments>(&result);
  return arguments == nullptr ? CopyArguments{} : std::get<CopyArguments>(arguments->command);
}

TEST(Sizes, AreReadInBinaryAndDecimalUnits) {
  EXPECT_EQ(*parse_size("0"), 0U);
  EXPECT_EQ(*parse_size("4096"), 4096U);
  EXPECT_EQ(*parse_size("4096B"), 4096U);
  EXPECT_EQ(*parse_size("256MiB"), 256U << 20);
  EXPECT_EQ(*parse_size("3GiB"), 3ULL << 30);
  EXPECT_EQ(*parse_size("1kB"), 1000U);
  EXPECT_EQ(*parse_size("1KB"), 1000U);
  EXPECT_EQ(*parse_size("2TB"), 2000000000000U);
  EXPECT_EQ(*parse_size("18446744073709551615"), 18446744073709551615ULL);
}

class WrongSizes : public ::testing::TestWithParam<const char*> {};

TEST_P(WrongSizes, AreRefusedWithARemedy) {
  const Result<std::uint64_t> size = parse_size(GetParam());
  ASSERT_FALSE(size.ok());
  EXPECT_EQ(size.error().origin, ErrorOrigin::input);
  EXPECT_NE(size.error().remedy.find("256MiB"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, WrongSizes,
                         ::testing::Values("", "-1", "+1", " 1", "1 ", "1K", "1M", "1g", "1.5GiB",
                                           "0x10", "1e6", "MiB", "1mib", "1MiBs", "1 MiB",
                                           "18446744073709551616", "18446744073709551615KiB",
                                           "16777216TiB"));

TEST(Seconds, AreReadToTheNanosecond) {
  EXPECT_EQ(*parse_seconds("30"), 30000000000U);
  EXPECT_EQ(*parse_seconds("0.5"), 500000000U);
  EXPECT_EQ(*parse_seconds("0.000000001"), 1U);
  for (const char* wrong :
       {"", "0", "0.0", "-1", "1.", ".5", "1s", "1.0000000001", "99999999999"}) {
    EXPECT_FALSE(parse_seconds(wrong).ok()) << wrong;
  }
}

TEST(Places, AreFilesUnlessTheyNameAGpuOrTheHost) {
  EXPECT_EQ(parse_place("a.bin")->kind, PlaceArgument::Kind::file);
  EXPECT_EQ(parse_place("file:gpu:0")->text, "gpu:0");
  EXPECT_EQ(parse_place("file:gpu:0")->kind, PlaceArgument::Kind::file);
  EXPECT_EQ(parse_place("gpu:0000:01:00.0")->kind, PlaceArgument::Kind::gpu);
  EXPECT_EQ(parse_place("host")->kind, PlaceArgument::Kind::host);
  EXPECT_EQ(parse_place("./host")->kind, PlaceArgument::Kind::file);
  EXPECT_EQ(parse_place("nvme:0000:01:00.0")->kind, PlaceArgument::Kind::drive);
  EXPECT_EQ(parse_place("nvme:0000:01:00.0")->address, "0000:01:00.0");
  for (const char* wrong :
       {"", "gpu:", "file:", "nvme:", "nvme:nvme0n1", "rdma:node:1/x", "rdma://node/x",
        "rdma://node:1", "rdma://node:1/", "rdma://node:0/x", "rdma://::1:2/x", "rdma://a b:1/x"}) {
    EXPECT_FALSE(parse_place(wrong).ok()) << wrong;
  }
}

TEST(Places, OfOtherProcessesNameAServerAndWhatItServes) {
  const Result<PlaceArgument> place = parse_place("rdma://[::1]:4711/a/b");
  ASSERT_TRUE(place.ok());
  EXPECT_EQ(place->kind, PlaceArgument::Kind::remote);
  EXPECT_EQ(place->address, "[::1]:4711");
  EXPECT_EQ(place->name, "a/b");
  EXPECT_EQ(place->text, "rdma://[::1]:4711/a/b");
}

TEST(CommandLine, ReadsWhatAServerOffersAndToWhom) {
  const ParsedArguments result = parsed({"serve",
                                         "--place",
                                         "gpu:1",
                                         "--name",
                                         "kv",
                                         "--length",
                                         "1MiB",
                                         "--listen",
                                         "[::1]:0",
                                         "--access",
                                         "write",
                                         "--policy",
                                         "direct_required",
                                         "--max-connections",
                                         "3",
                                         "--once",
                                         "--nic",
                                         "mlx5_0",
                                         "--token-file",
                                         "t"});
  const auto* arguments = std::get_if<Arguments>(&result);
  ASSERT_NE(arguments, nullptr);
  const auto& serve = std::get<ServeArguments>(arguments->command);
  EXPECT_EQ(serve.place, "gpu:1");
  EXPECT_EQ(serve.name, "kv");
  EXPECT_EQ(serve.length_bytes, 1u << 20);
  EXPECT_EQ(serve.listen, "[::1]:0");
  EXPECT_EQ(serve.access, RemoteAccess::write);
  EXPECT_EQ(serve.policy, Policy::direct_required);
  EXPECT_EQ(serve.connections_max, 3u);
  EXPECT_TRUE(serve.once);
  EXPECT_EQ(serve.peer.adapters, std::vector<std::string>{"mlx5_0"});
  EXPECT_EQ(serve.peer.token_file, "t");
  for (const std::vector<const char*>& wrong : std::vector<std::vector<const char*>>{
           {"serve", "--name", "kv"},
           {"serve", "--place", "gpu:0"},
           {"serve", "--place", "gpu:0", "--name", "a", "--access", "all"},
           {"serve", "--place", "gpu:0", "--name", "a", "--policy", "staged_only"},
           {"serve", "--place", "gpu:0", "--name", "a", "--max-connections", "0"},
           {"serve", "--place", "gpu:0", "--name", "a", "--length", "much"}}) {
    EXPECT_TRUE(std::holds_alternative<Problem>(parsed(wrong)));
  }
}

TEST(CommandLine, TakesGlobalOptionsAfterTheCommandAndPlacesAnywhere) {
  const ParsedArguments result = parsed({"copy", "--machine", "soft:dgx", "--set", "/a=1", "a",
                                         "gpu:0", "--set", "/b=[1,2]", "b", "--json"});
  const auto* arguments = std::get_if<Arguments>(&result);
  ASSERT_NE(arguments, nullptr);
  EXPECT_EQ(arguments->machine.machine, "soft:dgx");
  EXPECT_EQ(arguments->machine.settings, (std::vector<std::string>{"/a=1", "/b=[1,2]"}));
  EXPECT_TRUE(arguments->json);
  EXPECT_EQ(std::get<CopyArguments>(arguments->command).places,
            (std::vector<std::string>{"a", "gpu:0", "b"}));
}

TEST(CommandLine, ReadsTheOptionsOfCopy) {
  const CopyArguments copy =
      copy_of({"copy", "gpu:0", "b", "--policy", "direct_required", "--length", "1MiB",
               "--no-verify", "--durable", "--in-place", "--deadline", "2.5", "--readers", "3",
               "--pinned-bytes", "8MiB", "--slot-bytes", "64KiB"});
  EXPECT_EQ(copy.policy, Policy::direct_required);
  EXPECT_EQ(copy.length_bytes, 1U << 20);
  EXPECT_FALSE(copy.verify);
  EXPECT_TRUE(copy.durable);
  EXPECT_TRUE(copy.in_place);
  EXPECT_EQ(copy.deadline_ns, 2500000000U);
  EXPECT_EQ(copy.readers, 3U);
  EXPECT_EQ(copy.pinned_bytes, 8U << 20);
  EXPECT_EQ(copy.slot_bytes, 64U << 10);
}

TEST(CommandLine, VerifiesAndPrefersDirectByDefault) {
  const CopyArguments copy = copy_of({"copy", "a", "gpu:0"});
  EXPECT_TRUE(copy.verify);
  EXPECT_EQ(copy.policy, Policy::direct_preferred);
  EXPECT_FALSE(copy.length_bytes.has_value());
}

TEST(CommandLine, ReadsTheOptionsOfProve) {
  const ParsedArguments result =
      parsed({"prove", "--pair", "gpu:0,gpu:1", "--pair", "gpu:0,drive:nvme0n1", "--path", "/data",
              "--volumes", "2MiB,1MiB,4MiB", "--force", "--save", "a", "--against", "b", "--all"});
  const auto* arguments = std::get_if<Arguments>(&result);
  ASSERT_NE(arguments, nullptr);
  const auto& prove = std::get<ProveArguments>(arguments->command);
  EXPECT_EQ(prove.pairs, (std::vector<std::string>{"gpu:0,gpu:1", "gpu:0,drive:nvme0n1"}));
  EXPECT_EQ(prove.volumes_bytes, (std::vector<std::uint64_t>{1U << 20, 2U << 20, 4U << 20}));
  EXPECT_EQ(prove.path, "/data");
  EXPECT_EQ(prove.save, "a");
  EXPECT_EQ(prove.against, "b");
  EXPECT_TRUE(prove.force && prove.all);
}

class WrongCommandLines : public ::testing::TestWithParam<std::vector<const char*>> {};

TEST_P(WrongCommandLines, AreUsageErrors) {
  const ParsedArguments result = parsed(GetParam());
  const auto* problem = std::get_if<Problem>(&result);
  ASSERT_NE(problem, nullptr);
  EXPECT_EQ(problem->exit_code, exit_usage);
  EXPECT_FALSE(problem->error.remedy.empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongCommandLines,
    ::testing::Values(std::vector<const char*>{}, std::vector<const char*>{"dance"},
                      std::vector<const char*>{"copy"}, std::vector<const char*>{"copy", "a"},
                      std::vector<const char*>{"copy", "a", "b", "--policy", "no"},
                      std::vector<const char*>{"copy", "a", "b", "--policy"},
                      std::vector<const char*>{"copy", "a", "b", "--length", "1K"},
                      std::vector<const char*>{"copy", "a", "b", "--length", ""},
                      std::vector<const char*>{"copy", "a", "b", "--readers", "-1"},
                      std::vector<const char*>{"copy", "a", "b", "--frobnicate"},
                      std::vector<const char*>{"topo", "extra"},
                      std::vector<const char*>{"stat", "word"},
                      std::vector<const char*>{"topo", "--seed", "x"},
                      std::vector<const char*>{"prove", "--volumes", "1MiB,2MiB"},
                      std::vector<const char*>{"prove", "--volumes", "1MiB,1MiB,2MiB,"},
                      std::vector<const char*>{"prove", "--volumes", "1MiB,2M,3MiB"},
                      std::vector<const char*>{"prove", "--save", ""},
                      std::vector<const char*>{"prove", "gpu:0"},
                      std::vector<const char*>{"topo", "check"}));

TEST(CommandLine, OffersHelpForEachCommandItHas) {
  for (const char* command :
       {"topo", "check", "copy", "prove", "stat", "record", "diff", "explain"}) {
    const ParsedArguments result = parsed({command, "--help"});
    const auto* help = std::get_if<HelpText>(&result);
    ASSERT_NE(help, nullptr) << command;
    EXPECT_NE(help->text.find("Examples:"), std::string::npos) << help->text;
  }
  const ParsedArguments result = parsed({"--help"});
  const std::string text = std::get<HelpText>(result).text;
  for (const char* unbuilt : {"bench"}) {
    EXPECT_EQ(text.find(unbuilt), std::string::npos) << text;
  }
}

TEST(ProgressBar, FillsFromEmptyToFull) {
  EXPECT_EQ(progress_bar(0, 1 << 20), "[..............................]   0 %  0 B of 1 MiB");
  EXPECT_EQ(progress_bar(1 << 19, 1 << 20),
            "[###############...............]  50 %  512 KiB of 1 MiB");
  EXPECT_EQ(progress_bar(0, 0), "[##############################] 100 %  0 B of 0 B");
}

}  // namespace
}  // namespace nobounce::cli
