#include "coordinator/membership/credentials.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/limits.h"
#include "tests/unit/coordinator/store/store_folder.h"

namespace hearth::coordinator {
namespace {

constexpr std::int64_t kNow = 1'700'000'000;

// As an enrolment does: looked at, then spent.
Result<Role> redeem(Store& store, const std::string& id, const std::string& secret,
                    std::int64_t now) {
  TRY(const Role role, check_token(store, id, secret, now));
  TRY_VOID(admit_somebody(store, id, now));
  return role;
}

class CredentialsTest : public ::testing::Test {
 protected:
  void refused(const Result<Role>& result, const char* reason) {
    ASSERT_FALSE(result.ok()) << reason;
    EXPECT_EQ(result.error().code, ErrorCode::kRefused);
    EXPECT_NE(result.error().message.find(reason), std::string::npos) << result.error().message;
  }

  StoreFolder folder_;
  std::shared_ptr<Store> store_ = folder_.open();
};

TEST_F(CredentialsTest, ATokenIsWorthOneUse) {
  const auto token = create_token(*store_, {Role::kClient, 60, 1}, kNow);
  ASSERT_TRUE(token.ok());
  EXPECT_EQ(token->id.size(), 16U);
  EXPECT_EQ(token->secret.size(), 43U);
  const auto role = redeem(*store_, token->id, token->secret, kNow + 59);
  ASSERT_TRUE(role.ok());
  EXPECT_EQ(*role, Role::kClient);
  refused(redeem(*store_, token->id, token->secret, kNow + 59), "no use left");
}

TEST_F(CredentialsTest, ATokenIsForOneOfThreeRoles) {
  for (const int number : {0, static_cast<int>(Role::kCoordinator), 5}) {
    EXPECT_FALSE(create_token(*store_, {static_cast<Role>(number), 60, 1}, kNow).ok()) << number;
  }
  EXPECT_TRUE(store_->tokens()->empty());
}

TEST_F(CredentialsTest, EveryRefusalNamesItsReason) {
  const auto token = *create_token(*store_, {}, kNow);
  const auto again = *create_token(*store_, {}, kNow);
  EXPECT_NE(token.id, again.id);
  EXPECT_NE(token.secret, again.secret);
  refused(redeem(*store_, "", "", kNow), "malformed");
  refused(redeem(*store_, std::string(1 << 20, 'a'), token.secret, kNow), "malformed");
  refused(redeem(*store_, token.id, std::string(1 << 20, 'a'), kNow), "malformed");
  refused(redeem(*store_, token.id, "", kNow), "malformed");
  refused(redeem(*store_, "0123456789abcdef", token.secret, kNow), "unknown");
  refused(redeem(*store_, token.id, again.secret, kNow), "wrong secret");
  refused(redeem(*store_, token.id, token.secret, kNow + 24 * 3600), "expired");
  EXPECT_TRUE(*store_->revoke_token(token.id));
  refused(redeem(*store_, token.id, token.secret, kNow), "revoked");
  EXPECT_TRUE(redeem(*store_, again.id, again.secret, kNow).ok());
}

TEST_F(CredentialsTest, WishesHaveLimits) {
  EXPECT_FALSE(create_token(*store_, {Role::kWorker, 0, 1}, kNow).ok());
  EXPECT_FALSE(create_token(*store_, {Role::kWorker, limits::kTokenSeconds + 1, 1}, kNow).ok());
  EXPECT_FALSE(create_token(*store_, {Role::kWorker, 1, 0}, kNow).ok());
  EXPECT_FALSE(create_token(*store_, {Role::kWorker, 1, limits::kTokenUses + 1}, kNow).ok());
  const auto with = [this](const NewKey& key) { return create_key(*store_, key, kNow).ok(); };
  EXPECT_FALSE(with({std::string(129, 'a'), {}, false, 0}));
  EXPECT_FALSE(with({"a\nb", {}, false, 0})) << "no line of its own in a log";
  EXPECT_FALSE(with({"\x1b[2J", {}, false, 0}));
  EXPECT_FALSE(with({"0123456789abcdef", {}, false, 0})) << "another key's id, perhaps";
  EXPECT_FALSE(with({"a", {""}, false, 0}));
  EXPECT_FALSE(with({"a", {"x,y"}, false, 0})) << "two, when it is read again";
  EXPECT_FALSE(with({"a", std::vector<std::string>(65, "m"), false, 0}));
  EXPECT_FALSE(with({"a", {}, false, limits::kApiKeyRate + 1}));
  EXPECT_FALSE(with({"a", {}, false, 0, {"den,attic"}}));
  EXPECT_FALSE(with({"a", {}, false, 0, {std::string(limits::kNodeNameBytes + 1, 'd')}}));
  EXPECT_TRUE(store_->tokens()->empty());
  EXPECT_TRUE(store_->keys()->empty());
}

TEST_F(CredentialsTest, NothingOfASecretIsKept) {
  const auto token = *create_token(*store_, {}, kNow);
  const auto key = *create_key(*store_, {}, kNow);
  EXPECT_NE(store_->find_token(token.id)->value().secret_hash, blake2b(as_bytes(token.secret)))
      << "keyed: the file alone does not allow trying secrets";
  EXPECT_NE(key.key.secret_hash, blake2b(as_bytes(key.text)));
  EXPECT_EQ(key.key.name, key.key.id);
}

TEST_F(CredentialsTest, AKeyIsWhatItWasMade) {
  const auto made = create_key(*store_, {"laptop", {"tiny"}, true, 12, {"den", "attic"}}, kNow);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->text.rfind("hk1." + made->key.id + ".", 0), 0U);
  const auto key = check_key(*store_, made->text);
  ASSERT_TRUE(key.ok());
  EXPECT_EQ(key->name, "laptop");
  EXPECT_EQ(key->models, std::vector<std::string>{"tiny"});
  EXPECT_EQ(key->trust, (std::vector<std::string>{"den", "attic"}));
  EXPECT_TRUE(key->admin);
  EXPECT_EQ(key->requests_per_minute, 12U);
  EXPECT_TRUE(*store_->revoke_key("laptop"));
  EXPECT_EQ(check_key(*store_, made->text).error().code, ErrorCode::kRefused);
}

TEST_F(CredentialsTest, NoOtherTextIsAKey) {
  const std::string text = create_key(*store_, {"a", {}, false, 0}, kNow)->text;
  const std::string other = create_key(*store_, {"b", {}, false, 0}, kNow)->text;
  ASSERT_TRUE(check_key(*store_, text).ok());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string wrong = text;
    wrong[i] = wrong[i] == 'a' ? 'b' : 'a';
    EXPECT_FALSE(check_key(*store_, wrong).ok()) << wrong;
    EXPECT_FALSE(check_key(*store_, text.substr(0, i)).ok());
  }
  EXPECT_FALSE(check_key(*store_, text + "a").ok());
  EXPECT_FALSE(check_key(*store_, text.substr(0, 20) + other.substr(20)).ok());
  EXPECT_FALSE(check_key(*store_, std::string(text.size(), '\0')).ok());
  const StoreFolder elsewhere;
  EXPECT_FALSE(check_key(*elsewhere.open(), text).ok()) << "of another cluster";
  const auto token = *create_token(*store_, {}, kNow);
  EXPECT_FALSE(check_key(*store_, "hk1." + token.id + "." + token.secret).ok());
}

