#include "base/bytes.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace hearth {
namespace {

TEST(ByteReader, ReadsWhatTheWriterWrote) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.write<std::uint8_t>(7);
  writer.write<std::uint64_t>(0x0102030405060708ULL);
  writer.write<float>(-1.5F);
  writer.append(as_bytes("tail"));
  ASSERT_EQ(bytes.size(), 1U + 8U + 4U + 4U);
  EXPECT_EQ(std::to_integer<int>(bytes[1]), 8) << "little-endian";

  ByteReader reader(bytes);
  EXPECT_EQ(reader.read<std::uint8_t>(), 7);
  EXPECT_EQ(reader.read<std::uint64_t>(), 0x0102030405060708ULL);
  EXPECT_EQ(reader.read<float>(), -1.5F);
  EXPECT_EQ(as_text(reader.take(4)), "tail");
  EXPECT_EQ(reader.remaining(), 0U);
  EXPECT_FALSE(reader.failed());
}

TEST(ByteReader, FailsForGoodPastTheEnd) {
  const Bytes bytes(7);
  ByteReader reader(bytes);
  EXPECT_EQ(reader.read<std::uint64_t>(), 0U);
  EXPECT_TRUE(reader.failed());
  EXPECT_EQ(reader.read<std::uint8_t>(), 0U) << "even what would have fitted";
  EXPECT_TRUE(reader.take(0).empty());
}

TEST(ByteReader, ARequestThatWrapsIsRefused) {
  const Bytes bytes(16);
  ByteReader reader(bytes);
  reader.take(8);
  EXPECT_TRUE(reader.take(~std::size_t{0} - 4).empty());
  EXPECT_TRUE(reader.failed());
}

TEST(ByteReader, NeverReadsOutsideOnRandomRequests) {
  SeededRandom random(1);
  for (int round = 0; round < 1000; ++round) {
    const Bytes bytes(random.next() % 64);
    ByteReader reader(bytes);
    std::size_t taken = 0;
    while (!reader.failed()) {
      const std::size_t want = random.next() % 24;
      const ByteSpan got = reader.take(want);
      if (reader.failed()) {
        EXPECT_GT(want, bytes.size() - taken);
      } else {
        EXPECT_EQ(got.data(), bytes.data() + taken);
        taken += want;
      }
      EXPECT_EQ(reader.offset(), taken);
      EXPECT_EQ(reader.remaining(), bytes.size() - taken);
      if (want == 0 && reader.remaining() == 0) break;
    }
  }
}

}  // namespace
}  // namespace hearth
