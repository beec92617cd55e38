// The API's keys over the API.
#include <gtest/gtest.h>

#include "base/limits.h"
#include "coordinator/membership/credentials.h"
#include "tests/unit/coordinator/http/routes/managed.h"

namespace hearth::coordinator::http {
namespace {

using KeysRouteTest = ManagedTest;

TEST_F(KeysRouteTest, AKeyIsShownOnceAndWorksUntilItIsRevoked) {
  const Json made = ask("POST", "/api/v1/keys",
                        R"({"name": "laptop", "requests_per_minute": 7, "models": ["tiny"],
                            "verify": "spot", "min_level": "regular", "trust": ["desk"]})");
  ASSERT_EQ(status(), 200u) << made;
  const std::string text = made["key"];
  const std::string id = made["id"];
  const auto key = check_key(*store, text);
  ASSERT_TRUE(key.ok());
  EXPECT_EQ(key->name, "laptop");
  EXPECT_EQ(key->requests_per_minute, 7u);
  EXPECT_EQ(key->models, (std::vector<std::string>{"tiny"}));
  EXPECT_EQ(key->trust, (std::vector<std::string>{"desk"}));
  EXPECT_EQ(key->verify, Verify::kSpot);
  EXPECT_EQ(key->min_level, ledger::Level::kRegular);
  EXPECT_FALSE(key->admin);
  EXPECT_FALSE(key->account);
  const Json list = ask("GET", "/api/v1/keys");
  ASSERT_EQ(list["keys"].size(), 1u);
  EXPECT_EQ(list["keys"][0]["id"], id);
  EXPECT_EQ(list["keys"][0]["created"], now());
  EXPECT_EQ(client->response->body.find(text.substr(text.rfind('.') + 1)), std::string::npos)
      << "no list has the secret";
  EXPECT_EQ(ask("DELETE", "/api/v1/keys/" + id)["revoked"], id);
  EXPECT_FALSE(check_key(*store, text).ok());
  EXPECT_EQ(ask("DELETE", "/api/v1/keys/" + id)["error"]["code"], "key_not_found");
  EXPECT_EQ(ask("GET", "/api/v1/keys")["keys"][0]["revoked"], true);
}

// Its name is not taken for an id: another key may be named like the id in the request.
TEST_F(KeysRouteTest, OnlyTheIdNamesAKey) {
  ask("POST", "/api/v1/keys", R"({"name": "laptop"})");
  EXPECT_EQ(ask("DELETE", "/api/v1/keys/laptop")["error"]["code"], "key_not_found");
  EXPECT_EQ(ask("GET", "/api/v1/keys")["keys"][0]["revoked"], false);
}

TEST_F(KeysRouteTest, TheKeyOfTheServersOwnCommandsStays) {
  ask("POST", "/api/v1/keys", R"({"name": "admin", "admin": true})");
  const std::string id = ask("GET", "/api/v1/keys")["keys"][0]["id"];
  api->options.owner_key = id;
  EXPECT_EQ(ask("GET", "/api/v1/keys")["keys"][0]["of_server"], true);
  EXPECT_EQ(ask("DELETE", "/api/v1/keys/" + id)["error"]["code"], "key_of_server");
  EXPECT_EQ(status(), 409u);
  EXPECT_FALSE((*store->find_key(id))->revoked);
}

// An account would let an admin spend a node's credit.
TEST_F(KeysRouteTest, WrongFieldsAreRefusedAndAnAccountIsIgnored) {
  const std::string many = Json(std::vector<std::string>(limits::kApiKeyModels + 1, "m")).dump();
  for (const std::string& body :
       {std::string("[]"), std::string(R"({"name": 5})"), std::string(R"({"models": "tiny"})"),
        std::string(R"({"models": [5]})"), R"({"models": )" + many + "}",
        std::string(R"({"requests_per_minute": -1})"), std::string(R"({"verify": "all"})"),
        std::string(R"({"min_level": "king"})"), std::string(R"({"name": "0123456789abcdef"})"),
        R"({"name": ")" + std::string(limits::kApiKeyNameBytes + 1, 'n') + "\"}"}) {
    ask("POST", "/api/v1/keys", body);
    EXPECT_EQ(status(), 400u) << body;
  }
  EXPECT_EQ(ask("GET", "/api/v1/keys")["keys"].size(), 0u);
  const std::string node = SecretKey::generate().public_key().hex();
  const std::string id = ask("POST", "/api/v1/keys", R"({"account": ")" + node + "\"}")["id"];
  EXPECT_FALSE((*store->find_key(id))->account);
  ask("POST", "/api/v1/keys", R"({"name": "laptop"})");
  ask("POST", "/api/v1/keys", R"({"name": "laptop"})");
  EXPECT_EQ(status(), 400u) << "the name is taken";
}

}  // namespace
}  // namespace hearth::coordinator::http
