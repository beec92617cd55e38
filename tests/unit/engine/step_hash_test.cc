#include "node/engine/step_hash.h"

#include <gtest/gtest.h>

#include <set>

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
