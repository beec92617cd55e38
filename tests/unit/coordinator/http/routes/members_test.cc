// What an admin does with the members of a cluster over the API.
#include <gtest/gtest.h>

#include "base/fingerprint.h"
#include "base/limits.h"
#include "coordinator/membership/credentials.h"
#include "coordinator/membership/qr_code.h"
#include "proto/join_token.h"
#include "tests/unit/coordinator/http/routes/managed.h"

namespace hearth::coordinator::http {
namespace {

struct MembersRouteTest : ManagedTest {
  PublicKey knock(const std::string& name, std::int64_t seen) const {
    const PublicKey key = SecretKey::generate().public_key();
    EXPECT_TRUE(store->put_waiting({key, name, "10.0.0.9", seen, seen}).ok());
    return key;
  }
  void publish(std::vector<RosterEntry> entries) const {
    EXPECT_TRUE(roster->offer(*sign_roster({{}, 1, std::move(entries)}, cluster)).ok());
  }
  std::optional<NodeRecord> node(const PublicKey& key) const { return *store->find_node(key); }
};

TEST_F(MembersRouteTest, ListsMembersAndWhoAsks) {
  const PublicKey desk = SecretKey::generate().public_key();
  const PublicKey local = SecretKey::generate().public_key();
  publish({{desk, "desk", Role::kWorker, {}}, {local, "home-1", Role::kWorker, {}}});
  ASSERT_TRUE(store->admit({{desk, "desk", Role::kWorker, 5, false, "ann", true}, "", {}}).ok());
  const PublicKey attic = knock("attic", now());
  knock("gone", now() - limits::kWaitingSeconds - 1);
  const Json told = ask("GET", "/api/v1/members");
  ASSERT_EQ(status(), 200u);
  EXPECT_EQ(told["cluster"], "home");
  EXPECT_EQ(told["words"], three_words(cluster.public_key()));
  EXPECT_EQ(told["address"], "10.0.0.1:11501");
  EXPECT_EQ(told["may_ask"], false);
  ASSERT_EQ(told["members"].size(), 2u);
  for (const Json& member : told["members"]) {
    const bool is_desk = member["name"] == "desk";
    EXPECT_EQ(member["removable"], is_desk) << "a local worker belongs to the server";
    EXPECT_EQ(member.value("owner", ""), is_desk ? "ann" : "");
    EXPECT_EQ(member.value("newcomer", false), is_desk);
  }
  ASSERT_EQ(told["waiting"].size(), 1u) << "who stopped asking is not shown";
  EXPECT_EQ(told["waiting"][0]["key"], attic.hex());
  EXPECT_EQ(told["waiting"][0]["words"], three_words(attic));
  EXPECT_EQ(told["waiting"][0]["from"], "10.0.0.9");
}

TEST_F(MembersRouteTest, LetsNodesAskAndAdmitsTheOneWithTheKey) {
  EXPECT_EQ(ask("POST", "/api/v1/members/open", "{}")["may_ask"], true);
  EXPECT_EQ(ask("GET", "/api/v1/members")["may_ask"], true);
  const PublicKey attic = knock("attic", now());
  const PublicKey twin = knock("attic", now());
  const std::string body = R"({"key": ")" + attic.hex() + R"(", "role": "admin", "owner": "ann"})";
  EXPECT_EQ(ask("POST", "/api/v1/members/approve", body)["approved"], "attic");
  EXPECT_EQ(status(), 200u);
  ASSERT_TRUE(node(attic));
  EXPECT_EQ(node(attic)->role, Role::kAdmin);
  EXPECT_EQ(node(attic)->owner, "ann");
  EXPECT_FALSE(node(twin)) << "of the same name";
  EXPECT_EQ(ask("POST", "/api/v1/members/approve", body)["error"]["code"], "node_not_waiting");
}

TEST_F(MembersRouteTest, RefusesApprovalsByName) {
  const PublicKey attic = knock("attic", now());
  const auto approve = [&](const std::string& more) {
    return ask("POST", "/api/v1/members/approve", R"({"key": ")" + attic.hex() + "\"" + more + "}");
  };
  EXPECT_EQ(ask("POST", "/api/v1/members/approve", "{}")["error"]["param"], "key");
  EXPECT_EQ(approve(R"(, "role": "coordinator")")["error"]["param"], "role");
  EXPECT_EQ(approve(R"(, "role": "client", "newcomer": true)")["error"]["code"], "invalid_value");
  EXPECT_EQ(approve(R"(, "owner": ")" + std::string(limits::kNodeNameBytes + 1, 'x') +
                    "\"")["error"]["code"],
            "invalid_value");
  publish({{SecretKey::generate().public_key(), "attic", Role::kWorker, {}}});
  EXPECT_EQ(approve("")["error"]["code"], "invalid_value") << "the name is a member's";
  EXPECT_FALSE(node(attic));
}

TEST_F(MembersRouteTest, RemovesAMember) {
  const PublicKey desk = SecretKey::generate().public_key();
  ASSERT_TRUE(store->admit({{desk, "desk 1", Role::kWorker, 5, false}, "", {}}).ok());
  EXPECT_EQ(ask("DELETE", "/api/v1/members/desk 1")["removed"], "desk 1");
  EXPECT_TRUE(node(desk)->revoked);
  EXPECT_EQ(ask("DELETE", "/api/v1/members/desk 1")["error"]["code"], "member_not_found");
  EXPECT_EQ(status(), 404u);
}

