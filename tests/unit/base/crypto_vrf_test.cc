#include "base/crypto_vrf.h"

#include <gtest/gtest.h>

#include "base/hex.h"

namespace hearth {
namespace {

SecretKey key_of(unsigned char seed) {
  return SecretKey::from_seed(Bytes(SecretKey::kSeedBytes, std::byte{seed})).value();
}

TEST(Vrf, KnownAnswers) {  // RFC 9381, appendix B.3, examples 16 to 18
  struct Example {
    const char* seed;
    const char* message;
    const char* proof;
    const char* output;
  };
  for (const Example& example : {
           Example{"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60", "",
                   "8657106690b5526245a92b003bb079ccd1a92130477671f6fc01ad16f26f723f"
                   "26f8a57ccaed74ee1b190bed1f479d9727d2d0f9b005a6e456a35d4fb0daab12"
                   "68a1b0db10836d9826a528ca76567805",
                   "90cf1df3b703cce59e2a35b925d411164068269d7b2d29f3301c03dd757876ff"
                   "66b71dda49d2de59d03450451af026798e8f81cd2e333de5cdf4f3e140fdd8ae"},
           Example{"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb", "72",
                   "f3141cd382dc42909d19ec5110469e4feae18300e94f304590abdced48aed593"
                   "3bf0864a62558b3ed7f2fea45c92a465301b3bbf5e3e54ddf2d935be3b67926d"
                   "a3ef39226bbc355bdc9850112c8f4b02",
                   "eb4440665d3891d668e7e0fcaf587f1b4bd7fbfe99d0eb2211ccec90496310eb"
                   "5e33821bc613efb94db5e5b54c70a848a0bef4553a41befc57663b56373a5031"},
           Example{"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7", "af82",
                   "9bc0f79119cc5604bf02d23b4caede71393cedfbb191434dd016d30177ccbf80"
                   "96bb474e53895c362d8628ee9f9ea3c0e52c7a5c691b6c18c9979866568add7a"
                   "2d41b00b05081ed0f58ee5e31b3a970e",
                   "645427e5d00c62a23fb703732fa5d892940935942101e456ecca7bb217c61c45"
                   "2118fec1219202a0edcf038bb6373241578be7217ba85a2687f7a0310b2df19f"},
       }) {
    const SecretKey key = *SecretKey::from_seed(*from_hex(example.seed));
    const Bytes message = *from_hex(example.message);
    const VrfProof proof = vrf_prove(key, message);
    EXPECT_EQ(to_hex(proof), example.proof);
    const auto output = vrf_verify(key.public_key(), message, proof);
    ASSERT_TRUE(output);
    EXPECT_EQ(to_hex(*output), example.output);
    EXPECT_EQ(vrf_output(proof), output) << "without the check";
    EXPECT_FALSE(vrf_output(ByteSpan(proof).first(79)));
  }
}

TEST(Vrf, AProofIsOfOneKeyAndOneMessage) {
  const VrfProof proof = vrf_prove(key_of(1), as_bytes("message"));
  EXPECT_TRUE(vrf_verify(key_of(1).public_key(), as_bytes("message"), proof));
  EXPECT_FALSE(vrf_verify(key_of(2).public_key(), as_bytes("message"), proof));
  EXPECT_FALSE(vrf_verify(key_of(1).public_key(), as_bytes("Message"), proof));
  EXPECT_FALSE(vrf_verify(PublicKey(), as_bytes("message"), proof));
  for (std::size_t bit = 0; bit < 8 * proof.size(); ++bit) {
    VrfProof wrong = proof;
    wrong[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(vrf_verify(key_of(1).public_key(), as_bytes("message"), wrong)) << bit;
  }
  for (std::size_t size = 0; size < proof.size(); ++size) {
    EXPECT_FALSE(
        vrf_verify(key_of(1).public_key(), as_bytes("message"), ByteSpan(proof).first(size)));
  }
}

// What would give one message a second output, or one output a second proof.
TEST(Vrf, RefusesEdgesOfTheEncodings) {
  const VrfProof proof = vrf_prove(key_of(1), as_bytes("message"));
  const auto refused = [](const VrfProof& wrong) {
    return !vrf_verify(key_of(1).public_key(), as_bytes("message"), wrong);
  };
  VrfProof wrong = proof;
  const Bytes order = *from_hex("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
  unsigned carry = 0;  // s + L
  for (std::size_t i = 0; i < 32; ++i) {
    carry += std::to_integer<unsigned>(wrong[48 + i]) + std::to_integer<unsigned>(order[i]);
    wrong[48 + i] = static_cast<std::byte>(carry);
    carry >>= 8;
  }
  EXPECT_TRUE(refused(wrong));
  for (const char* point :
       {"0100000000000000000000000000000000000000000000000000000000000000",     // the identity
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",     // of order 2
        "0000000000000000000000000000000000000000000000000000000000000000",     // of order 4
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",     // of order 8
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"}) {  // not canonical
    wrong = proof;
    const Bytes bytes = *from_hex(point);
    std::copy(bytes.begin(), bytes.end(), wrong.begin());
    EXPECT_TRUE(refused(wrong)) << point;
  }
}

TEST(Vrf, OutputsAreSpreadEvenly) {
  const SecretKey key = key_of(3);
  std::array<int, 16> counts{};
  for (int i = 0; i < 800; ++i) {
    const std::string message = std::to_string(i);
    const VrfProof proof = vrf_prove(key, as_bytes(message));
    const auto output = vrf_verify(key.public_key(), as_bytes(message), proof);
    ASSERT_TRUE(output);
    ++counts[std::to_integer<std::size_t>((*output)[0]) / 16];
  }
  double chi = 0;
  for (const int count : counts) chi += (count - 50.0) * (count - 50.0) / 50.0;
  EXPECT_LT(chi, 37.7) << "15 degrees of freedom, p = 0.001; the messages are fixed";
}

}  // namespace
}  // namespace hearth
