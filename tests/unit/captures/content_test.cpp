// What a file begins with, and texts in UTF-16.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "captures/content.hpp"
#include "captures/line.hpp"
#include "captures/read_text.hpp"
#include "core/json.hpp"

namespace nobounce::captures {
namespace {

using namespace std::string_view_literals;

/// ASCII only.
std::string wide(std::string_view text, bool low_first) {
  std::string units = low_first ? "\xff\xfe" : "\xfe\xff";
  for (const char c : text) {
    if (!low_first) units += '\0';
    units += c;
    if (low_first) units += '\0';
  }
  return units;
}

std::string decoded(std::string_view bytes, std::size_t chunk) {
  TextDecoder decoder;
  decoder.begin();
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += chunk)
    text += decoder.decode(bytes.substr(at, chunk));
  return text + std::string(decoder.end());
}

TEST(Content, IsKnownByItsBeginning) {
  struct Row {
    std::string_view bytes;
    ContentKind kind;
    std::string_view reader;
  };
  const std::string tar = "name" + std::string(253, '\0') + "ustar" + std::string(250, '\0');
  std::string noise;
  for (unsigned i = 0; i < 4096; ++i) noise += static_cast<char>(i * i * 7 + (i >> 3) * 31);
  const Row rows[] = {
      {"", ContentKind::empty, ""},
      {"GPU0\tGPU1\n", ContentKind::text, ""},
      {"\x1b[4mGPU0\x1b[0m\r\n", ContentKind::text, ""},
      {"\xef\xbb\xbfGPU0\n", ContentKind::text, ""},
      {"\xff\xfeG\0P\0"sv, ContentKind::text, ""},
      {"caf\xe9 is no UTF-8, and a text\n", ContentKind::text, ""},
      {"\0\0\0\0\0\0\0\0node:1:2 [0] NCCL INFO x\n"sv, ContentKind::text, ""},
      {"\x1f\x8b\x08\0rest"sv, ContentKind::compressed, "zcat"},
      {"\x28\xb5\x2f\xfdrest", ContentKind::compressed, "zstdcat"},
      {"\xfd"
       "7zXZ\0rest"sv,
       ContentKind::compressed, "xzcat"},
      {"BZh91AY&SYrest", ContentKind::compressed, "bzcat"},
      {"BZh", ContentKind::text, ""},
      {"PK\x03\x04rest", ContentKind::archive, "unzip -p"},
      {tar, ContentKind::archive, "tar -xOf"},
      {"\xff\xfe\0\0G\0\0\0"sv, ContentKind::wide, "iconv -f UTF-32 -t UTF-8"},
      {"G\0P\0U\0"
       "0\0\t\0"sv,
       ContentKind::wide, "iconv -f UTF-16LE -t UTF-8"},
      {"\0G\0P\0U\0"
       "0\0\t"sv,
       ContentKind::wide, "iconv -f UTF-16BE -t UTF-8"},
      {"\x7f"
       "ELF\x02\x01",
       ContentKind::binary, ""},
      {"\0\0\0\0"sv, ContentKind::binary, ""},
      {noise, ContentKind::binary, ""},
  };
  for (const Row& row : rows) {
    const Content content = content_of(row.bytes);
    EXPECT_EQ(content.kind, row.kind) << row.bytes;
    EXPECT_EQ(content.reader, row.reader) << row.bytes;
  }
}

TEST(Decoder, InChunksOfAnySizeTheSame) {
  const std::string plain = "a\nb\r\nGPU0\tX\n";
  for (std::size_t chunk = 1; chunk < 32; ++chunk) {
    EXPECT_EQ(decoded(plain, chunk), plain);
    EXPECT_EQ(decoded("\xef\xbb\xbf" + plain, chunk), plain);
    EXPECT_EQ(decoded(wide(plain, true), chunk), plain);
    EXPECT_EQ(decoded(wide(plain, false), chunk), plain);
    EXPECT_EQ(decoded("\xef\xbbx", chunk), "\xef\xbbx");
    EXPECT_EQ(decoded("\xffx", chunk), "\xffx");
    // Characters of two, three and four bytes; a first half alone, a second half alone, half a
    // unit.
    EXPECT_EQ(decoded("\xff\xfe\xfc\0\xac\x20\x3d\xd8\0\xde"sv, chunk),
              "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80");
    EXPECT_EQ(decoded("\xff\xfe\x3d\xd8z\0\0\xdez\0\x3d\xd8z"sv, chunk),
              "\xef\xbf\xbdz\xef\xbf\xbdz\xef\xbf\xbd");
  }
  for (const char* begun : {"", "\xff", "\xfe", "\xef", "\xef\xbb"})
    EXPECT_EQ(decoded(begun, 1), begun);
}

/// A line with a mark in front of it, or with halves of characters, would be of another node.
TEST(Decoder, ATextInAnyWritingSaysTheSame) {
  const std::string log =
      "node1:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
      "node1:5:7 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via SHM/direct/direct";
  const core::Captures plain = read_text(log, "log");
  ASSERT_EQ(plain.signs.size(), 2U);
  for (const std::string& written : {"\xef\xbb\xbf" + log, wide(log, true), wide(log, false)}) {
    const core::Captures read = read_text(written, "log");
    ASSERT_EQ(read.signs.size(), plain.signs.size());
    for (std::size_t i = 0; i < read.signs.size(); ++i) {
      EXPECT_EQ(read.signs[i].host, "node1");
      EXPECT_EQ(read.signs[i].lines, plain.signs[i].lines);
    }
  }
}

TEST(Bounds, NothingThatIsKeptIsLong) {
  const std::string front = "node1:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] ";
  std::string accents;
  while (accents.size() < (1U << 20)) accents += "\xc3\xa9";
  for (const std::string& tail : {"via P2P/" + accents, "[send] via NET/" + accents + "/0/GDRDMA",
                                  "[send] via NET/IB/0" + accents}) {
    const core::Captures read = read_text(front + tail + "\nGPU0\n", "log");
    ASSERT_EQ(read.signs.size(), 1U);
    const core::CaptureSign& sign = read.signs.front();
    for (const std::string& text : {sign.word, sign.target, sign.lines.front().text}) {
      EXPECT_LE(text.size(), text_bytes_max + 3);
      EXPECT_TRUE(core::is_plain_utf8(text) || text.empty());
    }
    const std::string facts = core::dump_json(core::Json(read.pieces.front().facts), true);
    EXPECT_LE(facts.size(), 4 * text_bytes_max);
    EXPECT_TRUE(core::is_plain_utf8(facts));
  }
}

/// The end of a line that is too long is not seen, as little as the end of a text that was cut.
TEST(Bounds, ALineThatIsTooLongIsCut) {
  const std::string use = "0[0] -> 9[1] [send] via NET/IB/0";
  const std::string name((64U << 10) - use.size() - std::string("n:5:6 [0] NCCL INFO  : ").size(),
                         'x');
  const std::string line = "n:5:6 [0] NCCL INFO " + name + " : " + use;
  ASSERT_EQ(line.size(), 64U << 10);
  for (const std::size_t chunk :
       {std::size_t{1000}, std::size_t{64U << 10}, std::size_t{1U << 20}}) {
    for (const std::string_view tail : {"", "/GDRDMA"}) {
      TextReader reader;
      reader.begin("log");
      const std::string text = line + std::string(tail) + "\nend\n";
      for (std::size_t at = 0; at < text.size(); at += chunk)
        reader.feed(std::string_view(text).substr(at, chunk));
      reader.end();
      const core::Captures read = reader.finish();
      ASSERT_EQ(read.signs.size(), 1U);
      EXPECT_EQ(read.signs.front().other == "cut", !tail.empty()) << chunk;
    }
  }
}

}  // namespace
}  // namespace nobounce::captures
