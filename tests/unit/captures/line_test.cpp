// Cleaning of lines: escapes, quoting, what collectors put in front; and words and numbers in them.
#include <gtest/gtest.h>

#include <string>

#include "captures/device_names.hpp"
#include "captures/line.hpp"
#include "captures/scan.hpp"

namespace nobounce::captures {
namespace {

std::string cleaned(std::string_view raw) {
  std::string buffer;
  return std::string(clean_line(raw, buffer));
}

TEST(CleanLine, RemovesWhatIsNoText) {
  EXPECT_EQ(cleaned("\x1b[4mGPU0\x1b[0m\r"), "GPU0");
  EXPECT_EQ(cleaned("[4mGPU0\tGPU1[0m"), "GPU0\tGPU1");
  EXPECT_EQ(cleaned("^[[1;31mred^[[0m"), "red");
  EXPECT_EQ(cleaned("\x1b]0;title\a text"), " text");
  EXPECT_EQ(cleaned("BAR 1 [mem 0x1-0x2]"), "BAR 1 [mem 0x1-0x2]");
  EXPECT_EQ(cleaned("n:1:2 [0] NCCL"), "n:1:2 [0] NCCL");
  EXPECT_EQ(cleaned("> > quoted"), "quoted");
  EXPECT_EQ(cleaned("a -&gt; b \\u003e c"), "a -> b > c");
  EXPECT_EQ(cleaned("a\xC2\xA0"
                    "b\xff"),
            "a b\\xff");
  EXPECT_EQ(cleaned("K\xC3\xBCnstler"), "K\xC3\xBCnstler");
  EXPECT_EQ(cleaned(std::string("a\0b", 3)), "ab");
}

TEST(WithoutPrefixes, SeesThroughCollectors) {
  for (const char* front : {"2026-02-11T09:13:48.617-05:00 ", "2026-02-11 09:13:48,617 ",
                            "[1,0]<stdout>:", "[rank3]: ", "(Worker pid=12) ", "[  33.615209] ",
                            "2026-01-01T00:00:00Z stdout F ", "worker-1  | ",
                            "  | 2026-02-11T09:13:48.617-05:00 | ", "Nov 29 15:36:10 "})
    EXPECT_NE(without_prefixes(std::string(front) + "GPU0 X").find("GPU0 X"), std::string::npos)
        << front;
  EXPECT_EQ(trim(without_prefixes("2026-02-11T09:13:48.617-05:00 GPU0 X")), "GPU0 X");
  EXPECT_EQ(trim(without_prefixes("Nov 29 15:36:10 GPU0 X")), "GPU0 X");
  EXPECT_EQ(without_prefixes("GPU0 X"), "GPU0 X");
  EXPECT_EQ(trim(without_node("node7: GPU0 X")), "GPU0 X");
  EXPECT_EQ(trim(without_node("0: GPU0 X")), "GPU0 X");
  EXPECT_EQ(without_node("no node here"), "");
}

TEST(Scan, NumbersAndAddresses) {
  EXPECT_EQ(whole_number("  118,402 x"), 118402U);
  EXPECT_FALSE(whole_number("x").has_value());
  EXPECT_FALSE(whole_number("99999999999999999999999").has_value());
  EXPECT_EQ(signed_number("-22]"), -22);
  EXPECT_EQ(hex_number("0x2f000000 "), 0x2f000000U);
  EXPECT_DOUBLE_EQ(*real_number("261.60 "), 261.60);
  EXPECT_FALSE(real_number("-").has_value());
  EXPECT_EQ(find_address("nvme 0000:5e:00.0: cannot"), "0000:5e:00.0");
  EXPECT_EQ(find_address("device [af:00.0] fault"), "af:00.0");
  EXPECT_EQ(find_address("at 15:36:10.5"), "");
  EXPECT_EQ(short_address("00000000:0B:00.0"), "0b:00.0");
  EXPECT_EQ(short_address("0001:0B:00.0"), "0001:0b:00.0");
}

TEST(DeviceNames, AlsoGluedOnes) {
  EXPECT_EQ(device_name_length("NIC8NIC9"), 4U);
  EXPECT_EQ(device_name_length("NIC11CPU Affinity"), 5U);
  EXPECT_EQ(device_name_length("mlx5_bond_0\tx"), 11U);
  EXPECT_EQ(device_name_length("rocep129s0f0 x"), 12U);
  EXPECT_EQ(device_name_length("GPU NUMA ID"), 0U);
  EXPECT_TRUE(is_gpu_name("GPU15"));
  EXPECT_FALSE(is_gpu_name("GPU15x"));
}

TEST(QuotedLine, IsCutAtACharacter) {
  std::string text(398, 'a');
  text += "\xC3\xBC\xC3\xBC\xC3\xBC";
  const std::string quoted = quoted_line(text);
  EXPECT_LE(quoted.size(), 404U);
  EXPECT_EQ(quoted.substr(quoted.size() - 3), "...");
}

}  // namespace
}  // namespace nobounce::captures
