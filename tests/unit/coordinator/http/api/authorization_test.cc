#include "coordinator/http/api/authorization.h"

#include <gtest/gtest.h>

#include "coordinator/http/api/router.h"
#include "coordinator/membership/credentials.h"
#include "tests/unit/coordinator/http/wire/local_port.h"
#include "tests/unit/coordinator/http/wire/raw_client.h"
#include "tests/unit/coordinator/store/store_folder.h"

namespace hearth::coordinator::http {
namespace {

TEST(RequestRatesTest, AMinutesWorthAtOnceAndThenItsShare) {
  RequestRates rates;
  const TimePoint begin = std::chrono::hours(1);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(rates.take("a", 6, begin), 0U) << i;
  EXPECT_EQ(rates.take("a", 6, begin), 10U);
  EXPECT_EQ(rates.take("a", 6, begin + std::chrono::milliseconds(7500)), 3U);
  EXPECT_EQ(rates.take("b", 6, begin), 0U) << "of another key";
  EXPECT_EQ(rates.take("a", 6, begin + std::chrono::milliseconds(12500)), 0U);
  EXPECT_EQ(rates.take("a", 6, begin + std::chrono::milliseconds(12500)), 8U);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(rates.take("a", 6, begin + std::chrono::hours(5)), 0U) << "full again, not more";
  }
  EXPECT_EQ(rates.take("a", 6, begin + std::chrono::hours(5)), 10U);
  EXPECT_EQ(rates.take("slow", 1, begin), 0U);
  EXPECT_EQ(rates.take("slow", 1, begin), 60U) << "clients give up on more than 60";
  for (int i = 0; i < 100; ++i) EXPECT_EQ(rates.take("any", 0, begin), 0U);
}

TEST(RequestRatesTest, MoreKeysThanBucketsAreServed) {
  RequestRates rates;
  for (std::size_t i = 0; i < 3 * limits::kApiKeyBuckets; ++i) {
    EXPECT_EQ(rates.take(std::to_string(i), 1, std::chrono::minutes(i)), 0U);
  }
}

// Every route asks for a key, but the pages, and this machine's own clients for the one that says
// whether this process is alive.
TEST(RoutesTest, LivenessAndPagesAloneAreOpen) {
  EXPECT_EQ(find_route("GET", "/livez").access, Access::kLocal);
  EXPECT_EQ(find_route("HEAD", "/livez").access, Access::kLocal);
  EXPECT_EQ(find_route("GET", "/").access, Access::kPage);
  EXPECT_EQ(find_route("GET", "/pages/app.js").access, Access::kPage);
  for (const char* path : {"/readyz", "/pages", "//", "/health", "/v1/health", "/v1/models",
                           "/nothing", "/livez/", "/livez/../metrics", "/LIVEZ"}) {
    EXPECT_EQ(find_route("GET", path).access, Access::kKey) << path;
  }
  EXPECT_EQ(find_route("GET", "/metrics").access, Access::kAdmin);
  EXPECT_EQ(find_route("GET", "/api/v1/state").access, Access::kState);
  EXPECT_EQ(find_route("POST", "/api/v1/grants").access, Access::kOwner);
  EXPECT_EQ(find_route("GET", "/v1/models/x").access, Access::kModel);
  for (const char* path :
       {"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize", "/apply-template"}) {
    EXPECT_EQ(find_route("POST", path).access, Access::kModel) << path;
  }
  EXPECT_EQ(find_route("POST", "/livez").access, Access::kKey) << "405, to who may know";
}

class KeyedServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HttpOptions options;
    options.host = "0.0.0.0";
    options.names = {"den"};
    options.version = "test";
    options.store = folder_.open();
    store_ = options.store;
    auto server = HttpServer::start(options, tiny_model().served, port_, clock_, random_);
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
    user_ = key({"user", {}, false, 0});
    admin_ = key({"admin", {}, true, 0});
  }
  std::string key(const NewKey& wish) {
    auto made = create_key(*store_, wish, 1);
    EXPECT_TRUE(made.ok());
    return made->text;
  }
  static std::string bearer(const std::string& key) {
    return "Authorization: Bearer " + key + "\r\n";
  }
  RawAnswer ask(const std::string& bytes) {
    RawClient client(server_->port());
    client.send(bytes);
    return client.read_answer();
  }
  RawAnswer complete(const std::string& headers) {
    return ask(
        post("/v1/completions", R"({"model":"tiny","prompt":"hello","max_tokens":2})", headers));
  }
  void refused(const RawAnswer& answer) {
    ASSERT_EQ(answer.status, 401);
    EXPECT_EQ(answer.error_code(), "invalid_api_key");
    EXPECT_EQ(answer.json()["error"]["type"], "authentication_error");
    EXPECT_TRUE(answer.json()["error"].contains("param"));
    EXPECT_EQ(answer.headers.at("www-authenticate"), "Bearer realm=\"hearth\"");
    EXPECT_EQ(answer.body, refusal_.empty() ? answer.body : refusal_) << "one text for all";
    refusal_ = answer.body;
  }

  SystemClock clock_;
  SystemRandom random_;
  LocalPort port_;
  StoreFolder folder_;
  std::shared_ptr<Store> store_;
  std::unique_ptr<HttpServer> server_;
  std::string user_;
  std::string admin_;
  std::string refusal_;
};

