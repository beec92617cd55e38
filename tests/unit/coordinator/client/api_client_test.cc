#include "coordinator/client/api_client.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "coordinator/client/parse_reply.h"

namespace hearth::client {
namespace {

Error error_of(long status, const std::string& body) {
  HttpReply reply;
  reply.status = status;
  reply.body = body;
  return api_error(reply, "http://den/x");
}

TEST(ApiClient, TheKeyIsSentWhereThereIsOne) {
  EXPECT_TRUE(api_headers("").empty());
  EXPECT_EQ(api_headers("hk1.a.b").at("Authorization"), "Bearer hk1.a.b");
}

TEST(ApiClient, AStatusIsAnErrorThatCallersKnow) {
  const std::string body = R"({"error":{"message":"why","type":"x","param":null,"code":"y"}})";
  EXPECT_EQ(error_of(401, body).code, ErrorCode::kRefused);
  EXPECT_EQ(error_of(401, body).message.rfind("why; ", 0), 0U);
  EXPECT_NE(error_of(401, body).message.find("HEARTH_API_KEY"), std::string::npos);
  EXPECT_EQ(error_of(403, body).code, ErrorCode::kRefused);
  EXPECT_EQ(error_of(403, body).message, "why");
  EXPECT_EQ(error_of(404, body).code, ErrorCode::kNotFound);
  EXPECT_EQ(error_of(429, body).code, ErrorCode::kNoCapacity);
  EXPECT_EQ(error_of(400, body).code, ErrorCode::kInvalidInput);
}

TEST(ApiClient, AnyBodyIsSurvived) {
  for (const char* body : {"", "x", "[]", "{}", R"({"error":1})", R"({"error":{}})",
                           R"({"error":{"message":1}})", R"({"error":{"message":null}})"}) {
    EXPECT_EQ(error_of(500, body).message, "http://den/x answers 500") << body;
  }
}

TEST(ApiClient, ABodyThatWouldExhaustTheStackIsNoJson) {
  const auto nested = [](std::size_t depth) {
    return R"({"error":{"message":)" + std::string(depth, '[') + std::string(depth, ']') + "}}";
  };
  EXPECT_TRUE(parse_reply(nested(100)).is_object());
  EXPECT_TRUE(parse_reply(nested(200)).is_discarded());
  EXPECT_TRUE(parse_reply(std::string(1'000'000, '[')).is_discarded());
  EXPECT_EQ(error_of(500, nested(1'000'000)).message, "http://den/x answers 500");
}

}  // namespace
}  // namespace hearth::client
