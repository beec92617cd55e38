#include "proto/roster.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace hearth {
namespace {

RosterEntry entry(const std::string& name, Role role = Role::kWorker,
                  std::vector<std::string> addresses = {}) {
  return {SecretKey::generate().public_key(), name, role, std::move(addresses)};
}

Roster small_roster(std::uint64_t number = 7) {
  Roster roster;
  roster.number = number;
  roster.entries = {entry("home", Role::kCoordinator, {"192.168.1.20:11501", "[::1]:1"}),
                    entry("den"), entry("attic", Role::kWorker, {"10.0.0.3:900"}),
                    entry("phone", Role::kClient), entry("me", Role::kAdmin)};
  return roster;
}

// The signature over what a test made of the bytes, so that the parser itself is asked.
Bytes signed_again(Bytes bytes, const SecretKey& key) {
  bytes.resize(bytes.size() - kSignatureBytes);
  const Signature signature = key.sign("hearth roster v1", bytes);
  bytes.insert(bytes.end(), signature.begin(), signature.end());
  return bytes;
}

TEST(Roster, RoundTrips) {
  const SecretKey key = SecretKey::generate();
  const Roster roster = small_roster();
  const auto bytes = sign_roster(roster, key);
  ASSERT_TRUE(bytes) << bytes.error().message;
  const auto parsed = parse_roster(*bytes);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->cluster, key.public_key());
  EXPECT_EQ(parsed->number, 7u);
  ASSERT_EQ(parsed->entries.size(), 5u);
  for (const RosterEntry& one : roster.entries) {
    ASSERT_NE(parsed->find(one.key), nullptr);
    EXPECT_EQ(*parsed->find(one.key), one);
    EXPECT_EQ(parsed->find(one.name)->key, one.key);
  }
  EXPECT_EQ(parsed->find("stranger"), nullptr);
  EXPECT_EQ(*sign_roster(*parsed, key), *bytes) << "one roster, one encoding";
}

TEST(Roster, NoBitOfItMayChange) {
  const SecretKey key = SecretKey::generate();
  const Bytes bytes = *sign_roster(small_roster(), key);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    Bytes wrong = bytes;
    wrong[at] ^= std::byte{1};
    EXPECT_FALSE(parse_roster(wrong)) << at;
    EXPECT_FALSE(parse_roster(ByteSpan(bytes).first(at))) << at;
  }
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(parse_roster(longer));
}

TEST(Roster, BoundsHoldForSignedBytesToo) {
  const SecretKey key = SecretKey::generate();
  const Bytes bytes = *sign_roster(small_roster(), key);
  // Every byte behind the cluster's key, with a good signature: never a crash, and what is accepted
  // is in order.
  for (std::size_t at = 40; at + kSignatureBytes < bytes.size(); ++at) {
    for (const int value : {0, 1, 127, 255}) {
      Bytes wrong = bytes;
      wrong[at] = static_cast<std::byte>(value);
      const auto parsed = parse_roster(signed_again(wrong, key));
      if (!parsed) continue;
      EXPECT_EQ(*sign_roster(*parsed, key), signed_again(wrong, key)) << at;
    }
  }
  Bytes many = bytes;
  many[48] = many[49] = many[50] = many[51] = std::byte{255};
  const auto refused = parse_roster(signed_again(many, key));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("the limit is 2048"), std::string::npos);
}

TEST(Roster, RefusesToSignWhatNoReaderAccepts) {
  const SecretKey key = SecretKey::generate();
  Roster roster = small_roster();
  roster.entries[1].name = "attic";
  EXPECT_FALSE(sign_roster(roster, key)) << "two of one name";
  roster = small_roster();
  roster.entries[1].key = roster.entries[2].key;
  EXPECT_FALSE(sign_roster(roster, key)) << "two of one key";
  roster = small_roster();
  roster.entries[1].name = "";
  EXPECT_FALSE(sign_roster(roster, key));
  roster = small_roster();
  roster.entries[1].addresses = {"nowhere"};
  EXPECT_FALSE(sign_roster(roster, key));
  roster = small_roster();
  roster.entries[1].addresses.assign(5, "10.0.0.1:1");
  EXPECT_FALSE(sign_roster(roster, key));
  roster = small_roster(0);
  EXPECT_FALSE(sign_roster(roster, key));
}

