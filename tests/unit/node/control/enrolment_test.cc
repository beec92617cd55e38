// The way in, over real connections: a coordinator's service with a Membership behind it, joiners,
// and those who must not get in.
#include "node/control/enrolment.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <map>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "base/fingerprint.h"
#include "coordinator/control/service.h"
#include "coordinator/membership/credentials.h"
#include "coordinator/membership/membership.h"
#include "node/control/inquiry.h"
#include "tests/unit/coordinator/store/store_folder.h"
#include "tests/unit/node/pipeline/owner.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth {
namespace {

using coordinator::ControlOptions;
using coordinator::ControlService;
using coordinator::Membership;
using coordinator::MembershipOptions;
using node::Door;
using node::enrol;
using node::Inquirer;
using node::locate;
using node::reach;
using std::chrono::seconds;

constexpr auto kPatience = seconds(60);

// A coordinator with the tokens of a test.
class Home {
 public:
  explicit Home(bool forged_proof = false) : forged_(forged_proof) {
    MembershipOptions options;
    options.node = node_.public_key();
    options.roster = book_;
    options.store = store_;
    options.is_local = [this](std::string_view, std::string_view secret) {
      heard_.insert(std::string(secret));
      return false;
    };
    options.keep = [](ByteSpan) { return ok_status(); };
    options.answers_knocks = true;
    options.cluster_name = "cosy";
    options.locate = [](std::string_view name) {
      return std::string(name == "den" ? "[::1]:7" : "");
    };
    options.dial_back = [](const std::string&) {
      return coordinator::DialOutcome{"no answer", 1.0};
    };
    options.api_address = [] { return std::string("10.0.0.1:11500"); };
    options.changed = [] {};
    // A man in the middle has the proof of the real one, made for its key.
    if (forged_) options.node = SecretKey::generate().public_key();
    membership_.emplace(cluster_, options, clock_);
    EXPECT_TRUE(membership_->restart({node_.public_key(), "home", Role::kCoordinator, {}}));
    ControlOptions control;
    control.address = "127.0.0.1:0";
    control.identity = TlsIdentity::make(node_).value();
    control.roster = book_;
    control.admissions = &*membership_;
    control.door = membership_->door();
    control.limits.strangers = {1'000, 1'000, 1'000, 1'000, 1'000};  // all tests are one address
    owner_.call([&] {
      auto opened = ControlService::open(owner_.io(), control);
      ASSERT_TRUE(opened) << opened.error().message;
      service_ = std::move(*opened);
    });
  }
  ~Home() {
    owner_.call([&] { service_.reset(); });
  }

  JoinToken token(Role role = Role::kWorker) {
    const auto secret = coordinator::create_token(*store_, {role, 60, 1}, clock_.unix_seconds());
    return {fingerprint(cluster_.public_key()), secret->id, secret->secret, {service_->address()}};
  }
  const RosterBook& book() const { return *book_; }
  bool heard(const std::string& secret) {
    bool found = false;
    owner_.call([&] { found = heard_.contains(secret); });
    return found;
  }
  const PublicKey& cluster() const { return cluster_.public_key(); }
  std::string address() const { return service_->address(); }
  // As hearth approve does, once without a name and once with it, and the server that follows it.
  void look() { EXPECT_TRUE(coordinator::open_door(*store_, clock_.unix_seconds())); }
  void approve(const std::string& name) {
    const auto waiting = store_->waiting();
    ASSERT_TRUE(waiting);
    for (const auto& each : *waiting) {
      if (each.name != name) continue;
      EXPECT_EQ(each.from, "127.0.0.1");
      ASSERT_TRUE(store_->admit({{each.key, name, Role::kWorker, 1, false}, "", {}}));
    }
    owner_.call([&] { EXPECT_TRUE(membership_->follow_store()); });
  }

 private:
  const bool forged_;
  testing::FakeClock clock_;
  SecretKey cluster_ = SecretKey::generate();
  SecretKey node_ = SecretKey::generate();
  std::shared_ptr<RosterBook> book_ = std::make_shared<RosterBook>(cluster_.public_key());
  const coordinator::StoreFolder folder_;
  std::shared_ptr<coordinator::Store> store_ = folder_.open();
  std::set<std::string> heard_;
  std::optional<Membership> membership_;
  testing::Owner owner_;
  std::unique_ptr<ControlService> service_;
};

TlsIdentity somebody() { return TlsIdentity::make(SecretKey::generate()).value(); }

TEST(Enrolment, OneWordLetsANodeIn) {
  Home home;
  const TlsIdentity den = somebody();
  const auto enrolled = enrol(home.token(), den, {"den", Role::kWorker, {"10.0.0.1:9"}}, kPatience);
  ASSERT_TRUE(enrolled) << enrolled.error().message;
  EXPECT_EQ(enrolled->cluster, home.cluster());
  const auto roster = parse_roster(enrolled->roster);
  ASSERT_TRUE(roster);
  EXPECT_EQ(roster->find("den")->key, den.key);
  EXPECT_EQ(home.book().find("den")->addresses, std::vector<std::string>{"10.0.0.1:9"});
}

TEST(Enrolment, AClientsWordBringsAKey) {
  Home home;
  const JoinToken token = home.token(Role::kClient);
  EXPECT_FALSE(enrol(token, somebody(), {"desk", Role::kWorker, {}}, kPatience));
  const auto enrolled = enrol(token, somebody(), {"desk", std::nullopt, {}}, kPatience);
  ASSERT_TRUE(enrolled) << enrolled.error().message;
  EXPECT_EQ(enrolled->role, Role::kClient);
  EXPECT_TRUE(enrolled->api_key.starts_with("hk1."));
  EXPECT_EQ(enrolled->api_address, "10.0.0.1:11500");
  EXPECT_EQ(enrolled->cluster_name, "cosy");
}

TEST(Enrolment, ADoorOpensByAPersonsWord) {
  Home home;
  const TlsIdentity den = somebody();
  const auto closed = Door::find(home.address(), den, kPatience);
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code, ErrorCode::kRefused);
  EXPECT_NE(closed.error().message.find("hearth approve"), std::string::npos);
  home.look();
  const auto door = Door::find(home.address(), den, kPatience);
  ASSERT_TRUE(door) << door.error().message;
  EXPECT_EQ((*door)->cluster(), home.cluster());
  for (int i = 0; i < 3; ++i) {
    const auto answer = (*door)->knock("den", kPatience);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_FALSE(*answer);
  }
  EXPECT_FALSE(home.book().find("den"));
  home.approve("den");
  const auto answer = (*door)->knock("den", kPatience);
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_TRUE(*answer);
  EXPECT_EQ((*answer)->role, Role::kWorker);
  EXPECT_EQ(parse_roster((*answer)->roster)->find("den")->key, den.key);
  EXPECT_EQ((*door)->knock("attic", kPatience).error().code, ErrorCode::kRefused);

