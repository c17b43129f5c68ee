// What differs is told in few lines, worst first, each remedy once; JSON keeps every line.
#include <gtest/gtest.h>

#include <string>

#include "report/diff_report.hpp"

namespace nobounce::report {
namespace {

std::size_t times(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    ++count;
  return count;
}

DiffReport of_a_machine_without_gpus() {
  DiffReport report{{"soft", "good"}, {"live", "bad"}, {}};
  report.lines.push_back({DiffWeight::verdict, "GPUs", "8", "none: load libnvidia-ml.so.1",
                          "p2p, storage", Cause::machine_no_gpu});
  for (int i = 0; i < 56; ++i) {
    report.lines.push_back({DiffWeight::verdict, "p2p gpu:0 -> gpu:" + std::to_string(i) + " copy",
                            i < 50 ? "direct" : "staged: machine.acs_redirect", "", "p2p",
                            Cause::none});
  }
  for (int i = 0; i < 8; ++i) {
    for (const char* field : {"/acs", "/bar1_bytes"}) {
      report.lines.push_back({DiffWeight::setting, "/gpus/" + std::to_string(i) + field, "1", "",
                              "p2p", Cause::machine_acs_redirect});
    }
  }
  for (int i = 0; i < 3; ++i) {
    report.lines.push_back({DiffWeight::setting, "/switches/" + std::to_string(i) + "/acs", "off",
                            "redirect", "p2p", Cause::machine_acs_redirect});
  }
  report.lines.push_back({DiffWeight::setting, "/host_bridges/0/acs", "off", "redirect", "p2p",
                          Cause::machine_acs_redirect});
  return report;
}

TEST(DiffText, GroupsWhatIsAlike) {
  const std::string text = diff_text(of_a_machine_without_gpus(), {});
  EXPECT_LT(times(text, "\n"), 30U) << text;
  EXPECT_LT(text.find("GPUs"), text.find("p2p pairs")) << text;
  EXPECT_NE(text.find("alone has 56: "), std::string::npos) << text;
  EXPECT_NE(text.find("50 direct"), std::string::npos) << text;
  EXPECT_NE(text.find("6 staged: machine.acs_redirect"), std::string::npos) << text;
  EXPECT_NE(text.find("alone has 0, 1, 2 and 5 more (16 fields)"), std::string::npos) << text;
  EXPECT_NE(text.find("and  /switches/1/acs, /switches/2/acs"), std::string::npos) << text;
  EXPECT_NE(text.find("77 differences, 77 of them"), std::string::npos) << text;
}

TEST(DiffText, SaysEachRemedyOnce) {
  const std::string text = diff_text(of_a_machine_without_gpus(), {});
  EXPECT_EQ(times(text, "try  machine.acs_redirect"), 1U) << text;
  EXPECT_EQ(times(text, "try  machine.no_gpu"), 1U) << text;
}

TEST(DiffText, ShowsASingleDifferenceWhole) {
  DiffReport report{{"recorded", "a"}, {"recorded", "b"}, {}};
  report.lines.push_back({DiffWeight::setting, "/modules/nvidia_fs", "true", "false", "storage",
                          Cause::storage_nvidia_fs_absent});
  const std::string text = diff_text(report, {});
  EXPECT_NE(
      text.find("setting  /modules/nvidia_fs  (storage)\n         A  true\n         B  false"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("\n1 difference, 1 of them can matter"), std::string::npos) << text;
}

TEST(DiffJson, KeepsEveryLine) {
  const core::Json json = diff_json(of_a_machine_without_gpus());
  EXPECT_EQ(json.find("differences")->as_array()->size(), 77U);
}

}  // namespace
}  // namespace nobounce::report
