#include "coordinator/membership/set_back.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "coordinator/membership/credentials.h"
#include "coordinator/membership/membership.h"
#include "tests/unit/coordinator/store/store_folder.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator {
namespace {

struct SetBackTest : ::testing::Test {
  const SecretKey cluster = SecretKey::generate();
  const RosterEntry own{SecretKey::generate().public_key(), "home", Role::kCoordinator, {}};
  const StoreFolder folder;
  std::shared_ptr<Store> store = folder.open();

  static RosterEntry worker(const std::string& name) {
    return {SecretKey::generate().public_key(), name, Role::kWorker, {}};
  }
  void admit(const RosterEntry& entry) const {
    ASSERT_TRUE(store->admit({{entry.key, entry.name, entry.role, 1, false}, "", {}}).ok());
  }
  Roster roster(std::uint64_t number, std::vector<RosterEntry> entries) const {
    entries.push_back(own);
    return parse_roster(sign_roster({{}, number, std::move(entries)}, cluster).value()).value();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> in;
    for (const NodeRecord& node : store->nodes().value()) {
      if (!node.revoked) in.push_back(node.name);
    }
    return in;
  }
  static bool never_here(const RosterEntry&) { return false; }
};

TEST_F(SetBackTest, ANumberThatTheStoreDoesNotKnowSaysThatItIsOlder) {
  EXPECT_TRUE(check_not_set_back(*store, 0, 0).ok());
  EXPECT_FALSE(check_not_set_back(*store, 1, 0).ok()) << "a new store, and a cluster that is not";
  ASSERT_TRUE(store->note_roster(7).ok());
  EXPECT_TRUE(check_not_set_back(*store, 7, 0).ok());
  EXPECT_TRUE(check_not_set_back(*store, 6, 0).ok()) << "noted, and the disk was full";
  EXPECT_TRUE(check_not_set_back(*store, 7, 6).ok()) << "it was settled since";
  EXPECT_FALSE(check_not_set_back(*store, 7, 7).ok()) << "two of one number";
  const Status older = check_not_set_back(*store, 9, 0);
  ASSERT_FALSE(older.ok());
  EXPECT_EQ(older.error().code, ErrorCode::kRefused);
  for (const char* says : {"number 7", "number 9", "hearth nodes restore"}) {
    EXPECT_NE(older.error().message.find(says), std::string::npos) << older.error().message;
  }
  EXPECT_FALSE(check_not_set_back(*store, 7, 9).ok());
}

TEST_F(SetBackTest, ARestartRefusesAStoreThatIsOlderThanItsRoster) {
  testing::FakeClock clock;
  const RosterEntry den = worker("den");
  MembershipOptions options;
  options.node = own.key;
  options.roster = std::make_shared<RosterBook>(cluster.public_key());
  options.keep = [](ByteSpan) { return ok_status(); };
  options.changed = [] {};
  options.store = store;
  admit(den);
  ASSERT_TRUE(Membership(cluster, options, clock).restart(own).ok());
  options.store.reset();
  store.reset();
  const std::string copy = folder.path() + "/copy.db";
  std::filesystem::copy_file(folder.file(), copy);
  store = options.store = folder.open();
  {
    Membership membership(cluster, options, clock);
    ASSERT_TRUE(membership.restart(own).ok());
    ASSERT_TRUE(store->revoke_node(den.key).value());
    ASSERT_TRUE(membership.follow_store().ok());
  }
  const Bytes newest = options.roster->bytes();
  options.store.reset();
  store.reset();
  std::filesystem::rename(copy, folder.file());
  store = options.store = folder.open();
  ASSERT_EQ(names(), std::vector<std::string>{"den"});
  EXPECT_FALSE(Membership(cluster, options, clock).restart(own).ok());
  EXPECT_EQ(options.roster->bytes(), newest) << "no node is admitted again";

  ASSERT_TRUE(restore_members(*store, {*options.roster->roster()}, never_here, 5).ok());
  ASSERT_TRUE(Membership(cluster, options, clock).restart(own).ok());
  EXPECT_FALSE(options.roster->find(den.key));
  EXPECT_GT(options.roster->roster()->number, parse_roster(newest)->number);
}

TEST_F(SetBackTest, MembersComeFromTheNewestRosterAndTokensAreWorthless) {
  const RosterEntry stayed = worker("stayed");
  const RosterEntry removed = worker("removed");
  const RosterEntry since = worker("since");
  const RosterEntry local = worker("local-1");
  admit(stayed);
  admit(removed);
  const TokenSecret token = create_token(*store, {Role::kWorker, 60, 5}, 1).value();
  const auto restored = restore_members(
      *store, {roster(8, {stayed, removed}), roster(9, {stayed, since, local})},
      [&](const RosterEntry& entry) { return entry.key == local.key; }, 5);
  ASSERT_TRUE(restored.ok());
  EXPECT_EQ(restored->removed, std::vector<std::string>{"removed"});
  EXPECT_EQ(restored->added, std::vector<std::string>{"since"});
  EXPECT_EQ(restored->number, 10u);
  EXPECT_EQ(names(), (std::vector<std::string>{"stayed", "since"}));
  EXPECT_EQ(store->find_node(since.key).value()->enrolled, 5);
  EXPECT_FALSE(check_token(*store, token.id, token.secret, 2).ok());
  EXPECT_TRUE(check_not_set_back(*store, 9, 9).ok()) << "it is settled";
}

TEST_F(SetBackTest, OfTwoRostersOfOneNumberBothMustHaveANode) {
  const RosterEntry both = worker("both");
  const RosterEntry one = worker("one");
  const RosterEntry other = worker("other");
  admit(one);
  const auto restored =
      restore_members(*store, {roster(4, {both, one}), roster(4, {both, other})}, never_here, 5);
  ASSERT_TRUE(restored.ok());
  EXPECT_EQ(names(), std::vector<std::string>{"both"});
  EXPECT_FALSE(restore_members(*store, {}, never_here, 5).ok());
}

TEST_F(SetBackTest, AnAddedNodeIsANewcomerWithoutAnOwner) {
  const RosterEntry stayed = worker("stayed");
  const RosterEntry since = worker("since");
  ASSERT_TRUE(
      store->admit({{stayed.key, "stayed", Role::kWorker, 1, false, "zoe", false}, "", {}}).ok());
  ASSERT_TRUE(restore_members(*store, {roster(7, {stayed, since})}, never_here, 5).ok());
  const auto is = [this](const RosterEntry& entry, const std::string& owner, bool newcomer) {
    const auto node = store->find_node(entry.key).value();
    EXPECT_TRUE(node && node->owner == owner && node->newcomer == newcomer) << entry.name;
  };
  is(stayed, "zoe", false);
  is(since, "", true);
}

}  // namespace
}  // namespace hearth::coordinator