  Home middle(true);
  middle.look();
  EXPECT_FALSE(Door::find(middle.address(), den, kPatience)) << "a man in the middle";
  EXPECT_EQ(Door::find("127.0.0.1:1", den, kPatience).error().code, ErrorCode::kUnavailable);
}

TEST(Enrolment, AWordThatIsGoodNoMoreIsRefusedAtTheDoorAsInside) {
  Home home;
  const JoinToken token = home.token();
  ASSERT_TRUE(enrol(token, somebody(), {"den", Role::kWorker, {}}, kPatience));
  const auto closed = enrol(token, somebody(), {"attic", Role::kWorker, {}}, kPatience);
  home.look();
  const auto inside = enrol(token, somebody(), {"attic", Role::kWorker, {}}, kPatience);
  ASSERT_FALSE(closed);
  ASSERT_FALSE(inside);
  EXPECT_EQ(closed.error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(closed.error().message, inside.error().message);
}

TEST(Enrolment, AMemberAsksWhereNodesAreAndWhetherItIsReached) {
  Home home;
  const TlsIdentity den = somebody();
  const auto enrolled = enrol(home.token(), den, {"den", Role::kWorker, {}}, kPatience);
  ASSERT_TRUE(enrolled);
  const auto book = std::make_shared<RosterBook>(home.cluster());
  ASSERT_TRUE(book->offer(enrolled->roster));
  Inquirer inquirer{{home.address()}, den, book, kPatience};
  EXPECT_EQ(*locate(inquirer, "den"), "[::1]:7");
  EXPECT_EQ(locate(inquirer, "attic").error().code, ErrorCode::kNotFound);
  const auto reached = reach(inquirer);
  ASSERT_TRUE(reached) << reached.error().message;
  EXPECT_EQ(reached->address, "[::1]:7");
  EXPECT_EQ(reached->error, "no answer");
  home.look();
  inquirer.identity = somebody();
  EXPECT_EQ(locate(inquirer, "den").error().code, ErrorCode::kRefused);
  inquirer.addresses = {"127.0.0.1:1"};
  EXPECT_EQ(reach(inquirer).error().code, ErrorCode::kUnavailable);
}

TEST(Enrolment, NothingIsSaidToAnotherCluster) {
  Home home;
  Home other;
  JoinToken token = home.token();
  const JoinToken misled = {token.fingerprint, token.id, token.secret, other.token().addresses};
  const auto enrolled = enrol(misled, somebody(), {"den", Role::kWorker, {}}, kPatience);
  ASSERT_FALSE(enrolled);
  EXPECT_NE(enrolled.error().message.find("another cluster"), std::string::npos);
  EXPECT_FALSE(other.heard(token.secret));
}

TEST(Enrolment, NothingIsSaidToAManInTheMiddle) {
  Home middle(true);
  const JoinToken token = middle.token();
  const auto enrolled = enrol(token, somebody(), {"den", Role::kWorker, {}}, kPatience);
  ASSERT_FALSE(enrolled);
  EXPECT_NE(enrolled.error().message.find("could not prove"), std::string::npos);
  EXPECT_FALSE(middle.heard(token.secret));
}

TEST(Enrolment, UsedTwiceAtOnceExactlyOneWins) {
  Home home;
  for (int round = 0; round < 5; ++round) {
    const JoinToken token = home.token();
    std::atomic<int> won{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 6; ++i) {
      threads.emplace_back([&, i] {
        const std::string name = "node-" + std::to_string(round) + "-" + std::to_string(i);
        won += enrol(token, somebody(), {name, Role::kWorker, {}}, kPatience).ok() ? 1 : 0;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(won, 1);
  }
  EXPECT_EQ(home.book().roster()->entries.size(), 6u);
}

TEST(Enrolment, WhoLeavesIsOutAndOnlyTheCoordinatorIsAsked) {
  Home home;
  Home other;
  const TlsIdentity den = somebody();
  const JoinToken token = home.token();
  const auto enrolled = enrol(token, den, {"den", Role::kWorker, {}}, kPatience);
  ASSERT_TRUE(enrolled);
  const auto book = std::make_shared<RosterBook>(enrolled->cluster);
  ASSERT_TRUE(book->offer(enrolled->roster));
  const auto astray = node::leave({other.token().addresses, den, book, seconds(2)});
  ASSERT_FALSE(astray);
  EXPECT_EQ(astray.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(home.book().find("den"));
  home.look();
  const auto stranger = node::leave({token.addresses, somebody(), book, kPatience});
  ASSERT_FALSE(stranger);
  EXPECT_EQ(stranger.error().code, ErrorCode::kRefused);
  EXPECT_TRUE(home.book().find("den"));
  const auto left = node::leave({token.addresses, den, book, kPatience});
  ASSERT_TRUE(left) << left.error().message;
  EXPECT_FALSE(home.book().find("den"));
  EXPECT_EQ(node::leave({token.addresses, den, book, kPatience}).error().code, ErrorCode::kRefused);
}

TEST(Enrolment, NoAnswerComes) {
  Home home;
  JoinToken token = home.token();
  token.addresses = {"127.0.0.1:1"};
  const auto enrolled = enrol(token, somebody(), {"den", Role::kWorker, {}}, seconds(2));
  ASSERT_FALSE(enrolled);
  EXPECT_EQ(enrolled.error().code, ErrorCode::kUnavailable);
  token.addresses = {"127.0.0.1:1", home.token().addresses[0]};
  EXPECT_TRUE(enrol(token, somebody(), {"den", Role::kWorker, {}}, seconds(5)));
}

// 300 attempts: every one is refused, changes nothing, and its exact reason is in the log. Who does
// not show the secret of a token, or its own key, hears one text for every reason.
TEST(Enrolment, ThreeHundredAttemptsAreRefusedAndStrangersHearOneText) {
  Home home;
  const TlsIdentity member = somebody();
  ASSERT_TRUE(enrol(home.token(), member, {"den", Role::kWorker, {}}, kPatience));
  const auto before = home.book().bytes();
  std::ostringstream log;
  const auto previous = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  JoinToken used = home.token();
  ASSERT_TRUE(enrol(used, somebody(), {"attic", Role::kWorker, {}}, kPatience));
  const auto grown = home.book().bytes();
  EXPECT_NE(grown, before);
  struct Attempt {
    JoinToken token;
    TlsIdentity identity;
    node::EnrolmentRequest request;
    const char* reason;
  };
  std::vector<Attempt> attempts;
  for (int i = 0; i < 50; ++i) {
    const std::string name = "new-" + std::to_string(i);
    JoinToken wrong = home.token();
    wrong.secret[static_cast<std::size_t>(i) % 43] ^= 1;
    JoinToken unknown = home.token();
    unknown.id = std::string(16, "0123456789abcdef"[i % 16]);
    attempts.push_back({used, somebody(), {name, Role::kWorker, {}}, "no use left"});
    attempts.push_back({wrong, somebody(), {name, Role::kWorker, {}}, "wrong secret"});
    attempts.push_back({unknown, somebody(), {name, Role::kWorker, {}}, "is unknown"});
    attempts.push_back({home.token(), somebody(), {name, Role::kAdmin, {}}, "grants the role"});
    attempts.push_back({home.token(), somebody(), {"den", Role::kWorker, {}}, "named den already"});
    attempts.push_back({home.token(), member, {"den", Role::kAdmin, {}}, "asks to be enrolled as"});
  }
  ASSERT_EQ(attempts.size(), 300u);
  std::map<std::string, std::set<std::string>> texts;
  for (const Attempt& one : attempts) {
    log.str("");
    const auto enrolled = enrol(one.token, one.identity, one.request, kPatience);
    ASSERT_FALSE(enrolled) << one.reason;
    texts[one.reason].insert(enrolled.error().message);
    EXPECT_NE(log.str().find(one.reason), std::string::npos) << one.reason << ": " << log.str();
    EXPECT_EQ(log.str().find(one.token.secret), std::string::npos) << "a secret in the log";
  }
  spdlog::set_default_logger(previous);
  ASSERT_EQ(texts.size(), 6u);
  for (const auto& [reason, heard] : texts) EXPECT_EQ(heard.size(), 1u) << reason;
  const std::string& stranger = *texts["wrong secret"].begin();
  for (const char* reason : {"is unknown", "asks to be enrolled as"}) {
    EXPECT_EQ(*texts[reason].begin(), stranger) << reason;
  }
  const auto hears = [&](const char* reason, const char* part) {
    EXPECT_NE(texts[reason].begin()->find(part), std::string::npos) << *texts[reason].begin();
    EXPECT_EQ(stranger.find(part), std::string::npos);
  };
  hears("no use left", "used up");
  hears("grants the role", "for another role");
  hears("named den already", "--name NAME");
  EXPECT_EQ(home.book().bytes(), grown);
}

}  // namespace
}  // namespace hearth
