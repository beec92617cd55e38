#include "node/engine/step_hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace hearth::node {
namespace {

TEST(StepHash, IsTheHashOfTheDocumentedBytes) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.append(as_bytes("hearth.act"));
  writer.write<std::uint32_t>(3);
  writer.write<std::uint32_t>(70000);
  writer.append(as_bytes("row bytes"));
  EXPECT_EQ(hash_activation(3, 70000, as_bytes("row bytes")), blake2b(bytes));
  bytes.clear();
  writer.append(as_bytes("hearth.tok"));
  writer.write<std::uint32_t>(9);
  writer.write<std::uint32_t>(11);
  EXPECT_EQ(hash_token(9, 11), blake2b(bytes));
}

// Every byte by hand: ten of the tag, then little-endian words, then the row as it is.
TEST(StepHash, HashesExactlyTheseBytes) {
  const auto of = [](const std::string& bytes) { return blake2b(as_bytes(bytes)); };
  using std::string_literals::operator""s;
  EXPECT_EQ(hash_token(0, 0), of("hearth.tok\0\0\0\0\0\0\0\0"s));
  EXPECT_EQ(hash_token(0x01020304, 0x0A0B0C0D), of("hearth.tok\x04\x03\x02\x01\x0D\x0C\x0B\x0A"s));
  EXPECT_EQ(hash_token(1, -1), of("hearth.tok\1\0\0\0\xFF\xFF\xFF\xFF"s));
  EXPECT_EQ(hash_output(0xFFFFFFFE, kNoToken), of("hearth.out\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF"s));
  EXPECT_EQ(hash_output(256, 65536), of("hearth.out\0\1\0\0\0\0\1\0"s));
  EXPECT_EQ(hash_activation(1, 2, {}), of("hearth.act\1\0\0\0\2\0\0\0"s));
  const std::string row = "\x00\x3C\x00\xBC"s;  // 1 and -1
  EXPECT_EQ(hash_activation(512, 0xFF00, as_bytes(row)), of("hearth.act\0\2\0\0\0\xFF\0\0"s + row));
  EXPECT_NE(hash_activation(1, 2, as_bytes(row)), hash_activation(2, 1, as_bytes(row)));
}

TEST(StepHash, TellsKindsPositionsAndValuesApart) {
  std::set<std::string> seen;
  for (Position position = 0; position < 3; ++position) {
    for (std::uint32_t value = 0; value < 3; ++value) {
      seen.insert(hash_token(position, static_cast<TokenId>(value)).hex());
      seen.insert(hash_output(position, value).hex());
      seen.insert(hash_activation(value, position, {}).hex());
    }
  }
  seen.insert(hash_output(0, kNoToken).hex());
  EXPECT_EQ(seen.size(), 28U);
}

}  // namespace
}  // namespace hearth::node
