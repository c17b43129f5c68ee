// The preconditions table: every unmet finding once, with its remedy; JSON holds all of them.
#include <gtest/gtest.h>

#include <string>

#include "report/check_report.hpp"
#include "report/error_report.hpp"
#include "report/machine_label.hpp"

namespace nobounce::report {
namespace {

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

CheckReport report_of_two_rows() {
  CheckRow row{.member = Member::storage,
               .source = "drive:nvme0n1",
               .target = "gpu:0",
               .direction = "read",
               .path = "/"};
  row.state = FindingState::unmet;
  row.verdict = Verdict::staged;
  row.causes = {Cause::storage_nvidia_fs_absent};
  row.findings = {{Cause::storage_nvidia_fs_absent, "nvidia_fs", FindingState::unmet,
                   "not in the list", "loaded", "modprobe nvidia_fs", "/proc/modules"},
                  {Cause::storage_cufile_absent, "libcufile", FindingState::met, "version 1.15",
                   "it loads", "", "libcufile.so.0"}};
  CheckReport report{.machine = {"soft", "workstation"}, .rows = {row, row}};
  report.rows[1].target = "gpu:1";
  return report;
}

TEST(CheckText, ListsEachUnmetFindingOnceWithItsRemedy) {
  const std::string text = check_text(report_of_two_rows(), {}, {});
  EXPECT_EQ(count(text, "not in the list"), 1U) << text;
  EXPECT_TRUE(holds(text, "(2 rows)")) << text;
  EXPECT_TRUE(holds(text, "try      modprobe nvidia_fs")) << text;
  EXPECT_TRUE(holds(text, "drive:nvme0n1 -> gpu:1")) << text;
  EXPECT_TRUE(holds(text, "2 rows: 2 staged")) << text;
  EXPECT_FALSE(holds(text, "version 1.15")) << text;
}

TEST(CheckText, SaysWhatARemedyCosts) {
  const std::string text = check_text(report_of_two_rows(), {}, {});
  EXPECT_TRUE(holds(text, "risk     modprobe: until the next reboot\n")) << text;
  const core::Json json = check_json(report_of_two_rows());
  const core::JsonArray& findings =
      *(*json.find("rows")->as_array())[0].find("findings")->as_array();
  const core::JsonArray& risks = *findings[0].find("risk")->as_array();
  ASSERT_FALSE(risks.empty());
  EXPECT_EQ(*risks[0].find("lasts")->as_text(), "until_reboot");
  EXPECT_FALSE(*risks[0].find("needs_reboot")->as_bool());
  EXPECT_TRUE(findings[1].find("risk")->as_array()->empty()) << "it is met";
}

TEST(CheckText, ShowsMetFindingsWhenAsked) {
  EXPECT_TRUE(
      holds(check_text(report_of_two_rows(), {.met_findings_too = true}, {}), "version 1.15"));
}

TEST(CheckJson, HoldsEveryFinding) {
  const core::Json json = check_json(report_of_two_rows());
  EXPECT_EQ(*json.find("schema")->as_text(), "nobounce.check/1");
  EXPECT_EQ(json.find("rows")->as_array()->size(), 2U);
  const core::Json* finding = core::resolve_pointer(json, "/rows/0/findings/1");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(*finding->find("state")->as_text(), "met");
  EXPECT_EQ(*core::resolve_pointer(json, "/rows/1/verdict")->as_text(), "staged");
  EXPECT_EQ(*core::resolve_pointer(json, "/rows/1/causes/0")->as_text(),
            "storage.nvidia_fs_absent");
}

TEST(Banner, SaysWhatIsNoRealMachine) {
  EXPECT_EQ(banner({"soft", "dgx"}, {}),
            "software machine: dgx (a model; times and rates mean nothing)\n");
  EXPECT_EQ(banner({"live", "live"}, {}), "");
  EXPECT_TRUE(holds(banner({"recorded", "node7"}, {}), "recording: node7"));
}

TEST(ErrorText, IsOneLineAndARemedy) {
  const Error error{.origin = ErrorOrigin::os,
                    .code = 2,
                    .attempted = "open a.bin\nfor reading",
                    .detail = "No such file or directory",
                    .remedy = "name a file that exists"};
  const std::string text = error_text(error, {});
  EXPECT_EQ(count(text, "\n"), 2U) << text;
  EXPECT_TRUE(holds(text, "nobounce: open a.bin\\x0afor reading: No such file or directory"))
      << text;
  EXPECT_TRUE(holds(text, "\ntry: name a file that exists\n")) << text;
}

TEST(ErrorText, FallsBackOnTheRemedyOfTheCause) {
  const Error error{
      .origin = ErrorOrigin::input, .attempted = "x", .cause = Cause::storage_nvidia_fs_absent};
  const std::string remedy(cause_row(Cause::storage_nvidia_fs_absent).remedy);
  ASSERT_FALSE(remedy.empty());
  EXPECT_TRUE(holds(error_text(error, {}), "try: " + remedy));
}

TEST(ErrorJson, NamesOriginCodeAndCause) {
  const Error error{.origin = ErrorOrigin::cuda,
                    .code = 2,
                    .attempted = "allocate",
                    .cause = Cause::memory_gpu_out_of_memory};
  const core::Json json = error_json(error);
  EXPECT_EQ(*json.find("schema")->as_text(), "nobounce.error/1");
  EXPECT_EQ(*json.find("origin")->as_text(), "cuda");
  EXPECT_EQ(*json.find("code")->as_unsigned(), 2U);
  EXPECT_EQ(*json.find("cause")->as_text(), "memory.gpu_out_of_memory");
  EXPECT_EQ(json.find("receipts"), nullptr);
  EXPECT_TRUE(error_json(Error{.attempted = "x"}).find("cause")->is_null());
  EXPECT_EQ(error_json(error, {core::JsonObject{}}).find("receipts")->as_array()->size(), 1U);
}

}  // namespace
}  // namespace nobounce::report