TEST_F(KeyedServerTest, ThoseWithAKeyAreServed) {
  EXPECT_EQ(complete(bearer(user_)).status, 200);
  EXPECT_EQ(complete("authorization: bEaReR   " + user_ + " \r\n").status, 200);
  EXPECT_EQ(ask(get("/v1/models", bearer(user_))).json()["data"].size(), 1U);
  EXPECT_EQ(ask(get("/readyz", bearer(user_))).status, 200);
  EXPECT_EQ(ask(get("/livez")).status, 200) << "of this machine, without any";
}

// A browser has no key before a page asks for one. Host and Origin are checked all the same.
TEST_F(KeyedServerTest, ThePagesNeedNoKey) {
  for (const char* path : {"/", "/pages/app.js"}) {
    const RawAnswer page = ask(get(path));
    EXPECT_EQ(page.status, 200) << path;
    EXPECT_EQ(page.headers.at("x-frame-options"), "DENY");
    EXPECT_EQ(page.headers.at("x-content-type-options"), "nosniff");
    EXPECT_NE(page.headers.at("content-security-policy").find("default-src 'none'"),
              std::string::npos);
  }
  EXPECT_EQ(ask(get("/pages/nothing.js")).status, 404);
  refused(ask(get("/", "Origin: http://evil.example\r\n")));
  refused(ask("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"));
  refused(ask(get("/%zz")));
  EXPECT_EQ(ask(get("/", "Origin: http://evil.example\r\n" + bearer(user_))).status, 403);
  EXPECT_EQ(ask(post("/", "{}", bearer(user_))).status, 405);
  refused(ask(post("/", "{}")));
  refused(ask(get("/v1/models")));
  refused(ask(get("/api/v1/state")));
}

// The table of docs/security.md, for members without a key, also where this machine's users need
// none.
TEST_F(KeyedServerTest, AMemberMayDoWhatItsRoleMay) {
  const PublicKey node = SecretKey::generate().public_key();
  const PublicKey own = SecretKey::generate().public_key();
  for (const bool open : {false, true}) {
    Authorization authorization(store_, clock_, own, open, "owner");
    const auto ask = [&](Role role, Access access, const std::string& key = "") {
      RequestHead head;
      head.authorization = key.empty() ? "" : "Bearer " + key;
      head.authorizations = key.empty() ? 0 : 1;
      const Member member{node, "den", role};
      return authorization.check(head, access, {"tiny"}, false, &member);
    };
    const auto may = [&](Role role, Access access) { return !ask(role, access).refusal; };
    for (const Role role : {Role::kWorker, Role::kClient, Role::kAdmin}) {
      EXPECT_TRUE(may(role, Access::kKey));
      EXPECT_TRUE(may(role, Access::kModel));
      EXPECT_EQ(may(role, Access::kState), role != Role::kClient);
      EXPECT_EQ(may(role, Access::kAdmin), role == Role::kAdmin);
      EXPECT_EQ(may(role, Access::kManage), role == Role::kAdmin);
      EXPECT_FALSE(may(role, Access::kOwner));
    }
    const auto worker = ask(Role::kWorker, Access::kModel);
    EXPECT_EQ(worker.policy.account, node) << "it pays for itself";
    EXPECT_EQ(worker.policy.owner, member_owner(node));
    EXPECT_EQ(ask(Role::kAdmin, Access::kModel).policy.account, own);
    EXPECT_FALSE(ask(Role::kWorker, Access::kAdmin, admin_).refusal)
        << "a key that it shows counts";
    EXPECT_TRUE(ask(Role::kWorker, Access::kState, user_).refusal);
    EXPECT_EQ(ask(Role::kWorker, Access::kKey, "hk1.0.0").refusal->status, 401U);
  }
}

