// What a cluster with credits asks and tells: a request that cannot be paid, grants, and what a
// key's owner set for its requests.
#include <gtest/gtest.h>

#include <deque>

#include "coordinator/http/api/router.h"
#include "coordinator/http/generation/generation.h"
#include "coordinator/membership/credentials.h"
#include "tests/unit/coordinator/http/generation/played.h"
#include "tests/unit/coordinator/http/routes/served_model.h"
#include "tests/unit/coordinator/store/store_folder.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator::http {
namespace {

struct SoundLedger final : LedgerView {
  std::string fault() const override { return ""; }
};

struct CreditsApiTest : ::testing::Test {
  CreditsApiTest() {
    api->options.ledger = &ledger;
    api->options.credits = std::make_shared<Credits>();
    api->options.policy.account = own;
    api->options.accounts = std::make_shared<const Accounts>(
        store, std::make_shared<RosterBook>(SecretKey::generate().public_key()), own);
    api->options.grant = [this](const PublicKey& to, std::int64_t amount,
                                std::function<void(const Status&)> done) {
      grant(to, amount);
      done(ok_status());
    };
  }
  void grant(const PublicKey& to, std::int64_t amount) {
    granted.emplace_back(to, amount);
    api->options.credits->posted(std::vector<ledger::Posting>{
        {{}, -amount}, {{ledger::Account::Kind::kSpendable, to}, amount}});
  }
  void pump() {
    while (!tasks.empty()) {
      const ThreadGate::Task task = std::move(tasks.front());
      tasks.pop_front();
      task();
    }
  }
  void ask(const std::string& body, HttpRequest http = {}) {
    client = std::make_shared<PlayedClient>();
    http.arrived = clock.now();
    http.body = body;
    handle_completion({api, std::move(http), client});
    pump();
  }
  Json error() const { return Json::parse(client->response->body)["error"]; }
  std::int64_t reserved() const { return api->options.credits->balance(own).reserved; }
  // Of three prompt tokens, and so many that may come.
  std::int64_t price(std::uint64_t tokens) const {
    return dearest({}, api->model.spec.layers, 3, tokens).value();
  }

