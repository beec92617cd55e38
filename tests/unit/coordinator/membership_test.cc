#include "coordinator/membership.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/limits.h"
#include "coordinator/credentials.h"
#include "proto/join_token.h"
#include "tests/unit/coordinator/store_folder.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator {
namespace {

struct MembershipTest : ::testing::Test {
  testing::FakeClock clock;
  SecretKey cluster = SecretKey::generate();
  SecretKey node = SecretKey::generate();
  std::shared_ptr<RosterBook> book = std::make_shared<RosterBook>(cluster.public_key());
  const StoreFolder folder;
  std::shared_ptr<Store> store = folder.open();
  std::vector<Bytes> kept;
  int changed = 0;
  bool disk_full = false;
  Membership membership{cluster, options(), clock};

  MembershipOptions options() {
    MembershipOptions options;
    options.node = node.public_key();
    options.roster = book;
    options.store = store;
    options.is_local = [](std::string_view id, std::string_view secret) {
      return id == "local" && secret == "here";
    };
    options.keep = [this](ByteSpan roster) -> Status {
      if (disk_full) return Error{ErrorCode::kIo, "no space left on device"};
      kept.emplace_back(roster.begin(), roster.end());
      return ok_status();
    };
    options.changed = [this] { ++changed; };
    return options;
  }
  void SetUp() override {
    ASSERT_TRUE(membership.restart({node.public_key(), "home", Role::kCoordinator, {}}));
  }
  TokenSecret token(Role role = Role::kWorker, std::uint32_t uses = 1) {
    return create_token(*store, {role, 60, uses}, clock.unix_seconds()).value();
  }
  static control::v1::Enrolment request(const std::string& name, const TokenSecret& token,
                                        const std::string& role = "worker") {
    control::v1::Enrolment message;
    message.set_node(name);
    message.set_token_id(token.id);
    message.set_secret(token.secret);
    message.set_role(role);
    return message;
  }
  static PublicKey key() { return SecretKey::generate().public_key(); }
};

TEST_F(MembershipTest, ProvesItselfToTheNodeKeyOfItsConnection) {
  const control::v1::Proof proof = membership.prove();
  EXPECT_EQ(as_text(cluster.public_key().bytes()), proof.cluster_key());
  EXPECT_TRUE(verify(cluster.public_key(), "hearth coordinator v1", node.public_key().bytes(),
                     as_bytes(proof.signature())));
}

TEST_F(MembershipTest, ATokenLetsOneIn) {
  const TokenSecret word = token();
  const PublicKey den = key();
  const auto roster = membership.enrol(den, request("den", word));
  ASSERT_TRUE(roster) << roster.error().message;
  ASSERT_TRUE(parse_roster(*roster));
  ASSERT_NE(parse_roster(*roster)->find(den), nullptr);
  EXPECT_EQ(book->find(den)->name, "den");
  EXPECT_EQ(kept.back(), *roster) << "kept before anybody has it";
  EXPECT_EQ(changed, 2);
  EXPECT_EQ((*store->find_node(den))->name, "den");
  EXPECT_FALSE(membership.enrol(key(), request("attic", word))) << "used up";
  EXPECT_FALSE(book->find("attic"));
}

TEST_F(MembershipTest, RefusalsLeaveTheRosterAsItWas) {
  const TokenSecret word = token(Role::kWorker, 100);
  const TokenSecret admin = token(Role::kAdmin, 100);
  const PublicKey den = key();
  ASSERT_TRUE(membership.enrol(den, request("den", word)));
  const Bytes before = book->bytes();
  auto many = request("attic", word);
  for (int i = 0; i < 5; ++i) many.add_addresses("10.0.0.1:1");
  auto nowhere = request("attic", word);
  nowhere.add_addresses("nowhere");
  const std::vector<std::pair<const char*, control::v1::Enrolment>> cases = {
      {"unknown token", request("attic", new_token_secret())},
      {"wrong secret", request("attic", {word.id, admin.secret})},
      {"no token", request("attic", {})},
      {"more than the token grants", request("attic", word, "admin")},
      {"less than the token grants", request("attic", admin, "worker")},
      {"the coordinator's role", request("attic", word, "coordinator")},
      {"no role", request("attic", word, "root")},
      {"more than the token of this machine grants", request("attic", {"local", "here"}, "admin")},
      {"the name of another", request("den", word)},
      {"the coordinator's name", request("home", word)},
      {"no name", request("", word)},
      {"control characters", request("a\nb", word)},
      {"a long name", request(std::string(limits::kNodeNameBytes + 1, 'x'), word)},
      {"too many addresses", many},
      {"no address", nowhere},
  };
  for (const auto& [what, message] : cases) {
    EXPECT_FALSE(membership.enrol(key(), message)) << what;
    EXPECT_EQ(book->bytes(), before) << what;
  }
  EXPECT_FALSE(membership.enrol(den, request("den", admin, "admin"))) << "a worker as admin";
  EXPECT_FALSE(membership.enrol(den, request("other", word))) << "a second name for one key";
  EXPECT_FALSE(membership.enrol(node.public_key(), request("other", word)))
      << "the coordinator's key";
  disk_full = true;
  EXPECT_FALSE(membership.enrol(key(), request("attic", word)));
  EXPECT_EQ(book->bytes(), before);
}

TEST_F(MembershipTest, WhoIsInNeedsNoTokenToHearSo) {
  const PublicKey den = key();
  const auto first = membership.enrol(den, request("den", token()));
  const auto again = membership.enrol(den, request("den", new_token_secret()));
  ASSERT_TRUE(first);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, *first);
}

