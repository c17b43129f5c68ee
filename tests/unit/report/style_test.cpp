// Names in text reports: nothing that a terminal obeys, nothing endless.
#include <gtest/gtest.h>

#include <string>

#include "report/error_report.hpp"
#include "report/style.hpp"

namespace nobounce::report {
namespace {

using std::string_literals::operator""s;

TEST(Visible, SpellsOutControlCharactersAndBytesThatAreNoUtf8) {
  EXPECT_EQ(visible("a\x1b[0m\n\t\r\x7f"), R"(a\x1b[0m\x0a\x09\x0d\x7f)");
  EXPECT_EQ(visible("\xc2\x80|\xc2\x9f|\xc2\xa0"), "\\xc2\\x80|\\xc2\\x9f|\xc2\xa0");
  EXPECT_EQ(visible("\xff|\xe2\x82"), R"(\xff|\xe2\x82)");
  EXPECT_EQ(visible("\0x"s), R"(\x00x)");
}

TEST(Visible, LeavesOtherTextAlone) {
  for (const std::string& text : {""s, "plain \\ text"s, "é€😀"s}) EXPECT_EQ(visible(text), text);
}

TEST(Shortened, KeepsBothEndsAndWholeCharacters) {
  EXPECT_EQ(shortened(std::string(300, 'x')), std::string(300, 'x'));
  const std::string text = "open " + std::string(6000, 'x') + " for reading";
  const std::string result = shortened(text);
  EXPECT_LT(result.size(), 220U);
  EXPECT_EQ(result.rfind("open xxx", 0), 0U);
  EXPECT_NE(result.find(" ... x"), std::string::npos);
  EXPECT_NE(result.find("x for reading"), std::string::npos);
  for (std::size_t shift = 0; shift < 4; ++shift) {
    std::string wide(shift, 'x');
    for (int i = 0; i < 200; ++i) wide += "😀";
    EXPECT_EQ(visible(shortened(wide)).find("\\x"), std::string::npos) << shift;
  }
}

TEST(ErrorText, IsOneLineWhateverTheNames) {
  const Error error{.origin = ErrorOrigin::input,
                    .attempted = "open a\nb\x1b[2J for reading",
                    .detail = "it is no file",
                    .remedy = "ls"};
  EXPECT_EQ(error_text(error, {}),
            "nobounce: open a\\x0ab\\x1b[2J for reading: it is no file\ntry: ls\n");
}

TEST(ErrorJson, HasTheSentenceOfItsCauseWhereThereIsNoOtherDetail) {
  const core::Json json = error_json(
      {.origin = ErrorOrigin::input, .attempted = "x", .cause = Cause::machine_no_gpu}, {});
  EXPECT_EQ(*json.find("detail")->as_text(), cause_row(Cause::machine_no_gpu).sentence);
}

}  // namespace
}  // namespace nobounce::report