TEST_F(CredentialsTest, OfManyThreadsOneWins) {
  for (int round = 0; round < 20; ++round) {
    const auto token = *create_token(*store_, {}, kNow);
    std::atomic<int> won{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        while (!go) std::this_thread::yield();
        if (redeem(*store_, token.id, token.secret, kNow).ok()) ++won;
      });
    }
    go = true;
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(won, 1);
  }
}

// Each child opens the store for itself and waits at a pipe until all may go.
int winners_of(const std::string& folder, const TokenSecret& token, int processes) {
  int gate[2];
  EXPECT_EQ(::pipe(gate), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(gate[1]);
      auto store = open_store(folder);
      char byte = 0;
      if (::read(gate[0], &byte, 1) < 0 || !store.ok()) ::_exit(3);
      ::_exit(redeem(**store, token.id, token.secret, kNow).ok() ? 1 : 2);
    }
    children.push_back(child);
  }
  ::close(gate[0]);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ::close(gate[1]);
  int won = 0;
  for (const pid_t child : children) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_NE(WEXITSTATUS(status), 3);
    if (WEXITSTATUS(status) == 1) ++won;
  }
  return won;
}

TEST_F(CredentialsTest, OfManyProcessesOneWins) {
  const auto once = *create_token(*store_, {}, kNow);
  const auto thrice = *create_token(*store_, {Role::kWorker, 60, 3}, kNow);
  store_.reset();  // no open store crosses a fork
  EXPECT_EQ(winners_of(folder_.path(), once, 6), 1);
  EXPECT_EQ(winners_of(folder_.path(), thrice, 6), 3);
}

// Medians of interleaved runs: the same work is done for an id that is not there.
TEST_F(CredentialsTest, AnUnknownIdTakesTheTimeOfAWrongSecret) {
  const auto token = *create_token(*store_, {}, kNow);
  const auto other = *create_token(*store_, {}, kNow);
  const auto time = [&](const std::string& id) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(redeem(*store_, id, other.secret, kNow).ok());
    return std::chrono::steady_clock::now() - begin;
  };
  std::vector<std::chrono::nanoseconds> unknown;
  std::vector<std::chrono::nanoseconds> wrong;
  for (int i = 0; i < 1001; ++i) {
    unknown.push_back(time("0123456789abcdef"));
    wrong.push_back(time(token.id));
  }
  const auto median = [](auto& times) {
    std::nth_element(times.begin(), times.begin() + 500, times.end());
    return static_cast<double>(times[500].count());
  };
  const double ratio = median(unknown) / median(wrong);
  EXPECT_GT(ratio, 0.5);
  EXPECT_LT(ratio, 2.0);
}

}  // namespace
}  // namespace hearth::coordinator
