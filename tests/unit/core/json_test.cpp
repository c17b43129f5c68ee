// The JSON parser refuses what JSON libraries let pass, names lines, and writes only valid JSON.
#include "core/json.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace nobounce::core {
namespace {

using namespace std::string_literals;

Json parsed(std::string_view text, JsonOptions options = {}) {
  Result<Json> result = parse_json(text, "m.json", options);
  EXPECT_TRUE(result.ok()) << text << "\n" << (result.ok() ? "" : to_string(result.error()));
  return result.ok() ? *result : Json();
}

struct BadText {
  std::string text;
  std::string where;  // what the detail begins with
  std::string says;   // what else it holds
};

class JsonRefuses : public testing::TestWithParam<BadText> {};

TEST_P(JsonRefuses, WithTheLineAndTheReason) {
  const Result<Json> result = parse_json(GetParam().text, "m.json");
  ASSERT_FALSE(result.ok());
  const Error& error = result.error();
  EXPECT_EQ(error.origin, ErrorOrigin::input);
  EXPECT_EQ(error.attempted, "read m.json");
  EXPECT_EQ(error.detail.rfind(GetParam().where, 0), 0u) << error.detail;
  EXPECT_NE(error.detail.find(GetParam().says), std::string::npos) << error.detail;
  // The text of an error is itself valid to print and to put into JSON.
  for (const char c : error.detail) EXPECT_TRUE(c >= 0x20 && c < 0x7F) << error.detail;
}

INSTANTIATE_TEST_SUITE_P(
    Json, JsonRefuses,
    testing::Values(
        BadText{"", "line 1: ", "end of input"}, BadText{"\n\n ", "line 3: ", "end of input"},
        BadText{"{\"a\":1,\n\n\"a\":2}", "line 3: ", "duplicate key \"a\""},
        BadText{"{\"x\":[{\"b\":1},\n{\"b\":1,\"b\":1}]}", "line 2: ", "duplicate key \"b\""},
        BadText{"{\"a\":1,\n\"\\u0061\":2}", "line 2: ", "duplicate key \"a\""},
        BadText{"{}\n{}", "line 2: ", "expected end of input"},
        BadText{"{} x", "line 1: ", "invalid literal"},
        BadText{"[1,\n2,]", "line 2: ", "unexpected ']'"},
        BadText{"{\"a\":\n\"b}\n", "line 2: ", "control character"},
        BadText{"[1\n// no\n]", "line 2: ", "invalid literal"},
        BadText{"{a:1}", "line 1: ", "expected string literal"},
        BadText{"'a'", "line 1: ", "invalid literal"}, BadText{"[01]", "line 1: ", "unexpected"},
        BadText{"NaN", "line 1: ", "invalid literal"},
        BadText{"[\n18446744073709551616]", "line 2: ", "18446744073709551616 does not fit"},
        BadText{"-9223372036854775809", "line 1: ", "does not fit"},
        BadText{"1e999", "line 1: ", "number overflow"},
        BadText{"{}\0garbage"s, "line 1: ", "NUL byte"},
        BadText{"\n\"a\0b\""s, "line 2: ", "NUL byte"},
        BadText{"\"a\\u0000b\"", "line 1: ", "NUL character"},
        BadText{"{\"\\u0000\":1}", "line 1: ", "NUL character"},
        BadText{"\"\xff\"", "line 1: ", "ill-formed UTF-8"},
        BadText{"\n\"\xc0\xaf\"", "line 2: ", "ill-formed UTF-8"},
        BadText{"\"\xed\xa0\x80\"", "line 1: ", "ill-formed UTF-8"},
        BadText{"\"\\ud800\"", "line 1: ", "surrogate"},
        BadText{std::string(65, '['), "line 1: ", "nested deeper than 64"},
        BadText{"\"" + std::string(5000, 'x') + "\n\"", "line 1: ", "..."}));

TEST(Json, TakesEveryKindOfValue) {
  const Json json = parsed(
      R"({"n":null,"t":true,"i":-3,"u":18446744073709551615,"r":1.5,"s":"é","a":[],"o":{}})");
  EXPECT_TRUE(json.find("n")->is_null());
  EXPECT_EQ(*json.find("t")->as_bool(), true);
  EXPECT_EQ(std::get<std::int64_t>(json.find("i")->value), -3);
  EXPECT_EQ(*json.find("u")->as_unsigned(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(std::get<double>(json.find("r")->value), 1.5);
  EXPECT_EQ(*json.find("s")->as_text(), "é");
  EXPECT_TRUE(json.find("a")->as_array()->empty());
  EXPECT_TRUE(json.find("o")->as_object()->empty());
  EXPECT_EQ(json.find("absent"), nullptr);
  EXPECT_EQ(Json(1).find("n"), nullptr);
}

TEST(Json, KeepsMembersInDocumentOrder) {
  EXPECT_EQ(dump_json(parsed(R"({"z":1,"a":{"y":2,"b":3}})"), true),
            R"({"z":1,"a":{"y":2,"b":3}})");
}

TEST(Json, AllowsSixtyFourLevelsAndNoMore) {
  const std::string deep = std::string(64, '[') + std::string(64, ']');
  EXPECT_EQ(dump_json(parsed(deep), true), deep);
  EXPECT_FALSE(parse_json("[[[]]]", "m", {.allow_comments = false, .depth_max = 2}).ok());
}

TEST(Json, TakesCommentsOnlyWhereAllowed) {
  const std::string_view text = "{ // one\n \"a\": /* two */ 1 }";
  EXPECT_FALSE(parse_json(text, "m").ok());
  EXPECT_EQ(dump_json(parsed(text, {.allow_comments = true}), true), R"({"a":1})");
}

TEST(Json, CountsLinesAfterComments) {
  const Result<Json> result =
      parse_json("/* a\nb */ {\n\"x\":1,\n\"x\":1}", "m", {.allow_comments = true});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().detail, "line 4: duplicate key \"x\"");
}

TEST(Json, NamesTheLineAloneWhenThereIsNoName) {
  EXPECT_EQ(parse_json("{\"a\":1,\"a\":1}", "").error().detail, "line 1: duplicate key \"a\"");
}

TEST(JsonText, IsIndentedByTwoBlanks) {
  EXPECT_EQ(
      dump_json(parsed(R"({"a":[1,{"b":true}],"c":[],"d":{}})")),
      "{\n  \"a\": [\n    1,\n    {\n      \"b\": true\n    }\n  ],\n  \"c\": [],\n  \"d\": {}\n}");
}

TEST(JsonText, EscapesWhatJsonCannotHold) {
  EXPECT_EQ(dump_json(Json("q\" b\\ n\n t\t r\r e\x1b d\x7f"s)),
            "\"q\\\" b\\\\ n\\n t\\t r\\r e\\u001b d\\u007f\"");
  EXPECT_EQ(dump_json(Json("nul\0!"s)), "\"nul\\u0000!\"");
}

TEST(JsonText, SpellsOutBytesThatAreNoUtf8AndKeepsTheRest) {
  EXPECT_EQ(dump_json(Json("a\xff"
                           "b"s)),
            R"("a\\xffb")");
  for (const std::string& broken : {"\xc0\xaf"s, "\xed\xa0\x80"s, "\xf4\x90\x80\x80"s, "\xe2\x82"s,
                                    "\x80"s, "\xf0\x8f\xbf\xbf"s}) {
    const std::string text = dump_json(Json(broken));
    EXPECT_TRUE(parse_json(text, "m").ok()) << text;
    EXPECT_NE(text.find(R"(\\x)"), std::string::npos) << text;
  }
  for (const std::string& sound : {"é"s, "€"s, "😀"s, "\xed\x9f\xbf"s, "\xf4\x8f\xbf\xbf"s}) {
    EXPECT_EQ(dump_json(Json(sound)), "\"" + sound + "\"");
  }
}

TEST(JsonText, KnowsWhatItCanGiveBack) {
  for (const std::string& text : {""s, "a\n é € 😀"s}) EXPECT_TRUE(is_plain_utf8(text)) << text;
  for (const std::string& text : {"a\0b"s, "\xff"s, "\xed\xa0\x80"s, "a\xe2\x82"s}) {
    EXPECT_FALSE(is_plain_utf8(text)) << text;
  }
}

TEST(JsonText, ReadsBackAsTheSameValue) {
  for (const double number : {0.1, 1.0, -2.5e-300, 1e22, 1.7976931348623157e308, 5e-324, -0.0}) {
    const Json json(number);
    EXPECT_EQ(parsed(dump_json(json)), json) << number;
  }
  for (const Json& json : {Json(-1), Json(0), Json(std::numeric_limits<std::int64_t>::min()),
                           Json(std::numeric_limits<std::uint64_t>::max()), Json(true), Json()}) {
    EXPECT_EQ(parsed(dump_json(json)), json);
  }
}

TEST(JsonText, WritesNullForNumbersThatJsonHasNot) {
  EXPECT_EQ(dump_json(Json(std::numeric_limits<double>::infinity())), "null");
  EXPECT_EQ(dump_json(Json(std::numeric_limits<double>::quiet_NaN())), "null");
}

TEST(JsonPointer, FollowsTheExamplesOfItsSpecification) {
  const Json json = parsed(R"({"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"m~n":8," ":7})");
  EXPECT_EQ(resolve_pointer(json, ""), &json);
  EXPECT_EQ(*resolve_pointer(json, "/foo/0"), Json("bar"));
  EXPECT_EQ(*resolve_pointer(json, "/"), Json(0));
  EXPECT_EQ(*resolve_pointer(json, "/a~1b"), Json(1));
  EXPECT_EQ(*resolve_pointer(json, "/c%d"), Json(2));
  EXPECT_EQ(*resolve_pointer(json, "/m~0n"), Json(8));
  EXPECT_EQ(*resolve_pointer(json, "/ "), Json(7));
}

TEST(JsonPointer, NeverCreatesAndNeverGuesses) {
  Json json = parsed(R"({"a":[1,2],"b":null})");
  const Json before = json;
  for (const char* pointer : {"a", "/c", "/a/2", "/a/-", "/a/01", "/a/+1", "/a/", "/a/1 ", "/a/0/x",
                              "/b/c", "/a~2", "/a~", "/a/99999999999999999999999", "/A"}) {
    EXPECT_EQ(resolve_pointer(json, pointer), nullptr) << pointer;
  }
  EXPECT_EQ(json, before);
}

TEST(JsonPointer, ListsEveryLeafAndFindsEachAgain) {
  const Json json = parsed(R"({"a":[1,{"b~/":2}],"e":[],"o":{},"":3})");
  const std::vector<std::string> pointers = all_pointers(json);
  EXPECT_EQ(pointers, (std::vector<std::string>{"/a/0", "/a/1/b~0~1", "/e", "/o", "/"}));
  for (const std::string& pointer : pointers) EXPECT_NE(resolve_pointer(json, pointer), nullptr);
}

TEST(Nearest, PrefersACompletionThenTheFewestEdits) {
  const std::vector<std::string> keys = {"memory_bytes", "bar1_bytes", "bdf", "uuid"};
  EXPECT_EQ(nearest("bar1", keys), "bar1_bytes");
  EXPECT_EQ(nearest("uid", keys), "uuid");
  EXPECT_EQ(nearest("memory_byte", keys), "memory_bytes");
  EXPECT_EQ(nearest("", keys), "bdf");
  EXPECT_EQ(nearest("x", {}), "");
  EXPECT_EQ(nearest(std::string(1u << 20, 'b'), keys), "bar1_bytes");  // in bounded time
}

TEST(Nearest, CorrectsAPointerStepByStep) {
  const Json json =
      parsed(R"({"gpus":[{"bdf":1,"bar1_bytes":2}],"modules":{"nvidia_fs":true},"nics":[]})");
  EXPECT_EQ(nearest_pointer(json, "/gpu/0/bar1"), "/gpus/0/bar1_bytes");
  EXPECT_EQ(nearest_pointer(json, "/gpus/3/bar1_bytes"), "/gpus/0/bar1_bytes");
  EXPECT_EQ(nearest_pointer(json, "modules/nvidia-fs"), "/modules/nvidia_fs");
  EXPECT_EQ(nearest_pointer(json, "/modules/nvidia_fs/x"), "/modules/nvidia_fs");
  EXPECT_EQ(nearest_pointer(json, "/nics/0/name"), "/nics");
  EXPECT_EQ(nearest_pointer(json, "/mod~ules/nvidia"), "/modules/nvidia_fs");
}

}  // namespace
}  // namespace nobounce::core
