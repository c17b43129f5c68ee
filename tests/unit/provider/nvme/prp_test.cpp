// PRP entries, read back by a walker that follows the specification and shares no code with the
// writer.
#include "provider/nvme/prp.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

namespace nobounce::provider::nvme {
namespace {

constexpr std::uint64_t list_iova = 0x10000000;

struct Walked {
  std::uint64_t contiguous_end = 0;  ///< where the memory that was named ends
  std::uint64_t list_pages = 0;
  bool fits = true;
};

/// Follows the entries and checks that they name one stretch of memory. Small pages make chains
/// short.
Walked walk(const Prps& prps, std::uint64_t length, std::uint64_t page,
            const std::vector<std::byte>& list) {
  Walked walked;
  std::uint64_t at = prps.first;
  std::uint64_t rest = length;
  const auto take = [&](std::uint64_t bytes) {
    at += bytes;
    rest -= bytes;
  };
  take(std::min(rest, page - prps.first % page));
  if (rest > 0 && rest <= page) {
    EXPECT_EQ(prps.second, at);
    take(rest);
  }
  std::uint64_t slot = prps.second;
  if (rest > 0) walked.list_pages = 1;
  while (rest > 0) {
    std::uint64_t entry = 0;
    const std::uint64_t inside = slot - list_iova;
    if (inside + 8 > list.size()) {
      walked.fits = false;
      return walked;
    }
    std::memcpy(&entry, list.data() + inside, sizeof entry);
    const bool last = slot % page == page - 8;
    if (last && rest > page) {
      EXPECT_EQ(entry % page, 0u);
      slot = entry;
      ++walked.list_pages;
      continue;
    }
    EXPECT_EQ(entry, at);
    take(std::min(rest, page));
    slot += 8;
  }
  walked.contiguous_end = at;
  return walked;
}

TEST(Prps, NameEveryByteOnceAtEveryLengthAndOffset) {
  const std::uint64_t page = 64;  // eight entries a list page
  for (std::uint64_t offset = 0; offset < page; offset += 4) {
    for (std::uint64_t length = 4; length <= 40 * page; length += 4) {
      std::vector<std::byte> list(prp_list_bytes(length, page));
      const Iova memory{0x2000 + offset};
      const auto prps =
          write_prps(memory, length, page, {list.data(), Iova{list_iova}, list.size()});
      ASSERT_TRUE(prps.has_value()) << offset << " " << length;
      const Walked walked = walk(*prps, length, page, list);
      ASSERT_TRUE(walked.fits) << offset << " " << length;
      ASSERT_EQ(walked.contiguous_end, memory.value + length) << offset;
      ASSERT_LE(walked.list_pages * page, list.size());
    }
  }
}

// libvfn chained one page too far (its commit c2acee3): where the entries end with the page, the
// last slot is an entry.
TEST(Prps, ChainOnlyWhereMoreFollows) {
  const std::uint64_t page = 4096;
  const std::uint64_t slots = page / 8;
  std::vector<std::byte> list(2 * page);
  const PrpList whole{list.data(), Iova{list_iova}, list.size()};
  const auto last_slot = [&] {
    std::uint64_t entry = 0;
    std::memcpy(&entry, list.data() + page - 8, sizeof entry);
    return entry;
  };
  ASSERT_TRUE(write_prps(Iova{0}, (slots + 1) * page, page, whole).has_value());
  EXPECT_EQ(last_slot(), slots * page);
  ASSERT_TRUE(write_prps(Iova{0}, (slots + 2) * page, page, whole).has_value());
  EXPECT_EQ(last_slot(), list_iova + page);
}

TEST(Prps, RefuseWhatDoesNotFitAndWhatIsNotAligned) {
  std::vector<std::byte> list(4096);
  const PrpList small{list.data(), Iova{list_iova}, 4096};
  EXPECT_TRUE(write_prps(Iova{0}, 513 * 4096, 4096, small).has_value());
  EXPECT_FALSE(write_prps(Iova{0}, 514 * 4096, 4096, small).has_value());
  EXPECT_FALSE(write_prps(Iova{2}, 4096, 4096, small).has_value());
  EXPECT_FALSE(write_prps(Iova{0}, 0, 4096, small).has_value());
  // Two entries need no list at all.
  const auto two = write_prps(Iova{512}, 4096, 4096, {nullptr, Iova{}, 0});
  ASSERT_TRUE(two.has_value());
  EXPECT_EQ(two->second, 4096u);
}

}  // namespace
}  // namespace nobounce::provider::nvme
