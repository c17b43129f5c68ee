// docs/formats: every example on its pages is valid, every field of a schema is explained, and the
// checker checks.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "support/program.hpp"
#include "support/schema.hpp"

namespace nobounce::test {
namespace {

std::vector<std::filesystem::path> files_ending(const std::string& ending) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(formats_folder())) {
    const std::string name = entry.path().filename();
    if (name.size() > ending.size() && name.substr(name.size() - ending.size()) == ending)
      found.push_back(entry.path());
  }
  return found;
}

std::vector<std::string> json_blocks(const std::string& page) {
  std::vector<std::string> blocks;
  const std::string fence = "```json\n";
  for (std::size_t at = page.find(fence); at != std::string::npos; at = page.find(fence, at)) {
    at += fence.size();
    blocks.push_back(page.substr(at, page.find("```", at) - at));
  }
  return blocks;
}

void collect_names(const core::Json& schema, std::set<std::string>& names) {
  if (const core::Json* properties = schema.find("properties")) {
    for (const auto& [name, property] : *properties->as_object()) {
      names.insert(name);
      collect_names(property, names);
    }
  }
  if (const core::Json* items = schema.find("items")) collect_names(*items, names);
}

TEST(Formats, EveryExampleIsValid) {
  std::size_t count = 0;
  for (const std::filesystem::path& page : files_ending(".md")) {
    for (const std::string& block : json_blocks(text_of_file(page))) {
      const Result<core::Json> json = core::parse_json(block, page.filename().string());
      ASSERT_TRUE(json.ok()) << to_string(json.error());
      EXPECT_EQ(schema_violations(*json), "") << page << "\n" << block;
      ++count;
    }
  }
  EXPECT_GE(count, 7U);
}

TEST(Formats, EveryFieldIsExplainedOnItsPage) {
  for (const std::filesystem::path& path : files_ending(".schema.json")) {
    std::string name = path.filename().string();
    name = name.substr(0, name.find('.'));
    if (name == "receipts") name = "receipt";
    const std::string page = text_of_file(formats_folder() / (name + ".md"));
    std::set<std::string> fields;
    collect_names(json_of_file(path), fields);
    for (const std::string& field : fields) {
      EXPECT_TRUE(holds(page, "`" + field + "`") || holds(page, "/" + field + "`") ||
                  holds(page, "." + field + "`"))
          << name << ".md says nothing of " << field;
    }
  }
}

TEST(SchemaCheck, NoticesWhatIsWrong) {
  const Result<core::Json> schema = core::parse_json(
      R"({"type": "object", "additionalProperties": false, "required": ["a", "b"], "properties": {
          "a": {"type": "integer", "minimum": 0}, "b": {"type": ["string", "null"]}, "c": {"enum": ["x"]},
          "d": {"type": "array", "items": {"type": "boolean"}}}})",
      "schema");
  ASSERT_TRUE(schema.ok());
  const auto count = [&](const char* text) {
    const Result<core::Json> json = core::parse_json(text, "document");
    return SchemaCheck::violations(*schema, *json).size();
  };
  EXPECT_EQ(count(R"({"a": 1, "b": null})"), 0U);
  EXPECT_EQ(count(R"({"a": 1, "b": "x", "c": "x", "d": [true]})"), 0U);
  EXPECT_EQ(count(R"({"a": 1})"), 1U);
  EXPECT_EQ(count(R"({"a": -1, "b": null})"), 1U);
  EXPECT_EQ(count(R"({"a": "1", "b": null})"), 1U);
  EXPECT_EQ(count(R"({"a": 1, "b": 2})"), 1U);
  EXPECT_EQ(count(R"({"a": 1, "b": null, "c": "y"})"), 1U);
  EXPECT_EQ(count(R"({"a": 1, "b": null, "d": [true, 1]})"), 1U);
  EXPECT_EQ(count(R"({"a": 1, "b": null, "e": 1})"), 1U);
  EXPECT_EQ(count("[]"), 1U);
}

}  // namespace
}  // namespace nobounce::test
