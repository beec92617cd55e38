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
