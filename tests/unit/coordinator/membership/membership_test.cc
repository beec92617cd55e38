#include "coordinator/membership/membership.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "base/limits.h"
#include "coordinator/membership/credentials.h"
#include "proto/join_token.h"
#include "proto/link/admission.h"
#include "tests/unit/coordinator/store/store_folder.h"
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
  std::vector<std::string> dialled;
  std::optional<DialOutcome> outcome;
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
    options.answers_knocks = true;
    options.locate = [](std::string_view node) {
      return std::string(node == "den" ? "10.0.0.1:7" : "");
    };
    options.dial_back = [this](const std::string& address) {
      dialled.push_back(address);
      return outcome;
    };
    options.api_address = [] { return "10.0.0.1:11500"; };
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
  static control::v1::Knocking knocking(const std::string& name) {
    control::v1::Knocking message;
    message.set_node(name);
    return message;
  }
  Result<control::v1::Enrolled> knock(const PublicKey& who, const std::string& name,
                                      const std::string& from = "10.0.0.2") {
    return membership.knock(who, from, knocking(name));
  }
  static PublicKey key() { return SecretKey::generate().public_key(); }
};

TEST_F(MembershipTest, WhoComesWithANewcomersTokenIsNotVouchedFor) {
  const auto is_newcomer = membership.is_newcomer();
  const PublicKey one = SecretKey::generate().public_key();
  const PublicKey other = SecretKey::generate().public_key();
  const TokenSecret word =
      create_token(*store, {Role::kWorker, 60, 2, "", true}, clock.unix_seconds()).value();
  ASSERT_TRUE(membership.enrol(one, request("attic", word)));
  ASSERT_TRUE(membership.enrol(other, request("den", token())));
  EXPECT_TRUE(is_newcomer(one));
  EXPECT_FALSE(is_newcomer(other));
  EXPECT_FALSE(is_newcomer(node.public_key())) << "this machine's own";
  EXPECT_TRUE(folder.open()->find_node(one)->value().newcomer) << "and it lasts";
  EXPECT_TRUE(store->tokens()->front().newcomer);
  EXPECT_FALSE(create_token(*store, {Role::kClient, 60, 1, "", true}, clock.unix_seconds()));
}

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
  ASSERT_TRUE(parse_roster(as_bytes(roster->roster())));
  ASSERT_NE(parse_roster(as_bytes(roster->roster()))->find(den), nullptr);
  EXPECT_EQ(book->find(den)->name, "den");
  EXPECT_EQ(as_text(kept.back()), roster->roster()) << "kept before anybody has it";
  EXPECT_TRUE(roster->api_key().empty());
  EXPECT_TRUE(roster->api_address().empty());
  EXPECT_EQ(changed, 2);
  EXPECT_EQ((*store->find_node(den))->name, "den");
  EXPECT_FALSE(membership.enrol(key(), request("attic", word))) << "used up";
  EXPECT_FALSE(book->find("attic"));
}