TEST_F(MembersRouteTest, MakesJoinTokens) {
  const Json made =
      ask("POST", "/api/v1/tokens", R"({"role": "client", "uses": 2, "seconds": 60})");
  ASSERT_EQ(status(), 200u) << made;
  const auto token = parse_join_token(made["token"].get<std::string>());
  ASSERT_TRUE(token.ok());
  EXPECT_EQ(token->fingerprint, fingerprint(cluster.public_key()));
  EXPECT_EQ(token->addresses, (std::vector<std::string>{"10.0.0.1:11501"}));
  EXPECT_EQ(*check_token(*store, token->id, token->secret, now()), Role::kClient);
  EXPECT_FALSE(check_token(*store, token->id, token->secret, now() + 60).ok());
  EXPECT_EQ(store->tokens()->front().uses_left, 2u);
  const auto code = QrCode::of("hearth join " + token->text());
  ASSERT_TRUE(code.ok());
  EXPECT_EQ(made["qr"], (Json{{"size", code->size()}, {"path", code->svg_path()}}));
  for (const char* body : {R"({"uses": 0})", R"({"seconds": 0})", R"({"role": "king"})", "[]",
                           R"({"role": "client", "newcomer": true})", R"({"uses": 10001})"}) {
    ask("POST", "/api/v1/tokens", body);
    EXPECT_EQ(status(), 400u) << body;
  }
  EXPECT_EQ(store->tokens()->size(), 1u);
}

TEST_F(MembersRouteTest, ListsTheValidJoinTokensAndRevokesThem) {
  const auto token = [&](std::uint32_t seconds, bool newcomer) {
    return create_token(*store, {Role::kWorker, seconds, 3, newcomer ? "ann" : "", newcomer}, now())
        ->id;
  };
  const std::string first = token(60, false);
  const std::string second = token(3'600, true);
  const Json wanted = {{"id", second},     {"role", "worker"},         {"uses_left", 3},
                       {"created", now()}, {"expires", now() + 3'600}, {"owner", "ann"},
                       {"newcomer", true}};
  EXPECT_EQ(ask("GET", "/api/v1/tokens")["tokens"][1], wanted);
  EXPECT_EQ(ask("GET", "/api/v1/tokens")["tokens"][0]["id"], first);
  EXPECT_EQ(ask("DELETE", "/api/v1/tokens/" + first)["revoked"], first);
  EXPECT_EQ(ask("GET", "/api/v1/tokens")["tokens"], Json::array({wanted}));
  EXPECT_EQ(ask("DELETE", "/api/v1/tokens/" + first)["error"]["code"], "token_not_found");
  EXPECT_EQ(status(), 404u);
  ASSERT_TRUE(store->revoke_token(second).ok());
  EXPECT_EQ(ask("GET", "/api/v1/tokens")["tokens"], Json::array());
}

TEST_F(MembersRouteTest, ThereIsNothingToManageWithoutACluster) {
  api->options.join.reset();
  EXPECT_EQ(ask("GET", "/api/v1/members")["error"]["code"], "no_cluster");
  EXPECT_EQ(ask("POST", "/api/v1/tokens", "{}")["error"]["code"], "no_cluster");
  EXPECT_EQ(ask("GET", "/api/v1/tokens")["error"]["code"], "no_cluster");
  EXPECT_EQ(ask("DELETE", "/api/v1/tokens/0")["error"]["code"], "no_cluster");
  EXPECT_EQ(status(), 409u);
}

TEST_F(MembersRouteTest, OrdersGoToTheWorker) {
  EXPECT_EQ(ask("POST", "/api/v1/orders", R"({"node": "desk", "order": "pause"})")["error"]["code"],
            "no_orders");
  std::vector<std::pair<std::string, std::optional<Away>>> given;
  Status answer = ok_status();
  api->options.order = [&](const std::string& name, const std::optional<Away>& away,
                           const std::function<void(const Status&)>& done) {
    given.emplace_back(name, away);
    done(answer);
  };
  const auto order = [&](const std::string& word, const std::string& more = "") {
    return ask("POST", "/api/v1/orders",
               R"({"node": "desk", "order": ")" + word + "\"" + more + "}");
  };
  EXPECT_EQ(order("drain", R"(, "seconds": 60)")["order"], "drain");
  order("pause");
  order("resume");
  ASSERT_EQ(given.size(), 3u);
  EXPECT_EQ(given[0].second, (Away{true, now() + 60, ""}));
  EXPECT_EQ(given[1].second, (Away{false, 0, ""}));
  EXPECT_EQ(given[2].second, std::nullopt);
  EXPECT_EQ(order("stop")["error"]["param"], "order");
  EXPECT_EQ(order("pause", R"(, "seconds": 0)")["error"]["param"], "seconds");
  EXPECT_EQ(ask("POST", "/api/v1/orders", R"({"order": "pause"})")["error"]["param"], "node");
  EXPECT_EQ(given.size(), 3u);
  answer = Error{ErrorCode::kNotFound, "no worker named desk is connected"};
  EXPECT_EQ(order("pause")["error"]["code"], "worker_not_found");
  EXPECT_EQ(status(), 404u);
  answer = Error{ErrorCode::kVersion, "too old"};
  EXPECT_EQ(order("pause")["error"]["code"], "program_too_old");
  EXPECT_EQ(status(), 409u);
}

}  // namespace
}  // namespace hearth::coordinator::http