TEST(Roster, ARoleIsOneOfTheFour) {
  const SecretKey key = SecretKey::generate();
  Roster roster;
  roster.entries = {entry("den")};
  const Bytes good = *sign_roster(roster, key);
  constexpr std::size_t kRoleAt = 52 + PublicKey::kBytes;  // of the first entry
  for (const int number : {0, 5, 255}) {
    Bytes wrong = good;
    wrong[kRoleAt] = static_cast<std::byte>(number);
    const auto parsed = parse_roster(signed_again(wrong, key));
    ASSERT_FALSE(parsed) << number;
    EXPECT_NE(parsed.error().message.find("role " + std::to_string(number)), std::string::npos);
    roster.entries[0].role = static_cast<Role>(number);
    EXPECT_FALSE(sign_roster(roster, key)) << number;
  }
}

TEST(Roster, TheLongestFitsItsLimit) {
  const SecretKey key = SecretKey::generate();
  Roster roster;
  for (std::uint32_t i = 0; i < limits::kRosterEntries; ++i) {
    std::string name = std::to_string(i);
    name.resize(limits::kNodeNameBytes, 'x');
    roster.entries.push_back(entry(name));
  }
  const auto bytes = sign_roster(roster, key);
  ASSERT_TRUE(bytes);
  EXPECT_TRUE(parse_roster(*bytes));
  roster.entries.push_back(entry("one more"));
  EXPECT_FALSE(sign_roster(roster, key));
}

TEST(RosterBook, KeepsTheNewest) {
  const SecretKey key = SecretKey::generate();
  RosterBook book(key.public_key());
  EXPECT_EQ(book.roster(), nullptr);
  EXPECT_FALSE(book.find("den"));
  const Roster first = small_roster(7);
  const Bytes seven = *sign_roster(first, key);
  EXPECT_EQ(*book.offer(seven), RosterBook::Offer::kNewer);
  EXPECT_EQ(*book.offer(seven), RosterBook::Offer::kKnown);
  Roster second = first;
  second.number = 9;
  std::erase_if(second.entries, [](const RosterEntry& one) { return one.name == "den"; });
  const Bytes nine = *sign_roster(second, key);
  EXPECT_EQ(*book.offer(nine), RosterBook::Offer::kNewer);
  EXPECT_FALSE(book.find("den"));
  EXPECT_FALSE(book.find(first.find("den")->key));
  EXPECT_EQ(*book.offer(seven), RosterBook::Offer::kRollback);
  EXPECT_FALSE(book.find("den")) << "the removed one is back";
  EXPECT_EQ(book.bytes(), nine);
}

TEST(RosterBook, NoticesAFork) {
  const SecretKey key = SecretKey::generate();
  RosterBook book(key.public_key());
  const Bytes one = *sign_roster(small_roster(7), key);
  const Bytes other = *sign_roster(small_roster(7), key);
  EXPECT_EQ(*book.offer(one), RosterBook::Offer::kNewer);
  EXPECT_EQ(*book.offer(other), RosterBook::Offer::kFork);
  EXPECT_EQ(book.bytes(), one);
}

TEST(RosterBook, TakesNoOtherCluster) {
  RosterBook book(SecretKey::generate().public_key());
  EXPECT_FALSE(book.offer(*sign_roster(small_roster(), SecretKey::generate())));
  EXPECT_EQ(book.roster(), nullptr);
}

TEST(Role, HasAName) {
  for (const Role role : {Role::kWorker, Role::kClient, Role::kAdmin, Role::kCoordinator}) {
    EXPECT_EQ(*parse_role(role_name(role)), role);
  }
  EXPECT_FALSE(parse_role("root"));
  EXPECT_FALSE(parse_role(""));
}

}  // namespace
}  // namespace hearth
