// What people type: strict sizes, places, and a command line whose mistakes all exit with 2.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
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
              "--volumes", "2MiB,1MiB,4MiB", "--force", "--save", "a", "--against", "b"});
  const auto* arguments = std::get_if<Arguments>(&result);
  ASSERT_NE(arguments, nullptr);
  const auto& prove = std::get<ProveArguments>(arguments->command);
  EXPECT_EQ(prove.pairs, (std::vector<std::string>{"gpu:0,gpu:1", "gpu:0,drive:nvme0n1"}));
  EXPECT_EQ(prove.volumes_bytes, (std::vector<std::uint64_t>{1U << 20, 2U << 20, 4U << 20}));
  EXPECT_EQ(prove.path, "/data");
  EXPECT_EQ(prove.save, "a");
  EXPECT_EQ(prove.against, "b");
  EXPECT_TRUE(prove.force);
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

/// A mistake names the option and the value, exits with 2, and says what to write instead.
struct WrongValue {
  std::vector<const char*> words;
  const char* option;
  const char* value;
};

class WrongValues : public ::testing::TestWithParam<WrongValue> {};

TEST_P(WrongValues, AreNamedWithTheirOption) {
  const ParsedArguments result = parsed(GetParam().words);
  const auto* problem = std::get_if<Problem>(&result);
  ASSERT_NE(problem, nullptr);
  EXPECT_EQ(problem->exit_code, exit_usage);
  EXPECT_EQ(problem->error.attempted.rfind(GetParam().option, 0), 0U) << problem->error.attempted;
  const std::string said = problem->error.attempted + " " + problem->error.detail;
  EXPECT_NE(said.find(GetParam().value), std::string::npos) << said;
  EXPECT_FALSE(problem->error.remedy.empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongValues,
    ::testing::Values(
        WrongValue{{"check", "--pair", "foo"}, "--pair", "foo"},
        WrongValue{{"check", "--pair", "gpu:0"}, "--pair", "gpu:0"},
        WrongValue{{"check", "--pair", "gpu:0,"}, "--pair", "gpu:0,"},
        WrongValue{{"check", "--pair", "gpu:x,gpu:0"}, "--pair", "gpu:x"},
        WrongValue{{"check", "--pair", "gpu:0,gpu:0"}, "--pair", "gpu:0,gpu:0"},
        WrongValue{{"check", "--pair", "gpu:0,gpu:1,gpu:2"}, "--pair", "gpu:2"},
        WrongValue{{"check", "--pair", "drive:a,nic:b"}, "--pair", "drive:a"},
        WrongValue{{"check", "--pair", "nvme:0000:01:00.0,gpu:0"}, "--pair", "nvme:"},
        WrongValue{{"check", "--gpu", "best"}, "--gpu", "best"},
        WrongValue{{"check", "--member", "disk"}, "--member", "disk"},
        WrongValue{{"check", "--path", ""}, "--path", "empty"},
        WrongValue{{"check", "--set", ""}, "--set", "empty"},
        WrongValue{{"check", "--machine", ""}, "--machine", "empty"},
        WrongValue{{"prove", "--pair", "foo,bar"}, "--pair", "foo,bar"},
        WrongValue{{"prove", "--pair", "gpu:0,nvme:0000:01:00.0"}, "--pair", "nvme:"},
        WrongValue{{"prove", "--pair", "nvme:x,gpu:0"}, "--pair", "nvme:x"},
        WrongValue{{"prove", "--peer", "node"}, "--peer", "node"},
        WrongValue{{"prove", "--peer", "node:0"}, "--peer", "node:0"},
        WrongValue{{"prove", "--volumes", "1,2,0"}, "--volumes", "1,2,0"},
        WrongValue{{"prove", "--volumes", "1,2,2"}, "--volumes", "1,2,2"},
        WrongValue{{"prove", "--token", ""}, "--token", "empty"},
        WrongValue{{"copy", "a", "gpu:0", "--token-file", ""}, "--token-file", "empty"},
        WrongValue{{"copy", "a", "gpu:0", "--nic", ""}, "--nic", "empty"},
        WrongValue{{"serve", "--place", "a", "--name", "x"}, "--place", "a"},
        WrongValue{{"serve", "--place", "host", "--name", "x", "--listen", "y"}, "--listen", "y"},
        WrongValue{{"topo", "--svg", ""}, "--svg", "empty"},
        WrongValue{{"topo", "--from", ""}, "--from", "empty"},
        WrongValue{{"record", "-o", ""}, "--output", "empty"},
        WrongValue{{"record", "--name", ""}, "--name", "empty"},
        WrongValue{{"diff", "", "live"}, "RECORDING", "empty"},
        WrongValue{{"explain", ""}, "FILE", "empty"}, WrongValue{{"stat", "x"}, "PID", "x"},
        WrongValue{{"topo", "--seed", "x"}, "--seed", "x"}));

/// Which option of every command a command takes: none is ignored in silence.
TEST(CommonOptions, AreTakenOrRefused) {
  const std::vector<std::pair<std::string, std::vector<const char*>>> commands = {
      {"topo", {"topo"}},          {"topo --from", {"topo", "--from", "x"}},
      {"check", {"check"}},        {"copy", {"copy", "a", "gpu:0"}},
      {"prove", {"prove"}},        {"serve", {"serve", "--place", "host", "--name", "x"}},
      {"stat", {"stat"}},          {"explain", {"explain", "x"}},
      {"record", {"record"}},      {"record --list", {"record", "--list"}},
      {"diff", {"diff", "a", "b"}}};
  const std::vector<std::pair<std::string, std::vector<const char*>>> options = {
      {"--machine", {"--machine", "soft:dgx"}},
      {"--set", {"--machine", "soft:dgx", "--set", "/udev=false"}},
      {"--seed", {"--machine", "soft:dgx", "--seed", "2"}},
      {"--seed live", {"--seed", "2"}},
      {"--deterministic", {"--machine", "soft:dgx", "--deterministic"}},
      {"--json", {"--json"}},
      {"--no-color", {"--no-color"}}};
  const std::set<std::string> without_machine = {"topo --from", "stat", "explain", "diff"};
  const std::set<std::string> moving = {"copy", "prove", "serve"};
  for (const auto& [command, words] : commands) {
    for (const auto& [option, added] : options) {
      std::vector<const char*> all = words;
      all.insert(all.end(), added.begin(), added.end());
      bool taken = true;
      if (option == "--json") taken = command != "record --list";
      if (option == "--seed live") taken = moving.count(command) != 0;
      if (option != "--json" && option != "--no-color" && option != "--seed live")
        taken = without_machine.count(command) == 0;
      const ParsedArguments result = parsed(all);
      const auto* problem = std::get_if<Problem>(&result);
      EXPECT_EQ(problem == nullptr, taken)
          << command << " with " << option
          << (problem == nullptr ? "" : ": " + to_string(problem->error));
      if (problem != nullptr) {
        EXPECT_EQ(problem->exit_code, exit_usage);
      }
    }
  }
}

/// An option that another one leaves nothing to do for.
class UselessOptions : public ::testing::TestWithParam<WrongValue> {};

TEST_P(UselessOptions, AreRefusedAndSayWhy) {
  const ParsedArguments result = parsed(GetParam().words);
  const auto* problem = std::get_if<Problem>(&result);
  ASSERT_NE(problem, nullptr);
  EXPECT_EQ(problem->exit_code, exit_usage);
  EXPECT_EQ(problem->error.attempted, GetParam().option);
  EXPECT_NE(problem->error.detail.find(GetParam().value), std::string::npos)
      << problem->error.detail;
}

INSTANTIATE_TEST_SUITE_P(
    All, UselessOptions,
    ::testing::Values(
        WrongValue{{"record", "--list", "-o", "x"}, "--output", "--list"},
        WrongValue{{"record", "--list", "--name", "x"}, "--name", "--list"},
        WrongValue{{"check", "--pair", "gpu:0,gpu:1", "--gpu", "0"}, "--gpu", "--pair"},
        WrongValue{{"check", "--pair", "gpu:0,gpu:1", "--member", "p2p"}, "--member", "--pair"},
        WrongValue{{"check", "--pair", "gpu:0,gpu:1", "--async"}, "--async", "--pair"},
        WrongValue{{"check", "--path", "/", "--member", "p2p"}, "--member", "storage"},
        WrongValue{{"check", "--path", "/", "--async"}, "--async", "storage"},
        WrongValue{{"prove", "--nic", "mlx5_0"}, "--nic", "peer"},
        WrongValue{{"prove", "--token", "x"}, "--token", "peer"},
        WrongValue{{"prove", "--take"}, "--take", "raw drive"},
        WrongValue{{"prove", "--take", "--pair", "gpu:0,gpu:1"}, "--take", "raw drive"},
        WrongValue{{"prove", "--all", "--pair", "gpu:0,gpu:1"}, "--all", "--pair"},
        WrongValue{{"prove", "--async", "--pair", "gpu:0,gpu:1"}, "--async", "drives"},
        WrongValue{{"prove", "--peer", "a:1", "--pair", "gpu:0,gpu:1"}, "--pair", "--peer"},
        WrongValue{{"prove", "--peer", "a:1", "--async"}, "--async", "--peer"},
        WrongValue{{"copy", "a", "gpu:0", "--nic", "x"}, "--nic", "process"},
        WrongValue{{"copy", "a", "gpu:0", "--token-file", "x"}, "--token-file", "process"},
        WrongValue{{"copy", "a", "gpu:0", "--take"}, "--take", "raw drive"},
        WrongValue{{"copy", "a", "gpu:0", "--durable"}, "--durable", "file"},
        WrongValue{{"copy", "gpu:0", "host", "--in-place"}, "--in-place", "file"},
        WrongValue{{"stat", "--prometheus", "--json"}, "--json", "--prometheus"}));

/// What follows `did you mean`.
std::string meant(const std::vector<const char*>& words) {
  const ParsedArguments result = parsed(words);
  const auto* problem = std::get_if<Problem>(&result);
  if (problem == nullptr || problem->exit_code != exit_usage) return "no usage error";
  const std::string& remedy = problem->error.remedy;
  return remedy.substr(0, remedy.find('?'));
}

TEST(CommandLine, SuggestsWhatWasMeant) {
  EXPECT_EQ(meant({"chek"}), "did you mean nobounce check");
  EXPECT_EQ(meant({"dif", "a", "b"}), "did you mean nobounce diff");
  EXPECT_EQ(meant({"help", "exlpain"}), "did you mean nobounce explain");
  EXPECT_EQ(meant({"prvoe", "--help"}), "did you mean nobounce prove");
  EXPECT_EQ(meant({"check", "--membr", "p2p"}), "did you mean --member");
  EXPECT_EQ(meant({"--machin", "live", "check"}), "did you mean --machine");
  const ParsedArguments result = parsed({"dance"});
  const Problem& problem = std::get<Problem>(result);
  for (const char* command :
       {"topo", "check", "copy", "prove", "serve", "stat", "explain", "record", "diff"}) {
    EXPECT_NE(problem.error.remedy.find(command), std::string::npos) << command;
  }
}

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
