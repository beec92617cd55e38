#include "coordinator/http/api/router.h"

#include <gtest/gtest.h>

#include "model/gguf/untrusted_text.h"

namespace hearth::coordinator::http {
namespace {

struct RouteCase {
  const char* path;
  const char* allow;  // null: nothing is there
  Handler handler = nullptr;
};

constexpr const char* kGet = "GET, HEAD, OPTIONS";
constexpr const char* kPost = "POST, OPTIONS";

const RouteCase kRoutes[] = {
    {"/v1/chat/completions", kPost, handle_chat},
    {"/v1/completions", kPost, handle_completion},
    {"/tokenize", kPost, handle_tokenize},
    {"/detokenize", kPost, handle_detokenize},
    {"/apply-template", kPost, handle_apply_template},
    {"/v1/models", kGet, handle_models},
    {"/v1/models/a", kGet, handle_model},
    {"/v1/models/a/b/../c", kGet, handle_model},
    {"/v1/models//", kGet, handle_model},
    {"/chat/completions", kPost, handle_chat},
    {"/completions", kPost, handle_completion},
    {"/models", kGet, handle_models},
    {"/models/a/models/b", kGet, handle_model},
    {"/models/", nullptr},
    {"/health", kGet, handle_ready},
    {"/v1/health", kGet, handle_ready},
    {"/readyz", kGet, handle_ready},
    {"/livez", kGet, handle_live},
    {"/metrics", kGet, handle_metrics},
    {"/api/v1/state", kGet, handle_state},
    {"", nullptr},
    {"/", kGet, handle_page},
    {"/pages/app.js", kGet, handle_page},
    {"/pages/", nullptr},
    {"//", nullptr},
    {"/v1", nullptr},
    {"/v1/", nullptr},
    {"/v1/models/", nullptr},
    {"/v1/modelsx", nullptr},
    {"/V1/models", nullptr},
    {"/livez/", nullptr},
    {"//livez", nullptr},
    {"/metrics?x", nullptr},
    {"/v1/chat/completions/", nullptr},
    {"/v1/embeddings", kPost, handle_embeddings},
    {"/embeddings", kPost, handle_embeddings},
    {"/v1/responses", kPost, handle_responses},
    {"/v1/chat/completions/input_tokens", kPost, handle_count_input},
    {"/v1/responses/input_tokens", kPost, handle_count_input},
    {"/v1/responses/resp_1", nullptr},
    {"/api/v1", nullptr},
};

TEST(RouterTest, ABaseUrlThatIsJoinedWronglyIsCorrected) {
  const auto message = [](const char* path) {
    const RouteMatch match = find_route("POST", path);
    const Json error = Json::parse(match.refusal->body)["error"];
    return error.is_string() ? error.get<std::string>() : error["message"].get<std::string>();
  };
  for (const char* path :
       {"//v1/chat/completions", "/v1//chat/completions", "/v1/v1/chat/completions",
        "/v1/chat/completions/", "/openai/v1/chat/completions"}) {
    EXPECT_NE(message(path).find("; send the request to /v1/chat/completions:"), std::string::npos)
        << message(path);
  }
  EXPECT_NE(message("//api/tags/").find("to /api/tags:"), std::string::npos);
  EXPECT_EQ(message("/v1/engines"), "unknown path: /v1/engines");
}

TEST(RouterTest, EveryMethodOnEveryPath) {
  for (const RouteCase& route : kRoutes) {
    for (const std::string method : {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "get", ""}) {
      const RouteMatch match = find_route(method, route.path);
      const bool is_get = method == "GET" || method == "HEAD";
      const bool allowed = route.allow == kGet ? is_get : route.allow == kPost && method == "POST";
      EXPECT_EQ(match.handler, allowed ? route.handler : nullptr) << method << route.path;
      ASSERT_EQ(match.refusal.has_value(), !allowed) << method << route.path;
      if (allowed) continue;
      EXPECT_EQ(match.refusal->status, route.allow == nullptr ? 404U : 405U) << route.path;
      const Json error = Json::parse(match.refusal->body)["error"];
      EXPECT_EQ(error["code"], route.allow == nullptr ? "not_found" : "method_not_allowed");
      std::string allow;
      for (const auto& [name, value] : match.refusal->headers) {
        if (name == "Allow") allow += value;
      }
      EXPECT_EQ(allow, route.allow == nullptr ? "" : route.allow) << route.path;
    }
  }
}

TEST(RouterTest, APathWithSeveralMethodsNamesAll) {
  EXPECT_EQ(find_route("GET", "/api/v1/keys").handler, handle_keys);
  EXPECT_EQ(find_route("POST", "/api/v1/keys").handler, handle_create_key);
  const RouteMatch wrong = find_route("PUT", "/api/v1/keys");
  ASSERT_TRUE(wrong.refusal);
  EXPECT_EQ(wrong.refusal->headers, (HeaderFields{{"Allow", "GET, HEAD, POST, OPTIONS"}}));
  EXPECT_NE(wrong.refusal->body.find("GET and POST only"), std::string::npos);
  // A node may be named like a route.
  EXPECT_EQ(find_route("DELETE", "/api/v1/members/open").handler, handle_remove_member);
  EXPECT_EQ(find_route("POST", "/api/v1/members/open").handler, handle_open_door);
  EXPECT_EQ(find_route("DELETE", "/api/v1/members/").handler, nullptr);
}

TEST(RouterTest, RefusalsHaveTheShapeOfTheirDialect) {
  const auto body = [](const char* method, const char* path) {
    return Json::parse(find_route(method, path).refusal->body);
  };
  EXPECT_EQ(body("GET", "/v1/messages")["type"], "error");
  EXPECT_EQ(body("POST", "/v1/messages/batches")["error"]["type"], "not_found_error");
  EXPECT_TRUE(body("POST", "/api/pull")["error"].is_string());
  EXPECT_TRUE(body("GET", "/api/chat")["error"].is_string());
  EXPECT_TRUE(body("GET", "/api/v1/nothing")["error"].is_object());
  EXPECT_EQ(find_route("POST", "/v1/messages/count_tokens").handler, handle_count_messages);
  EXPECT_EQ(find_route("POST", "/v1/messages").dialect, Dialect::kAnthropic);
  EXPECT_EQ(find_route("POST", "/api/generate").dialect, Dialect::kOllamaGenerate);
  EXPECT_EQ(find_route("POST", "/v1/chat/completions").dialect, Dialect::kOpenAi);
}

TEST(RouterTest, RefusalsAreJsonWhateverThePathHolds) {
  for (const std::string& path : {std::string("/\xff\xfe\"\\"), std::string(8000, '\xC3'),
                                  "/v1/models/" + std::string(8000, '\xA9')}) {
    const RouteMatch match = find_route("PUT", path);
    ASSERT_TRUE(match.refusal.has_value());
    const Json body = Json::parse(match.refusal->body, nullptr, false);
    ASSERT_FALSE(body.is_discarded());
    EXPECT_TRUE(model::is_utf8(match.refusal->body));
  }
}

}  // namespace
}  // namespace hearth::coordinator::http
