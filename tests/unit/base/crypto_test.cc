#include "base/crypto.h"

#include <gtest/gtest.h>

#include "base/hex.h"

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

TEST(Encodings, KnownAnswers) {  // RFC 4648, section 10, and its two characters of section 5
  EXPECT_EQ(base64url({}), "");
  EXPECT_EQ(base64url(as_bytes("f")), "Zg");
  EXPECT_EQ(base64url(as_bytes("foob")), "Zm9vYg");
  EXPECT_EQ(base64url(as_bytes("\xfb\xff")), "-_8");
  EXPECT_EQ(base64(as_bytes("f")), "Zg==");
  EXPECT_EQ(base64(as_bytes("\xfb\xff")), "+/8=");
}

TEST(Encodings, Base64HasOneSpelling) {
  for (const char* text : {"", "Zg==", "Zm8=", "Zm9v", "+/8="}) {
    const auto bytes = from_base64(text);
    ASSERT_TRUE(bytes) << text;
    EXPECT_EQ(base64(*bytes), text);
  }
  for (const char* text : {"Z", "Zg", "Zg=", "Zh==", "Zm9=", "Zg==\n",
                           " Zg==", "Z g==", "-_8=", "Zg===", "====", "Zg==Zg=="}) {
    EXPECT_FALSE(from_base64(text)) << text;
  }
  for (int byte = 0x80; byte < 0x100; ++byte) {
    EXPECT_FALSE(from_base64(std::string("Zm9") + static_cast<char>(byte))) << byte;
  }
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

Bytes hex(std::string_view text) { return from_hex(text).value(); }

// RFC 8032, section 7.1, tests 1 and 2: keys.
TEST(SecretKey, HasThePublishedPublicKeys) {
  const auto one =
      SecretKey::from_seed(hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"));
  ASSERT_TRUE(one);
  EXPECT_EQ(one->public_key().hex(),
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
  const auto two =
      SecretKey::from_seed(hex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"));
  ASSERT_TRUE(two);
  EXPECT_EQ(two->public_key().hex(),
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
  EXPECT_FALSE(SecretKey::from_seed(Bytes(31)));
}

TEST(Signatures, OfBytesAloneAreThePublishedOnes) {  // RFC 8032, section 7.1, test 2
  const auto key =
      SecretKey::from_seed(hex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"));
  ASSERT_TRUE(key);
  const Signature signature = key->sign_plain(hex("72"));
  EXPECT_EQ(to_hex(signature),
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
            "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00");
  EXPECT_TRUE(verify_plain(key->public_key(), hex("72"), signature));
  EXPECT_FALSE(verify_plain(key->public_key(), hex("73"), signature));
  EXPECT_FALSE(verify(key->public_key(), "", hex("72"), signature)) << "a purpose ends with zero";
}

// What was found valid is remembered, and nothing else is taken for it.
TEST(PublicKey, IsJudgedAnewWhereABitDiffers) {
  const PublicKey key = SecretKey::from_seed(Bytes(32, std::byte{9}))->public_key();
  std::size_t valid = 0;
  for (std::size_t bit = 0; bit < 8 * PublicKey::kBytes; ++bit) {
    ASSERT_TRUE(PublicKey::parse(key.bytes()));
    Bytes other(key.bytes().begin(), key.bytes().end());
    other[bit / 8] ^= std::byte{static_cast<unsigned char>(1 << bit % 8)};
    const auto first = PublicKey::parse(other);
    const auto second = PublicKey::parse(other);
    EXPECT_EQ(first.ok(), second.ok()) << bit;
    if (!second) continue;
    EXPECT_NE(*second, key) << bit;
    ++valid;
  }
  EXPECT_GT(valid, 4u);  // of eight points one is of the group of prime order, half are points
  EXPECT_LT(valid, 40u);
}

TEST(PublicKey, RefusesWhatIsNoKey) {
  EXPECT_FALSE(PublicKey::parse({}));
  EXPECT_FALSE(PublicKey::parse(Bytes(31)));
  EXPECT_FALSE(PublicKey::parse(Bytes(33)));
  for (const char* bad : {
           // All points of small order, and their other encodings.
           "0000000000000000000000000000000000000000000000000000000000000000",
           "0100000000000000000000000000000000000000000000000000000000000000",
           "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
           "0000000000000000000000000000000000000000000000000000000000000080",
           "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
           "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
           "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
           "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
           // Not canonical: y + p.
           "f0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
           "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
           // No point at all.
           "0200000000000000000000000000000000000000000000000000000000000000",
       }) {
    EXPECT_FALSE(PublicKey::parse(hex(bad))) << bad;
  }
}

TEST(Signatures, BelongToKeyPurposeAndMessage) {
  const SecretKey key = SecretKey::generate();
  const SecretKey other = SecretKey::generate();
  const Bytes message = hex("00112233");
  const Signature signature = key.sign("purpose", message);
  EXPECT_TRUE(verify(key.public_key(), "purpose", message, signature));
  EXPECT_FALSE(verify(other.public_key(), "purpose", message, signature));
  EXPECT_FALSE(verify(PublicKey(), "purpose", message, signature));
  EXPECT_FALSE(verify(key.public_key(), "purpos", message, signature));
  EXPECT_FALSE(verify(key.public_key(), "", message, signature));
  EXPECT_FALSE(verify(key.public_key(), "purpose", hex("001122"), signature));
  EXPECT_FALSE(verify(key.public_key(), "purpose", message, ByteSpan(signature).first(63)));
  for (std::size_t bit = 0; bit < 8 * signature.size(); ++bit) {
    Signature wrong = signature;
    wrong[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_FALSE(verify(key.public_key(), "purpose", message, wrong)) << bit;
  }
}

TEST(Signatures, HaveOneEncodingOnly) {
  const SecretKey key = SecretKey::generate();
  const Bytes message = hex("aa");
  Signature signature = key.sign("p", message);
  // S + L is the same number modulo the group's order, and would be the same signature.
  const Bytes order = hex("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
  unsigned carry = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    carry += std::to_integer<unsigned>(signature[32 + i]) + std::to_integer<unsigned>(order[i]);
    signature[32 + i] = static_cast<std::byte>(carry & 255);
    carry >>= 8;
  }
  EXPECT_FALSE(verify(key.public_key(), "p", message, signature));
}

TEST(Secrets, AreComparedWhole) {
  EXPECT_TRUE(equal_secrets(as_bytes("abc"), as_bytes("abc")));
  EXPECT_TRUE(equal_secrets({}, {}));
  EXPECT_FALSE(equal_secrets(as_bytes("abc"), as_bytes("abd")));
  EXPECT_FALSE(equal_secrets(as_bytes("abc"), as_bytes("ab")));
}

}  // namespace
}  // namespace hearth
