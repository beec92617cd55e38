#include "base/fingerprint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/hex.h"

namespace hearth {
namespace {

PublicKey published() {  // RFC 8032, section 7.1, test 1
  return PublicKey::parse(
             *from_hex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"))
      .value();
}

// Tokens and files outlive a version of the program: these texts may never change.
TEST(Fingerprint, OfAPublishedKey) {
  EXPECT_EQ(fingerprint(published()), "0de829a9b36ad07455c4f30b66a640ca");
  EXPECT_EQ(three_words(published()), "bonnet-basket-magnet");
}

TEST(Fingerprint, DiffersFromKeyToKey) {
  std::set<std::string> fingerprints;
  std::set<std::string> words;
  for (int i = 0; i < 100; ++i) {
    const PublicKey key = SecretKey::generate().public_key();
    fingerprints.insert(fingerprint(key));
    const std::string name = three_words(key);
    words.insert(name);
    EXPECT_EQ(std::count(name.begin(), name.end(), '-'), 2) << name;
  }
  EXPECT_EQ(fingerprints.size(), 100u);
  EXPECT_GE(words.size(), 99u);  // two of a hundred meet once in 3,400 runs; three are a mistake
}

}  // namespace
}  // namespace hearth