TEST_F(MembershipTest, WhomTheStoreRevokesIsOutAndItsKeyComesBackNoMore) {
  const TokenSecret word = token(Role::kWorker, 3);
  const PublicKey den = key();
  const PublicKey attic = key();
  ASSERT_TRUE(membership.enrol(den, request("den", word)));
  ASSERT_TRUE(membership.enrol(attic, request("attic", word)));
  const std::uint64_t number = book->roster()->number;
  ASSERT_TRUE(membership.follow_store());
  EXPECT_EQ(book->roster()->number, number) << "nothing was revoked";
  ASSERT_TRUE(*store->revoke_node(den));
  const int before = changed;
  ASSERT_TRUE(membership.follow_store());
  EXPECT_EQ(changed, before + 1);
  EXPECT_FALSE(book->find(den));
  EXPECT_TRUE(book->find(attic));
  EXPECT_EQ(book->roster()->number, number + 1);
  EXPECT_FALSE(membership.enrol(den, request("den", word)));
  EXPECT_TRUE(membership.enrol(key(), request("den", word))) << "its name is free, its use unspent";
}

TEST_F(MembershipTest, WhoLeavesIsOutAtOnce) {
  const PublicKey den = key();
  const PublicKey local = key();
  ASSERT_TRUE(membership.enrol(den, request("den", token())));
  ASSERT_TRUE(membership.enrol(local, request("local-1", {"local", "here"})));
  EXPECT_FALSE(membership.leave(key())) << "a stranger";
  EXPECT_FALSE(membership.leave(node.public_key())) << "the coordinator";
  EXPECT_FALSE(membership.leave(local)) << "it goes with its process";
  ASSERT_TRUE(membership.leave(den));
  EXPECT_FALSE(book->find(den));
  EXPECT_TRUE((*store->find_node(den))->revoked);
  EXPECT_FALSE(membership.leave(den));
  EXPECT_EQ(book->roster()->entries.size(), 2u);
}

TEST_F(MembershipTest, ARestartGoesOnCountingAndKeepsWhoIsInTheStore) {
  const TokenSecret word = token(Role::kWorker, 2);
  const PublicKey den = key();
  const PublicKey attic = key();
  auto with_address = request("den", word);
  with_address.add_addresses("10.0.0.1:9");
  ASSERT_TRUE(membership.enrol(den, with_address));
  ASSERT_TRUE(membership.enrol(attic, request("attic", word)));
  ASSERT_TRUE(membership.enrol(key(), request("local-1", {"local", "here"})));
  ASSERT_TRUE(*store->revoke_node(attic));
  const std::uint64_t number = book->roster()->number;
  ASSERT_TRUE(membership.restart({node.public_key(), "home", Role::kCoordinator, {}}));
  EXPECT_EQ(book->roster()->number, number + 1);
  EXPECT_EQ(book->roster()->entries.size(), 2u);
  EXPECT_EQ(book->find(den)->addresses, std::vector<std::string>{"10.0.0.1:9"});
}

}  // namespace
}  // namespace hearth::coordinator
