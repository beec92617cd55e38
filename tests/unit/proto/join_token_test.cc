#include "proto/join_token.h"

#include <gtest/gtest.h>

#include "base/fingerprint.h"

namespace hearth {
namespace {

const std::string kGood =
    "hh1.00112233445566778899aabbccddeeff.0123456789abcdef."
    "ffeeddccbbaa99887766554433221100-_AZaz09xyz@192.168.1.20:11501,[::1]:80";

TEST(JoinToken, RoundTrips) {
  const auto token = parse_join_token(kGood);
  ASSERT_TRUE(token) << token.error().message;
  EXPECT_EQ(token->fingerprint, "00112233445566778899aabbccddeeff");
  EXPECT_EQ(token->id, "0123456789abcdef");
  EXPECT_EQ(token->secret, "ffeeddccbbaa99887766554433221100-_AZaz09xyz");
  EXPECT_EQ(token->addresses, (std::vector<std::string>{"192.168.1.20:11501", "[::1]:80"}));
  EXPECT_EQ(token->text(), kGood);
}

TEST(JoinToken, EveryPartMustBeThereAndTheSecretIsNeverRepeated) {
  std::vector<std::string> bad = {"",
                                  "hh1.",
                                  "hh2" + kGood.substr(3),
                                  "hh1" + kGood,
                                  kGood + ",",
                                  kGood + ",x:1",
                                  kGood + ",1.1.1.1:1,1.1.1.1:2,1.1.1.1:3",
                                  kGood.substr(0, kGood.find('@')),
                                  kGood.substr(0, kGood.find('@') + 1),
                                  " " + kGood,
                                  kGood + "\n",
                                  std::string(1'000'000, 'a')};
  for (std::size_t size = 0; size < kGood.find('@') + 3; ++size)
    bad.push_back(kGood.substr(0, size));
  for (std::size_t at = 4; at < kGood.find('@'); ++at) {
    std::string wrong = kGood;
    wrong[at] = wrong[at] == '.' ? '0' : '!';
    bad.push_back(wrong);
  }
  for (const std::string& text : bad) {
    const auto token = parse_join_token(text);
    ASSERT_FALSE(token) << text.substr(0, 200);
    EXPECT_EQ(token.error().message.find("ffeeddcc"), std::string::npos) << token.error().message;
    EXPECT_LT(token.error().message.size(), 300u);
  }
}

TEST(CoordinatorProof, BindsClusterNodeAndFingerprint) {
  const SecretKey cluster = SecretKey::generate();
  const PublicKey node = SecretKey::generate().public_key();
  const Signature proof = prove_coordinator(cluster, node);
  const std::string print = fingerprint(cluster.public_key());
  const ByteSpan key = cluster.public_key().bytes();
  const auto good = check_coordinator(print, key, proof, node);
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_EQ(*good, cluster.public_key());
  const PublicKey middle = SecretKey::generate().public_key();
  EXPECT_FALSE(check_coordinator(print, key, proof, middle)) << "passed on by a man in the middle";
  const SecretKey other = SecretKey::generate();
  EXPECT_FALSE(
      check_coordinator(print, other.public_key().bytes(), prove_coordinator(other, node), node))
      << "of another cluster";
  EXPECT_FALSE(check_coordinator(print, key, prove_coordinator(other, node), node));
  EXPECT_FALSE(check_coordinator(print, key, {}, node));
  EXPECT_FALSE(check_coordinator(print, {}, proof, node));
  EXPECT_FALSE(check_coordinator("", key, proof, node));
}

}  // namespace
}  // namespace hearth
