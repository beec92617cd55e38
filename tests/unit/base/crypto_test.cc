#include "base/crypto.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(Blake2b, KnownAnswers) {
  // Published by the BLAKE2 authors' reference implementation (b2sum -l 256).
  EXPECT_EQ(blake2b({}).hex(), "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
  EXPECT_EQ(blake2b(as_bytes("abc")).hex(),
            "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
}

TEST(Blake2b, TheKeyChangesTheHash) {
  // Python: hashlib.blake2b(b"abc", key=bytes(range(32)), digest_size=32).
  Hash256 key;
  for (std::size_t i = 0; i < 32; ++i) key.bytes[i] = static_cast<std::byte>(i);
  EXPECT_EQ(keyed_blake2b(key, as_bytes("abc")).hex(),
            "d63a32d3e44738d7907f964316c241adaba0abfeabc32349677578a15a203f7f");
  EXPECT_NE(keyed_blake2b(key, as_bytes("abc")), blake2b(as_bytes("abc")));
}

TEST(Hash256, EqualityIsOfEveryBit) {
  const Hash256 hash = blake2b(as_bytes("abc"));
  EXPECT_TRUE(equal_in_constant_time(hash, hash));
  for (std::size_t bit = 0; bit < 256; ++bit) {
    Hash256 other = hash;
    other.bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(equal_in_constant_time(hash, other)) << bit;
  }
}

TEST(Encodings, KnownAnswers) {  // RFC 4648, section 10, and its two characters of section 5
  EXPECT_EQ(hex({}), "");
  EXPECT_EQ(hex(as_bytes("fo\xff")), "666fff");
  EXPECT_EQ(base64url({}), "");
  EXPECT_EQ(base64url(as_bytes("f")), "Zg");
  EXPECT_EQ(base64url(as_bytes("foob")), "Zm9vYg");
  EXPECT_EQ(base64url(as_bytes("\xfb\xff")), "-_8");
}

TEST(Blake2b, PiecesEqualTheWhole) {
  const std::string text(10'000, 'x');
  const Hash256 whole = blake2b(as_bytes(text));
  for (const std::size_t piece : {1U, 63U, 64U, 127U, 128U, 129U, 4096U}) {
    Blake2b hash;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      hash.update(as_bytes(std::string_view(text).substr(at, piece)));
    }
    EXPECT_EQ(hash.finish(), whole) << piece;
  }
}

TEST(Sha256, KnownAnswers) {  // FIPS 180-4
  EXPECT_EQ(Sha256().finish().hex(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 hash;
  hash.update(as_bytes("a"));
  hash.update(as_bytes("bc"));
  EXPECT_EQ(hash.finish().hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(RandomBytes, AreNotConstant) {
  Bytes one(32);
  Bytes two(32);
  random_bytes(one);
  random_bytes(two);
  EXPECT_NE(one, two);
}

}  // namespace
}  // namespace hearth