TEST_F(KeyedServerTest, WhereNoKeyIsNeededOneThatIsShownCounts) {
  const std::string other = key({"other", {"another"}, false, 1});
  Authorization authorization(store_, clock_, {}, true);
  EXPECT_FALSE(authorization.asks_keys());
  const auto status = [&](const std::string& sent, Access access) {
    RequestHead head;
    head.authorization = sent;
    head.authorizations = sent.empty() ? 0 : 1;
    const auto verdict = authorization.check(head, access, {"tiny"}, true);
    return verdict.refusal ? verdict.refusal->status : 200U;
  };
  EXPECT_EQ(status("", Access::kAdmin), 200U);
  EXPECT_EQ(status("Bearer ollama", Access::kAdmin), 200U) << "any word";
  EXPECT_EQ(status("Bearer " + user_, Access::kModel), 200U);
  EXPECT_EQ(status("Bearer " + user_, Access::kAdmin), 403U);
  EXPECT_EQ(status("Bearer " + other, Access::kModel), 403U) << "it is for another model";
  EXPECT_EQ(status("Bearer " + other, Access::kKey), 429U) << "once a minute";
  for (const std::string& odd :
       {"Bearer " + user_ + "x", user_, "Bearer\t" + user_, "Basic " + user_,
        "Bearer \"" + user_ + "\"", "Bearer ollama " + user_}) {
    EXPECT_EQ(status(odd, Access::kModel), 401U) << odd;
  }
  RequestHead twice;
  twice.authorization = "Bearer ollama";
  twice.authorizations = 2;
  EXPECT_TRUE(authorization.check(twice, Access::kModel, {"tiny"}, true).refusal);
}

// The table of docs/security.md, "Who may do what".
struct AccessRow {
  const char* method;
  const char* path;
  unsigned open;   // from loopback without a key, where no keys are asked for
  unsigned of[5];  // by key, where keys are asked for
};
const AccessRow kAccessRows[] = {
    {"GET", "/livez", 200, {200, 200, 200, 200, 200}},
    {"GET", "/readyz", 200, {401, 200, 200, 200, 200}},
    {"GET", "/v1/models", 200, {401, 200, 200, 200, 200}},
    {"DELETE", "/v1/requests", 200, {401, 200, 200, 200, 200}},
    {"POST", "/v1/chat/completions", 200, {401, 200, 403, 200, 200}},
    {"POST", "/v1/completions", 200, {401, 200, 403, 200, 200}},
    {"POST", "/tokenize", 200, {401, 200, 403, 200, 200}},
    {"POST", "/detokenize", 200, {401, 200, 403, 200, 200}},
    {"POST", "/apply-template", 200, {401, 200, 403, 200, 200}},
    {"GET", "/metrics", 200, {401, 403, 403, 200, 200}},
    {"GET", "/api/v1/state", 200, {401, 403, 403, 200, 200}},
    {"POST", "/api/v1/grants", 403, {401, 403, 403, 403, 200}},
    {"GET", "/api/v1/plan", 200, {401, 403, 403, 200, 200}},
    {"GET", "/api/v1/plan/tiny", 200, {401, 403, 403, 200, 200}},
    {"GET", "/api/v1/ledger", 200, {401, 403, 403, 200, 200}},
    {"GET", "/api/v1/receipts/00", 200, {401, 200, 200, 200, 200}},
    {"GET", "/api/v1/members", 403, {401, 403, 403, 200, 200}},
    {"POST", "/api/v1/members/open", 403, {401, 403, 403, 200, 200}},
    {"POST", "/api/v1/members/approve", 403, {401, 403, 403, 200, 200}},
    {"DELETE", "/api/v1/members/desk", 403, {401, 403, 403, 200, 200}},
    {"GET", "/api/v1/tokens", 403, {401, 403, 403, 200, 200}},
    {"POST", "/api/v1/tokens", 403, {401, 403, 403, 200, 200}},
    {"DELETE", "/api/v1/tokens/0123456789abcdef", 403, {401, 403, 403, 200, 200}},
    {"POST", "/api/v1/orders", 403, {401, 403, 403, 200, 200}},
    {"GET", "/api/v1/keys", 403, {401, 403, 403, 200, 200}},
    {"POST", "/api/v1/keys", 403, {401, 403, 403, 200, 200}},
    {"DELETE", "/api/v1/keys/0123456789abcdef", 403, {401, 403, 403, 200, 200}},
};

