// `--set` changes what exists, with the right type, or says what was probably meant.
#include <gtest/gtest.h>

#include "core/machine_json.hpp"
#include "unit/core/random_machine.hpp"

namespace nobounce::core {
namespace {

Machine base() {
  return machine_from_text(R"({"name":"base","modules":{"nvidia_fs":true},"switches":[{}],
    "gpus":[{"parent":"switch:0"}],"drives":[{"parent":"switch:0"}]})",
                           "base")
      .value();
}

Result<Machine> set(const Machine& machine, std::initializer_list<const char*> texts) {
  std::vector<MachineSetting> settings;
  for (const char* text : texts) {
    Result<MachineSetting> setting = parse_setting(text);
    if (!setting.ok()) return setting.error();
    settings.push_back(*setting);
  }
  return apply_settings(machine, settings);
}

TEST(Setting, ChangesOneFieldAndNothingElse) {
  Machine expected = base();
  expected.modules.nvidia_fs = false;
  EXPECT_EQ(set(base(), {"/modules/nvidia_fs=false"}).value(), expected);
  expected.gpus[0].bar1_bytes = 0;
  expected.switches[0].acs = AcsMode::redirect;
  EXPECT_EQ(
      set(base(), {"/modules/nvidia_fs=false", "/gpus/0/bar1_bytes=0", "/switches/0/acs=redirect"})
          .value(),
      expected);
}

TEST(Setting, TakesPlainTextAndNumbersForTexts) {
  EXPECT_EQ(set(base(), {"/libcufile=1.15"}).value().libcufile, "1.15");
  EXPECT_EQ(set(base(), {"/libcufile="}).value().libcufile, "");
  EXPECT_EQ(set(base(), {"/libcufile=\"1.2\""}).value().libcufile, "1.2");
  EXPECT_EQ(set(base(), {"/mounts/0/options=rw,noatime=1"}).value().mounts[0].options,
            "rw,noatime=1");
  EXPECT_EQ(set(base(), {"/name=null"}).value().name, "null");
}

TEST(Setting, ReplacesWholeParts) {
  const Machine machine =
      set(base(), {R"(/environment={"CUFILE_FORCE_COMPAT_MODE":"true"})",
                   R"(/gpus=[{"parent":"switch:0"},{"parent":"host_bridge:0"}])"})
          .value();
  EXPECT_EQ(machine.environment.at("CUFILE_FORCE_COMPAT_MODE"), "true");
  EXPECT_EQ(machine.gpus.size(), 2u);
  EXPECT_NE(machine.gpus[1].uuid, "");
}

TEST(Setting, SeesTheSettingsBeforeIt) {
  EXPECT_EQ(set(base(), {R"(/nics=[{}])", "/nics/0/name=ib0"}).value().nics.at(0).name, "ib0");
}

TEST(Setting, MovesADeviceWithItsPort) {
  const Machine two_bridges =
      set(base(), {"/host_bridges=[{},{}]", R"(/switches/0/ports/0/acs=redirect)"}).value();
  const Machine machine = set(two_bridges, {"/gpus/0/parent=host_bridge:1"}).value();
  EXPECT_EQ(to_string(machine.gpus[0].parent), "host_bridge:1");
  EXPECT_EQ(machine.switches[0].ports, (std::vector<SwitchPort>{{"drive:0", AcsMode::inherit}}));
  const Machine back = set(machine, {"/gpus/0/parent=switch:0"}).value();
  EXPECT_EQ(back.switches[0].ports,
            (std::vector<SwitchPort>{{"drive:0", AcsMode::inherit}, {"gpu:0", AcsMode::inherit}}));
}

TEST(Setting, MayPassThroughAMachineThatDoesNotHoldTogether) {
  const Machine machine =
      set(base(), {"/gpus/0/parent=host_bridge:1", "/host_bridges=[{},{}]"}).value();
  EXPECT_EQ(to_string(machine.gpus[0].parent), "host_bridge:1");
  const Result<Machine> broken = set(base(), {"/gpus/0/parent=host_bridge:1", "/nics/0/name=x"});
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().detail, "/gpus/0/parent: host_bridge:1 does not exist, there is 1");
}

struct BadSetting {
  const char* setting;
  const char* detail;
  const char* remedy;
};

class SettingRefuses : public testing::TestWithParam<BadSetting> {};

TEST_P(SettingRefuses, NamingTheNearestField) {
  const Result<Machine> result = set(base(), {GetParam().setting});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().origin, ErrorOrigin::input);
  EXPECT_EQ(result.error().detail, GetParam().detail);
  EXPECT_EQ(result.error().remedy, GetParam().remedy);
}

INSTANTIATE_TEST_SUITE_P(
    Setting, SettingRefuses,
    testing::Values(
        BadSetting{"/modules/nvidia_fs", "there is no = and no value",
                   "write --set /modules/nvidia_fs=false"},
        BadSetting{"modules/nvidia_fs=true",
                   "a field is named by a JSON pointer, which begins with /",
                   "write --set /modules/nvidia_fs=false"},
        BadSetting{"/name=a\xff", "the setting is no well-formed UTF-8",
                   "write --set /modules/nvidia_fs=false"},
        BadSetting{"=true", "a field is named by a JSON pointer, which begins with /",
                   "write --set /modules/nvidia_fs=false"},
        BadSetting{"/module/nvidia_fs=true",
                   "machine base has no such field, the nearest is /modules/nvidia_fs",
                   "did you mean /modules/nvidia_fs?"},
        BadSetting{"/gpus/1/bar1_bytes=0",
                   "machine base has no such field, the nearest is /gpus/0/bar1_bytes",
                   "did you mean /gpus/0/bar1_bytes?"},
        BadSetting{"/gpus/0/bar1=0",
                   "machine base has no such field, the nearest is /gpus/0/bar1_bytes",
                   "did you mean /gpus/0/bar1_bytes?"},
        BadSetting{"/switches/0/port/0/acs=off",
                   "machine base has no such field, the nearest is /switches/0/ports/0/acs",
                   "did you mean /switches/0/ports/0/acs?"},
        BadSetting{"/nics/0/name=a", "machine base has no such field, the nearest is /nics",
                   "did you mean /nics?"},
        BadSetting{"/gpus/0/bar1_bytes=much",
                   "/gpus/0/bar1_bytes: needs a whole number, zero or more, not a text \"much\"",
                   ""},
        BadSetting{"/gpus/0/parent=switch:9", "/gpus/0/parent: switch:9 does not exist, there is 1",
                   ""},
        BadSetting{"/schema=x", "/schema: needs \"nobounce.machine/1\"", ""},
        BadSetting{"/gpus/0={\"bar\":1}",
                   "/gpus/0/bar: unknown field, the nearest is /gpus/0/bar1_bytes",
                   "did you mean /gpus/0/bar1_bytes?"}));

TEST(Setting, EveryPointerTakesItsOwnValueWithoutAnyChange) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const Machine machine = random_machine(seed);
    const Json document = machine_to_json(machine);
    for (const std::string& pointer : all_pointers(document)) {
      const MachineSetting setting{pointer, dump_json(*resolve_pointer(document, pointer), true)};
      const Result<Machine> same = apply_settings(machine, {setting});
      ASSERT_TRUE(same.ok()) << seed << " " << pointer << ": " << to_string(same.error());
      ASSERT_EQ(*same, machine) << seed << " " << pointer;
    }
  }
}

}  // namespace
}  // namespace nobounce::core