TEST_F(MembershipTest, WhoJoinsByAnOwnersTokenIsThatOwners) {
  const TokenSecret word =
      create_token(*store, {Role::kWorker, 60, 2, "Ada"}, clock.unix_seconds()).value();
  const PublicKey den = key();
  const PublicKey attic = key();
  const PublicKey cellar = key();
  ASSERT_TRUE(membership.enrol(den, request("den", word)));
  ASSERT_TRUE(membership.enrol(attic, request("attic", word)));
  ASSERT_TRUE(membership.enrol(cellar, request("cellar", token())));
  ASSERT_TRUE(membership.owner_of(den) && membership.owner_of(attic));
  EXPECT_EQ(membership.owner_of(den)->name, "Ada");
  EXPECT_EQ(membership.owner_of(den)->id, membership.owner_of(attic)->id);
  EXPECT_NE(membership.owner_of(den)->id, blake2b(as_bytes(std::string("Ada"))))
      << "a name cannot be guessed from the log";
  EXPECT_FALSE(membership.owner_of(cellar)) << "the owner is unknown";
  EXPECT_EQ((*store->find_node(den))->owner, "Ada");
  // A person's word, in another process.
  const PublicKey loft = key();
  ASSERT_TRUE(store->admit({{loft, "loft", Role::kWorker, 1, false, "Bob"}, "", {}}));
  ASSERT_TRUE(membership.follow_store());
  EXPECT_EQ(membership.owner_of(loft)->name, "Bob");
  Membership again(cluster, options(), clock);
  ASSERT_TRUE(again.restart({node.public_key(), "home", Role::kCoordinator, {}}));
  EXPECT_EQ(again.owner_of(den)->id, membership.owner_of(den)->id);
  EXPECT_FALSE(create_token(*store, {Role::kWorker, 60, 1, std::string(1'000, 'x')}, 1));
  EXPECT_FALSE(create_token(*store, {Role::kWorker, 60, 1, "a\nb"}, 1));
}

TEST_F(MembershipTest, MembersLearnTheAddressesOfStandbys) {
  const auto before = book->roster()->number;
  const std::vector<std::string> both = {"10.0.0.1:7", "10.0.0.2:7"};
  ASSERT_TRUE(membership.set_addresses(both));
  EXPECT_EQ(book->find(node.public_key())->addresses, both);
  EXPECT_EQ(book->roster()->number, before + 1);
  ASSERT_TRUE(membership.set_addresses(both));
  EXPECT_EQ(book->roster()->number, before + 1) << "nothing has changed";
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

// Each is told its one cause; without the secret of a token, or the key of a member, nothing.
TEST_F(MembershipTest, ARefusalTellsItsCauseToWhoHasAToken) {
  const auto heard = [&](const PublicKey& who, const control::v1::Enrolment& message) {
    const auto refused = membership.enrol(who, message);
    return refused.ok() ? std::string("let in") : std::string(told_refusal(refused.error()));
  };
  const TokenSecret good = token(Role::kWorker, 100);
  const TokenSecret spent = token();
  const PublicKey den = key();
  const PublicKey gone = key();
  ASSERT_TRUE(membership.enrol(den, request("den", spent)));
  ASSERT_TRUE(membership.enrol(gone, request("gone", good)));
  ASSERT_TRUE(*store->revoke_node(gone));
  ASSERT_TRUE(membership.follow_store());
  const std::string bad(good.secret.rbegin(), good.secret.rend());
  EXPECT_EQ(heard(key(), request("attic", spent)), kTokenSpent);
  EXPECT_EQ(heard(key(), request("attic", {spent.id, bad})), kNotAdmitted);
  EXPECT_EQ(heard(key(), request("den", good)), kNameTaken);
  EXPECT_EQ(heard(key(), request("den", {good.id, bad})), kNotAdmitted);
  EXPECT_EQ(heard(key(), request("den", new_token_secret())), kNotAdmitted);
  EXPECT_EQ(heard(key(), request("attic", good, "client")), kTokenOfOtherRole);
  EXPECT_EQ(heard(den, request("den", token(Role::kClient), "")), kTokenOfOtherRole);
  EXPECT_EQ(heard(den, request("den", {}, "")), "let in") << "it only looks whether it is in";
  EXPECT_EQ(heard(gone, request("gone", {})), kNodeRemoved);
  const auto knocked = knock(gone, "gone");
  ASSERT_FALSE(knocked.ok());
  EXPECT_EQ(told_refusal(knocked.error()), kNodeRemoved);
  EXPECT_EQ(told_refusal({ErrorCode::kUnavailable, "the store x is away"}), kCannotStore);
}

TEST_F(MembershipTest, WhoIsInNeedsNoTokenToHearSo) {
  const PublicKey den = key();
  const auto first = membership.enrol(den, request("den", token()));
  const auto again = membership.enrol(den, request("den", new_token_secret()));
  ASSERT_TRUE(first);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->roster(), first->roster());
}

TEST_F(MembershipTest, AClientAndAnAdminGetAKeyOfTheApiAndNothingMore) {
  for (const Role role : {Role::kClient, Role::kAdmin}) {
    const TokenSecret word = token(role);
    const PublicKey desk = key();
    const std::string name = "desk-" + std::string(role_name(role));
    EXPECT_FALSE(membership.enrol(desk, request(name, word, "worker")));
    const auto in = membership.enrol(desk, request(name, word, ""));
    ASSERT_TRUE(in) << in.error().message;
    EXPECT_EQ(book->find(desk)->role, role);
    EXPECT_EQ(in->api_address(), "10.0.0.1:11500");
    const auto first = check_key(*store, in->api_key());
    ASSERT_TRUE(first);
    EXPECT_EQ(first->admin, role == Role::kAdmin);
    EXPECT_EQ(first->node, desk);
    EXPECT_FALSE(membership.enrol(desk, request(name, word, "worker"))) << "later neither";

    const auto again = membership.enrol(desk, request(name, {}, ""));
    ASSERT_TRUE(again);
    EXPECT_FALSE(check_key(*store, in->api_key())) << "the one that was lost";
    ASSERT_TRUE(check_key(*store, again->api_key()));
    EXPECT_EQ(store->keys()->size(), role == Role::kClient ? 1u : 2u);
    ASSERT_TRUE(membership.leave(desk));
    EXPECT_FALSE(check_key(*store, again->api_key())) << "out with its node";
  }
}

// Has its own store: no open one may cross a fork.
struct MembershipCrashTest : ::testing::Test {
  testing::FakeClock clock;
  const SecretKey cluster = SecretKey::generate();
  const SecretKey node = SecretKey::generate();
  const SecretKey den = SecretKey::generate();
  const StoreFolder folder;

  // A coordinator's process: restarted, then asked by the node; `keep` as in MembershipOptions.
  Result<control::v1::Enrolled> run(const PublicKey& who, const TokenSecret& word,
                                    const std::string& role,
                                    const std::function<Status(ByteSpan)>& keep) {
    MembershipOptions options;
    options.node = node.public_key();
    options.roster = std::make_shared<RosterBook>(cluster.public_key());
    options.store = folder.open();
    options.is_local = [](std::string_view, std::string_view) { return false; };
    options.api_address = [] { return std::string(); };
    options.changed = [] {};
    bool asked = false;
    options.keep = [&](ByteSpan roster) { return asked ? keep(roster) : ok_status(); };
    Membership membership(cluster, options, clock);
    TRY_VOID(membership.restart({node.public_key(), "home", Role::kCoordinator, {}}));
    asked = true;
    control::v1::Enrolment request = MembershipTest::request("den", word, role);
    return membership.enrol(who, request);
  }
};

// The process is killed after the token's use is taken and before the roster has the node.
TEST_F(MembershipCrashTest, TheNodeGetsInWithTheSameTokenAndNobodyElseDoes) {
  const TokenSecret word =
      create_token(*folder.open(), {Role::kClient, 60, 1}, clock.unix_seconds()).value();
  const pid_t child = ::fork();
  if (child == 0) {
    (void)run(den.public_key(), word, "", [](ByteSpan) -> Status {
      ::raise(SIGKILL);
      return ok_status();
    }).ok();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "it got as far as the roster";
  ASSERT_EQ((*folder.open()->find_token(word.id))->uses_left, 0u) << "behind the use";

  const auto keep = [](ByteSpan) { return ok_status(); };
  const PublicKey thief = SecretKey::generate().public_key();
  EXPECT_FALSE(run(thief, word, "", keep)) << "the use was this node's alone";
  EXPECT_FALSE(run(den.public_key(), word, "worker", keep)) << "in no other role";
  const auto in = run(den.public_key(), word, "", keep);
  ASSERT_TRUE(in) << in.error().message;
  const auto roster = parse_roster(as_bytes(in->roster()));
  ASSERT_TRUE(roster);
  EXPECT_EQ(roster->find(den.public_key())->role, Role::kClient);
  const auto store = folder.open();
  EXPECT_TRUE(check_key(*store, in->api_key()));
  EXPECT_EQ(store->keys()->size(), 1u) << "and not the one that was lost";
}

TEST_F(MembershipTest, WhoKnocksWaitsForAPersonsWordAndHearsNothingElse) {
  const PublicKey den = key();
  const auto waits = [](const Result<control::v1::Enrolled>& answer) {
    return answer.ok() && answer->ByteSizeLong() == 0;
  };
  EXPECT_TRUE(waits(knock(den, "den")));
  EXPECT_TRUE(waits(knock(key(), "home"))) << "a stranger is not told that a name is taken";
  EXPECT_FALSE(knock(key(), "a\nb"));
  ASSERT_EQ(store->waiting()->size(), 2u);
  EXPECT_EQ(store->waiting()->front().name, "den");
  EXPECT_EQ(store->waiting()->front().from, "10.0.0.2");
  ASSERT_TRUE(membership.follow_store());
  EXPECT_FALSE(book->find(den));

  ASSERT_TRUE(store->admit({{den, "den", Role::kWorker, clock.unix_seconds(), false}, "", {}}));
  EXPECT_EQ(store->waiting()->size(), 1u) << "it waits no more";
  ASSERT_TRUE(membership.follow_store());
  EXPECT_TRUE(book->find(den));
  const auto in = knock(den, "den");
  ASSERT_TRUE(in);
  EXPECT_EQ(as_bytes(in->roster()).size(), book->bytes().size());
  EXPECT_FALSE(knock(den, "attic")) << "another name than it was let in under";
  ASSERT_TRUE(*store->revoke_node(den));
  ASSERT_TRUE(membership.follow_store());
  EXPECT_FALSE(knock(den, "den")) << "removed";
}

TEST_F(MembershipTest, TheDoorIsOpenWhileSomebodyMayCome) {
  MembershipOptions with_local = options();
  const PublicKey local = key();
  with_local.is_local_key = [local](const PublicKey& each) { return each == local; };
  const auto door = Membership(cluster, with_local, clock).door();
  const PublicKey stranger = key();
  ASSERT_FALSE(door(stranger));
  EXPECT_EQ(door(stranger).error().code, ErrorCode::kRefused);
  EXPECT_TRUE(door(local));
  const PublicKey den = key();
  const TokenSecret word = token();
  EXPECT_TRUE(door(stranger));
  ASSERT_TRUE(membership.enrol(den, request("den", word)));
  EXPECT_FALSE(door(stranger)) << "the use is taken";
  EXPECT_TRUE(door(den));
  ASSERT_TRUE(*store->revoke_node(den));
  EXPECT_TRUE(door(den)) << "to hear that it is out";
  ASSERT_TRUE(open_door(*store, clock.unix_seconds()));
  EXPECT_TRUE(door(stranger));
  ASSERT_TRUE(open_door(*store, clock.unix_seconds()));
  EXPECT_EQ(store->tokens()->size(), 2u) << "it was open";
  clock.advance(std::chrono::seconds(limits::kDoorSeconds));
  EXPECT_FALSE(door(stranger));
}

TEST_F(MembershipTest, WhoIsLetInToAskPromptsGetsAKey) {
  const PublicKey laptop = key();
  ASSERT_TRUE(knock(laptop, "laptop"));
  ASSERT_TRUE(
      store->admit({{laptop, "laptop", Role::kClient, clock.unix_seconds(), false}, "", {}}));
  const auto in = knock(laptop, "laptop");
  ASSERT_TRUE(in) << in.error().message;
  EXPECT_EQ(book->find(laptop)->role, Role::kClient);
  EXPECT_TRUE(check_key(*store, in->api_key()));
  EXPECT_EQ(in->api_address(), "10.0.0.1:11500");
}

TEST_F(MembershipTest, FewWaitAtATimeAndNotForEver) {
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(knock(key(), "spy", "10.0.0.3"));
  EXPECT_EQ(store->waiting()->size(), limits::kWaitingNodesAddress);
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(knock(key(), "spy", "10.0.1." + std::to_string(i)));
  }
  EXPECT_EQ(store->waiting()->size(), limits::kWaitingNodes);
  const PublicKey den = key();
  EXPECT_TRUE(knock(den, "den"));
  EXPECT_EQ(store->waiting()->size(), limits::kWaitingNodes) << "it was not told";
  clock.advance(std::chrono::seconds(limits::kWaitingSeconds + 1));
  EXPECT_TRUE(knock(den, "den"));
  ASSERT_EQ(store->waiting()->size(), 1u);
  clock.advance(std::chrono::seconds(limits::kWaitingSeconds - 1));
  EXPECT_TRUE(knock(den, "den")) << "who still asks stays";
  clock.advance(std::chrono::seconds(limits::kWaitingSeconds - 1));
  EXPECT_TRUE(knock(key(), "spy"));
  EXPECT_EQ(store->waiting()->size(), 2u);
}

TEST_F(MembershipTest, AServerOfItsOwnMachineAnswersNoKnock) {
  MembershipOptions closed = options();
  closed.answers_knocks = false;
  Membership alone(cluster, closed, clock);
  EXPECT_FALSE(alone.knock(key(), "10.0.0.2", knocking("den")));
  EXPECT_TRUE(store->waiting()->empty());
}

TEST_F(MembershipTest, WhoseNameIsTakenMeanwhileIsLeftOut) {
  ASSERT_TRUE(membership.enrol(key(), request("local-1", {"local", "here"})));
  const PublicKey late = key();
  ASSERT_TRUE(store->admit({{late, "local-1", Role::kWorker, 1, false}, "", {}}));
  ASSERT_TRUE(membership.follow_store());
  EXPECT_FALSE(book->find(late));
}

TEST_F(MembershipTest, AWorkerIsDialledBackWhereItRegisteredAndNowhereElse) {
  const PublicKey den = key();
  const PublicKey idle = key();
  const PublicKey desk = key();
  const TokenSecret word = token(Role::kWorker, 2);
  ASSERT_TRUE(membership.enrol(den, request("den", word)));
  ASSERT_TRUE(membership.enrol(idle, request("idle", word)));
  ASSERT_TRUE(membership.enrol(desk, request("desk", token(Role::kClient), "")));
  for (const PublicKey& who : {desk, key()}) {
    EXPECT_FALSE(membership.reach(who));
    EXPECT_FALSE(membership.locate(who, "den"));
  }
  EXPECT_EQ(membership.locate(idle, "den")->address(), "10.0.0.1:7");
  EXPECT_EQ(membership.locate(node.public_key(), "unknown")->address(), "");
  EXPECT_FALSE(membership.locate(idle, "a\nb"));
  EXPECT_EQ(membership.reach(idle)->address(), "") << "no worker of it is connected";
  EXPECT_TRUE(dialled.empty());

  const auto trying = membership.reach(den);
  ASSERT_TRUE(trying);
  EXPECT_FALSE(trying->known());
  outcome = DialOutcome{"no answer within 3 s", 3000.0};
  const auto known = membership.reach(den);
  ASSERT_TRUE(known);
  EXPECT_TRUE(known->known());
  EXPECT_EQ(known->error(), "no answer within 3 s");
  EXPECT_EQ(dialled, (std::vector<std::string>(2, "10.0.0.1:7")));
}

TEST_F(MembershipTest, AFullDiskCostsNoToken) {
  const TokenSecret word = token();
  const PublicKey den = key();
  disk_full = true;
  EXPECT_FALSE(membership.enrol(den, request("den", word)));
  EXPECT_FALSE(book->find(den));
  disk_full = false;
  EXPECT_TRUE(membership.enrol(den, request("den", word)));
  EXPECT_TRUE(book->find(den));
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