TEST_F(KeyedServerTest, WhoMayDoWhat) {
  enum Who { kNone, kUser, kOther, kAdminKey, kOwnerKey };
  auto owner = create_key(*store_, {"owner", {}, true, 0}, 1);
  ASSERT_TRUE(owner.ok());
  const std::string keys[] = {"", user_, key({"other", {"another"}, false, 0}), admin_,
                              owner->text};
  Authorization open(store_, clock_, {}, true, owner->key.id);
  Authorization keyed(store_, clock_, {}, false, owner->key.id);
  const auto status = [&](Authorization& api, const std::string& method, const std::string& path,
                          Who who, bool forwarded = false) {
    RequestHead head;
    head.forwarded = forwarded;
    head.authorizations = keys[who].empty() ? 0 : 1;
    head.authorization = "Bearer " + keys[who];
    const auto access = find_route(method, path).access;
    const auto verdict = api.check(head, access, {"tiny"}, !forwarded);
    const bool granted = !verdict.refusal;
    EXPECT_TRUE(access != Access::kManage || verdict.manages == granted) << path;
    EXPECT_TRUE(!verdict.manages || who == kAdminKey || who == kOwnerKey) << path;
    return verdict.refusal ? verdict.refusal->status : 200U;
  };
  for (const AccessRow& row : kAccessRows) {
    EXPECT_EQ(status(open, row.method, row.path, kNone), row.open) << row.path;
    for (const Who who : {kNone, kUser, kOther, kAdminKey, kOwnerKey}) {
      EXPECT_EQ(status(keyed, row.method, row.path, who), row.of[who]) << row.path << who;
      if (who == kNone) continue;
      EXPECT_EQ(status(open, row.method, row.path, who), row.of[who]) << row.path << who;
      EXPECT_EQ(status(open, row.method, row.path, who, true), row.of[who]) << row.path << who;
    }
    EXPECT_EQ(status(open, row.method, row.path, kNone, true), 401U) << "through a proxy";
  }
  Authorization without(nullptr, clock_);
  EXPECT_EQ(status(without, "POST", "/api/v1/grants", kNone), 403U);
  EXPECT_EQ(status(without, "POST", "/api/v1/keys", kNone), 403U);
  Authorization no_owner(store_, clock_);
  EXPECT_EQ(status(no_owner, "POST", "/api/v1/grants", kOwnerKey), 403U) << "no admin.key";
}

// A proxy on this machine brings the world to a server that is open to this machine's users.
TEST_F(KeyedServerTest, WhatAProxyForwardsNeedsAKey) {
  HttpOptions options;
  options.store = store_;
  options.open = true;
  const auto open = HttpServer::start(options, tiny_model().served, port_, clock_, random_);
  ASSERT_TRUE(open.ok()) << open.error().message;
  const auto asked = [&](const std::string& headers) {
    RawClient client((*open)->port());
    client.send(get("/v1/models", headers));
    return client.read_answer().status;
  };
  EXPECT_EQ(asked(""), 200);
  for (const char* field :
       {"X-Forwarded-For: 203.0.113.9", "x-forwarded-for:", "Forwarded: for=203.0.113.9",
        "Via: 1.1 proxy", "X-Real-IP: 203.0.113.9", "X-Forwarded-Proto: https"}) {
    EXPECT_EQ(asked(field + std::string("\r\n")), 401) << field;
    EXPECT_EQ(asked(field + std::string("\r\n") + bearer(user_)), 200) << field;
  }
}

