// The table of causes is complete: every id has its words, its remedy and its page, and every page
// its row.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nobounce/cause.hpp>
#include <set>
#include <string>

namespace nobounce {
namespace {

std::filesystem::path pages() {
  return std::filesystem::path(NOBOUNCE_SOURCE_DIR) / "docs" / "causes";
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string enumerator_of(std::string_view id) {
  std::string name(id);
  for (char& c : name) {
    if (c == '.') c = '_';
  }
  return name;
}

TEST(CauseTable, NamesEachCauseOnceInOrder) {
  std::set<std::string_view> ids;
  std::size_t index = 1;
  for (const CauseRow& row : cause_table()) {
    EXPECT_EQ(static_cast<std::size_t>(row.cause), index++);
    EXPECT_TRUE(ids.insert(row.id).second) << row.id;
    EXPECT_EQ(&cause_row(row.cause), &row);
    EXPECT_EQ(to_string(row.cause), row.id);
    EXPECT_EQ(cause_from_string(row.id), row.cause);
  }
  EXPECT_EQ(index, static_cast<std::size_t>(Cause::count_));
}

TEST(CauseTable, SpellsEnumeratorsLikeIds) {
  std::size_t index = 1;
#define NOBOUNCE_CAUSE(enumerator, id, member, kind, sentence, remedy) \
  EXPECT_EQ(std::string(#enumerator), enumerator_of(id));              \
  EXPECT_EQ(static_cast<std::size_t>(Cause::enumerator), index++);
#include <nobounce/cause_list.inc>
#undef NOBOUNCE_CAUSE
}

TEST(CauseTable, HasNoRowForNoneOrForStrangers) {
  EXPECT_EQ(cause_row(Cause::none).id, "");
  EXPECT_EQ(cause_row(Cause::count_).id, "");
  EXPECT_EQ(cause_row(static_cast<Cause>(60000)).id, "");
  EXPECT_EQ(cause_from_string(""), std::nullopt);
  EXPECT_EQ(cause_from_string("storage"), std::nullopt);
  EXPECT_EQ(cause_from_string("storage.nvidia_fs_absent "), std::nullopt);
}

TEST(CauseTable, HasASentenceAndARemedyForEveryCause) {
  for (const CauseRow& row : cause_table()) {
    EXPECT_GE(row.sentence.size(), 15u) << row.id;
    EXPECT_NE(row.sentence.back(), '.') << row.id << ": it is shown inside of lines";
    EXPECT_GE(row.remedy.size(), 10u) << row.id;
    EXPECT_NE(row.remedy.back(), '.') << row.id;
    for (const std::string_view text : {row.sentence, row.remedy}) {
      EXPECT_EQ(text.find('\n'), std::string_view::npos) << row.id;
      EXPECT_EQ(text.find("  "), std::string_view::npos) << row.id << ": a seam of two literals";
    }
  }
}

TEST(CauseTable, BelongsToAMemberOrToAll) {
  for (const CauseRow& row : cause_table()) {
    const bool member = row.member == "p2p" || row.member == "rdma" || row.member == "storage" ||
                        row.member == "async";
    EXPECT_TRUE(member || row.member.empty()) << row.id;
    const std::string_view group = row.id.substr(0, row.id.find('.'));
    if (group == "p2p" || group == "rdma" || group == "storage" || group == "async") {
      EXPECT_EQ(row.member, group) << row.id;
    }
  }
}

TEST(CausePages, ExistForEveryCauseAndSayAllThatIsNeeded) {
  for (const CauseRow& row : cause_table()) {
    const std::string id(row.id);
    const std::string page = text_of(pages() / (id + ".md"));
    ASSERT_FALSE(page.empty()) << "docs/causes/" << id << ".md is missing or empty";
    EXPECT_EQ(page.rfind("# " + id + "\n", 0), 0u) << id;
    const std::string member(row.member.empty() ? std::string_view("any") : row.member);
    const std::string kind(to_string(row.kind));
    EXPECT_NE(page.find("\nmember: " + member + " · kind: " + kind + "\n"), std::string::npos)
        << id;
    std::size_t from = 0;
    for (const char* heading :
         {"\n**What is so.**", "\n**How it is seen.**", "\n**Why it matters.**",
          "\n**How to mend it.**", "\n**How to check.**", "\n**Sources.**"}) {
      const std::size_t at = page.find(heading, from);
      ASSERT_NE(at, std::string::npos) << id << ": no part " << heading + 1;
      EXPECT_GT(page.find_first_not_of(" \n", at + std::string_view(heading).size()), at) << id;
      EXPECT_NE(page.substr(at + std::string_view(heading).size(), 200).find_first_of("abcdefghij"),
                std::string::npos)
          << id;
      from = at + 1;
    }
  }
}

TEST(CausePages, AllHaveARowAndNameOnlyCausesThatExist) {
  std::set<std::string> groups;
  for (const CauseRow& row : cause_table()) groups.emplace(row.id.substr(0, row.id.find('.')));
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(pages())) {
    ++count;
    EXPECT_EQ(entry.path().extension(), ".md") << entry.path();
    EXPECT_TRUE(cause_from_string(entry.path().stem().string()).has_value())
        << entry.path() << " has no row in cause_list.inc";
  }
  EXPECT_EQ(count, cause_table().size());
}

}  // namespace
}  // namespace nobounce
