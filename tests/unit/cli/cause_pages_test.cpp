// Every cause has its page in the program, with all that a page says.
#include "cli/cause_pages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include <nobounce/cause.hpp>

namespace nobounce::cli {
namespace {

TEST(CausePages, AreThereForEveryCauseAndWhole) {
  for (const CauseRow& row : cause_table()) {
    const auto pages = cause_pages();
    const auto page = std::find_if(pages.begin(), pages.end(),
                                   [&](const CausePage& each) { return each.id == row.id; });
    ASSERT_NE(page, pages.end()) << row.id;
    for (const char* part :
         {"**What is so.**", "**How it is seen.**", "**Why it matters.**", "**How to mend it.**",
          "**How to check.**", "**When it is harmless.**", "**Sources.**"}) {
      EXPECT_NE(page->text.find(part), std::string_view::npos) << row.id << ": " << part;
    }
  }
}

}  // namespace
}  // namespace nobounce::cli