TEST_F(KeyedServerTest, OthersNeedAKeyToHearThatItLives) {
  Authorization authorization(store_, clock_);
  RequestHead head;
  const auto status = [&](Access access, bool local) {
    const auto verdict = authorization.check(head, access, {"tiny"}, local);
    return verdict.refusal ? verdict.refusal->status : 200U;
  };
  EXPECT_EQ(status(Access::kLocal, true), 200U);
  EXPECT_EQ(status(Access::kLocal, false), 401U);
  EXPECT_EQ(status(Access::kKey, true), 401U);
  head.authorizations = 1;
  head.authorization = "Bearer " + user_;
  EXPECT_EQ(status(Access::kLocal, false), 200U);
  Authorization open(nullptr, clock_);
  head = {};
  EXPECT_FALSE(open.check(head, Access::kLocal, {"tiny"}, false).refusal)
      << "no keys are asked for";
}

TEST_F(KeyedServerTest, TheHeaderOfAnthropicsClientsIsAKey) {
  EXPECT_EQ(complete("x-api-key: " + user_ + "\r\n").status, 200);
  const RawAnswer answer = ask(post("/v1/messages", "{}", "x-api-key: hk1wrong\r\n"));
  EXPECT_EQ(answer.status, 401);
  EXPECT_EQ(Json::parse(answer.body)["error"]["type"], "authentication_error");
  EXPECT_TRUE(answer.headers.at("request-id").starts_with("req-"));
}