  hearth::testing::FakeClock clock;
  SeededRandom random{1};
  PlayedPort port;
  SoundLedger ledger;
  StoreFolder folder;
  std::shared_ptr<Store> store = folder.open();
  const PublicKey own = SecretKey::generate().public_key();
  std::vector<std::pair<PublicKey, std::int64_t>> granted;
  std::deque<ThreadGate::Task> tasks;
  std::shared_ptr<PlayedClient> client;
  std::shared_ptr<Api> api = std::make_shared<Api>(
      HttpOptions(), tiny_model().served, port, clock, random,
      [this](ThreadGate::Task task) { tasks.push_back(std::move(task)); },
      [this](ThreadGate::Task task) { tasks.push_back(std::move(task)); });
};

constexpr const char* kBody = R"({"model": "tiny", "prompt": [70, 71, 72], "max_tokens": 8})";

TEST_F(CreditsApiTest, OutOfCreditIsRefusedForGood) {
  grant(own, price(8) - 1);
  ask(kBody);
  ASSERT_TRUE(client->response);
  EXPECT_EQ(client->response->status, 429u);
  EXPECT_EQ(error()["type"], "insufficient_quota");
  EXPECT_EQ(error()["code"], "insufficient_quota");
  EXPECT_TRUE(error()["param"].is_null());
  const std::string said = error()["message"];
  for (const std::string& part : {std::to_string(price(8)), std::to_string(price(8) - 1),
                                  "hearth ledger grant " + own.hex(), std::string("max_tokens")}) {
    EXPECT_NE(said.find(part), std::string::npos) << said;
  }
  EXPECT_EQ(client->response->headers, (HeaderFields{{"x-should-retry", "false"}}));
  EXPECT_TRUE(port.submitted.empty());
  EXPECT_EQ(reserved(), 0);
  grant(own, 1);
  ask(kBody);
  EXPECT_FALSE(client->response);
  ASSERT_EQ(port.submitted.size(), 1u);
  EXPECT_EQ(reserved(), price(8));
  ask(kBody);
  EXPECT_EQ(client->response->status, 429u) << "while the first one runs";
}

TEST_F(CreditsApiTest, WithoutALengthAnAnswerIsAsLongAsHalfOfTheCreditPaysFor) {
  constexpr const char* kOpen = R"({"model": "tiny", "prompt": [70, 71, 72]})";
  const auto length = [&] { return port.submitted.back().request.sampling.max_tokens; };
  grant(own, 10'000'000);
  ask(kOpen);
  const std::uint32_t whole = length();
  ASSERT_GT(whole, 8u);
  port.submitted.clear();
  api->options.credits = std::make_shared<Credits>();

  grant(own, 2 * price(8));
  ask(kOpen);
  ASSERT_EQ(port.submitted.size(), 1u);
  EXPECT_EQ(length(), 8u);
  EXPECT_EQ(reserved(), price(8));
  ask(kOpen);
  ASSERT_EQ(port.submitted.size(), 2u) << "beside the first one";
  EXPECT_LT(length(), 8u);
  ask(kBody);
  EXPECT_EQ(client->response->status, 429u) << "a length that was asked for stands";
  EXPECT_EQ(port.submitted.size(), 2u);
  while (api->options.credits->balance(own).spendable - reserved() >= price(1)) {
    const auto before = port.submitted.size();
    ask(kOpen);
    ASSERT_EQ(port.submitted.size(), before + 1) << "the last of it, too";
  }
  ask(kOpen);
  EXPECT_EQ(client->response->status, 429u);
}

TEST_F(CreditsApiTest, AllChoicesArePaidOrNone) {
  grant(own, 3 * price(8) - 1);
  const std::string three = R"({"model": "tiny", "prompt": [70, 71, 72], "max_tokens": 8, "n": 3})";
  ask(three);
  EXPECT_EQ(client->response->status, 429u);
  EXPECT_EQ(reserved(), 0);
  grant(own, 1);
  ask(three);
  EXPECT_EQ(port.submitted.size(), 3u);
  EXPECT_EQ(reserved(), 3 * price(8));
}

TEST_F(CreditsApiTest, AnAnswerSaysWhatItCost) {
  grant(own, 1'000);
  ask(kBody);
  port.submitted[0].done(SequenceId(1));
  port.submitted[0].events->on_admitted();
  for (Position at = 3; at < 5; ++at) {
    SampledToken token;
    token.sequence = SequenceId(1);
    token.position = at;
    token.token = 70;
    token.finish = at == 4 ? FinishReason::kStop : FinishReason::kNone;
    port.submitted[0].events->on_token(token);
  }
  pump();
  ASSERT_TRUE(client->response);
  const Json credits = Json::parse(client->response->body)["hearth"]["credits"];
  EXPECT_EQ(credits["price"], price(1)) << "the last token is never fed";
  EXPECT_EQ(credits["account"], own.hex());
  EXPECT_EQ(credits["balance"], 1'000 - price(8)) << "what the receipts leave is free later";
  port.submitted.clear();  // the coordinator has done with it
  api->options.credits->sweep([] { return std::set<ledger::RequestId>(); }, clock.now());
  EXPECT_EQ(reserved(), 0);
}

TEST_F(CreditsApiTest, WhatTheCoordinatorRefusesCostsNothing) {
  grant(own, 1'000);
  ask(kBody);
  port.submitted[0].done(Error{ErrorCode::kNoCapacity, "full"});
  port.submitted.clear();
  pump();
  EXPECT_EQ(client->response->status, 429u);
  EXPECT_EQ(error()["code"], "rate_limit_exceeded");
  api->options.credits->sweep([] { return std::set<ledger::RequestId>(); }, clock.now());
  EXPECT_EQ(reserved(), 0);
}

TEST_F(CreditsApiTest, ALostLedgerAnswersNobody) {
  grant(own, 1'000);
  api->options.credits->stop("the disk is full");
  ask(kBody);
  EXPECT_EQ(client->response->status, 503u);
  EXPECT_EQ(error()["code"], "ledger_unavailable");
}

TEST_F(CreditsApiTest, AKeyPaysFromItsAccountAndFromNoOther) {
  const auto mine = create_key(*store, {"mine", {}}, 1);
  const auto other = create_key(*store, {"other", {}}, 1);
  const PublicKey node = SecretKey::generate().public_key();
  NewKey wish{"of a node", {}};
  wish.account = node;
  const auto its = create_key(*store, wish, 1);
  ASSERT_TRUE(mine.ok() && other.ok() && its.ok());
  const Hash256& secret = store->secret_key();
  const PublicKey account = account_of(mine->key, secret, own);
  EXPECT_NE(account, account_of(other->key, secret, own));
  EXPECT_NE(account, own);
  EXPECT_EQ(account_of(its->key, secret, own), node);
  EXPECT_EQ(account_of(create_key(*store, {"boss", {}, true}, 1)->key, secret, own), own);
  EXPECT_EQ(api->options.accounts->of_key(mine->key.id).value(), account);
  EXPECT_EQ(api->options.accounts->of_key("").value(), own);
  EXPECT_EQ(api->options.accounts->find("mine").value(), account);
  EXPECT_EQ(api->options.accounts->find(node.hex()).value(), node);
  EXPECT_FALSE(api->options.accounts->find("unknown"));
  EXPECT_EQ(api->options.accounts->name_of(mine->key.id, account), "mine");
  EXPECT_EQ(api->options.accounts->name_of(mine->key.id, own), own.hex())
      << "the name means another";
  EXPECT_EQ(api->options.accounts->name_of("", own), own.hex());
  EXPECT_FALSE(api->options.accounts->find(std::string(64, '0'))) << "no key";
  RequestHead head;
  head.method = "POST";
  head.authorizations = 1;
  head.authorization = "Bearer " + mine->text;
  Authorization keys(store, clock);
  EXPECT_EQ(keys.check(head, Access::kModel, {"tiny"}, false).policy.account, account);
  // The body names an account, which the client may not choose.
  grant(node, 1'000);
  HttpRequest http;
  http.policy.owner = "key";
  http.policy.account = account;
  ask(R"({"model": "tiny", "prompt": [70, 71, 72], "max_tokens": 8, "account": ")" + node.hex() +
          R"("})",
      http);
  EXPECT_EQ(client->response->status, 429u);
}

TEST_F(CreditsApiTest, WhatAKeysOwnerSetIsAFloor) {
  NewKey wish{"private", {}};
  wish.verify = Verify::kSpot;
  wish.min_level = ledger::Level::kRegular;
  const auto key = create_key(*store, wish, 1);
  ASSERT_TRUE(key.ok());
  RequestHead head;
  head.method = "POST";
  head.authorizations = 1;
  head.authorization = "Bearer " + key->text;
  const auto verdict = Authorization(store, clock).check(head, Access::kModel, {"tiny"}, false);
  grant(verdict.policy.account, 100'000);
  HttpRequest http;
  http.policy = verdict.policy;
  const auto asked = [&](const std::string& hearth) {
    ask(R"({"model": "tiny", "prompt": [70, 71, 72], "max_tokens": 8, "hearth": )" + hearth + "}",
        http);
    EXPECT_FALSE(client->response) << client->response->body;
    return port.submitted.empty() ? RequestPolicy() : port.submitted.back().request.policy;
  };
  EXPECT_EQ(asked("{}").min_level, ledger::Level::kRegular);
  EXPECT_EQ(asked("{}").verify, Verify::kSpot);
  EXPECT_EQ(asked(R"({"min_level": "newcomer", "verify": "none"})").min_level,
            ledger::Level::kRegular);
  EXPECT_EQ(asked(R"({"min_level": "newcomer", "verify": "none"})").verify, Verify::kSpot);
  EXPECT_EQ(asked(R"({"min_level": "veteran", "verify": "full"})").min_level,
            ledger::Level::kVeteran);
  EXPECT_EQ(asked(R"({"min_level": "veteran", "verify": "full"})").verify, Verify::kFull);
}

TEST_F(CreditsApiTest, GrantsAreTheOwnersAndOfWholeAmounts) {
  EXPECT_EQ(find_route("POST", "/api/v1/grants").access, Access::kOwner);
  const auto post = [&](const std::string& body) {
    client = std::make_shared<PlayedClient>();
    HttpRequest http;
    http.body = body;
    handle_grant({api, std::move(http), client});
    pump();
    return client->response->status;
  };
  EXPECT_EQ(post(R"({"to": ")" + own.hex() + R"(", "amount": 50})"), 200u);
  EXPECT_EQ(granted, (std::vector<std::pair<PublicKey, std::int64_t>>{{own, 50}}));
  EXPECT_EQ(Json::parse(client->response->body)["balance"], 50);
  for (const char* amount :
       {"0", "-1", "-9223372036854775808", "9007199254740993", "1e30", "0.5", "\"50\"", "null"}) {
    EXPECT_EQ(post(R"({"to": ")" + own.hex() + R"(", "amount": )" + amount + "}"), 400u) << amount;
  }
  EXPECT_EQ(post(R"({"amount": 5})"), 400u);
  EXPECT_EQ(post(R"({"to": "unknown", "amount": 5})"), 404u);
  EXPECT_EQ(granted.size(), 1u);
  api->options.credits = nullptr;
  EXPECT_EQ(post(R"({"to": ")" + own.hex() + R"(", "amount": 50})"), 409u);
  EXPECT_EQ(error()["code"], "no_credits");
}

}  // namespace
}  // namespace hearth::coordinator::http