TEST_F(KeyedServerTest, EverybodyElseHearsOneSentence) {
  const StoreFolder elsewhere;
  const auto other_store = elsewhere.open();
  const std::string other = create_key(*other_store, {"other", {}, true, 0}, 1)->text;
  std::string gone = key({"gone", {}, true, 0});
  ASSERT_EQ(complete(bearer(gone)).status, 200);
  ASSERT_TRUE(*store_->revoke_key("gone"));
  std::string wrong = user_;
  wrong.back() = wrong.back() == 'A' ? 'B' : 'A';
  refused(complete(""));
  refused(complete("Authorization:\r\n"));
  refused(complete("Authorization: Bearer\r\n"));
  refused(complete("Authorization: Bearer  \r\n"));
  refused(complete("Authorization: Basic " + user_ + "\r\n"));
  refused(complete("Authorization: " + user_ + "\r\n"));
  refused(complete("Authorization: Bearer" + user_ + "\r\n"));
  refused(complete("Authorization: Bearer sk-anything\r\n"));
  refused(complete("x-api-key: " + wrong + "\r\n"));
  refused(complete("x-api-key: " + user_ + "\r\nx-api-key: " + user_ + "\r\n"));
  refused(complete("Authorization: Bearer x\r\nx-api-key: " + user_ + "\r\n"));
  refused(complete(bearer(user_) + bearer(user_)));
  refused(complete(bearer(wrong)));
  refused(complete(bearer(user_ + "x")));
  refused(complete(bearer(user_.substr(0, user_.size() - 1))));
  refused(complete(bearer(std::string(20'000, 'a'))));
  refused(complete(bearer(other)));
  // A sender that has its secret is told which key was revoked, and never the secret.
  const std::string told = complete(bearer(gone)).json()["error"]["message"];
  EXPECT_NE(told.find(gone.substr(4, gone.rfind('.') - 4) + " (gone) was revoked"), told.npos);
  EXPECT_EQ(told.find(gone.substr(gone.rfind('.') + 1)), told.npos);
  gone.back() = gone.back() == 'A' ? 'B' : 'A';
  refused(complete(bearer(gone)));
  EXPECT_EQ(port_.submitted, 1U) << "only before the key was revoked";
}

// Nothing is answered to what cannot be read: no status, no headers, no words.
TEST_F(KeyedServerTest, WhatCannotBeReadEndsTheConnection) {
  const std::string host = "Host: localhost\r\n";
  const std::string many(1 << 20, 'a');
  for (const std::string& bytes :
       {post("/v1/completions", "{}", bearer(many)), "GET / HTTP/1.1\r\nX: " + many,
        get("/" + many), "GET / HTTP/1.1\r\n" + host + std::string("X: a\0b\r\n\r\n", 10),
        "GET /livez HTTP/1.1\r\n" + host + "X: a\r\n b\r\n\r\n", "GET / HTTP/1.1\n" + host + "\n",
        "POST /tokenize HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\n" + host +
            "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        std::string("\x01\x02\x03 garbage\r\n\r\n"),
        std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + many}) {
    RawClient client(server_->port());
    client.send(bytes);
    EXPECT_TRUE(client.closed()) << bytes.substr(0, 60);
  }
  EXPECT_EQ(ask(get("/livez")).status, 200);
}

// Each of these has another answer where a valid key is shown, or where none is asked for.
TEST_F(KeyedServerTest, AStrangersMistakesAreNotToldApart) {
  const std::string host = "Host: localhost\r\n";
  const std::string origin = "Origin: http://localhost:3000\r\n";
  const auto both = [&](const std::string& line, const std::string& headers, int known) {
    SCOPED_TRACE(line.substr(0, 40) + " " + headers);
    refused(ask(line + " HTTP/1.1\r\n" + headers + "\r\n"));
    EXPECT_EQ(ask(line + " HTTP/1.1\r\n" + headers + bearer(user_) + "\r\n").status, known);
  };
  both("GET /v1/models", "Host: evil.example\r\n", 403);
  both("GET /livez", "Host: evil.example\r\n", 403);
  both("GET /livez", "", 400);
  both("GET /livez", host + host, 400);
  both("GET /v1/models", host + "Origin: http://evil.example\r\n", 403);
  both("GET /livez", host + "Origin: http://evil.example\r\n", 403);
  both("GET /v1/models/%zz", host, 400);
  both("GET nothing", host, 400);
  both("GET /" + std::string(10'000, 'a'), host, 414);
  both("GET /nothing", host, 404);
  both("DELETE /v1/models", host, 405);
  both("GET /metrics", host, 403);
  both("OPTIONS /v1/models", host, 204);
  both("OPTIONS *", host, 204);
  both("OPTIONS /v1/models", host + origin, 204);
  both("OPTIONS /v1/models",
       host + "Origin: http://evil.example\r\nAccess-Control-Request-Method: GET\r\n", 403);
  both("POST /tokenize", host, 411);
  both("POST /tokenize", host + "Content-Length: 9000000\r\n", 413);
  both("GET /v1/models", host + "Content-Length: 18446744073709551615\r\n", 413);
  both("POST /tokenize", host + "Content-Length: 2\r\nContent-Type: text/html\r\n", 415);
  both("POST /tokenize", host + "Content-Length: 2\r\nExpect: tea\r\n", 417);
}

TEST_F(KeyedServerTest, AHeadThatDoesNotArriveEndsTheConnection) {
  HttpOptions options;
  options.host = "0.0.0.0";
  options.store = store_;
  options.timeouts.header = 1;
  const auto server = HttpServer::start(options, tiny_model().served, port_, clock_, random_);
  ASSERT_TRUE(server.ok()) << server.error().message;
  RawClient client((*server)->port());
  client.send("GET /livez HTTP/1.1\r\n");
  EXPECT_TRUE(client.closed());
}

TEST_F(KeyedServerTest, AConnectionTooManyHearsNothing) {
  std::vector<std::unique_ptr<RawClient>> clients;
  for (std::uint32_t i = 0; i < limits::kHttpConnections + limits::kHttpProbeConnections; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_->port()));
    clients.back()->send("G");
  }
  RawClient last(server_->port());
  EXPECT_TRUE(last.closed());
}

TEST_F(KeyedServerTest, NoRouteButLivenessAndPagesAnswersAStranger) {
  for (const char* path : {"/pages", "/v1/models", "/v1/models/tiny", "/health", "/v1/health",
                           "/readyz", "/metrics", "/api/v1/state", "/nothing", "/livez/../metrics",
                           "/v1/models/../../etc/passwd", "/v1/models/%2e%2e%2f%2e%2e%2fetc"}) {
    refused(ask(get(path)));
  }
  for (const char* path : {"/v1/chat/completions", "/tokenize", "/detokenize", "/apply-template"}) {
    refused(ask(post(path, "{}")));
  }
  const RawAnswer traversal = ask(get("/v1/models/..%2f..%2fetc%2fpasswd", bearer(user_)));
  EXPECT_EQ(traversal.status, 404);
  EXPECT_EQ(traversal.error_code(), "model_not_found");
}

// The refusal comes before the body does.
TEST_F(KeyedServerTest, NobodyElsesBodyIsRead) {
  RawClient client(server_->port());
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n");
  const RawAnswer answer = client.read_answer();
  EXPECT_EQ(answer.status, 401);
  EXPECT_EQ(answer.headers.at("connection"), "close");
}

TEST_F(KeyedServerTest, StateAndMetricsNeedAnAdminKey) {
  for (const char* path : {"/metrics", "/api/v1/state"}) {
    const RawAnswer user = ask(get(path, bearer(user_)));
    EXPECT_EQ(user.status, 403);
    EXPECT_EQ(user.error_code(), "admin_key_needed");
    EXPECT_EQ(ask(get(path, bearer(admin_))).status, 200);
  }
  EXPECT_EQ(ask(get("/api/v1/state", bearer(admin_))).json()["manages"], true);
}

TEST_F(KeyedServerTest, AKeyIsForItsModels) {
  const std::string mine = bearer(key({"mine", {"other", "tiny"}, false, 0}));
  const std::string not_mine = bearer(key({"not", {"other"}, false, 0}));
  EXPECT_EQ(complete(mine).status, 200);
  const RawAnswer answer = complete(not_mine);
  EXPECT_EQ(answer.status, 403);
  EXPECT_EQ(answer.error_code(), "model_not_allowed");
  EXPECT_EQ(answer.json()["error"]["type"], "permission_error");
  EXPECT_EQ(ask(get("/v1/models/tiny", not_mine)).status, 403);
  EXPECT_EQ(ask(post("/tokenize", R"({"content":"a"})", not_mine)).status, 403);
  EXPECT_TRUE(ask(get("/v1/models", not_mine)).json()["data"].empty());
  EXPECT_EQ(ask(get("/v1/models", mine)).json()["data"].size(), 1U);
}

TEST_F(KeyedServerTest, RatesAreOfEachKey) {
  const std::string slow = bearer(key({"slow", {}, false, 3}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask(get("/v1/models", slow)).status, 200);
  const RawAnswer answer = ask(get("/v1/models", slow));
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.error_code(), "rate_limit_exceeded");
  const int wait = std::stoi(answer.headers.at("retry-after"));
  EXPECT_GE(wait, 1);
  EXPECT_LE(wait, 20);
  EXPECT_EQ(ask(get("/livez", slow)).status, 200);
  EXPECT_EQ(ask(get("/v1/models", bearer(user_))).status, 200);
}

// A page on evil.example whose name was pointed here, and a page that calls from its own site.
TEST_F(KeyedServerTest, HostAndOriginAreCheckedOfAKeyToo) {
  const auto with_host = [&](const std::string& host) {
    return ask("GET /v1/models HTTP/1.1\r\nHost: " + host + "\r\n" + bearer(user_) + "\r\n");
  };
  EXPECT_EQ(with_host("evil.example").error_code(), "host_not_allowed");
  EXPECT_EQ(with_host("192.168.1.20.nip.io:11500").error_code(), "host_not_allowed");
  for (const char* host : {"192.168.1.20:11500", "den:11500", "127.0.0.1", "[fd00::1]:80"}) {
    EXPECT_EQ(with_host(host).status, 200) << host;
  }
  const RawAnswer page = ask(get("/v1/models", bearer(user_) + "Origin: http://evil.example\r\n"));
  EXPECT_EQ(page.error_code(), "origin_not_allowed");
  const RawAnswer shell = ask(get("/v1/models", "Origin: http://localhost:3000\r\n"));
  EXPECT_EQ(shell.status, 401);
  EXPECT_EQ(shell.headers.at("access-control-allow-origin"), "http://localhost:3000")
      << "or its script could not read why";
  const RawAnswer preflight =
      ask("OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3000\r\n"
          "Access-Control-Request-Method: GET\r\n"
          "Access-Control-Request-Headers: authorization\r\n\r\n");
  EXPECT_EQ(preflight.status, 204) << "this machine's browsers send no key with it";
  EXPECT_EQ(preflight.headers.at("access-control-allow-headers"), "authorization");
}

}  // namespace
}  // namespace hearth::coordinator::http
